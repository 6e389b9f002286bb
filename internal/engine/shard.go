package engine

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/invariant"
)

// shard is one lock partition: every 1/n-th slot.
type shard struct {
	mu sync.Mutex // guards everything below; keys, bytes, serving and oldest are also read without it
	e  *Engine
	id int

	slots []slotState
	data
	ghosts ghosts
	pages  int          // of the index
	keys   atomic.Int64 // entries of all its slots
	oldest atomic.Int64 // birth of the segment that leaves next, for the choice of a shard to evict from
	era    int64        // ms: what short deadlines are relative to; no live one is before it

	feeds   []*Feed // replaced, never changed in place
	pending bool    // events were written during this hold: wake the feeds after it
	rand    rng
	sweep
	scratch *batch // copies of the running write's key and value, once anything may move
	txn     Txn
	counters
	checks uint32 // holds ended, for the sampling of checked builds

	_ [64]byte // the next shard's mutex is on another cache line
}

// slotState is one slot.
type slotState struct {
	page    uint32       // index page, shared with neighbours while they are small; 0 = none, or see dir
	dir     *directory   // of a slot with several pages
	keys    atomic.Int64 // entries
	bytes   atomic.Int64 // sum of their charges
	serving atomic.Bool  // changed under the shard lock only
	winFull bool         // the last window ended because its filter was full
	win     *window      // nil = no pull window is open
}

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
	s.rand = rng{seed ^ uint64(id+1)*0xd1342543de82ef95}
	s.oldest.Store(emptyStamp)
	s.era = e.now()
	s.walkSoonest = maxTime
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

// alive returns the record of key, or 0. An expired entry is removed on sight.
func (s *shard) alive(st *slotState, slot uint16, h uint64, key []byte, now int64) loc {
	if now-s.era > eraMost {
		s.newEra(now)
	}
	l := s.find(st, slot, h, key)
	if l == 0 {
		return 0
	}
	if r := s.e.arena.record(l); r.form() != formNone && expired(s.deadline(r), now) {
		s.remove(st, slot, h, l, byExpiry)
		return 0
	}
	return l
}

// publish makes the age of the segment to be evicted next visible to other
// shards.
func (s *shard) publish() {
	id := oldestSegment(s)
	if id != 0 && s.e.policy.Load().probes {
		id = bySmallShare(s)
	}
	stamp := int64(emptyStamp)
	if id != 0 {
		stamp = int64(s.segs[id].born)
	}
	if s.oldest.Load() != stamp {
		s.oldest.Store(stamp)
	}
}

// remove takes a record out, for good.
func (s *shard) remove(st *slotState, slot uint16, h uint64, l loc, why cause) {
	r := s.e.arena.record(l)
	st.touch(s.e, h)
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
	if len(s.feeds) > 0 {
		s.emit(kind, slot, s.key(r), s.deadline(r))
	}
	st.keys.Add(-1)
	s.keys.Add(-1)
	st.bytes.Add(-s.e.arena.chargeOf(r))
	s.leave(st, slot, h, l)
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
	st.touch(s.e, h)
	s.evicted++
	s.emit(EventEvict, slot, s.key(r), s.deadline(r))
	st.keys.Add(-1)
	s.keys.Add(-1)
	st.bytes.Add(-s.e.arena.chargeOf(r))
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

// clear drops every entry, closes every window and returns how many entries
// there were. It costs what the numbers of slots, pages and segments cost, and
// one look at each large record.
func (s *shard) clear() int {
	var keys int64
	a := &s.e.arena
	s.eachPage(func(block uint32) { s.freePage(block) })
	for i := range s.slots {
		st := &s.slots[i]
		st.closeWindow(s.e)
		st.page, st.dir = 0, nil
		keys += st.keys.Swap(0)
		st.bytes.Store(0)
	}
	for id := range s.segs {
		g := &s.segs[id]
		if g.blocks == 0 {
			continue
		}
		if g.held > 0 {
			s.eachRecord(g, 0, func(_ loc, r record) bool {
				if r.large() {
					s.e.used.Add(-int64(a.putChain(r.chain())) << a.blockShift)
				}
				return true
			})
		}
		a.put(g.start, int(g.blocks))
		s.e.used.Add(-int64(g.blocks) << a.blockShift)
	}
	s.dropGhosts()
	s.keys.Add(-keys)
	s.data = data{}
	s.sweep = sweep{walkSoonest: maxTime}
	s.publish()
	return int(keys)
}
