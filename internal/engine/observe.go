package engine

// Observer is told of every change, whoever makes it. Changed and Lost are called
// under the lock of the shard: what they do there happens together with the
// change, seen from every hold of a slot of that shard. They must be short, must
// not block and must not call the Engine.
type Observer interface {
	// Changed: a key was written, deleted, given another deadline, expired,
	// evicted or invalidated, during a hold for which Txn.By named an author, 0
	// for none. With EventFlush everything in the shard is gone; key is nil and
	// slot AllSlots then. key is borrowed.
	Changed(shard int, kind EventKind, slot uint16, key []byte, author uint64)
	// Lost: the slot is not served any more.
	Lost(shard int, slot uint16)
	// Flushed is called, without a lock, when Flush has removed everything.
	Flushed()
}

// Observe makes o the observer, in place of the one before, from now on. A change
// is told only if it follows, under its shard's lock, a hold that began after
// Observe returned.
func (e *Engine) Observe(o Observer) { e.observer.Store(&o) }

// By names who makes the changes of this hold, for the Observer.
func (t *Txn) By(author uint64) { t.author, t.special = author, true }

// LeaveRecency makes the reads of this hold leave the recency of keys, and what
// the policies count, as they are. Touch and writes do what they always do.
func (t *Txn) LeaveRecency() { t.still, t.special = true, true }

// tellKeep is up to how many bytes a shard keeps of the last key told.
const tellKeep = 256

// tell tells the observer of a change; the shard lock is held. It gets a copy of
// the key: one that leaves the engine would take the caller's key and value to the
// heap with every write, observed or not.
func (s *shard) tell(o *Observer, kind EventKind, slot uint16, key []byte) {
	author := uint64(0)
	if s.txn.held {
		author = s.txn.author
	}
	s.told = append(s.told[:0], key...)
	(*o).Changed(s.id, kind, slot, s.told, author)
	if cap(s.told) > tellKeep {
		s.told = nil
	}
}
