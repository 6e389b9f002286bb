package handoff

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

// Window is the time in which a slot that was opened may take keys from who
// served it before.
type Window struct {
	t      *Transfer
	slot   uint16
	gen    uint64 // of the engine's window: what comes later than its end is refused there
	from   Cession
	src    *source
	opened time.Time
	kept   bool // the slot had copies that were the latest: the source is to forget them

	mu      sync.Mutex
	flights map[string]*flight
	// batch is closed when the entries of a TakeMany that is under way have been
	// added: until then a key that the source does not have may be on its way.
	batch chan struct{}
	// drained: the source has nothing any more; the window ends with its last
	// flight.
	drained bool
}

// flight is a key under way. Requests for one key share it: the source forgets
// what it hands over, so a second call would be told that there is no such key.
type flight struct {
	key  []byte
	done chan struct{} // closed when the key was added or will not come
}

// join returns the flights of keys; those of them that are new, fresh, have to be
// sent.
func (w *Window) join(keys [][]byte) (all, fresh []*flight) {
	muted := w.src.muted()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range keys {
		f := w.flights[string(k)]
		if f == nil {
			if muted || w.drained || len(w.flights) >= maxFlights {
				continue
			}
			f = &flight{slices.Clone(k), make(chan struct{})}
			if w.flights == nil {
				w.flights = map[string]*flight{}
			}
			w.flights[string(k)] = f
			fresh = append(fresh, f)
		}
		all = append(all, f)
	}
	return all, fresh
}

// land ends flights.
func (w *Window) land(fs []*flight) {
	w.mu.Lock()
	for _, f := range fs {
		delete(w.flights, string(f.key))
		close(f.done)
	}
	over := w.drained && len(w.flights) == 0
	w.mu.Unlock()
	if over {
		w.t.end(w, true)
	}
}

// drain ends the window once nothing is under way.
func (w *Window) drain() {
	w.mu.Lock()
	w.drained = true
	over := len(w.flights) == 0
	w.mu.Unlock()
	if over {
		w.t.end(w, true)
	}
}

// Pull takes keys, which are borrowed, from the source of a window and waits for
// them, for pullWait at most. No hold may be held. What comes later is added all
// the same, if the key is still untouched then.
func (t *Transfer) Pull(w *Window, keys [][]byte) {
	all, fresh := w.join(keys)
	for part := range slices.Chunk(fresh, MaxTake) {
		// Ends with the answer, flightMost later, or at Close.
		if !t.spawn(func() { t.fetch(w, part) }) {
			w.land(part)
		}
	}
	if len(all) == 0 {
		return
	}
	t.figures.pulls.Add(1)
	timer := time.NewTimer(pullWait)
	defer timer.Stop()
	for _, f := range all {
		select {
		case <-f.done:
		case <-timer.C:
			t.figures.timeouts.Add(1)
			w.src.inVain()
			return
		}
	}
}

// fetch asks the source for keys and adds what it gives.
func (t *Transfer) fetch(w *Window, fs []*flight) {
	ctx, cancel := context.WithTimeout(t.ctx, flightMost)
	defer cancel()
	defer w.land(fs)
	var absent []*flight
	for rest := fs; len(rest) > 0; {
		keys := make([][]byte, len(rest))
		for i, f := range rest {
			keys[i] = f.key
		}
		at := t.eng.Now() // what remains of a TTL counts from before the answer
		got, err := t.o.Caller.Take(ctx, w.from.Peer, w.slot, w.from.Ask, keys)
		if errors.Is(err, ErrNotCeded) {
			if w.awaitBatch(ctx) {
				w.drain()
			}
			return
		}
		if err != nil || len(got) != len(rest) {
			t.figures.failures.Add(1)
			return
		}
		w.src.answered()
		var later []*flight
		for i, e := range got {
			switch {
			case e.Later:
				later = append(later, rest[i])
			case !e.Found:
				absent = append(absent, rest[i])
			default:
				e.Key = keys[i]
				if t.add(w, e, at) == engine.Added {
					t.figures.pulled.Add(1)
				}
			}
		}
		if len(later) == len(rest) {
			return // no answer makes progress
		}
		rest = later
	}
	t.figures.misses.Add(uint64(len(absent)))
	if len(absent) > 0 && w.awaitBatch(ctx) {
		w.mark(absent)
	}
}

// awaitBatch waits until nothing that the source has handed over before is still
// to be added; false if that takes too long.
func (w *Window) awaitBatch(ctx context.Context) bool {
	w.mu.Lock()
	batch := w.batch
	w.mu.Unlock()
	if batch == nil {
		return true
	}
	select {
	case <-batch:
		return true
	case <-ctx.Done():
		return false
	}
}

// mark notes that the source does not have keys: they are not asked for again.
func (w *Window) mark(fs []*flight) {
	tx := w.t.eng.LockAny(w.slot)
	defer tx.Unlock()
	if tx.Window() == w.gen {
		for _, f := range fs {
			tx.MarkTouched(f.key)
		}
	}
}

// add stores what was handed over, unless the key has been touched here or the
// window is another one by now. at is a time before the source answered: so a TTL
// never grows by the move.
func (t *Transfer) add(w *Window, e Entry, at int64) engine.AddResult {
	deadline := int64(0)
	if e.TTL != 0 {
		deadline = at + e.TTL
	}
	r, err := t.eng.AddToWindow(w.slot, w.gen, e.Key, e.Value, deadline)
	switch {
	case err != nil: // too large for this node, or no room under noeviction: it is lost
		t.figures.refused.Add(1)
		return engine.Touched
	case r == engine.WindowFull || r == engine.WindowClosed:
		t.end(w, true)
	}
	return r
}
