package handoff

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of what is taken unasked.
const (
	batchSlots = 256     // most slots of one call
	batchBytes = 1 << 20 // most bytes
	haveMost   = 1 << 16 // keys of a slot that the source is told of
	hotEach    = 16      // keys of every slot that come before all others
	batchMost  = 5 * time.Second
	retryMin   = 50 * time.Millisecond
	retryMax   = time.Second
	tellMost   = time.Second
	tellTries  = 3
)

// source is a process that some windows take from, and the goroutine that fetches
// what nobody asks for: first the hottest keys of every slot, then the rest.
// Transfer.mu guards it but for the atomics.
type source struct {
	t    *Transfer
	peer Peer
	wake chan struct{} // capacity 1: windows came or went, or the rate has changed

	windows map[uint16]*Window
	fresh   []*Window // nothing was fetched of them yet
	rest    []*Window
	done    Set // slots that the source need not keep any more and was not told of
	tries   int // to tell it

	id          uint64
	started     time.Time
	slots, over int // windows opened, and closed, since the source was met
	keys, bytes uint64
	left        map[uint16]int // what the source has said that it has
	speed       meter

	silent atomic.Int64 // since when requests have waited in vain, unix nanoseconds; 0: they have not
	until  atomic.Int64 // it is left alone until then
}

// sourceOf returns the source of that process; mu is held.
func (t *Transfer) sourceOf(p Peer) *source {
	s := t.sources[p]
	if s == nil {
		t.changes++
		s = &source{t: t, peer: p, wake: make(chan struct{}, 1), windows: map[uint16]*Window{}, left: map[uint16]int{},
			id: t.changes, started: time.Now()}
		t.sources[p] = s
		t.wg.Go(s.run) // ends when no window is left, or at Close
	}
	return s
}

// add takes a new window; mu is held.
func (s *source) add(w *Window) {
	w.src = s
	s.windows[w.slot] = w
	s.fresh = append(s.fresh, w)
	s.done.Remove(w.slot)
	s.slots++
	s.signal()
}

// remove forgets a window; mu is held.
func (s *source) remove(w *Window, tell bool) {
	if s.windows[w.slot] != w {
		return
	}
	delete(s.windows, w.slot)
	delete(s.left, w.slot)
	s.over++
	if tell {
		s.done.Add(w.slot)
		s.tries = 0
	}
	s.signal()
}

func (s *source) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// muted says that requests should not wait for the source at the moment.
func (s *source) muted() bool {
	return s.silent.Load() != 0 && time.Now().UnixNano() < s.until.Load()
}

// answered notes that the source is there.
func (s *source) answered() {
	if s.silent.Load() != 0 {
		s.silent.Store(0)
	}
}

// inVain notes that a request has waited for nothing.
func (s *source) inVain() {
	now := time.Now()
	if !s.silent.CompareAndSwap(0, now.Add(-pullWait).UnixNano()) && now.UnixNano()-s.silent.Load() >= int64(muteAfter) {
		s.until.Store(now.Add(muteFor).UnixNano())
	}
}

// run fetches until no window is left.
func (s *source) run() {
	p, wait := pace{}, time.Duration(0)
	retry := retryMin
	for {
		if wait > 0 && !s.sleep(wait, true) {
			return
		}
		wait = 0
		work, done, more := s.next(p.keys(s.t.rate.Load()))
		switch {
		case done != nil:
			s.tell(done)
		case !more:
			return
		case len(work) == 0:
			select {
			case <-s.wake:
			case <-s.t.ctx.Done():
				return
			}
		default:
			began := time.Now()
			keys, bytes, err := s.fetch(work, p.keys(s.t.rate.Load()))
			if err != nil {
				wait, retry = retry, min(2*retry, retryMax)
				continue
			}
			retry = retryMin
			wait = p.after(keys, bytes, time.Since(began), s.t.rate.Load(), s.t.bytes.Load())
		}
	}
}

// sleep waits, where light is true at most until the rate is changed; false: the
// Transfer is closed.
func (s *source) sleep(d time.Duration, light bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for changes := s.t.rateChanges.Load(); ; {
		select {
		case <-timer.C:
			return true
		case <-s.wake:
			if light && s.t.rateChanges.Load() != changes {
				s.signal() // something else may have happened too
				return true
			}
		case <-s.t.ctx.Done():
			return false
		}
	}
}

// next chooses what to do: windows to fetch for, or slots to tell the source of.
// more is false when there is nothing left for ever.
func (s *source) next(most int) (work []*Window, done []Range, more bool) {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.done.Len() > 0 {
		done = s.done.Ranges()
		s.done = Set{}
		return nil, done, true
	}
	if len(s.windows) == 0 {
		delete(t.sources, s.peer)
		return nil, nil, false
	}
	if t.paused.Load() {
		return nil, nil, true
	}
	queue := &s.fresh
	if len(*queue) == 0 {
		queue = &s.rest
	}
	for len(*queue) > 0 && len(work) < min(batchSlots, most) {
		w := (*queue)[0]
		*queue = (*queue)[1:]
		if s.windows[w.slot] == w {
			work = append(work, w)
		}
	}
	if len(work) == 0 && len(s.rest) > 0 { // the fresh ones are all closed
		s.signal()
	}
	return work, nil, true
}

// fetch takes one batch and adds it.
func (s *source) fetch(work []*Window, most int) (keys, bytes int, err error) {
	t := s.t
	for _, w := range work {
		if w.kept {
			w.kept = false
			s.have(w)
		}
	}
	q := Many{Keys: most, Bytes: int(min(batchBytes, t.bytes.Load())), Each: most}
	if s.isFresh(work[0]) {
		q.Each = hotEach
	}
	batch := make(chan struct{})
	for _, w := range work {
		q.Slots = append(q.Slots, Source{w.slot, w.from.Ask})
		w.mu.Lock()
		w.batch = batch
		w.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(t.ctx, batchMost)
	at := t.eng.Now() // what remains of a TTL counts from before the answer
	got, err := t.o.Caller.TakeMany(ctx, s.peer, q)
	cancel()
	var ended []*Window
	for i, b := range got {
		if i >= len(work) || b.Slot != work[i].slot {
			err = errors.Join(err, errors.New("an answer for another slot"))
			break
		}
		for _, e := range b.Entries {
			t.add(work[i], e, at)
			keys++
			bytes += len(e.Key) + len(e.Value)
		}
		if b.Refused || b.Left == 0 {
			ended = append(ended, work[i])
		}
	}
	for _, w := range work {
		w.mu.Lock()
		w.batch = nil
		w.mu.Unlock()
	}
	close(batch)
	t.figures.moved.Add(uint64(keys))
	t.figures.movedBytes.Add(uint64(bytes))
	for _, w := range ended {
		w.drain()
	}
	s.put(work, got, keys, bytes)
	return keys, bytes, err
}

// have tells the source which keys of a slot are here: they will never be taken,
// since what is here is touched when it goes. If the source does not hear of it, it
// hands them over in vain.
func (s *source) have(w *Window) {
	t := s.t
	for pos, n := uint64(0), 0; n < haveMost; {
		var keys [][]byte
		next, done := t.eng.SlotKeys(w.slot, pos, MaxTake/2, func(key []byte) {
			if len(keys) < MaxTake {
				keys = append(keys, append([]byte(nil), key...))
			}
		})
		if len(keys) > 0 {
			ctx, cancel := context.WithTimeout(t.ctx, tellMost)
			err := t.o.Caller.Have(ctx, s.peer, w.slot, w.from.Ask, keys)
			if cancel(); err != nil {
				return
			}
		}
		if n += len(keys); done {
			return
		}
		pos = next
	}
}

// isFresh says whether nothing was fetched for a window yet.
func (s *source) isFresh(w *Window) bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	_, known := s.left[w.slot]
	return !known
}

// put puts the windows back of which there may be more, those that were not
// reached at the front, and ends those that are too old.
func (s *source) put(work []*Window, got []Batch, keys, bytes int) {
	s.t.mu.Lock()
	var reached, missed, old []*Window
	for i, w := range work {
		switch {
		case s.windows[w.slot] != w:
		case time.Since(w.opened) > windowMost:
			old = append(old, w)
		case i < len(got):
			s.left[w.slot] = got[i].Left
			if !got[i].Refused && got[i].Left > 0 {
				reached = append(reached, w)
			}
		default:
			missed = append(missed, w)
		}
	}
	if len(missed) > 0 {
		if _, known := s.left[missed[0].slot]; known {
			s.rest = slices.Concat(missed, s.rest)
		} else {
			s.fresh = slices.Concat(missed, s.fresh)
		}
	}
	s.rest = append(s.rest, reached...)
	s.keys += uint64(keys)
	s.bytes += uint64(bytes)
	s.speed.add(keys, time.Now())
	s.t.mu.Unlock()
	for _, w := range old {
		s.t.end(w, true)
	}
}

// tell lets the source drop slots. It drops them by itself after some minutes.
func (s *source) tell(done []Range) {
	ctx, cancel := context.WithTimeout(s.t.ctx, tellMost)
	defer cancel()
	if err := s.t.o.Caller.Taken(ctx, s.peer, done); err == nil || !s.sleep(retryMin, false) {
		return
	}
	s.t.mu.Lock()
	if s.tries++; s.tries < tellTries {
		for _, r := range done {
			for slot := int(r.First); slot <= int(r.Last); slot++ {
				if s.windows[uint16(slot)] == nil {
					s.done.Add(uint16(slot))
				}
			}
		}
	}
	s.t.mu.Unlock()
}
