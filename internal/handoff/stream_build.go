package handoff

import (
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

const (
	// copyMargin, in ms, is what rounding may add to a time to live: both nodes cut
	// their clocks to whole milliseconds, and the receiver compares two of them.
	copyMargin = 3
	// hotFirst is how many keys of every slot are sent before the rest of any.
	hotFirst = 256
	// restKeys is how many of the rest are looked up at a time.
	restKeys = 512
	// sortMost is up to how many keys of a slot are sorted for that.
	sortMost = 1 << 14
)

// fill is how far a receiver has what was there before the stream.
type fill struct {
	done  []uint16 // slots of which nothing more is to be sent
	first []uint16 // slots whose hottest keys come next
	rest  []uint16 // slots that have more

	slot uint16   // the one under way
	keys [][]byte // its next keys
	on   bool
	more bool   // there are others behind keys
	part bool   // these are of the rest
	pos  uint64 // where the rest goes on

	keysLeft, bytesLeft float64 // what may be sent now
	at                  int64   // ms: when that was brought up to date
}

// build makes the next Batch; upTo is the position that it brings the receiver to.
// Without anything to send it returns nil, and when to look again at the latest.
func (t *target) build() (b *CopyBatch, upTo uint64, wait time.Duration) {
	b = &CopyBatch{Sent: t.s.eng.Now()}
	t.mu.Lock()
	w := &writer{t: t, b: b, end: t.queued}
	t.mu.Unlock()
	t.changes(w)
	t.open(w)
	wait = t.mirror(w)
	if w.room() {
		wait = min(wait, t.fillUp(w))
	}
	t.mu.Lock()
	upTo = t.queued - uint64(len(t.queue))
	if b.Len() == 0 {
		w.skipped = w.skipped || len(t.fill.done) > 0
		t.acked, t.oldest, t.flight = upTo, 0, t.flight[:0]
		t.filledUp()
		if len(t.again) > 0 {
			wait = min(wait, time.Duration(max(t.at-t.s.eng.Now(), 1))*time.Millisecond)
		}
		t.mu.Unlock()
		if w.skipped {
			t.s.progress()
		}
		return nil, upTo, wait
	}
	t.sent += uint64(w.n)
	t.mu.Unlock()
	t.stamp(b)
	return b, upTo, 0
}

// beat makes a Batch without records.
func (t *target) beat() (*CopyBatch, uint64) {
	b := &CopyBatch{Sent: t.s.eng.Now()}
	t.mu.Lock()
	var held Set
	for s := range t.slots {
		if t.slots[s] >= copyFills || t.slots[s] == copySealed {
			held.Add(uint16(s))
		}
	}
	upTo := t.acked
	t.mu.Unlock()
	b.Count, b.Sum = held.Len(), held.sum()
	t.stamp(b)
	return b, upTo
}

func (t *target) stamp(b *CopyBatch) {
	t.number++
	b.Stream, b.Number = t.stream, t.number
}

// writer puts records into a Batch.
type writer struct {
	t       *target
	b       *CopyBatch
	n       int // keys
	bytes   int
	seen    map[string]struct{} // slot and key
	name    []byte
	end     uint64 // changes that are queued later come with the next one
	skipped bool
}

func (w *writer) room() bool { return w.n < copyKeys && w.bytes < copyBytes }

// key adds what a key is now. It tells whether the slot could be looked at.
func (w *writer) key(slot uint16, key []byte) bool {
	if w.seen == nil {
		w.seen = make(map[string]struct{}, copyKeys)
	}
	w.name = append(append(w.name[:0], byte(slot>>8), byte(slot)), key...)
	if _, dup := w.seen[string(w.name)]; dup {
		return true // its change was queued before it was looked at
	}
	tx, err := w.t.s.eng.Lock(slot)
	switch {
	case err != nil && !w.t.s.final.Load():
		return false
	case err != nil:
		tx = w.t.s.eng.LockAny(slot)
	}
	it, found := tx.Peek(key)
	var value []byte
	ttl := int64(0)
	if found {
		value = append([]byte(nil), it.Value...)
		if it.Deadline != 0 {
			// The receiver cannot know how long the quickest Batch was under way: no
			// longer than it took to be answered.
			ttl = it.Deadline - tx.Now() - copyMargin - w.t.way
			found = ttl > 0
		}
	}
	tx.Unlock()
	w.seen[string(w.name)] = struct{}{}
	w.n++
	w.bytes += len(key) + len(value) + changeCost
	if found {
		w.b.add(recordSet, slot, ttl, key, value)
	} else {
		w.b.add(recordDelete, slot, 0, key)
	}
	return true
}

// changes adds what waits in the queue.
func (t *target) changes(w *writer) {
	for w.room() {
		t.mu.Lock()
		if len(t.queue) == 0 || t.queued-uint64(len(t.queue)) >= w.end {
			if len(t.queue) == 0 {
				t.queue = nil // its memory goes with it
			}
			t.mu.Unlock()
			return
		}
		c := t.queue[0]
		t.queue = t.queue[1:]
		t.flight = append(t.flight, c) // before its value is read; see seal
		t.bytes -= len(c.key) + changeCost
		state := t.slots[c.slot]
		if t.oldest == 0 {
			t.oldest = c.at
		}
		t.mu.Unlock()
		w.skipped = true
		switch {
		case c.kind == recordEnd:
			if state == copyNone || state == copyWaits {
				w.b.add(recordEnd, c.slot, 0)
				w.n++
			}
		case state < copyFills: // it begins anew
		case c.kind == recordClear:
			w.b.add(recordClear, c.slot, 0)
			w.n++
			w.seen = nil // a key before it must be looked at again
		default:
			if !w.key(c.slot, c.key) {
				t.missed(c)
			}
		}
	}
}

// open begins slots that wait. Their content follows once the receiver has
// agreed: what is read then is newer than its consent.
func (t *target) open(w *writer) {
	now := t.s.eng.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.again) > 0 && now >= t.at {
		t.begin = append(t.begin, t.again...)
		t.again = nil
	}
	for n := 0; len(t.begin) > 0 && n < opened && w.b.Len() < MaxRecords; {
		slot := t.begin[0]
		t.begin = t.begin[1:]
		if t.slots[slot] != copyWaits {
			continue
		}
		t.set(slot, copyOpening)
		kind := int64(resetFirst)
		switch {
		case t.mirrors.Has(slot):
			kind = resetMirror
		case t.seconds.Has(slot):
			kind = resetSecond
		}
		w.b.add(recordReset, slot, kind)
		n++
	}
	if len(t.begin) == 0 {
		t.begin = nil
	}
}

// fillUp adds what is there, as far as the pace allows, and returns how long that
// has to wait if it was the pace that ended it.
func (t *target) fillUp(w *writer) time.Duration {
	f := &t.fill
	now := t.s.eng.Now()
	o := &t.s.o
	if f.at == 0 {
		f.at = now
		f.keysLeft, f.bytesLeft = copyKeys, copyBytes
	}
	passed := float64(max(now-f.at, 0)) / 1000
	f.at = now
	f.keysLeft = min(f.keysLeft+passed*float64(o.Rate), max(copyKeys, float64(o.Rate)/10))
	f.bytesLeft = min(f.bytesLeft+passed*float64(o.Bytes), max(copyBytes, float64(o.Bytes)/10))
	for w.room() {
		if len(f.keys) == 0 && !t.nextKeys() {
			return beatEvery
		}
		if f.keysLeft < 1 || f.bytesLeft < 1 {
			return 5 * time.Millisecond
		}
		key := f.keys[0]
		f.keys = f.keys[1:]
		t.mu.Lock()
		state := t.slots[f.slot]
		t.mu.Unlock()
		before := w.bytes
		if state != copyFills || !w.key(f.slot, key) {
			f.keys, f.on = nil, false // it begins anew, or is not served any more
			continue
		}
		f.keysLeft--
		f.bytesLeft -= float64(w.bytes - before)
		t.mu.Lock()
		t.filled++
		t.mu.Unlock()
	}
	return beatEvery
}

// nextKeys finds the next keys to send; false if there are none.
func (t *target) nextKeys() bool {
	f := &t.fill
	for {
		switch {
		case f.on && !f.part && !f.more, f.on && f.part && !f.more:
			f.done = append(f.done, f.slot)
			f.on = false
		case f.on && !f.part:
			f.rest = append(f.rest, f.slot)
			f.on = false
		case f.on:
			f.keys = f.keys[:0]
			next, done := t.s.eng.SlotKeys(f.slot, f.pos, restKeys, func(key []byte) { f.keys = append(f.keys, append([]byte(nil), key...)) })
			f.pos, f.more = next, !done
		case t.takeFirst():
			f.keys, f.more = t.hottest(f.slot)
			f.on, f.part = true, false
		case len(f.rest) > 0:
			f.slot, f.rest = f.rest[0], f.rest[1:]
			f.on, f.part, f.more, f.pos = true, true, true, 0
		default:
			return false
		}
		if len(f.keys) > 0 {
			return true
		}
	}
}

// takeFirst takes the next slot that was begun.
func (t *target) takeFirst() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.fill
	if len(f.first) == 0 {
		return false
	}
	f.slot, f.first = f.first[0], f.first[1:]
	return true
}

// hottest returns the keys of a slot that are read most; more says that it has
// others.
func (t *target) hottest(slot uint16) (keys [][]byte, more bool) {
	if n := t.s.eng.SlotStats(slot).Keys; n == 0 {
		return nil, false
	} else if n > sortMost {
		return nil, true // sorting them would take long
	}
	t.s.eng.HottestFirst(slot, func(key []byte, _ engine.Item) bool {
		if len(keys) == hotFirst {
			more = true
			return false
		}
		keys = append(keys, append([]byte(nil), key...))
		return true
	})
	return keys, more
}
