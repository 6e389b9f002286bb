package engine

// thinning is where the emptying of a segment in several holds stands. Until its
// end the segment keeps its place in the queue; what stays moves only where there
// is room, and the rest of it becomes the newest of main together.
type thinning struct {
	seg    uint32 // 0 = none is under way
	off    uint32 // byte where it goes on
	gone   bool   // something left
	rounds int    // segments in a row of which nothing left
}

// abandon ends what is under way with a segment that leaves its queue.
func (s *shard) abandon(id uint32) {
	if c := &s.compacting; id == c.seg || id == c.from {
		*c = compaction{}
	}
	if s.thinning.seg == id {
		s.thinning.seg = 0
	}
}

// thinHold is evictSegment in holds of a few records, for who evicts while no
// writer waits for it. more says that what it has begun is not done yet, found
// that there was something to do. The shard lock is held.
func (s *shard) thinHold(p *policy, now int64) (found, more bool) {
	if !p.evicts {
		return false, false
	}
	t := &s.thinning
	if t.seg == 0 && s.compacting.seg == 0 {
		if id := s.wasteful(fullShare); id != 0 {
			s.startCompaction(id)
		}
	}
	if s.compacting.seg != 0 && t.seg == 0 {
		done, _ := s.compactSome(holdRecords, holdLooks)
		return true, !done
	}
	if t.seg == 0 {
		if t.seg = s.expiredSegment(now); t.seg == 0 {
			t.seg = p.victim(s)
		}
		if t.seg == 0 {
			return false, false
		}
		g := &s.segs[t.seg]
		if s.open[g.queue][g.lane] == t.seg {
			s.open[g.queue][g.lane] = 0
		}
		t.off, t.gone = 0, false
	}
	return true, s.thinSome(p, now)
}

// thinSome empties a part of the segment and says whether there is more of it.
func (s *shard) thinSome(p *policy, now int64) (more bool) {
	t := &s.thinning
	id := t.seg
	g := &s.segs[id]
	from, lane := int(g.queue), int(g.lane)
	changes := 0
	off, _ := s.someRecords(g, t.off, holdLooks, func(l loc, r record) bool {
		to, freq, stay := lane, 0, false
		if p.custom {
			to, freq, stay = s.ask(l, r, lane, now, t.rounds)
		} else {
			freq, stay = p.verdict(r.freq(), from, t.rounds)
		}
		switch gone := expired(s.deadline(r), now); {
		case gone || !stay:
			t.gone = true
			changes++
			s.expel(l, r, gone, from)
		default:
			r.setFreq(max(freq, 0))
			if size := s.e.arena.sizeOf(r); s.hasSpace(main, to, size) {
				changes++
				s.reclass(l, r, to)
				s.carry(g, l, r, uint32(size), to)
			}
		}
		return changes < holdRecords && t.seg == id
	})
	if t.seg == id {
		if t.off = off; off < g.size {
			return true
		}
		s.unlinkSegment(id)
		if g.count == 0 {
			s.giveBack(id)
		} else {
			s.pushNewest(id, main, lane)
			if t.gone && s.compacting.seg == 0 {
				s.startCompaction(id)
				more = true
			}
		}
	}
	t.seg = 0
	if t.rounds++; t.gone {
		t.rounds = 0
	}
	if p.probes {
		s.fitGhosts()
		s.fitShadow()
	}
	return more
}
