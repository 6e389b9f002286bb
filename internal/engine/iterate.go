package engine

import (
	"cmp"
	"slices"
)

const (
	// stepEntries is the most entries that one hold of an iteration visits
	// (one bucket more, since a bucket is never cut).
	stepEntries = 64
	// stepBytes ends a step early when the values copied are large.
	stepBytes = 256 << 10
	// keepBatch is the largest batch buffer that is kept for reuse.
	keepBatch = 1 << 20
	// randomTries bounds how often RandomKey meets an expired key, or one in a
	// slot that is not served, before it looks through everything.
	randomTries = 64
	// randomSpread is among how many neighbours RandomKey chooses.
	randomSpread = 16
	// positionBits is the width of a scan position in a slot: the upper half of
	// a hash, which tells all buckets apart.
	positionBits = 32
)

// batch holds copies of entries, so that callbacks run without the lock.
type batch struct {
	bytes []byte
	items []copied
}

type copied struct {
	at, klen int // in bytes: key, then value if it was copied
	it       Item
}

func (b *batch) add(ent *entry, value bool) {
	c := copied{at: len(b.bytes), klen: ent.klen(), it: itemOf(ent)}
	if value {
		b.bytes = append(b.bytes, ent.data...)
	} else {
		b.bytes = append(b.bytes, ent.key()...)
	}
	b.items = append(b.items, c)
}

// get returns the i-th key and item; value says whether values were copied.
func (b *batch) get(i int, value bool) ([]byte, Item) {
	c := b.items[i]
	end := c.at + c.klen
	if value {
		c.it.Value = b.bytes[end : end+c.it.Size : end+c.it.Size]
	}
	return b.bytes[c.at:end:end], c.it
}

func (b *batch) reset() { b.bytes, b.items = b.bytes[:0], b.items[:0] }

func (e *Engine) newBatch() *batch { return e.scratch.Get().(*batch) }

func (e *Engine) freeBatch(b *batch) {
	if cap(b.bytes) <= keepBatch {
		b.reset()
		e.scratch.Put(b)
	}
}

// step visits buckets from hash h on, until max entries were seen, and calls
// visit for each live entry at or after h. It returns where the next step
// begins, 0 at the end, and how many entries it saw. The shard lock is held;
// visit must not change the index.
func (st *slotState) step(h uint64, max int, now int64, visit func(*entry)) (next uint64, seen int) {
	for {
		chain, end := st.index.from(h)
		for ent := chain; ent != nil; ent = ent.next {
			if ent.hash < h {
				continue
			}
			seen++
			if !expired(ent.deadline, now) {
				visit(ent)
			}
		}
		if h = end; h == 0 || seen >= max {
			return h, seen
		}
	}
}

// Scan calls fn for about count keys from cursor on and returns the next
// cursor; 0 starts, and 0 returned ends. Its guarantees are those of Redis: a
// key that is present from start to end of a full iteration is returned at
// least once, whatever else is written meanwhile; here also at most once unless
// it was removed and stored again. Only slots whose serving bit is on are
// visited, expired keys are not returned, and a call may return no key and
// still not be the last.
//
// key is borrowed until fn returns; it.Value is nil (values are not copied). fn
// runs without any lock. A cursor is slot and hash position: it stays valid
// whatever the index does, and invalid cursors end the iteration.
func (e *Engine) Scan(cursor uint64, count int, fn func(key []byte, it Item)) uint64 {
	slot, h := cursor>>positionBits, cursor<<(64-positionBits)
	b := e.newBatch()
	defer func() { e.freeBatch(b) }()
	for count = max(count, 1); slot < Slots; {
		s, st := e.at(uint16(slot))
		if st.keys.Load() == 0 || !st.serving.Load() {
			slot, h = slot+1, 0
			continue
		}
		b.reset()
		seen := 0
		s.mu.Lock()
		if st.serving.Load() {
			h, seen = st.step(h, min(count, stepEntries), e.now(), func(ent *entry) { b.add(ent, false) })
		} else {
			h = 0
		}
		s.unlock()
		if h == 0 {
			slot++
		}
		for i := range b.items {
			fn(b.get(i, false))
		}
		if count -= seen; count <= 0 {
			break
		}
	}
	if slot >= Slots {
		return 0
	}
	return slot<<positionBits | h>>(64-positionBits)
}

// KeysInSlot calls fn for up to max keys of slot, served or not. key is borrowed
// until fn returns; fn runs without any lock. Keys written meanwhile may or may
// not be among them.
func (e *Engine) KeysInSlot(slot uint16, max int, fn func(key []byte)) {
	s, st := e.at(slot)
	b := e.newBatch()
	defer func() { e.freeBatch(b) }()
	for h := uint64(0); max > 0; {
		b.reset()
		s.mu.Lock()
		h, _ = st.step(h, min(max, stepEntries), e.now(), func(ent *entry) { b.add(ent, false) })
		s.unlock()
		for i := range b.items {
			if max--; max < 0 {
				break
			}
			key, _ := b.get(i, false)
			fn(key)
		}
		if h == 0 {
			return
		}
	}
}

// HottestFirst calls fn for the keys of slot, served or not, the most recently
// accessed first, until fn returns false. The order is that of the moment of the
// call; accesses by this iteration do not count. A key present throughout is
// given once; keys written after the call are not promised (the change feed has
// them). key and it.Value are borrowed until fn returns; fn runs without any
// lock. Memory: 16 bytes per key of the slot.
func (e *Engine) HottestFirst(slot uint16, fn func(key []byte, it Item) bool) {
	type place struct {
		hash   uint64
		access int64
	}
	s, st := e.at(slot)
	places := make([]place, 0, st.keys.Load())
	for h, more := uint64(0), true; more; more = h != 0 {
		s.mu.Lock()
		h, _ = st.step(h, stepEntries, e.now(), func(ent *entry) {
			places = append(places, place{ent.hash, ent.access})
		})
		s.unlock()
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.access, a.access), cmp.Compare(a.hash, b.hash))
	})
	b := e.newBatch()
	defer func() { e.freeBatch(b) }()
	for i := 0; i < len(places); {
		b.reset()
		s.mu.Lock()
		now := e.now()
		for n := 0; n < stepEntries && i < len(places) && len(b.bytes) < stepBytes; n++ {
			h := places[i].hash
			i++
			chain, _ := st.index.from(h)
			for ent := chain; ent != nil; ent = ent.next {
				if ent.hash == h && !expired(ent.deadline, now) {
					b.add(ent, true)
				}
			}
		}
		s.unlock()
		for j := range b.items {
			if !fn(b.get(j, true)) {
				return
			}
		}
	}
}

// DropSlot removes all entries of slot, closes its pull window and returns how
// many entries it removed; they count as invalidated. It costs what the slot
// holds and works in steps: other requests run in between, and of what is
// written to the slot meanwhile some may be removed too.
func (e *Engine) DropSlot(slot uint16) int {
	s, st := e.at(slot)
	dropped := 0
	var ents []*entry
	for h, more := uint64(0), true; more; more = h != 0 {
		ents = ents[:0]
		s.mu.Lock()
		st.closeWindow(e)
		now := e.now()
		h, _ = st.step(h, stepEntries, minTime, func(ent *entry) { ents = append(ents, ent) })
		for _, ent := range ents {
			if expired(ent.deadline, now) {
				s.remove(st, ent, byExpiry)
				continue
			}
			s.remove(st, ent, byInvalidation)
			dropped++
		}
		s.unlock()
	}
	return dropped
}

// minTime is before every deadline: nothing is expired then.
const minTime = -1 << 63

// Flush removes everything, shard by shard, and closes all pull windows: of
// what was stored before the call nothing is left when it returns, and nothing
// that was asked of a previous owner before it can still be added.
func (e *Engine) Flush() {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.invalidated += int64(s.clear())
		s.emit(EventFlush, AllSlots, nil, 0)
		s.unlock()
	}
}

// RandomKey appends a random live key of the served slots to dst. All keys are
// about equally likely: the shard is chosen by its number of keys, the slot in
// it too, and the key among randomSpread neighbours of a random hash. false
// means that there is no such key.
func (e *Engine) RandomKey(dst []byte) ([]byte, bool) {
	var total int64
	for i := range e.shards {
		total += e.shards[i].keys.Load()
	}
	for try := 0; try < randomTries && total > 0; try++ {
		at := int64(e.pick(int(total)))
		for i := range e.shards {
			s := &e.shards[i]
			n := s.keys.Load()
			if at >= n {
				at -= n
				continue
			}
			s.mu.Lock()
			ent := s.random(at, e.now())
			if ent != nil {
				dst = append(dst, ent.key()...)
			}
			s.unlock()
			if ent != nil {
				return dst, true
			}
			break
		}
	}
	found, n := false, len(dst)
	for cursor := uint64(0); !found; {
		cursor = e.Scan(cursor, 1, func(key []byte, _ Item) { dst, found = append(dst[:n], key...), true })
		if cursor == 0 {
			break
		}
	}
	return dst, found
}

// random returns a random entry of the slot that holds the at-th entry of the
// shard, nil if the slot is not served or the entry chosen is expired.
func (s *shard) random(at, now int64) *entry {
	for i := range s.slots {
		st := &s.slots[i]
		n := st.keys.Load()
		if at >= n {
			at -= n
			continue
		}
		if !st.serving.Load() {
			return nil
		}
		var near []*entry
		h := s.rand.next()
		if n <= randomSpread {
			h = 0
		}
		for len(near) < int(min(n, randomSpread)) {
			h, _ = st.step(h, randomSpread-len(near), minTime, func(ent *entry) { near = append(near, ent) })
		}
		if ent := near[s.rand.below(len(near))]; !expired(ent.deadline, now) {
			return ent
		}
		return nil
	}
	return nil
}
