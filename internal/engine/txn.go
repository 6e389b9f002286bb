package engine

import (
	"fmt"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/invariant"
)

// Item is what the engine knows about a key.
type Item struct {
	Value      []byte // borrowed: see the method that gave the Item
	Size       int    // bytes of the value, also where Value is not given
	Deadline   int64  // absolute ms, 0 = none
	LastAccess int64  // ms of the last access before this one, in whole seconds, up to a sweep late; after 17 minutes modulo that
	Bytes      int64  // what the key is charged against the memory limit
}

// Txn is one hold of a shard for one slot: everything between Lock and Unlock
// is one step for all other callers. Its methods must not be called after
// Unlock, nor by another goroutine, and no Engine method may be called before
// Unlock. Keep holds short: other slots of the shard wait.
type Txn struct {
	s        *shard
	st       *slotState
	now      int64 // unread until it is needed
	slot     uint16
	held     bool
	special  bool     // author or still is set
	still    bool     // reads leave recency as it is
	author   uint64   // who makes the changes, for the Observer
	borrowed [][]byte // checked builds only: what was lent, to be overwritten
}

func (s *shard) begin(slot uint16, st *slotState) *Txn {
	t := &s.txn
	t.st, t.slot, t.now, t.held = st, slot&(Slots-1), unread, true
	return t
}

// Unlock ends the hold. Borrowed values are invalid from here on.
func (t *Txn) Unlock() {
	t.check()
	t.mutated()
	t.held = false
	if t.special {
		t.special, t.still, t.author = false, false, 0
	}
	t.s.unlock()
}

// Now returns the time in ms; it does not move during a hold.
func (t *Txn) Now() int64 {
	t.now = t.s.e.timed(t.now)
	return t.now
}

// Slot returns the slot that is held.
func (t *Txn) Slot() uint16 { return t.slot }

// Get returns the item of key, counts a hit or a miss and makes the key the
// most recent of its shard. An expired key is absent. Item.Value is borrowed
// until the next mutation through this Txn or Unlock.
func (t *Txn) Get(key []byte) (Item, bool) {
	l, r := t.live(key)
	if t.still {
		return t.observe(l, r)
	}
	if t.s.shadow != nil {
		if h := t.s.e.hash.sum(key); uint32(h)&t.s.shadowMask == 0 {
			t.s.sample(h, true)
		}
	}
	if l == 0 {
		t.s.misses++
		return Item{}, false
	}
	t.s.hits++
	it := t.lend(r)
	r.hit(t.s.e.tick())
	return it, true
}

// observe is the rest of Get where recency stays as it is.
func (t *Txn) observe(l loc, r record) (Item, bool) {
	if l == 0 {
		t.s.misses++
		return Item{}, false
	}
	t.s.hits++
	return t.lend(r), true
}

// Peek is Get without counting and without changing recency.
func (t *Txn) Peek(key []byte) (Item, bool) {
	l, r := t.live(key)
	if l == 0 {
		return Item{}, false
	}
	return t.lend(r), true
}

// Reads tells how often key was read since the policy last asked, 0 to 3, without
// counting. Policies but lfu forget it sooner.
func (t *Txn) Reads(key []byte) (int, bool) {
	l, r := t.live(key)
	if l == 0 {
		return 0, false
	}
	return r.freq(), true
}

// Has says whether key is present, without counting or changing recency.
func (t *Txn) Has(key []byte) bool {
	l, _ := t.live(key)
	return l != 0
}

// Touch makes key the most recent of its shard without counting.
func (t *Txn) Touch(key []byte) bool {
	l, r := t.live(key)
	if l != 0 {
		r.hit(t.s.e.tick())
	}
	return l != 0
}

// Set stores value under key until deadline (absolute ms, 0 = none). A deadline
// that has passed removes the key instead. key and value are copied first, so
// they may be borrowed from this hold.
//
// Errors: errs.ErrTooLarge when key or value is above its limit;
// errs.ErrNoMemory when the entry alone is above the memory limit, or the
// policy is noeviction and the limit is reached. After an error the old value
// is still there. (Only if the memory limit or the policy is changed while the
// call evicts may the old value have been evicted.)
func (t *Txn) Set(key, value []byte, deadline int64) error {
	h, err := t.s.e.admit(key, value)
	if err != nil {
		return err
	}
	t.check()
	err = t.s.put(t.slot, h, key, value, deadline, t.now)
	t.mutated()
	return err
}

// SetDeadline changes when key expires (absolute ms, 0 = never) and says
// whether key was there. A deadline that has passed removes the key, which
// counts as a deletion. A key that gets its first deadline grows; when the
// policy is noeviction and there is no room for that, the deadline stays as it
// was and the answer is false.
func (t *Txn) SetDeadline(key []byte, deadline int64) bool {
	h := t.s.e.hash.sum(key)
	t.check()
	t.now = t.s.date(t.now)
	l, _, _ := t.s.alive(t.slot, h, key, t.now)
	if l == 0 {
		return false
	}
	if expired(deadline, t.now) {
		return t.drop(l, h, byDeletion)
	}
	defer t.mutated()
	return t.s.redate(t, h, key, l, deadline)
}

// Delete removes key and says whether it was there. An absent key counts as
// touched for the pull window all the same: its deletion must not be undone.
func (t *Txn) Delete(key []byte) bool { return t.discard(key, byDeletion) }

// Invalidate is Delete under another name: it counts and reports an
// invalidation, for entries that leave because another copy replaces them.
func (t *Txn) Invalidate(key []byte) bool { return t.discard(key, byInvalidation) }

func (t *Txn) discard(key []byte, why cause) bool {
	h := t.s.e.hash.sum(key)
	t.check()
	l, _, _ := t.s.alive(t.slot, h, key, t.now)
	return t.drop(l, h, why)
}

// drop removes l if it is not 0, and marks its key as touched in any case.
func (t *Txn) drop(l loc, h uint64, why cause) bool {
	if l == 0 {
		t.s.touch(t.slot, h)
		return false
	}
	t.s.remove(t.st, t.slot, h, l, why)
	t.mutated()
	return true
}

// Untouched says whether key may still be pulled from the previous owner: the
// window is open, and the key is absent and was not touched since it opened.
func (t *Txn) Untouched(key []byte) bool {
	h := t.s.e.hash.sum(key)
	t.check()
	l, _, _ := t.s.alive(t.slot, h, key, t.now)
	return l == 0 && t.st.pulls() && !t.st.win.has(h)
}

// MarkTouched makes Untouched false for key until the window is opened anew:
// for a key that the previous owner is known not to have.
func (t *Txn) MarkTouched(key []byte) {
	t.check()
	t.s.touch(t.slot, t.s.e.hash.sum(key))
}

func (t *Txn) live(key []byte) (loc, record) {
	t.check()
	l, r, now := t.s.alive(t.slot, t.s.e.hash.sum(key), key, t.now)
	t.now = now
	return l, r
}

func (t *Txn) lend(r record) Item {
	now := t.now
	if now == unread {
		now = t.s.e.recent()
	}
	it := t.s.itemOf(r, now)
	it.Value = t.s.value(r)
	if invariant.Enabled {
		it.Value = append([]byte(nil), it.Value...)
		t.borrowed = append(t.borrowed, it.Value)
	}
	return it
}

// mutated ends the time of all borrowed values.
func (t *Txn) mutated() {
	if invariant.Enabled {
		for _, b := range t.borrowed {
			invariant.Poison(b)
		}
		t.borrowed = nil
	}
}

func (t *Txn) check() {
	if invariant.Enabled {
		invariant.Check(t.held, "slot %d: a Txn was used after Unlock", t.slot)
	}
}

func (s *shard) itemOf(r record, now int64) Item {
	return Item{
		Size: r.vlen(), Deadline: s.deadline(r),
		LastAccess: lastAccess(r, now), Bytes: s.e.arena.chargeOf(r),
	}
}

// redate gives a record another deadline: in its place if that is as long as
// the old one, else in a new record.
func (s *shard) redate(t *Txn, h uint64, key []byte, l loc, deadline int64) bool {
	r := s.e.arena.record(l)
	w := write{slot: t.slot, h: h, key: key, deadline: deadline, now: t.now, kind: EventTTL}
	if w.form = s.formOf(deadline); w.form == r.form() {
		if w.form != formNone {
			s.lowerDeadline(&s.segs[s.segOf(l)], r.p, &w)
		}
		s.report(&w)
		return true
	}
	w.value = s.value(r)
	return s.store(&w, l) == nil
}

// admit checks the sizes of a write and returns the hash of the key.
func (e *Engine) admit(key, value []byte) (uint64, error) {
	if len(key) > e.maxKey {
		return 0, fmt.Errorf("key is %d bytes, limit %d: %w", len(key), e.maxKey, errs.ErrTooLarge)
	}
	if len(value) > e.maxValue {
		return 0, fmt.Errorf("value is %d bytes, limit %d: %w", len(value), e.maxValue, errs.ErrTooLarge)
	}
	return e.hash.sum(key), nil
}
