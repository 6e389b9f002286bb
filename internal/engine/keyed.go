package engine

// The methods of this file are for callers that route nothing: the slot of a key
// comes from the hash that the index needs anyway. A key that is stored by one of
// them is found by them only.

// keySlot spreads keys over all slots by bits that depend on the whole hash, so
// the bits that home, tag and ghosts use stay even within a slot.
func keySlot(h uint64) uint16 {
	return uint16(h * 0x9e3779b97f4a7c15 >> (64 - slotBits))
}

// GetKey is Get without a slot.
func (e *Engine) GetKey(key, dst []byte) (val []byte, deadline int64, err error) {
	h := e.hash.sum(key)
	return e.get(keySlot(h), h, key, dst)
}

// SetKey is Set without a slot; ttl in ms counts from now on, 0 = no deadline.
func (e *Engine) SetKey(key, value []byte, ttl int64) error {
	h, err := e.admit(key, value)
	if err != nil {
		return err
	}
	if ttl == 0 {
		return e.set(keySlot(h), h, key, value, 0, unread)
	}
	now := e.now()
	return e.set(keySlot(h), h, key, value, now+ttl, now)
}

// DeleteKey is Delete without a slot.
func (e *Engine) DeleteKey(key []byte) (bool, error) {
	return e.Delete(keySlot(e.hash.sum(key)), key)
}

// LockKey is Lock of the slot that key has without one.
func (e *Engine) LockKey(key []byte) (*Txn, error) { return e.Lock(keySlot(e.hash.sum(key))) }
