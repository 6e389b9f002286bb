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
	LastAccess int64  // ms of the last access before this one
	Bytes      int64  // what the key is charged against the memory limit
}

// Txn is one hold of a shard for one slot: everything between Lock and Unlock
// is one step for all other callers. Its methods must not be called after
// Unlock, nor by another goroutine, and no Engine method may be called before
// Unlock. Keep holds short: other slots of the shard wait.
type Txn struct {
	s        *shard
	st       *slotState
	now      int64
	slot     uint16
	held     bool
	borrowed [][]byte // checked builds only: what was lent, to be overwritten
}

func (s *shard) begin(slot uint16, st *slotState) *Txn {
	t := &s.txn
	t.st, t.slot, t.now, t.held = st, slot&(Slots-1), s.e.now(), true
	return t
}

// Unlock ends the hold. Borrowed values are invalid from here on.
func (t *Txn) Unlock() {
	t.check()
	t.mutated()
	t.held = false
	t.s.unlock()
}

// Now returns the time in ms; it does not move during a hold.
func (t *Txn) Now() int64 { return t.now }

// Slot returns the slot that is held.
func (t *Txn) Slot() uint16 { return t.slot }

// Get returns the item of key, counts a hit or a miss and makes the key the
// most recent of its shard. An expired key is absent. Item.Value is borrowed
// until the next mutation through this Txn or Unlock.
func (t *Txn) Get(key []byte) (Item, bool) {
	ent := t.live(key)
	if ent == nil {
		t.s.misses++
		return Item{}, false
	}
	t.s.hits++
	it := t.lend(ent)
	t.s.refresh(ent, t.now)
	return it, true
}

// Peek is Get without counting and without changing recency.
func (t *Txn) Peek(key []byte) (Item, bool) {
	ent := t.live(key)
	if ent == nil {
		return Item{}, false
	}
	return t.lend(ent), true
}

// Has says whether key is present, without counting or changing recency.
func (t *Txn) Has(key []byte) bool { return t.live(key) != nil }

// Touch makes key the most recent of its shard without counting.
func (t *Txn) Touch(key []byte) bool {
	ent := t.live(key)
	if ent == nil {
		return false
	}
	t.s.refresh(ent, t.now)
	return true
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
	old := t.s.live(t.st, h, key, t.now)
	if expired(deadline, t.now) {
		t.drop(old, h, byDeletion)
		return nil
	}
	err = t.s.store(t.st, h, t.slot, key, value, deadline, old, t.now)
	if err == nil {
		t.s.sets++
		t.st.touch(t.s.e, h)
		t.s.emit(EventWrite, t.slot, key, deadline)
	}
	t.mutated()
	return err
}

// SetDeadline changes when key expires (absolute ms, 0 = never) and says
// whether key was there. A deadline that has passed removes the key, which
// counts as a deletion.
func (t *Txn) SetDeadline(key []byte, deadline int64) bool {
	h := t.s.e.hash.sum(key)
	t.check()
	ent := t.s.live(t.st, h, key, t.now)
	if ent == nil {
		return false
	}
	if expired(deadline, t.now) {
		return t.drop(ent, h, byDeletion)
	}
	t.s.setDeadline(ent, deadline)
	t.st.touch(t.s.e, h)
	t.s.emit(EventTTL, t.slot, ent.key(), deadline)
	t.mutated()
	return true
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
	return t.drop(t.s.live(t.st, h, key, t.now), h, why)
}

// drop removes ent if it is not nil, and marks its key as touched in any case.
func (t *Txn) drop(ent *entry, h uint64, why cause) bool {
	if ent == nil {
		t.st.touch(t.s.e, h)
		return false
	}
	t.s.remove(t.st, ent, why)
	t.mutated()
	return true
}

// Untouched says whether key may still be pulled from the previous owner: the
// window is open, and the key is absent and was not touched since it opened.
func (t *Txn) Untouched(key []byte) bool {
	h := t.s.e.hash.sum(key)
	t.check()
	return t.s.live(t.st, h, key, t.now) == nil && t.st.win != nil && !t.st.win.has(h)
}

// MarkTouched makes Untouched false for key until the window is opened anew:
// for a key that the previous owner is known not to have.
func (t *Txn) MarkTouched(key []byte) {
	t.check()
	t.st.touch(t.s.e, t.s.e.hash.sum(key))
}

func (t *Txn) live(key []byte) *entry {
	t.check()
	return t.s.live(t.st, t.s.e.hash.sum(key), key, t.now)
}

func (t *Txn) lend(ent *entry) Item {
	it := itemOf(ent)
	it.Value = ent.value()
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

func itemOf(ent *entry) Item {
	return Item{
		Size: len(ent.data) - ent.klen(), Deadline: ent.deadline,
		LastAccess: ent.access, Bytes: ent.charge(),
	}
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
