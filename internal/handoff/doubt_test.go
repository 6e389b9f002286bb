package handoff

import (
	"slices"
	"testing"
	"time"
)

// serving is node 0 with two of three slots, all with content; it also still serves
// the third for node 1.
func serving(t *testing.T) (*Barrier, *holder) {
	t.Helper()
	h := &holder{bitSlots: bitSlots{on: make([]bool, 3)}, content: []bool{true, true, true}}
	b := NewBarrier(nodeID(0), h)
	b.Adopt(targets([]int{0}, []int{0, 0, 0}))
	asks := b.Adopt(targets([]int{0, 1, 2}, []int{0, 0, 1}))
	for _, a := range asks {
		b.Agreed(a, nil)
	}
	if !h.on[0] || !h.on[2] || b.Lost() != 1 {
		t.Fatal(h.on, b.Lost())
	}
	return b, h
}

// Doubt gives up everything at once, and nothing is served again before every other
// member has agreed to a question that was asked after it.
func TestDoubtAsksEverybodyAnew(t *testing.T) {
	b, h := serving(t)
	old := b.Adopt(targets([]int{0, 1, 2}, []int{0, 0, 0})) // slot 2 comes back; nobody has agreed yet
	asks, served := b.Doubt(time.Second)
	if served != 3 || slices.Contains(h.on, true) || slices.Contains(h.content, true) {
		t.Fatalf("%d slots, serving %v, content %v", served, h.on, h.content)
	}
	if len(asks) != 2 || b.Gained() != 3 || b.Lost() != 0 {
		t.Fatalf("%d asks, %d gained, %d lost", len(asks), b.Gained(), b.Lost())
	}
	for _, a := range old { // answers from before
		if b.Agreed(a, nil) || slices.Contains(h.on, true) {
			t.Fatal("an agreement from before the doubt counts")
		}
	}
	for _, a := range asks {
		if len(a.Ranges) != 1 || a.Ranges[0] != (Range{0, 2}) {
			t.Errorf("%v is asked for %v, not for all that this node owns", a.To, a.Ranges)
		}
	}
	if b.Agreed(asks[0], nil) || slices.Contains(h.on, true) {
		t.Fatal("opened with one agreement of two")
	}
	if !b.Agreed(asks[1], nil) || slices.Contains(h.on, false) {
		t.Fatalf("not opened by all agreements: %v", h.on)
	}
}

func TestDoubtWithoutOthers(t *testing.T) {
	h := &holder{bitSlots: bitSlots{on: make([]bool, 3)}, content: []bool{true, true, true}}
	b := NewBarrier(nodeID(0), h)
	if asks, served := b.Doubt(time.Second); len(asks)+served != 0 {
		t.Error("doubts before the first targets")
	}
	b.Adopt(targets([]int{0}, []int{0, 0, 0}))
	if asks, served := b.Doubt(time.Second); len(asks) != 0 || served != 3 || slices.Contains(h.on, false) || slices.Contains(h.content, true) {
		t.Errorf("%d asks, %d served, %v, %v", len(asks), served, h.on, h.content)
	}
	b.Retire()
	if asks, served := b.Doubt(time.Second); len(asks)+served != 0 {
		t.Error("doubts after the end")
	}
}
