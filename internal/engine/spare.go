package engine

import (
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/errs"
)

// Spare slots hold what leaves before everything else when memory is needed:
// copies of what another node serves. Their entries are taken slot by slot,
// whatever the policy is, even one that does not evict, and they are stored only
// where that takes memory from other spare entries at most.

const (
	// spareStep is how many entries of a spare slot are taken before a look at
	// whether that gave a block back.
	spareStep = 64
	// spareShare is the same as fullShare, where any block is worth the work.
	spareShare = 1 << 20
)

// spareState is what a shard knows of its spare slots; its lock guards all but
// stocked.
type spareState struct {
	stocked atomic.Bool // a spare slot may have entries; changed by stock
	spares  int         // spare slots
	spareAt int         // where the last eviction from them stopped
	sparing bool        // the running write may take nothing but spare memory
}

// SetSpare says whether slot is spare. It must not be served: SetServing ends
// that its entries are spare, and they stay as ordinary ones.
func (e *Engine) SetSpare(slot uint16, on bool) {
	s, st := e.at(slot)
	s.mu.Lock()
	s.setSpare(slot&(Slots-1), st, on && !s.served(e.place(slot)))
	s.unlock()
}

func (s *shard) setSpare(slot uint16, st *slotState, on bool) {
	if st.spare == on {
		return
	}
	st.spare, st.spareVols = on, 0
	if on {
		s.spares++
		s.step(slot, 0, int(st.keys.Load())+1, minTime, func(_ loc, r record, _ uint64) {
			if r.form() != formNone {
				st.spareVols++
			}
		})
		s.stock(s.stocked.Load() || st.keys.Load() > 0)
		return
	}
	if s.spares--; s.spares == 0 {
		s.stock(false)
	}
}

// stock notes whether spare slots may have entries.
func (s *shard) stock(on bool) {
	if s.stocked.Load() == on {
		return
	}
	s.stocked.Store(on)
	if on {
		s.e.stocked.Add(1)
	} else {
		s.e.stocked.Add(-1)
	}
}

// Spare says whether the slot of the hold is spare.
func (t *Txn) Spare() bool { return t.st.spare }

// SetSpare is Set in a spare slot. It takes memory from spare entries only and
// leaves the recency of others as it is. Errors: errs.ErrNotServing if the slot is
// not spare, errs.ErrTooLarge, and errs.ErrNoMemory where there is no memory to
// take; the old value is still there then.
func (t *Txn) SetSpare(key, value []byte, deadline int64) error {
	h, err := t.s.e.admit(key, value)
	if err != nil {
		return err
	}
	t.check()
	if !t.st.spare {
		return errs.ErrNotServing
	}
	s := t.s
	t.now = s.date(t.now)
	old, r, _ := s.alive(t.slot, h, key, t.now)
	if deadline != 0 && expired(deadline, t.now) {
		t.drop(old, h, byInvalidation)
		return nil
	}
	volatile := old != 0 && r.form() != formNone
	w := write{slot: t.slot, h: h, key: key, value: value, deadline: deadline, now: t.now, kind: EventWrite}
	s.sparing = true
	err = s.store(&w, old)
	s.sparing = false
	if err != nil {
		return err
	}
	if volatile {
		t.st.spareVols--
	}
	if deadline != 0 {
		t.st.spareVols++
	}
	s.stock(true)
	t.mutated()
	return nil
}

// reserveSpare takes n bytes for a spare entry, and none of those that are kept
// free for others.
func (s *shard) reserveSpare(n int64) error {
	e := s.e
	for {
		if e.used.Load()+n <= e.ceiling.Load()-2*e.ahead() && e.tryReserve(n) {
			return nil
		}
		if e.closed.Load() {
			return errs.ErrClosed
		}
		if !s.takeSpare(e.now()) {
			return errs.ErrNoMemory
		}
	}
}

// takeSpare takes back at least one block at the expense of spare entries, of this
// shard or of another whose lock is free. The shard lock is held.
func (s *shard) takeSpare(now int64) bool {
	if s.e.stocked.Load() == 0 {
		return false
	}
	if s.evictSpare(now) {
		return true
	}
	first := s.rand.below(len(s.e.shards))
	for i := range s.e.shards {
		o := &s.e.shards[(first+i)&int(s.e.mask)]
		if o == s || !o.stocked.Load() || !o.mu.TryLock() {
			continue
		}
		done := o.evictSpare(now)
		o.unlock()
		if done {
			return true
		}
	}
	return false
}

// evictSpare is evictSegment for spare entries. It ends with the last of them.
func (s *shard) evictSpare(now int64) bool {
	if !s.stocked.Load() {
		return false
	}
	before := s.e.arenaOf(s)
	var room [spareStep + pagePlaces]found
	for empty := 0; empty < len(s.slots); {
		i := s.spareAt % len(s.slots)
		st := &s.slots[i]
		if !st.spare || s.takeFrom(s.slotNumber(i), st, room[:0], now) == 0 {
			s.spareAt = i + 1
			empty++
			continue
		}
		empty = 0
		if s.reclaim(spareShare) || s.e.arenaOf(s) < before {
			return true
		}
	}
	s.stock(false)
	return false
}

// takeFrom removes some entries of a spare slot and returns how many.
func (s *shard) takeFrom(slot uint16, st *slotState, some []found, now int64) (n int) {
	if st.keys.Load() == 0 {
		return 0
	}
	s.step(slot, 0, spareStep, minTime, func(l loc, _ record, h uint64) { some = append(some, found{l, h}) })
	for _, f := range some {
		if f.l == s.keep {
			continue // the running write replaces it
		}
		why := byEviction
		if expired(s.deadline(s.e.arena.record(f.l)), now) {
			why = byExpiry
		}
		s.remove(st, slot, f.h, f.l, why)
		n++
	}
	return n
}
