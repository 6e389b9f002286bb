package handoff

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of one receiver.
const (
	// queueMost and queueBytes bound the changes that wait for a receiver; a slot
	// with a change beyond them is sent anew.
	queueMost  = 64 << 10
	queueBytes = 8 << 20
	// copyKeys and copyBytes bound a Batch; a single value may be larger.
	copyKeys  = 512
	copyBytes = 256 << 10
	// opened is how many slots are begun at once.
	opened = 512
	// arenaBytes is how much room for keys is taken at a time.
	arenaBytes = 32 << 10
)

// slotCopy is what a receiver has of a slot.
type slotCopy uint8

const (
	copyNone    slotCopy = iota // it is not to have copies
	copySealed                  // it has taken the slot over, or is about to; see Seal
	copyWaits                   // copies are to be begun; changes do not matter yet
	copyOpening                 // the receiver is being asked; from here on changes are sent
	copyFills                   // what is there is being sent
	copyFull                    // everything is there
)

// target is the queue of one receiver.
type target struct {
	s      *Streams
	peer   Peer
	addr   atomic.Pointer[string]
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{} // capacity 1: there may be something to send

	// Of the goroutine that sends:
	stream, number uint64
	fill           fill
	pace           bucket // of what was read
	way            int64  // ms: the least that a Batch took of late to be answered, rounded up

	mu      sync.Mutex
	slots   [MaxSlots]slotCopy
	seconds Set      // of which somebody else has the first copies
	mirrors Set      // of which only keys that are read are copied
	reads   reads    // these keys
	wanted  int      // slots that are to have copies, but for mirrors
	full    int      // slots that are copyFull
	begin   []uint16 // slots that wait, in the order in which they are begun
	again   []uint16 // slots that were refused
	at      int64    // ms: when again becomes begin
	queue   []change
	bytes   int
	room    []byte   // for keys
	queued  uint64   // changes so far
	acked   uint64   // of these, those that the receiver has, or need not have
	flight  []change // taken from the queue for the Batch that is under way
	late    []change // their slots were not served any more
	oldest  int64    // ms: when the first that is under way was queued; 0: none
	since   int64    // ms: beginning of the stream

	sent, filled uint64
}

// change is a key that has changed, or what happened to a slot.
type change struct {
	kind byte // recordSet: look at the key
	slot uint16
	at   int64
	key  []byte
}

const changeCost = 48 // bytes of a change beside its key

func (t *target) end() { t.cancel() }

func (t *target) wakeUp() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// wants are the slots that a receiver is to have copies of.
type wants struct {
	slots   Set
	seconds Set // of which somebody else has the first copies
	mirrors Set // of which only what is read is copied
}

// want says which slots the receiver is to have.
func (t *target) want(w *wants) {
	t.mu.Lock()
	seconds, mirrors := t.seconds, t.mirrors
	for s := range t.slots {
		slot := uint16(s)
		kind := seconds.Has(slot) != w.seconds.Has(slot) || mirrors.Has(slot) != w.mirrors.Has(slot)
		switch has := t.slots[s] > copySealed; {
		case w.slots.Has(slot) && !has:
			t.set(slot, copyWaits)
			t.begin = append(t.begin, slot)
		case !w.slots.Has(slot) && has:
			t.set(slot, copyNone)
			t.enqueue(recordEnd, slot, nil, t.s.eng.Now())
		case has && kind && t.slots[s] >= copyOpening:
			t.anew(slot) // the receiver has to know what its copies are
		}
	}
	for _, c := range t.late {
		if t.slots[c.slot] >= copyOpening {
			t.anew(c.slot) // it is served again, and a change was not sent
		}
	}
	t.late = nil
	for s := range t.slots {
		t.wanted -= t.counts(uint16(s))
	}
	t.seconds, t.mirrors = w.seconds, w.mirrors
	for s := range t.slots {
		t.wanted += t.counts(uint16(s))
	}
	t.mu.Unlock()
	t.wakeUp()
}

// set changes the state of a slot. mu is held.
func (t *target) set(slot uint16, to slotCopy) {
	if to < copyFills {
		t.reads.forget(slot)
	}
	was := t.counts(slot)
	if t.slots[slot] == copyFull {
		t.full--
	}
	if t.slots[slot] = to; to == copyFull {
		t.full++
	}
	t.wanted += t.counts(slot) - was
}

// counts is 1 for a slot that is to have all copies. mu is held.
func (t *target) counts(slot uint16) int {
	if t.slots[slot] > copySealed && !t.mirrors.Has(slot) {
		return 1
	}
	return 0
}

// push queues a change of a slot that the receiver has.
func (t *target) push(kind byte, slot uint16, key []byte, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slots[slot] < copyOpening || kind == recordSet && t.mirrors.Has(slot) && !t.reads.has(slot, key) {
		return
	}
	if len(t.queue) >= queueMost || t.bytes+len(key)+changeCost > queueBytes {
		t.anew(slot)
		return
	}
	t.enqueue(kind, slot, key, now)
}

// enqueue runs under mu.
func (t *target) enqueue(kind byte, slot uint16, key []byte, now int64) {
	if len(t.room)+len(key) > cap(t.room) {
		t.room = make([]byte, 0, max(arenaBytes, len(key)))
	}
	n := len(t.room)
	t.room = append(t.room, key...)
	t.queue = append(t.queue, change{kind, slot, now, t.room[n:len(t.room):len(t.room)]})
	t.bytes += len(key) + changeCost
	t.queued++
}

// resync makes the copies of a slot begin anew.
func (t *target) resync(slot uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slots[slot] >= copyOpening {
		t.anew(slot)
	}
}

// anew runs under mu.
func (t *target) anew(slot uint16) {
	t.set(slot, copyWaits)
	t.begin = append(t.begin, slot)
	t.s.resyncs.Add(1)
}

// position is how many changes were queued.
func (t *target) position() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queued
}

// reached returns which slots are full, if all changes up to a goal are with the
// receiver.
func (t *target) reached(goal uint64) *[MaxSlots]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.acked < goal {
		return nil
	}
	full := new([MaxSlots]bool)
	for s := range t.slots {
		full[s] = t.slots[s] == copyFull
	}
	return full
}

func (t *target) figures() TargetFigures {
	now := t.s.eng.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	f := TargetFigures{Peer: t.peer, Addr: *t.addr.Load(), Slots: t.wanted, Full: t.full, Mirrors: t.mirrors.Len(), LagKeys: t.queued - t.acked, Sent: t.sent, Filled: t.filled}
	if t.oldest != 0 {
		f.LagMs = max(now-t.oldest, 0)
	} else if len(t.queue) > 0 {
		f.LagMs = max(now-t.queue[0].at, 0)
	}
	return f
}

// run sends what waits, a Batch at a time, until the receiver is not one any more.
func (t *target) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for beat := t.s.eng.Now() + beatEvery.Milliseconds(); t.ctx.Err() == nil; {
		left := time.Duration(beat-t.s.eng.Now()) * time.Millisecond
		if left <= 0 {
			t.deliver(t.beat())
			beat = t.s.eng.Now() + beatEvery.Milliseconds()
			continue
		}
		b, upTo, wait := t.build()
		if b != nil {
			t.deliver(b, upTo)
			continue
		}
		timer.Reset(min(wait, left))
		select {
		case <-t.kick:
		case <-timer.C:
		case <-t.ctx.Done():
		}
	}
}

// deliver sends a Batch until it is answered.
func (t *target) deliver(b *CopyBatch, upTo uint64) {
	for pause := resendMin; t.ctx.Err() == nil; pause = min(2*pause, resendMost) {
		b.Age = max(t.s.eng.Now()-b.Sent, 0)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.ctx, sendWait)
		answer, err := t.s.o.Send(ctx, t.peer, *t.addr.Load(), b)
		cancel()
		switch {
		case err == nil:
			t.took(time.Since(began))
			t.answered(b, upTo, answer)
			return
		case isGap(err):
			t.s.o.Logger.Debug("copies begin anew", "peer", t.peer.ID.String(), "batch", b.Number, "why", err)
			t.restart()
			if b.Number == 1 { // it knows a later process of this node, and nothing else will do
				t.rest(refusedWait)
			}
			return
		}
		t.s.o.Logger.Debug("copies wait for a receiver", "peer", t.peer.ID.String(), "batch", b.Number, "why", err)
		t.rest(pause)
	}
}

// rest waits, until the receiver is not one any more.
func (t *target) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// took notes how long a Batch took to be answered. The least of late counts; it
// follows a way that has become longer sooner than the receiver does (bestFor).
func (t *target) took(d time.Duration) {
	way := d.Milliseconds() + 1
	if t.way == 0 || way < t.way {
		t.way = way
	} else {
		t.way += (way - t.way + 7) / 8
	}
}

// answered takes the answer to a Batch.
func (t *target) answered(b *CopyBatch, upTo uint64, answer Taken) {
	now := t.s.eng.Now()
	t.mu.Lock()
	for _, r := range answer.Refused {
		for s := int(r.First); s <= int(r.Last) && s < MaxSlots; s++ {
			if t.slots[s] >= copyOpening {
				t.set(uint16(s), copyWaits)
				t.again = append(t.again, uint16(s))
				t.at = now + refusedWait.Milliseconds()
			}
		}
	}
	if answer.Differs {
		t.compare(answer.Held)
	}
	for h := b.Heads; len(h) > 0; h = h[headBytes:] {
		if slot := uint16(h[1])<<8 | uint16(h[2]); h[0] == recordReset && t.slots[slot] == copyOpening {
			if t.set(slot, copyFills); t.mirrors.Has(slot) {
				continue // what is read follows
			}
			t.fill.first = append(t.fill.first, slot)
		}
	}
	t.acked, t.oldest, t.flight = upTo, 0, t.flight[:0]
	t.filledUp()
	t.mu.Unlock()
	t.s.progress()
}

// filledUp notes that the receiver has all of some slots. mu is held.
func (t *target) filledUp() {
	for _, slot := range t.fill.done {
		if t.slots[slot] == copyFills {
			t.set(slot, copyFull)
		}
	}
	t.fill.done = nil
}

// compare brings in line what the receiver has with what it should have. mu is
// held.
func (t *target) compare(held []Range) {
	var has Set
	for _, r := range held {
		for s := int(r.First); s <= int(r.Last) && s < MaxSlots; s++ {
			has.Add(uint16(s))
		}
	}
	for s := range t.slots {
		switch is := has.Has(uint16(s)); {
		case !is && t.slots[s] >= copyFills:
			t.anew(uint16(s))
		case !is && t.slots[s] == copySealed:
			t.set(uint16(s), copyNone)
		case is && t.slots[s] == copyNone:
			t.enqueue(recordEnd, uint16(s), nil, t.s.eng.Now())
		}
	}
}

// restart begins a new stream: the receiver has lost what it had.
func (t *target) restart() {
	t.s.mu.Lock()
	t.s.last++
	t.stream, t.number = t.s.last, 0
	t.s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fill = fill{}
	t.queue, t.bytes, t.begin, t.again, t.flight, t.late = nil, 0, nil, nil, nil, nil
	t.acked, t.oldest = t.queued, 0
	for s := range t.slots {
		switch {
		case t.slots[s] > copySealed:
			t.anew(uint16(s))
		case t.slots[s] == copySealed:
			t.set(uint16(s), copyNone) // the receiver has lost that, too
		}
	}
}
