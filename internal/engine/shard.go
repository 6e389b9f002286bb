package engine

import (
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/invariant"
)

// shard is one lock partition: every 1/n-th slot.
type shard struct {
	mu sync.Mutex // guards everything below; keys, bytes, serving and oldest are also read without it
	e  *Engine
	id int

	slots  []slotState
	lru    recency
	vol    volatiles
	keys   atomic.Int64 // entries of all its slots
	oldest atomic.Int64 // lru.stamp(), for the choice of a shard to evict from
	shown  *entry       // the entry that oldest was taken from

	feeds   []*Feed // replaced, never changed in place
	pending bool    // events were written during this hold: wake the feeds after it
	rand    rng
	sweepAt int // place in vol where the next sweep step goes on
	txn     Txn
	counters
	checks uint32 // holds ended, for the sampling of checked builds

	_ [64]byte // the next shard's mutex is on another cache line
}

// slotState is one slot.
type slotState struct {
	index   index
	keys    atomic.Int64 // entries in index
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

func (s *shard) init(e *Engine, id int, seed uint64) {
	s.e, s.id = e, id
	s.slots = make([]slotState, Slots/len(e.shards))
	s.rand = rng{seed ^ uint64(id+1)*0xd1342543de82ef95}
	s.oldest.Store(emptyStamp)
	s.txn.s = s
}

// slotNumber is the inverse of Engine.at.
func (s *shard) slotNumber(i int) uint16 { return uint16(i<<s.e.bits | s.id) }

func (s *shard) state(ent *entry) *slotState { return &s.slots[ent.slot()>>s.e.bits] }

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

// live returns the entry of key, or nil. An expired entry is removed on sight.
func (s *shard) live(st *slotState, h uint64, key []byte, now int64) *entry {
	ent := st.index.find(h, key)
	if ent != nil && expired(ent.deadline, now) {
		s.remove(st, ent, byExpiry)
		return nil
	}
	return ent
}

// refresh makes ent the most recent entry of the shard.
func (s *shard) refresh(ent *entry, now int64) {
	ent.access = now
	if s.lru.newest != ent {
		s.lru.unlink(ent)
		s.lru.pushNewest(ent)
	}
	s.publish()
}

// publish makes the age of the oldest entry visible to other shards. It reads
// that entry, which is cold memory, only when it is another one than before:
// the oldest entry's own stamp changes only while it is the only one.
func (s *shard) publish() {
	if s.lru.oldest != s.shown || s.lru.oldest == s.lru.newest {
		s.shown = s.lru.oldest
		s.oldest.Store(s.lru.stamp())
	}
}

// link adds a new entry whose charge is already reserved.
func (s *shard) link(st *slotState, ent *entry) {
	st.index.insert(ent)
	s.lru.pushNewest(ent)
	if ent.deadline != 0 {
		s.vol.add(ent)
	}
	st.keys.Add(1)
	s.keys.Add(1)
	st.bytes.Add(ent.charge())
	s.publish()
}

// unlink takes an entry out and releases its charge. Its bytes stay as they
// are, for whoever still borrows them in this hold.
func (s *shard) unlink(st *slotState, ent *entry) {
	st.index.remove(ent)
	s.lru.unlink(ent)
	if ent.vol >= 0 {
		s.vol.remove(ent)
	}
	st.keys.Add(-1)
	s.keys.Add(-1)
	st.bytes.Add(-ent.charge())
	s.e.used.Add(-ent.charge())
	s.publish()
}

func (s *shard) remove(st *slotState, ent *entry, why cause) {
	s.unlink(st, ent)
	st.touch(s.e, ent.hash)
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
	s.emit(kind, ent.slot(), ent.key(), ent.deadline)
}

// setDeadline keeps the volatile list in step with the entry.
func (s *shard) setDeadline(ent *entry, deadline int64) {
	ent.deadline = deadline
	switch {
	case deadline != 0 && ent.vol < 0:
		s.vol.add(ent)
	case deadline == 0 && ent.vol >= 0:
		s.vol.remove(ent)
	}
}

// store writes key, replacing old when that is not nil, and refreshes it. The
// bytes of value are copied before anything is released, so value may be
// borrowed from any entry of this hold. An error leaves old as it was, unless
// old had to be evicted to make room (see reserve).
func (s *shard) store(st *slotState, h uint64, slot uint16, key, value []byte, deadline int64, old *entry, now int64) error {
	need := len(key) + len(value)
	if old != nil && fits(cap(old.data), need) {
		old.data = old.data[:need]
		copy(old.data[len(key):], value) // memmove: value may be a part of the old one
		s.setDeadline(old, deadline)
		s.refresh(old, now)
		return nil
	}
	if err := s.e.checkCharge(Overhead + int64(need)); err != nil {
		return err
	}
	buf := newBuffer(need)
	copy(buf[copy(buf, key):], value)
	charge := Overhead + int64(cap(buf))
	if old == nil {
		if _, err := s.reserve(charge, charge, nil); err != nil {
			return err
		}
	} else {
		delta := charge - old.charge()
		if delta > 0 {
			kept, err := s.reserve(delta, charge, old)
			if err != nil {
				return err
			}
			old = kept
		}
		if old != nil {
			old.data = buf
			st.bytes.Add(delta)
			if delta < 0 {
				s.e.used.Add(delta)
			}
			s.setDeadline(old, deadline)
			s.refresh(old, now)
			return nil
		}
	}
	s.link(st, &entry{
		data: buf, hash: h, deadline: deadline, access: now, meta: metaOf(len(key), slot), vol: -1,
	})
	return nil
}

// clear drops every entry, closes every window and returns how many entries
// there were. It costs what the number of slots costs: the garbage collector
// does the rest.
func (s *shard) clear() int {
	var keys, bytes int64
	for i := range s.slots {
		st := &s.slots[i]
		st.closeWindow(s.e)
		if st.index.dir != nil {
			st.index = index{}
			keys += st.keys.Swap(0)
			bytes += st.bytes.Swap(0)
		}
	}
	s.keys.Add(-keys)
	s.e.used.Add(-bytes)
	s.lru, s.vol, s.sweepAt = recency{}, volatiles{}, 0
	s.publish()
	return int(keys)
}
