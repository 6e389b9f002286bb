package handoff

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockedSlots are serving bits that several goroutines read.
type lockedSlots struct {
	mu sync.Mutex
	bitSlots
}

func (s *lockedSlots) Serving(slot uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bitSlots.Serving(slot)
}

func (s *lockedSlots) SetServing(slot uint16, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bitSlots.SetServing(slot, on)
}

func (s *lockedSlots) DropSlot(slot uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bitSlots.DropSlot(slot)
}

// group is some Runners that reach each other by calls which take a moment.
type group struct {
	mu      sync.Mutex
	runners []*Runner
	slots   []*lockedSlots
	cut     map[[2]int]bool // pairs that do not reach each other, lower first
	calls   int
}

var errCut = errors.New("the link is cut")

func newGroup(n, slots int) *group {
	g := &group{cut: map[[2]int]bool{}}
	for i := range n {
		s := &lockedSlots{bitSlots: bitSlots{on: make([]bool, slots)}}
		g.slots = append(g.slots, s)
		g.runners = append(g.runners, NewRunner(RunnerOptions{Self: nodeID(i), Slots: s, Send: g.sender(i)}))
	}
	return g
}

func (g *group) sender(from int) Sender {
	return func(ctx context.Context, a Ask) (Answer, error) {
		other := int(a.To[19]) - 1
		g.mu.Lock()
		g.calls++
		cut := g.cut[[2]int{min(from, other), max(from, other)}]
		g.mu.Unlock()
		if cut {
			<-ctx.Done()
			return Answer{}, errCut
		}
		t := time.NewTimer(time.Millisecond)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
		v := g.runners[other].Release(nodeID(from), a.Ranges, a.Last)
		return Answer{Agreed: v.Agreed, Ready: v.Ready, Served: v.Served, Why: v.Why}, nil
	}
}

func (g *group) setCut(a, b int, cut bool) {
	g.mu.Lock()
	g.cut[[2]int{min(a, b), max(a, b)}] = cut
	g.mu.Unlock()
}

func (g *group) adopt(node int, t *Targets) { g.runners[node].Adopt(t, func() {}) }

func (g *group) servers(slot uint16) (out []int) {
	for i, s := range g.slots {
		if s.Serving(slot) {
			out = append(out, i)
		}
	}
	return out
}

func (g *group) close() {
	for _, r := range g.runners {
		r.Close()
	}
}

func want(t *testing.T, g *group, slot uint16, owner int) {
	t.Helper()
	if by := g.servers(slot); len(by) != 1 || by[0] != owner {
		t.Fatalf("slot %d is served by %v, want %d alone", slot, by, owner)
	}
}

func TestRunnerMovesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(3, MaxSlots)
		defer g.close()
		g.adopt(0, targets([]int{0}, make([]int, MaxSlots)))
		want(t, g, 0, 0) // alone: at once
		all, owner := []int{0, 1, 2}, make([]int, MaxSlots)
		for s := range owner {
			owner[s] = s % 3
		}
		// The joiner knows first: it waits for the others and repeats.
		g.adopt(2, targets(all, owner))
		pass(300 * time.Millisecond)
		want(t, g, 2, 0)
		want(t, g, MaxSlots-1, 0)
		g.adopt(1, targets(all, owner))
		g.adopt(0, targets(all, owner))
		pass(100 * time.Millisecond)
		for s := range uint16(MaxSlots) {
			want(t, g, s, int(s%3))
		}
		if gained, lost := g.runners[0].Progress(); gained != 0 || lost != 0 {
			t.Fatalf("node 0 still gains %d and loses %d slots", gained, lost)
		}
	})
}

func TestRunnerNewViewVoidsOldQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(2, 1)
		defer g.close()
		g.adopt(0, targets([]int{0}, []int{0}))
		g.setCut(0, 1, true)
		g.adopt(1, targets([]int{0, 1}, []int{1}))
		pass(3 * time.Second)
		want(t, g, 0, 0)
		// The slot goes back before the old owner ever heard of the move: the
		// questions end, and nothing keeps calling.
		g.setCut(0, 1, false)
		both := targets([]int{0, 1}, []int{0})
		g.adopt(1, both)
		g.adopt(0, both)
		pass(time.Second)
		g.mu.Lock()
		before := g.calls
		g.mu.Unlock()
		pass(10 * time.Second)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.calls != before {
			t.Fatalf("%d calls although nothing is left to ask", g.calls-before)
		}
		want(t, g, 0, 0)
	})
}

// TestRunnerUnnoticedAbsence: node 1 took node 0 for dead and its slot over, and
// node 0 never noticed. When node 1 sees it again it reminds node 0, which asks
// for the slot.
func TestRunnerUnnoticedAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(2, 1)
		defer g.close()
		both := targets([]int{0, 1}, []int{0})
		g.adopt(0, both)
		g.adopt(1, both)
		pass(time.Second)
		want(t, g, 0, 0)
		g.setCut(0, 1, true)
		g.adopt(1, targets([]int{1}, []int{1}))
		pass(time.Second)
		if by := g.servers(0); len(by) != 2 {
			t.Fatalf("a split cluster serves the slot on %v, want on both sides", by)
		}
		drops := g.slots[0].drops
		g.setCut(0, 1, false)
		g.adopt(1, both)
		pass(2 * time.Second)
		want(t, g, 0, 0)
		if g.slots[0].drops == drops {
			t.Error("the owner kept what it had from before; the other side may have taken newer writes")
		}
	})
}

func TestRunnerWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(2, 1)
		defer g.close()
		g.adopt(0, targets([]int{0}, []int{0}))
		moved := targets([]int{0, 1}, []int{1})
		g.adopt(1, moved)
		changed := g.runners[1].Changed()
		if g.slots[1].Serving(0) {
			t.Fatal("served before the old owner agreed")
		}
		g.adopt(0, moved)
		for !g.slots[1].Serving(0) {
			<-changed
			changed = g.runners[1].Changed()
		}
		want(t, g, 0, 1)
	})
}

// TestRunnerServesUntilTheSlowest: while a third member does not answer, the old
// owner goes on serving; it stops for one round trip only.
func TestRunnerServesUntilTheSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(3, 1)
		defer g.close()
		g.adopt(0, targets([]int{0}, []int{0}))
		all := []int{0, 1, 2}
		g.adopt(0, targets(all, []int{1}))
		g.adopt(1, targets(all, []int{1}))
		for range 100 { // node 2 has no view yet
			want(t, g, 0, 0)
			pass(10 * time.Millisecond)
		}
		g.adopt(2, targets(all, []int{1}))
		gap := time.Duration(0)
		for range 1000 {
			if len(g.servers(0)) == 0 {
				gap += 100 * time.Microsecond
			}
			pass(100 * time.Microsecond)
		}
		want(t, g, 0, 1)
		if gap > 2*time.Millisecond {
			t.Errorf("nobody served the slot for %v; a call takes 1ms", gap)
		}
	})
}

func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(2, 4)
		defer g.close()
		g.adopt(0, targets([]int{0}, []int{0, 0, 0, 0}))
		g.runners[0].Retire()
		if by := g.servers(3); len(by) != 0 {
			t.Fatalf("a retired node still serves")
		}
		g.adopt(0, targets([]int{0, 1}, []int{0, 0, 0, 0}))
		if by := g.servers(3); len(by) != 0 {
			t.Fatal("a retired node serves again")
		}
		g.adopt(1, targets([]int{0, 1}, []int{1, 1, 1, 1}))
		pass(time.Second)
		want(t, g, 3, 1)
	})
}

func TestCloseEndsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(2, 1)
		g.setCut(0, 1, true)
		g.adopt(1, targets([]int{0, 1}, []int{1}))
		g.close()
		g.adopt(1, targets([]int{1}, []int{1}))
		if by := g.servers(0); len(by) != 0 {
			t.Fatal("a closed runner set a bit")
		}
	})
}

// pass lets virtual time go by.
func pass(d time.Duration) { <-time.After(d) }
