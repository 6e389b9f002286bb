package engine

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/ringcache/ringcache/internal/invariant"
)

// cacheLine is what two cores cannot write at the same time.
const cacheLine = 64

// shard is one lock partition: every 1/n-th slot.
type shard struct {
	shardState
	_ [cacheLine - unsafe.Sizeof(shardState{})%cacheLine]byte // so each begins on a line of its own; never empty, which would cost a word
}

// shardState is a shard without padding. What a read without the lock needs
// stands first, on one cache line that only holds and what ends them change.
type shardState struct {
	mu         lock            // guards everything below; readers without it (glance.go) see what its version tells
	cells      []atomic.Uint32 // index.go; written under the lock
	era        int64           // ms: what short deadlines are relative to; no live one is before it
	shadowMask uint32          // bits of a hash that are 0 for keys that are sampled; all without shadow
	pending    bool            // events were written during this hold: wake the feeds after it

	slots []slotState
	e     *Engine
	id    int
	counters
	data
	ghosts  ghosts
	pages   int           // of the index
	keys    counter       // entries of all its slots
	shadow  *shadow       // nil before the first eviction, and where others have one
	present atomic.Uint32 // classes of its segments, as bits; for the same choice
	oldest  atomic.Int64  // birth of the segment that leaves next, for the choice of a shard to evict from

	watched map[watchedKey][]watcher // nil if there is none

	feeds []*Feed // replaced, never changed in place
	told  []byte  // the key that the Observer is being told
	rand  rng
	sweep
	spareState
	scratch *batch // copies of the running write's key and value, once anything may move
	txn     Txn
	checks  uint32 // holds ended, for the sampling of checked builds
}

// slotState is what a slot has beside its cell.
type slotState struct {
	dir     atomic.Pointer[directory] // of a slot with several pages
	keys    counter                   // entries
	bytes   counter                   // sum of their charges
	winFull bool                      // the last window ended because its filter was full
	spare   bool                      // its entries leave before others: spare.go

	spareVols int32 // of a spare slot, entries with a deadline

	win *window // nil = neither a pull window nor a touch log is open
}

// counter is a number that the shard lock guards.
type counter struct{ n int64 }

func (c *counter) Load() int64   { return c.n }
func (c *counter) Store(n int64) { c.n = n }
func (c *counter) Add(n int64)   { c.n += n }

// count returns the number of entries.
func (s *shard) count() int64 {
	s.mu.Lock()
	defer s.unlock()
	return s.keys.Load()
}

// served returns the serving bit of slot i of the shard.
func (s *shard) served(i int) bool { return s.cells[i].Load()&cellServing != 0 }

// cause says why an entry leaves; each has its counter and its event.
type cause uint8

const (
	byExpiry cause = iota
	byEviction
	byDeletion
	byInvalidation
)

// emptyStamp is the published age of a shard without segments.
const emptyStamp = math.MaxInt64

func (s *shard) init(e *Engine, id int, seed uint64) {
	s.e, s.id = e, id
	s.slots = make([]slotState, Slots/len(e.shards))
	s.cells = make([]atomic.Uint32, len(s.slots))
	s.rand = rng{seed ^ uint64(id+1)*0xd1342543de82ef95}
	s.oldest.Store(emptyStamp)
	s.era = e.now()
	s.walkSoonest = maxTime
	s.shadowMask = math.MaxUint32
	s.txn.s = s
}

func (s *shard) slot(n uint16) *slotState { return &s.slots[n>>s.e.bits] }

// slotNumber is the inverse of Engine.at.
func (s *shard) slotNumber(i int) uint16 { return uint16(i<<s.e.bits | s.id) }

// unlock ends a hold: it pays what waiting writers need, releases the lock and
// wakes the readers of the feeds.
func (s *shard) unlock() {
	if s.e.debt.Load() > 0 {
		s.payDebt()
	}
	if invariant.Enabled {
		s.sampleCheck()
	}
	if !s.pending {
		s.mu.Unlock()
		return
	}
	feeds := s.feeds
	s.pending = false
	s.mu.Unlock()
	for _, f := range feeds {
		f.signal()
	}
}

// unread stands for a time that nobody has asked the clock for yet: asking costs
// as much as the rest of a read.
const unread = minTime

// timed returns now, and asks the clock if nobody has.
func (e *Engine) timed(now int64) int64 {
	if now == unread {
		return e.now()
	}
	return now
}

// alive returns the record of key; the location is 0 if there is none. An
// expired entry is removed on sight. now may be unread: the clock is asked if
// the key has a deadline. It is returned.
func (s *shard) alive(slot uint16, h uint64, key []byte, now int64) (loc, record, int64) {
	l, r := s.find(slot, h, key)
	if l == 0 {
		s.missed(slot, h)
		return 0, r, now
	}
	if r.form() == formNone {
		return l, r, now
	}
	now = s.e.timed(now)
	if expired(s.deadline(r), now) {
		s.remove(s.slot(slot), slot, h, l, byExpiry)
		return 0, record{}, now
	}
	return l, r, now
}

// date returns the time for a write with a deadline. What it calls may remove
// records, so it comes before they are looked for; it moves none, since key and
// value of the write may be lent.
func (s *shard) date(now int64) int64 {
	now = s.e.timed(now)
	if now-s.era > eraMost {
		s.newEra(now)
	}
	return now
}

// publish makes the age of the segment to be evicted next visible to other
// shards.
func (s *shard) publish() {
	id := oldestSegment(s)
	if o := s.queues[small].oldest; o != 0 && s.e.policy.Load().probes {
		id = o // a shard that takes from main next is not older for that
	}
	stamp := int64(emptyStamp)
	if id != 0 {
		stamp = int64(s.segs[id].born)
	}
	if s.oldest.Load() != stamp {
		s.oldest.Store(stamp)
	}
	if s.e.classes == nil {
		return
	}
	mask := uint32(0)
	for c, n := range s.classed {
		if n > 0 {
			mask |= 1 << c
		}
	}
	if s.present.Load() != mask {
		s.present.Store(mask)
	}
}

// remove takes a record out, for good.
func (s *shard) remove(st *slotState, slot uint16, h uint64, l loc, why cause) {
	r := s.e.arena.record(l)
	s.touch(slot, h)
	kind := EventDelete
	switch why {
	case byExpiry:
		s.expired++
		kind = EventExpire
	case byEviction:
		s.evicted++
		kind = EventEvict
	case byDeletion:
		s.deleted++
	case byInvalidation:
		s.invalidated++
		kind = EventInvalidate
	}
	if len(s.feeds) > 0 || s.watched != nil || s.e.observer.Load() != nil {
		s.emit(kind, slot, s.key(r), s.deadline(r))
	}
	st.keys.Add(-1)
	s.keys.Add(-1)
	if st.spare && r.form() != formNone {
		st.spareVols--
	}
	charge := s.e.arena.chargeOf(r)
	st.bytes.Add(-charge)
	s.discharge(l, charge, why == byEviction)
	s.leave(slot, h, l)
	s.kill(l)
	if s.keys.Load() == 0 {
		s.closeAll()
	}
}

// orphan is remove for a record that no index page had room for.
func (s *shard) orphan(l loc, h uint64) {
	r := s.e.arena.record(l)
	slot := r.slot()
	st := s.slot(slot)
	s.touch(slot, h)
	s.evicted++
	s.emit(EventEvict, slot, s.key(r), s.deadline(r))
	st.keys.Add(-1)
	s.keys.Add(-1)
	if st.spare && r.form() != formNone {
		st.spareVols--
	}
	charge := s.e.arena.chargeOf(r)
	st.bytes.Add(-charge)
	s.discharge(l, charge, true)
	s.kill(l)
}

// closeAll gives back what an empty shard has: a writer that waits for memory
// looks for it only where there are segments.
func (s *shard) closeAll() {
	s.dropGhosts()
	for q := range s.open {
		for _, id := range s.open[q] {
			if id != 0 && id != s.working && s.segs[id].count == 0 {
				s.freeSegment(id)
			}
		}
	}
}
