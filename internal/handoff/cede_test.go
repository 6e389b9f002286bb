package handoff

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var slot0 = []Range{{0, 0}}

// giver is node 0 with content in slot 0, which it serves; its targets then name
// node 1 the owner.
func giver(t *testing.T) (*Barrier, *bitSlots) {
	t.Helper()
	s := &bitSlots{on: make([]bool, 1)}
	b := newModelBarrier(0, s)
	b.Adopt(targets([]int{0}, []int{0}))
	s.cell(0).write(7)
	b.Adopt(targets([]int{0, 1}, []int{1}))
	if !s.on[0] {
		t.Fatal("the slot is not served")
	}
	return b, s
}

func askOf(ask uint64) Request {
	return Request{From: nodeID(1), Ranges: slot0, Last: true, Boot: 1, Ask: ask, Pull: slot0}
}

// TestCedes: content is kept for the asker, by its Ask, and later agreements tell
// of it again.
func TestCedes(t *testing.T) {
	b, s := giver(t)
	q := askOf(5)
	q.Last = false
	if v := b.ReleaseFor(q); !v.Ready || s.cell(0).ceded {
		t.Fatalf("%+v", v)
	}
	for _, ask := range []uint64{5, 6} { // the answer to the first was lost
		v := b.ReleaseFor(askOf(ask))
		if !v.Agreed || fmt.Sprint(v.Offers) != "[{5 [{0 0}]}]" || v.OfferedKeys != 1 {
			t.Fatalf("%+v", v)
		}
	}
	if c := s.cell(0); !c.ceded || c.to != (Cession{Peer{nodeID(1), 1}, 5}) || c.value != 7 || b.Ceded() != 1 {
		t.Fatalf("%+v", *c)
	}
}

// TestNothingToCede: nothing is kept for who does not take, nor of an empty slot.
func TestNothingToCede(t *testing.T) {
	for name, change := range map[string]func(q *Request, s *bitSlots){
		"it takes nothing":     func(q *Request, _ *bitSlots) { q.Boot = 0 },
		"it wants other slots": func(q *Request, _ *bitSlots) { q.Pull = nil },
		"it is empty":          func(_ *Request, s *bitSlots) { s.cell(0).value = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			b, s := giver(t)
			q := askOf(5)
			change(&q, s)
			if v := b.ReleaseFor(q); !v.Agreed || len(v.Offers) > 0 || s.cell(0).value != 0 || b.Ceded() != 0 {
				t.Fatalf("%+v, %+v", v, *s.cell(0))
			}
		})
	}
}

// TestCessionEnds: ceded content is dropped as soon as somebody else may have
// served the slot, or nobody will take it.
func TestCessionEnds(t *testing.T) {
	for name, event := range map[string]func(b *Barrier){
		"the owner is another": func(b *Barrier) { b.Adopt(targets([]int{0, 1, 2}, []int{2})) },
		"the owner is another process": func(b *Barrier) {
			b.Adopt(targetsWith([]uint64{1, 2}, []int{0, 1}, []int{1}))
		},
		"the owner is gone":       func(b *Barrier) { b.Adopt(targets([]int{0, 2}, []int{2})) },
		"it owns the slot itself": func(b *Barrier) { b.Adopt(targets([]int{0, 1}, []int{0})) },
		"it is alone":             func(b *Barrier) { b.Adopt(targets([]int{0}, []int{0})) },
		"another process of the owner asks": func(b *Barrier) {
			q := askOf(6)
			q.Boot = 2
			b.ReleaseFor(q)
		},
		"the owner serves it by now": func(b *Barrier) {
			q := askOf(6)
			q.Pull = nil
			b.ReleaseFor(q)
		},
		"it is taken":      func(b *Barrier) { b.Taken(Peer{nodeID(1), 1}, slot0) },
		"time is over":     func(b *Barrier) { b.Expire(time.Time{}.Add(cededFor)) },
		"it retires":       func(b *Barrier) { b.Retire() },
		"it drops them":    func(b *Barrier) { b.DropCeded() },
		"nothing happened": func(b *Barrier) { b.Expire(time.Time{}); b.Taken(Peer{nodeID(1), 2}, slot0) },
	} {
		t.Run(name, func(t *testing.T) {
			b, s := giver(t)
			b.ReleaseFor(askOf(5))
			event(b)
			if kept := b.Ceded() == 1 && s.cell(0).value == 7; kept != (name == "nothing happened") {
				t.Fatalf("kept: %v, %+v", kept, *s.cell(0))
			}
		})
	}
}

// taker is node 1, which gains slot 0 from one of the others.
func taker(t *testing.T, others ...int) (b *Barrier, s *bitSlots, asks []Ask) {
	t.Helper()
	s = &bitSlots{on: make([]bool, 1)}
	b = newModelBarrier(1, s)
	asks = b.Adopt(targets(append([]int{1}, others...), []int{1}))
	if len(asks) != len(others) {
		t.Fatalf("%d asks", len(asks))
	}
	return b, s, asks
}

// TestReminderKeepsTheWindow: asking a member for everything anew, because it still serves
// other slots, does not tell it that what is being taken over is not wanted.
func TestReminderKeepsTheWindow(t *testing.T) {
	b, s, asks := taker(t, 0)
	b.Offered(asks[0], []Offer{{asks[0].ID, slot0}})
	b.Agreed(asks[0], slot0)
	v := b.ReleaseFor(Request{From: nodeID(0), Boot: 1})
	if len(v.Asks) != 1 || !slices.Equal(v.Asks[0].Pull, slot0) {
		t.Fatalf("it asks %+v, want it to take slot 0", v.Asks)
	}
	giver, content := giver(t)
	giver.ReleaseFor(askOf(5))
	q := askOf(6)
	q.Pull = v.Asks[0].Pull
	if giver.ReleaseFor(q); giver.Ceded() != 1 || content.cell(0).value != 7 {
		t.Error("the content is gone")
	}
	b.Agreed(v.Asks[0], nil)
	s.CloseWindow(0)
	if v := b.ReleaseFor(Request{From: nodeID(0), Boot: 1}); len(v.Asks) != 1 || len(v.Asks[0].Pull) > 0 {
		t.Errorf("it asks for what is over: %+v", v.Asks)
	}
}

// TestOwnContentGoesWhereAnotherServed: who meets a member that served its slot too, or may
// take what that one kept, drops what it has of it: the other side may have newer writes.
func TestOwnContentGoesWhereAnotherServed(t *testing.T) {
	for name, event := range map[string]func(b *Barrier, a Ask){
		"it served until now": func(b *Barrier, a Ask) { b.Agreed(a, slot0) },
		"it kept the content, and the answer that said so was lost": func(b *Barrier, a Ask) {
			b.Offered(a, []Offer{{a.ID, slot0}})
		},
		"it did not serve": func(b *Barrier, a Ask) { b.Agreed(a, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			b, s, asks := taker(t, 0, 2)
			s.cell(0).value = 3
			event(b, asks[0])
			if kept := s.cell(0).value == 3; kept != (name == "it did not serve") {
				t.Errorf("kept: %v", kept)
			}
		})
	}
	t.Run("it comes while this one serves", func(t *testing.T) {
		b, s, _ := taker(t)
		s.cell(0).value = 3
		if !s.on[0] {
			t.Fatal("it does not serve")
		}
		asks := b.Adopt(targets([]int{0, 1}, []int{1}))
		if len(asks) != 1 {
			t.Fatalf("%d asks", len(asks))
		}
		if b.Agreed(asks[0], slot0); s.cell(0).value != 0 {
			t.Error("what it had before is still there")
		}
	})
}

// TestOpensWithWindow: what was offered may be taken once the slot is open.
func TestOpensWithWindow(t *testing.T) {
	b, s, asks := taker(t, 0, 2)
	b.Offered(asks[0], []Offer{{asks[0].ID, slot0}})
	b.Agreed(asks[0], slot0)
	if s.cell(0).open || s.on[0] {
		t.Fatal("it opened before everybody agreed")
	}
	b.Agreed(asks[1], nil)
	if c := s.cell(0); !s.on[0] || !c.open || c.from != (Cession{Peer{nodeID(0), 1}, asks[0].ID}) {
		t.Fatalf("%v, %+v", s.on, *c)
	}
}

// TestTwoWhoServed: two members served the slot until they agreed. They did not
// know of each other, and nothing is taken from either, in whatever order they say so.
func TestTwoWhoServed(t *testing.T) {
	for _, second := range [][]Offer{nil, {{9, slot0}}} {
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			b, s, asks := taker(t, 0, 2)
			offers := [][]Offer{{{asks[0].ID, slot0}}, second}
			for _, i := range order {
				b.Offered(asks[i], offers[i])
				b.Agreed(asks[i], slot0)
			}
			if c := s.cell(0); !s.on[0] || c.open {
				t.Fatalf("offers %v in order %v: %v, %+v", offers, order, s.on, *c)
			}
		}
	}
}

// TestOldOffer: the cession is from before this node last served the slot, so what
// was ceded is older than what was served here.
func TestOldOffer(t *testing.T) {
	b, s, asks := taker(t, 0)
	old := asks[0]
	b.Offered(old, []Offer{{old.ID, slot0}})
	b.Agreed(old, slot0)
	s.cell(0).write(3)
	// It goes to node 2, which never opens it, and comes back. Node 0 has seen
	// nothing of that.
	b.Adopt(targets([]int{0, 1, 2}, []int{2}))
	b.ReleaseFor(Request{From: nodeID(2), Ranges: slot0, Last: true, Boot: 1, Ask: 1, Pull: slot0})
	if s.on[0] || s.cell(0).open {
		t.Fatalf("%v, %+v", s.on, *s.cell(0))
	}
	asks = b.Adopt(targets([]int{0, 1}, []int{1}))
	b.Offered(asks[0], []Offer{{old.ID, slot0}})
	b.Agreed(asks[0], nil)
	if c := s.cell(0); !s.on[0] || c.open {
		t.Fatalf("%v, %+v", s.on, *c)
	}
}
