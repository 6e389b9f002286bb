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

func (s *shard) copyTo(b *batch, r record, now int64, value bool) {
	c := copied{at: len(b.bytes), klen: r.klen(), it: s.itemOf(r, now)}
	b.bytes = append(b.bytes, s.key(r)...)
	if value {
		b.bytes = append(b.bytes, s.value(r)...)
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

// step visits the keys of a slot from position at on, home by home, until max
// were seen, and calls visit for each live one. It returns where the next step
// begins, scanEnd at the end, and how many keys it saw. The shard lock is held;
// visit must not change the index.
func (s *shard) step(slot uint16, at uint64, max int, now int64, visit func(l loc, r record, h uint64)) (next uint64, seen int) {
	for {
		at = s.from(slot, at, func(l loc, r record, h uint64) {
			seen++
			if !expired(s.deadline(r), now) {
				visit(l, r, h)
			}
		})
		if at >= scanEnd || seen >= max {
			return at, seen
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
	slot, at := cursor>>positionBits, cursor&(1<<positionBits-1)
	b := e.newBatch()
	defer func() { e.freeBatch(b) }()
	for count = max(count, 1); slot < Slots; {
		s, st := e.at(uint16(slot))
		i := int(slot >> e.bits)
		if c := s.cells[i].Load(); c&cellServing == 0 || c&(cellBlock|cellDir) == 0 {
			slot, at = slot+1, 0
			continue
		}
		b.reset()
		seen := 0
		s.mu.Lock()
		next := uint64(scanEnd)
		if now := e.now(); s.served(i) && st.keys.Load() > 0 {
			next, seen = s.step(uint16(slot), at, min(count, stepEntries), now, func(_ loc, r record, _ uint64) { s.copyTo(b, r, now, false) })
		}
		s.unlock()
		if at = next; at == scanEnd {
			slot, at = slot+1, 0
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
	return slot<<positionBits | at
}

// KeysInSlot calls fn for up to max keys of slot, served or not. key is borrowed
// until fn returns; fn runs without any lock. Keys written meanwhile may or may
// not be among them.
func (e *Engine) KeysInSlot(slot uint16, max int, fn func(key []byte)) {
	s, _ := e.at(slot)
	b := e.newBatch()
	defer func() { e.freeBatch(b) }()
	slot &= Slots - 1
	for at := uint64(0); max > 0; {
		b.reset()
		s.mu.Lock()
		now := e.now()
		at, _ = s.step(slot, at, min(max, stepEntries), now, func(_ loc, r record, _ uint64) { s.copyTo(b, r, now, false) })
		s.unlock()
		for i := range b.items {
			if max--; max < 0 {
				break
			}
			key, _ := b.get(i, false)
			fn(key)
		}
		if at == scanEnd {
			return
		}
	}
}

// HottestFirst calls fn for the keys of slot, served or not, the most often
// read first, among equals the last written or promoted, until fn returns false.
// The order is that of the moment of the call; accesses by this iteration do not
// count. A key present throughout is given once; keys written after the call are
// not promised (the change feed has them). key and it.Value are borrowed until
// fn returns; fn runs without any lock. Memory: 24 bytes per key of the slot.
func (e *Engine) HottestFirst(slot uint16, fn func(key []byte, it Item) bool) {
	type heat struct {
		hash uint64
		heat uint64 // frequency, then birth of the segment
		l    loc
	}
	s, st := e.at(slot)
	slot &= Slots - 1
	s.mu.Lock()
	places := make([]heat, 0, st.keys.Load())
	s.unlock()
	for at := uint64(0); at != scanEnd; {
		s.mu.Lock()
		at, _ = s.step(slot, at, stepEntries, e.now(), func(l loc, r record, h uint64) {
			places = append(places, heat{h, uint64(r.freq())<<62 | s.segs[s.segOf(l)].born, l})
		})
		s.unlock()
	}
	slices.SortFunc(places, func(a, b heat) int {
		return cmp.Or(cmp.Compare(b.heat, a.heat), cmp.Compare(b.l, a.l))
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
			s.from(slot, h>>32, func(_ loc, r record, is uint64) {
				if is == h && !expired(s.deadline(r), now) {
					s.copyTo(b, r, now, true)
				}
			})
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
// holds and works in holds of a few entries: other requests run in between, and of
// what is written to the slot meanwhile some may be removed too.
func (e *Engine) DropSlot(slot uint16) int {
	s, st := e.at(slot)
	slot &= Slots - 1
	dropped := 0
	var some []found
	for at := uint64(0); at != scanEnd; {
		some = some[:0]
		s.mu.Lock()
		s.closeWindow(e.place(slot))
		now := e.now()
		for homes := 0; homes < holdHomes && len(some) < holdRecords && at != scanEnd; homes++ {
			at, _ = s.fromHome(slot, at, func(l loc, _ record, h uint64) { some = append(some, found{l, h}) })
		}
		for _, f := range some {
			if expired(s.deadline(e.arena.record(f.l)), now) {
				s.remove(st, slot, f.h, f.l, byExpiry)
				continue
			}
			s.remove(st, slot, f.h, f.l, byInvalidation)
			dropped++
		}
		if st.keys.Load() == 0 {
			at = scanEnd
		}
		s.unlock()
		s.mu.letIn()
	}
	return dropped
}

// minTime is before every deadline: nothing is expired then.
const minTime = -1 << 63

// Flushes counts the calls of Flush, those under way included.
func (e *Engine) Flushes() uint64 { return e.flushes.Load() }

// RandomKey appends a random live key of the served slots to dst. All keys are
// about equally likely: the shard is chosen by its number of keys, the slot in
// it too, and the key among randomSpread neighbours of a random hash. false
// means that there is no such key.
func (e *Engine) RandomKey(dst []byte) ([]byte, bool) {
	var total int64
	for i := range e.shards {
		total += e.shards[i].count()
	}
	for try := 0; try < randomTries && total > 0; try++ {
		at := int64(e.pick(int(total)))
		for i := range e.shards {
			s := &e.shards[i]
			s.mu.Lock()
			n := s.keys.Load()
			if at >= n {
				at -= n
				s.unlock()
				continue
			}
			l := s.random(at, e.now())
			if l != 0 {
				dst = append(dst, s.key(e.arena.record(l))...)
			}
			s.unlock()
			if l != 0 {
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

// random returns a random entry of the slot that holds the nth entry of the
// shard, 0 if the slot is not served or the entry chosen is expired.
func (s *shard) random(nth, now int64) loc {
	for i := range s.slots {
		st := &s.slots[i]
		n := st.keys.Load()
		if nth >= n {
			nth -= n
			continue
		}
		if !s.served(i) {
			return 0
		}
		var near []loc
		at := s.rand.next() >> (64 - positionBits)
		if n <= randomSpread {
			at = 0
		}
		for len(near) < int(min(n, randomSpread)) {
			at, _ = s.step(s.slotNumber(i), at, randomSpread-len(near), minTime, func(l loc, _ record, _ uint64) { near = append(near, l) })
			at %= scanEnd
		}
		l := near[s.rand.below(len(near))]
		if expired(s.deadline(s.e.arena.record(l)), now) {
			return 0
		}
		return l
	}
	return 0
}
