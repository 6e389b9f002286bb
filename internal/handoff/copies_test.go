package handoff

import (
	"strings"
	"testing"
	"time"
)

// copySlots is an engine with as much of content as matters here.
type copySlots struct {
	bitSlots
	spare   []bool
	content []int // 0: none
}

func (s *copySlots) SetServing(slot uint16, on bool) {
	s.on[slot] = on
	if on {
		s.spare[slot] = false
	}
}
func (s *copySlots) SetSpare(slot uint16, on bool) { s.spare[slot] = on && !s.on[slot] }
func (s *copySlots) Keys(slot uint16) int64        { return int64(s.content[slot]) }
func (s *copySlots) DropSlot(slot uint16) int {
	s.content[slot] = 0
	return s.bitSlots.DropSlot(slot)
}

func newCopySlots(n int) *copySlots {
	return &copySlots{bitSlots: bitSlots{on: make([]bool, n)}, spare: make([]bool, n), content: make([]int, n)}
}

// copied is a node 0 with a copy of slot 0, which node 1 serves.
func copied(t *testing.T) (*Barrier, *copySlots, *time.Time) {
	t.Helper()
	now := time.Unix(1, 0)
	s := newCopySlots(1)
	b := NewBarrier(nodeID(0), s)
	b.now = func() time.Time { return now }
	b.Adopt(targets([]int{0, 1, 2}, []int{1}))
	if why := b.AcceptCopies(Peer{nodeID(1), 1}, 0, false); why != "" {
		t.Fatal(why)
	}
	s.content[0] = 7
	return b, s, &now
}

// release asks a node for slot 0 in the name of a process.
func release(b *Barrier, asker Peer, last bool) Verdict {
	return b.ReleaseFor(Request{From: asker.ID, Process: asker.Boot, Ranges: []Range{{0, 0}}, Last: last})
}

// agreeAll gives node 0 the agreement of everybody that it asks.
func agreeAll(b *Barrier, served []Range) {
	for _, p := range b.pending {
		b.Agreed(p.Ask, served)
	}
}

func TestCopiesBecomeContent(t *testing.T) {
	all := []Range{{0, 0}}
	for _, tc := range []struct {
		name string
		do   func(b *Barrier, now *time.Time)
		keep bool
	}{
		{"the owner dies", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0, 2}, []int{0}))
			agreeAll(b, nil)
		}, true},
		{"everybody else dies", func(b *Barrier, _ *time.Time) { b.Adopt(targets([]int{0}, []int{0})) }, true},
		{"the owner gives the slot up and lives", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{0}))
			agreeAll(b, nil)
		}, false},
		{"the owner gives the slot up and dies before it is opened", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{0}))
			for _, p := range b.pending {
				if p.To == nodeID(1) {
					b.Agreed(p.Ask, all)
				}
			}
			b.Adopt(targets([]int{0, 2}, []int{0}))
			agreeAll(b, nil)
		}, false},
		{"the owner gives the slot up, its answer is lost, and it is gone before it is opened", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{0}))
			for _, p := range b.pending {
				if p.To == nodeID(1) {
					b.Offered(p.Ask, []Offer{{p.Ask.ID, all}}) // of the question before
					b.Sealed(p.Ask, Sealed{})
					b.Agreed(p.Ask, nil)
				}
			}
			b.Adopt(targets([]int{0, 2}, []int{0}))
			agreeAll(b, nil)
		}, false},
		{"the owner dies while it is asked", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{0}))
			b.Adopt(targets([]int{0, 2}, []int{0}))
			agreeAll(b, nil)
		}, true},
		{"somebody else served it until now", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0, 2}, []int{0}))
			agreeAll(b, all)
		}, false},
		{"somebody else may have served it", func(b *Barrier, now *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{2}))
			release(b, Peer{nodeID(2), 1}, true)
			*now = now.Add(time.Hour)
			b.Adopt(targets([]int{0}, []int{0}))
		}, false},
		{"somebody else was promised it, with a preparing question", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{2}))
			release(b, Peer{nodeID(2), 1}, false)
			b.Adopt(targets([]int{0}, []int{0}))
		}, false},
		{"somebody else asked in vain", func(b *Barrier, _ *time.Time) {
			release(b, Peer{nodeID(2), 1}, true) // the targets name node 1
			b.Adopt(targets([]int{0, 2}, []int{0}))
			agreeAll(b, nil)
		}, true},
		{"the owner itself asked again", func(b *Barrier, _ *time.Time) {
			release(b, Peer{nodeID(1), 1}, true)
			b.Adopt(targets([]int{0}, []int{0}))
		}, true},
		{"the owner has restarted and asked", func(b *Barrier, _ *time.Time) {
			release(b, Peer{nodeID(1), 2}, true) // before the news of it
			b.Adopt(targets([]int{0}, []int{0}))
		}, false},
		{"who asked did not say which process it is", func(b *Barrier, _ *time.Time) {
			release(b, Peer{ID: nodeID(1)}, true)
			b.Adopt(targets([]int{0}, []int{0}))
		}, false},
		{"this node has left", func(b *Barrier, _ *time.Time) { b.Retire() }, false},
		{"the owner ended it", func(b *Barrier, _ *time.Time) {
			b.EndCopies(Peer{nodeID(1), 1}, 0)
			b.Adopt(targets([]int{0}, []int{0}))
		}, false},
		{"another process ended its own", func(b *Barrier, _ *time.Time) {
			b.EndCopies(Peer{nodeID(1), 2}, 0)
			b.Adopt(targets([]int{0}, []int{0}))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, s, now := copied(t)
			tc.do(b, now)
			if kept := s.content[0] == 7; kept != tc.keep {
				t.Errorf("kept: %v", kept)
			}
			if _, tagged := b.copies.Of(0); tagged || s.spare[0] {
				t.Errorf("the slot has still a copy, spare %v", s.spare[0])
			}
			if want := b2i(tc.keep); b.TakenOver() != want {
				t.Errorf("%d slots were taken over, want %d", b.TakenOver(), want)
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestAcceptCopies(t *testing.T) {
	owner := Peer{nodeID(1), 1}
	for _, tc := range []struct {
		name string
		do   func(b *Barrier, now *time.Time)
		from Peer
		why  string
	}{
		{"again, from nothing", func(*Barrier, *time.Time) {}, owner, ""},
		{"from somebody else", func(*Barrier, *time.Time) {}, Peer{nodeID(2), 1}, "another process owns"},
		{"from an earlier process", func(*Barrier, *time.Time) {}, Peer{nodeID(1), 0}, "another process owns"},
		{"of what is served here", func(b *Barrier, _ *time.Time) {
			b.Adopt(targets([]int{0}, []int{0}))
			b.Adopt(targets([]int{0, 1}, []int{1}))
		}, owner, "this node serves"},
		{"promised just now", func(b *Barrier, now *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{2}))
			release(b, Peer{nodeID(2), 1}, false)
			b.Adopt(targets([]int{0, 1, 2}, []int{1}))
			*now = now.Add(copyHold - time.Millisecond)
		}, owner, "may be about to serve"},
		{"promised some time ago", func(b *Barrier, now *time.Time) {
			b.Adopt(targets([]int{0, 1, 2}, []int{2}))
			release(b, Peer{nodeID(2), 1}, false)
			b.Adopt(targets([]int{0, 1, 2}, []int{1}))
			*now = now.Add(copyHold)
		}, owner, ""},
		{"promised to the owner itself", func(b *Barrier, _ *time.Time) { release(b, Peer{nodeID(1), 1}, true) }, owner, ""},
		{"inherited", func(b *Barrier, _ *time.Time) {
			in := Inheritance{Boot: 1}
			in.Slots.Add(0)
			b.Inherit(in)
		}, owner, "an earlier process"},
		{"retired", func(b *Barrier, _ *time.Time) { b.Retire() }, owner, "no place"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, s, now := copied(t)
			tc.do(b, now)
			why := b.AcceptCopies(tc.from, 0, false)
			if (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) {
				t.Fatalf("%q", why)
			}
			if of, ok := b.copies.Of(0); why == "" && (!ok || of != tc.from || !s.spare[0] || s.content[0] != 0) {
				t.Errorf("copies of %v, spare %v, content %d", of, s.spare[0], s.content[0])
			}
		})
	}
}
