package clustertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// watched are the slots that a Watch looks at: both ends and a sample.
func watched() []uint16 {
	slots := []uint16{0, 16383}
	for s := uint16(97); s < 16383; s += 509 {
		slots = append(slots, s)
	}
	return slots
}

// Watch looks every half millisecond of virtual time at who serves the watched
// slots, and reports the first time that two nodes serve one and are not excused.
type Watch struct {
	stop   chan struct{}
	done   sync.WaitGroup
	report func(what string)

	mu      sync.Mutex
	nodes   []*SimNode
	excused map[[2]string]bool
}

// NewWatch starts looking at the nodes that are there; what it reports fails the
// test. Stop ends it.
func (s *Sim) NewWatch(tb testing.TB) *Watch { return s.watch(func(what string) { tb.Error(what) }) }

func (s *Sim) watch(report func(what string)) *Watch {
	w := &Watch{stop: make(chan struct{}), report: report, excused: map[[2]string]bool{}}
	for _, n := range s.Nodes {
		if !n.dead {
			w.nodes = append(w.nodes, n)
		}
	}
	w.done.Go(w.run) // ends with Stop
	return w
}

// Add looks at one more node from now on, Remove at one less.
func (w *Watch) Add(n *SimNode) {
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
}

// Remove: see Add.
func (w *Watch) Remove(n *SimNode) {
	w.mu.Lock()
	w.nodes = slices.DeleteFunc(w.nodes, func(o *SimNode) bool { return o == n })
	w.mu.Unlock()
}

// Excuse says whether two nodes may serve one slot: while one takes the other
// for dead nothing can be promised.
func (w *Watch) Excuse(a, b string, on bool) {
	w.mu.Lock()
	w.excused[pair(a, b)] = on
	w.mu.Unlock()
}

// Stop ends the watch.
func (w *Watch) Stop() {
	close(w.stop)
	w.done.Wait()
}

func (w *Watch) run() {
	slots := watched()
	t := time.NewTicker(500 * time.Microsecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.stop:
			return
		}
		if what := w.look(slots); what != "" {
			w.report(what)
			return
		}
	}
}

func (w *Watch) look(slots []uint16) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var by []string
	for _, slot := range slots {
		by = by[:0]
		for _, n := range w.nodes {
			if n.Node.Serving(slot) {
				by = append(by, n.Name)
			}
		}
		for i, a := range by {
			for _, b := range by[i+1:] {
				if !w.excused[pair(a, b)] {
					return fmt.Sprintf("slot %d is served by %s and %s at once", slot, a, b)
				}
			}
		}
	}
	return ""
}
