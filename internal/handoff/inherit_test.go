package handoff

import "testing"

// holder is a barrier whose slots have content, told by who was dropped.
type holder struct {
	bitSlots
	content []bool
}

func (h *holder) DropSlot(slot uint16) int { h.content[slot] = false; return 1 }

// returned is node 0, back with content of all three slots from boot 1, whose
// witnesses are nodes 1 and 2. All of the slots are its own.
func returned(t *testing.T) (*Barrier, *holder, []Ask) {
	t.Helper()
	h := &holder{bitSlots: bitSlots{on: make([]bool, 3)}, content: []bool{true, true, true}}
	b := NewBarrier(nodeID(0), h)
	in := Inheritance{Boot: 1, Witnesses: []Peer{{nodeID(1), 1}, {nodeID(2), 1}}}
	for s := range uint16(3) {
		in.Slots.Add(s)
	}
	b.Inherit(in)
	asks := b.Adopt(targets([]int{0, 1, 2}, []int{0, 0, 0}))
	if len(asks) != 2 || asks[0].Return != 1 || waitingFor(b) != 3 {
		t.Fatalf("asks %+v", asks)
	}
	return b, h, asks
}

func waitingFor(b *Barrier) int {
	n, _, _ := b.Inherited()
	return n
}

func wantContent(t *testing.T, h *holder, want ...bool) {
	t.Helper()
	for s := range want {
		if h.content[s] != want[s] || !h.on[s] {
			t.Fatalf("content %v, serving %v, want %v", h.content, h.on, want)
		}
	}
}

func TestInheritNeedsEveryWitness(t *testing.T) {
	b, h, asks := returned(t)
	b.Confirmed(asks[0], []Range{{0, 1}})
	b.Agreed(asks[0], nil)
	b.Confirmed(asks[1], []Range{{1, 2}})
	if !b.Agreed(asks[1], nil) {
		t.Fatal("nothing was opened")
	}
	wantContent(t, h, false, true, false)
}

// An agreement that is given anew takes the place of the earlier proof.
func TestInheritRenewed(t *testing.T) {
	b, h, asks := returned(t)
	b.Confirmed(asks[0], []Range{{0, 2}})
	b.Agreed(asks[0], nil)
	if _, ok := b.Renew(asks[0]); !ok {
		t.Fatal("not renewed")
	}
	b.Confirmed(asks[0], nil)
	b.Agreed(asks[0], nil)
	b.Confirmed(asks[1], []Range{{0, 2}})
	b.Agreed(asks[1], nil)
	wantContent(t, h, false, false, false)
}

// A proof for earlier targets counts for nothing.
func TestInheritStaleProof(t *testing.T) {
	b, h, old := returned(t)
	b.Confirmed(old[0], []Range{{0, 2}})
	asks := b.Adopt(targets([]int{0, 1, 2}, []int{0, 0, 1}))
	b.Confirmed(old[0], []Range{{0, 2}})
	b.Agreed(old[0], nil)
	b.Agreed(asks[0], nil)
	b.Confirmed(asks[1], []Range{{0, 2}})
	b.Agreed(asks[1], nil)
	if h.content[0] || h.content[1] || h.content[2] || !h.on[0] || h.on[2] {
		t.Errorf("content %v, serving %v", h.content, h.on)
	}
}

// Slots that are another's now lose their content when the first is opened.
func TestInheritOwnSlotsOnly(t *testing.T) {
	b, h, _ := returned(t)
	asks := b.Adopt(targets([]int{0, 1, 2}, []int{0, 0, 1}))
	for _, a := range asks {
		b.Confirmed(a, []Range{{0, 2}})
		b.Agreed(a, nil)
	}
	if !h.content[0] || !h.content[1] || h.content[2] {
		t.Errorf("content %v", h.content)
	}
}

func TestInheritWitnessGone(t *testing.T) {
	b, h, _ := returned(t)
	asks := b.Adopt(targets([]int{0, 1}, []int{0, 0, 0}))
	b.Confirmed(asks[0], []Range{{0, 2}})
	b.Agreed(asks[0], nil)
	wantContent(t, h, false, false, false)
}

func TestInheritRetire(t *testing.T) {
	b, h, _ := returned(t)
	b.Retire()
	if h.content[0] || waitingFor(b) != 0 {
		t.Errorf("content %v", h.content)
	}
}

// booted is targets with another boot of node 0.
func booted(boot uint64, members, owner []int) *Targets {
	t := targets(members, owner)
	t.Hash += boot << 32
	for i := range t.Members {
		if t.Members[i].ID == nodeID(0) {
			t.Members[i].Boot = boot
		}
	}
	return t
}

func TestTestify(t *testing.T) {
	all := []Range{{0, 2}}
	mine := []int{0, 0, 1}
	for _, tc := range []struct {
		name  string
		views []*Targets
		boot  uint64
		want  string
	}{
		{"never away", []*Targets{booted(5, []int{0, 1}, mine)}, 5, "0-1"},
		{"a new process", []*Targets{booted(5, []int{0, 1}, mine), booted(6, []int{0, 1}, mine)}, 5, "0-1"},
		{"an unknown process", []*Targets{booted(6, []int{0, 1}, mine)}, 5, ""},
		{"two processes since", []*Targets{booted(5, []int{0, 1}, mine), booted(6, []int{0, 1}, mine), booted(7, []int{0, 1}, mine)}, 5, ""},
		{"away between", []*Targets{booted(5, []int{0, 1}, mine), booted(0, []int{1}, []int{1, 1, 1}), booted(6, []int{0, 1}, mine)}, 5, ""},
		{"one slot elsewhere between", []*Targets{booted(5, []int{0, 1}, mine), booted(5, []int{0, 1}, []int{1, 0, 1}), booted(6, []int{0, 1}, mine)}, 5, "1"},
		{"one slot elsewhere after it ended", []*Targets{booted(5, []int{0, 1}, mine), booted(6, []int{0, 1}, []int{1, 0, 1}), booted(6, []int{0, 1}, mine)}, 5, "1"},
		{"gained since", []*Targets{booted(5, []int{0, 1}, mine), booted(6, []int{0, 1}, []int{0, 0, 0})}, 5, "0-1"},
		{"no process named", []*Targets{booted(5, []int{0, 1}, mine)}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := NewBarrier(nodeID(1), &bitSlots{on: make([]bool, 3)})
			for _, v := range tc.views {
				b.Adopt(v)
			}
			if got := FormatRanges(b.testify(nodeID(0), tc.boot, all)); got != tc.want {
				t.Errorf("testifies %q, want %q", got, tc.want)
			}
		})
	}
}

// What was released to a process itself, before it served, is good for the next.
func TestTestifyAfterHandover(t *testing.T) {
	b := NewBarrier(nodeID(1), &bitSlots{on: make([]bool, 3)})
	b.Adopt(targets([]int{1}, []int{1, 1, 1}))
	b.Adopt(booted(5, []int{0, 1}, []int{0, 0, 1}))
	if v := b.ReleaseTo(nodeID(0), 0, []Range{{0, 1}}, true); !v.Agreed || len(v.Served) == 0 {
		t.Fatalf("%+v", v)
	}
	b.Adopt(booted(6, []int{0, 1}, []int{0, 0, 1}))
	if v := b.ReleaseTo(nodeID(0), 5, []Range{{0, 1}}, true); FormatRanges(v.Kept) != "0-1" {
		t.Errorf("%+v", v)
	}
}

// A member that still served a slot, from the time of a split, says so for ever:
// also when its first answer is lost.
func TestTestifyAfterServing(t *testing.T) {
	b := NewBarrier(nodeID(1), &bitSlots{on: make([]bool, 3)})
	b.Adopt(targets([]int{1}, []int{1, 1, 1}))
	b.Adopt(booted(5, []int{0, 1}, []int{0, 0, 1})) // they meet again; the bits are still on
	b.Adopt(booted(6, []int{0, 1}, []int{0, 0, 1}))
	for range 2 {
		if v := b.ReleaseTo(nodeID(0), 5, []Range{{0, 1}}, true); !v.Agreed || len(v.Kept) > 0 {
			t.Fatalf("%+v", v)
		}
	}
}
