package clustertest

import (
	"fmt"
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
// slots, and fails the test if two nodes serve one that are not excused.
type Watch struct {
	sim  *Sim
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	excused map[[2]string]bool
}

// NewWatch starts looking; Stop ends it.
func (s *Sim) NewWatch(tb testing.TB) *Watch {
	w := &Watch{sim: s, stop: make(chan struct{}), excused: map[[2]string]bool{}}
	nodes := append([]*SimNode(nil), s.Nodes...)
	w.done.Go(func() { w.run(tb, nodes) }) // ends with Stop
	return w
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

func (w *Watch) run(tb testing.TB, nodes []*SimNode) {
	slots := watched()
	t := time.NewTicker(500 * time.Microsecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.stop:
			return
		}
		for _, slot := range slots {
			if what := w.look(nodes, slot); what != "" {
				tb.Error(what)
				return
			}
		}
	}
}

func (w *Watch) look(nodes []*SimNode, slot uint16) string {
	var by []string
	for _, n := range nodes {
		if n.Node.Serving(slot) {
			by = append(by, n.Name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range by {
		for _, b := range by[i+1:] {
			if !w.excused[pair(a, b)] {
				return fmt.Sprintf("slot %d is served by %s and %s at once", slot, a, b)
			}
		}
	}
	return ""
}
