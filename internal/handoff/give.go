package handoff

import (
	"slices"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

const (
	// takeHold is up to how many keys are given under one hold of a shard.
	takeHold = 32
	// hotMost is up to how many keys a slot is given in the order of use by every
	// call; beyond it only what is asked for first, since each call sorts them all.
	hotMost = 1 << 14
)

// ceded returns whether a slot is kept for a process, by the number of its Ask.
// It is certain for whoever holds the slot: the cession ends before the content
// is dropped, and that before the slot is served again.
func (t *Transfer) ceded(slot uint16, c Cession) bool {
	tab := t.tables.Load()
	if tab == nil || int(slot) >= MaxSlots {
		return false
	}
	now := tab.ceded[slot].Load()
	return now != nil && *now == c
}

// Give hands keys of a ceded slot over: give is called for each, in order, under
// the hold of the slot and must copy the value; what it takes (true) is forgotten
// here. It returns false if the slot is not ceded to the process by that Ask;
// then give was called for none, or the cession has ended meanwhile.
func (t *Transfer) Give(slot uint16, c Cession, keys [][]byte, give func(i int, e Entry) bool) bool {
	for i := 0; i < len(keys); i += takeHold {
		if !t.giveSome(slot, c, i, keys[i:min(i+takeHold, len(keys))], give) {
			return false
		}
	}
	return true
}

func (t *Transfer) giveSome(slot uint16, c Cession, first int, keys [][]byte, give func(i int, e Entry) bool) bool {
	n, bytes := 0, 0
	tx := t.eng.LockAny(slot)
	defer func() {
		tx.Unlock()
		t.given(c.Peer, n, bytes)
	}()
	if !t.ceded(slot, c) || tx.Serving() {
		return false
	}
	for i, k := range keys {
		e := Entry{Key: k}
		it, found := tx.Peek(k)
		if found && it.Deadline != 0 {
			// Less one: both nodes cut their clocks to whole milliseconds, and no TTL
			// may grow on its way.
			e.TTL = it.Deadline - tx.Now() - 1
			found = e.TTL > 0 // 0 would be none at all
		}
		e.Found = found
		if found {
			e.Value = it.Value
		}
		if give(first+i, e) && found {
			n++
			bytes += len(k) + it.Size
			tx.Invalidate(k)
		}
	}
	return true
}

// Forget removes keys of a ceded slot that the process has. It returns false if the
// slot is not ceded to it by that Ask.
func (t *Transfer) Forget(slot uint16, c Cession, keys [][]byte) bool {
	for part := range slices.Chunk(keys, takeHold) {
		tx := t.eng.LockAny(slot)
		ok := t.ceded(slot, c) && !tx.Serving()
		for _, k := range part {
			if ok {
				tx.Invalidate(k)
			}
		}
		if tx.Unlock(); !ok {
			return false
		}
	}
	return true
}

// Many asks for the content of slots, in their order, the most often read keys of
// each first.
type Many struct {
	Slots []Source
	// Keys and Bytes bound the whole answer, Each the keys of every slot.
	Keys, Bytes, Each int
}

// Source is one slot of Many.
type Source struct {
	Slot uint16
	Ask  uint64
}

// Batch is what is given of one slot.
type Batch struct {
	Slot    uint16
	Refused bool // the slot is not ceded to who asks
	Left    int  // keys that are left, about; 0: certainly none
	Entries []Entry
}

// GiveMany hands over what fits into the answer. begin is called for each slot
// that is looked at, then give for its keys, as in Give, then end.
func (t *Transfer) GiveMany(by Peer, q Many, begin func(slot uint16), give func(e Entry), end func(b Batch)) {
	keys, bytes := q.Keys, q.Bytes
	for _, s := range q.Slots {
		if keys <= 0 || bytes <= 0 {
			return
		}
		begin(s.Slot)
		b := Batch{Slot: s.Slot}
		c := Cession{by, s.Ask}
		if b.Refused = !t.ceded(s.Slot, c); !b.Refused {
			chosen, all := t.choose(s.Slot, min(keys, q.Each), bytes, q.Each < q.Keys)
			b.Refused = !t.Give(s.Slot, c, chosen, func(_ int, e Entry) bool {
				if !e.Found || bytes <= 0 {
					all = all && bytes > 0
					return false
				}
				give(e)
				keys--
				bytes -= len(e.Key) + len(e.Value)
				return true
			})
			if !all {
				b.Left = max(1, int(t.Keys(s.Slot)))
			}
		}
		end(b)
	}
}

// choose returns copies of keys of a slot, those that are read most first, and
// whether that is all of them. A large slot is put in order only where hot says so:
// where a few keys of each slot are asked for.
func (t *Transfer) choose(slot uint16, most, bytes int, hot bool) (keys [][]byte, all bool) {
	all = true
	take := func(key []byte, size int) bool {
		if len(keys) >= most || bytes <= 0 {
			all = false
			return false
		}
		keys = append(keys, append([]byte(nil), key...))
		bytes -= len(key) + size
		return true
	}
	if !hot && t.Keys(slot) > hotMost {
		t.eng.KeysInSlot(slot, most+1, func(key []byte) { take(key, 0) })
		return keys, all
	}
	t.eng.HottestFirst(slot, func(key []byte, it engine.Item) bool { return take(key, it.Size) })
	return keys, all
}

// giving counts what is kept for, and given to, one process.
type giving struct {
	id          uint64
	slots, done int
	left        map[uint16]struct{}
	keys, bytes uint64
	had         uint64
	started     time.Time
}

// giving notes that a slot is ceded.
func (t *Transfer) giving(slot uint16, to Peer) {
	had := uint64(t.Keys(slot))
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.givings[to]
	if g == nil {
		t.changes++
		g = &giving{id: t.changes, started: time.Now(), left: map[uint16]struct{}{}}
		t.givings[to] = g
	}
	g.slots++
	g.had += had
	g.left[slot] = struct{}{}
}

// gave notes that a cession has ended.
func (t *Transfer) gave(to Peer, slot uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.givings[to]
	if g == nil {
		return
	}
	if _, ok := g.left[slot]; ok {
		delete(g.left, slot)
		g.done++
	}
	if len(g.left) == 0 {
		delete(t.givings, to)
	}
}

// given counts entries.
func (t *Transfer) given(to Peer, keys, bytes int) {
	if keys == 0 {
		return
	}
	t.figures.given.Add(uint64(keys))
	t.figures.givenBytes.Add(uint64(bytes))
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.givings[to]; g != nil {
		g.keys += uint64(keys)
		g.bytes += uint64(bytes)
	}
}
