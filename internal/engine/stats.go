package engine

// counters counts what happened in a shard since the start or ResetStats; the
// shard lock guards them. A removal counts in exactly one of the last four.
type counters struct {
	hits, misses, sets, added              int64
	expired, evicted, deleted, invalidated int64
}

func (c *counters) plus(d *counters) {
	c.hits += d.hits
	c.misses += d.misses
	c.sets += d.sets
	c.added += d.added
	c.expired += d.expired
	c.evicted += d.evicted
	c.deleted += d.deleted
	c.invalidated += d.invalidated
}

// Stats describes the engine. Every shard's part is consistent in itself.
type Stats struct {
	Keys          int64 // entries, in all slots, expired ones that were not met yet included
	ServedKeys    int64 // of these, in slots whose serving bit is on
	Volatile      int64 // of Keys, those with a deadline
	SpareKeys     int64 // of Keys, those in spare slots
	SpareBytes    int64 // of Bytes, their charges
	SpareVolatile int64 // of Volatile, those in spare slots
	Bytes         int64 // charged to the entries: keys, values, deadlines, padding and Overhead
	MaxBytes      int64 // memory limit, 0 = none

	Hits, Misses int64 // Get and Txn.Get
	Sets         int64 // successful Set
	Added        int64 // AddIfUntouched that stored
	Expired      int64 // removed because their deadline had passed
	Evicted      int64 // removed to make room
	Deleted      int64 // removed by Delete or a write with a passed deadline
	Invalidated  int64 // removed by Invalidate, DropSlot and Flush

	ArenaBytes int64 // what counts against MaxBytes: blocks taken, writes under way included
	IndexBytes int64 // of these, pages of the index
	GhostBytes int64 // of these, memory of evicted keys
	ChainBytes int64 // of these, blocks of large values
	LiveBytes  int64 // bytes of live records in segments
	DeadBytes  int64 // bytes of segments that no live record takes and no new one can yet
	FreeBytes  int64 // bytes of segments behind their records: open ones, and ends
	SlackBytes int64 // memory of blocks that are free, beside ArenaBytes: kept, or between others

	OutsideBytes int64 // of MaxBytes, what SetOutside took away
	WindowBytes  int64 // filters of pull windows, beside MaxBytes
	FeedBytes    int64 // events that change feeds can hold, beside MaxBytes
	Policy       string
	SmallShare   int          // per cent of a shard that new keys have under s3fifo and priority; it adapts
	Classes      []ClassStats // nil without Options.Classes and Options.Custom
	PolicyFaults int64        // panics of Options.Custom
	Shards       int
}

// SlotStats counts what a slot holds.
type SlotStats struct {
	Keys  int64 // entries, expired ones that were not met yet included
	Bytes int64 // their charges
}

// SlotStats returns exact figures of slot.
func (e *Engine) SlotStats(slot uint16) SlotStats {
	s, st := e.at(slot)
	s.mu.Lock()
	defer s.unlock()
	return SlotStats{Keys: st.keys.Load(), Bytes: st.bytes.Load()}
}

// Stats returns the figures of the whole engine; it locks one shard after the
// other.
func (e *Engine) Stats() Stats {
	c := e.reads.sum()
	r := Stats{WindowBytes: e.windows.Load(), Policy: e.Policy(), Shards: len(e.shards)}
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		c.plus(&s.counters)
		r.Keys += s.keys.Load()
		r.Volatile += s.vols
		r.IndexBytes += int64(s.pages) << e.arena.blockShift
		r.GhostBytes += int64(len(s.ghosts.blocks)) << e.arena.blockShift
		r.LiveBytes += s.live
		r.DeadBytes += s.dead
		var held int64
		for j := range s.segs {
			held += s.segs[j].held
		}
		r.ChainBytes += held
		r.FreeBytes += s.queues[small].bytes + s.queues[main].bytes - held - s.live - s.dead
		for _, f := range s.feeds {
			r.FeedBytes += f.holds()
		}
		for j := range s.slots {
			st := &s.slots[j]
			r.Bytes += st.bytes.Load()
			if st.spare {
				r.SpareKeys += st.keys.Load()
				r.SpareBytes += st.bytes.Load()
				r.SpareVolatile += int64(st.spareVols)
			}
			if s.served(j) {
				r.ServedKeys += st.keys.Load()
			}
		}
		s.unlock()
	}
	r.ArenaBytes, r.OutsideBytes = e.used.Load(), e.outside.Load()
	r.SlackBytes = max(0, e.arena.touched()-r.ArenaBytes)
	r.SmallShare, r.Classes = int(e.smallShare()), e.classStats()
	if t := e.classes; t != nil {
		r.PolicyFaults = t.faults.Load()
	}
	if limit := e.limit.Load(); limit != unlimited {
		r.MaxBytes = limit
	}
	r.Hits, r.Misses, r.Sets, r.Added = c.hits, c.misses, c.sets, c.added
	r.Expired, r.Evicted, r.Deleted, r.Invalidated = c.expired, c.evicted, c.deleted, c.invalidated
	return r
}

// ResetStats sets all counters to 0; Keys and Bytes are no counters.
func (e *Engine) ResetStats() {
	e.reads.reset()
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.counters = counters{}
		s.unlock()
	}
	if t := e.classes; t != nil {
		for c := range t.use {
			t.use[c].evicted.Store(0)
		}
		t.faults.Store(0)
	}
}
