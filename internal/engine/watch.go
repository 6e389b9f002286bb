package engine

// Watch notes whether keys of one slot were changed since they were added by
// Txn.Watch: by a write, a new deadline, a deletion, expiry, eviction, a flush
// of keys that were there, or because the slot is not served any more. It is
// exact for whoever holds the slot. The zero value watches nothing. All fields
// are guarded by the shard's lock; the methods of Txn are given the same Watch
// by one caller at a time.
type Watch struct {
	slot    uint16
	keys    []string
	changed bool
}

// Keys returns how many keys are watched. For the caller that owns the Watch.
func (w *Watch) Keys() int { return len(w.keys) }

// Slot returns the slot of the watched keys; meaningless without any.
func (w *Watch) Slot() uint16 { return w.slot }

// watchedKey is a key that somebody watches. Engines do not know which slot a
// key belongs to, so it is a part of the name.
type watchedKey struct {
	slot uint16
	key  string
}

// watcher is one Watch of a key.
type watcher struct {
	w     *Watch
	there bool // the key existed when the watch began: a flush changes it
}

// Watch adds key, which must lie in the slot that is held, as must all keys of
// w. A key that is watched already stays as it is. Memory beside the limit: the
// key and about 100 bytes; callers bound the number of keys and give them back
// by Unwatch.
func (t *Txn) Watch(w *Watch, key []byte) {
	t.check()
	w.slot = t.slot
	s := t.s
	l, _ := t.live(key)
	name := watchedKey{t.slot, string(key)}
	for _, x := range s.watched[name] {
		if x.w == w {
			return
		}
	}
	if s.watched == nil {
		s.watched = map[watchedKey][]watcher{}
	}
	s.watched[name] = append(s.watched[name], watcher{w, l != 0})
	w.keys = append(w.keys, name.key)
}

// Changed says whether one of the keys of w, which lie in the slot that is
// held, was changed since it is watched.
func (t *Txn) Changed(w *Watch) bool {
	t.check()
	for _, key := range w.keys {
		if w.changed {
			break
		}
		t.live([]byte(key)) // an expired key goes now, which is a change
	}
	return w.changed
}

// Unwatch ends w, whose keys lie in the slot that is held; it may be used anew.
func (t *Txn) Unwatch(w *Watch) {
	t.check()
	for _, key := range w.keys {
		name := watchedKey{w.slot, key}
		rest := t.s.watched[name][:0]
		for _, x := range t.s.watched[name] {
			if x.w != w {
				rest = append(rest, x)
			}
		}
		if len(rest) == 0 {
			delete(t.s.watched, name)
		} else {
			clear(t.s.watched[name][len(rest):])
			t.s.watched[name] = rest
		}
	}
	if len(t.s.watched) == 0 {
		t.s.watched = nil
	}
	*w = Watch{}
}

// noteChange tells the watches of key, or of all keys that were there before a
// flush; the shard lock is held.
func (s *shard) noteChange(kind EventKind, slot uint16, key []byte) {
	if kind == EventFlush {
		for _, list := range s.watched {
			for _, x := range list {
				x.w.changed = x.w.changed || x.there
			}
		}
		return
	}
	for _, x := range s.watched[watchedKey{slot, string(key)}] {
		x.w.changed = true
	}
}

// noteLoss tells the watches of a slot that is not served any more.
func (s *shard) noteLoss(slot uint16) {
	for name, list := range s.watched {
		if name.slot != slot {
			continue
		}
		for _, x := range list {
			x.w.changed = true
		}
	}
}
