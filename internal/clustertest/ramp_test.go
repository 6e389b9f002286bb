package clustertest

import (
	"context"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// follow looks at the Views of a node until done, every half millisecond, and
// gives each new one to see.
func follow(t *testing.T, n *SimNode, done func(*topology.View) bool, see func(*topology.View)) {
	t.Helper()
	var last *topology.View
	for range 200_000 {
		v := n.Node.View()
		if v != last {
			last = v
			see(v)
			if done(v) {
				return
			}
		}
		pass(500 * time.Microsecond)
	}
	t.Fatalf("it does not end: %s", members(last))
}

// entry is the entry of a node in a View; the zero Member if it is not there.
func entry(s *Sim, v *topology.View, name string) topology.Member {
	if i, ok := v.Index(s.ID(name)); ok {
		return *v.Member(i)
	}
	return topology.Member{}
}

func isActive(s *Sim, name string) func(*topology.View) bool {
	return func(v *topology.View) bool { return entry(s, v, name).State == topology.Active }
}

// start runs Start in the background.
func start(n *SimNode) <-chan error {
	done := make(chan error, 1)
	go func() { done <- n.Node.Start(context.Background()) }()
	return done
}

// moves counts how often each slot changed its owner.
type moves struct {
	count [ring.Slots]int
	last  *topology.View
	steps int // Views in which some slot moved
}

func (m *moves) see(v *topology.View) {
	if m.last != nil {
		moved := false
		for s := range m.count {
			if v.OwnerID(uint16(s)) != m.last.OwnerID(uint16(s)) {
				m.count[s]++
				moved = true
			}
		}
		if moved {
			m.steps++
		}
	}
	m.last = v
}

func (m *moves) check(t *testing.T, steps int) {
	t.Helper()
	total := 0
	for s, n := range m.count {
		if n > 1 {
			t.Fatalf("slot %d has moved %d times", s, n)
		}
		total += n
	}
	if total == 0 || m.steps != steps {
		t.Errorf("%d slots have moved in %d steps, want %d", total, m.steps, steps)
	}
}

// TestJoinInSteps: the owners have content, so a joiner takes its slots over step
// by step; each slot moves once, and in the end everything is as if it had always
// been there. Slots that do not move lose nothing.
func TestJoinInSteps(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		before := a.Node.View()
		c := s.Open("c", nil, "a:7001")
		w := s.NewWatch(t)
		defer w.Stop()
		started := start(c)
		var m moves
		follow(t, a, isActive(s, "c"), m.see)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		m.check(t, 8)
		s.Settled(watched()...)
		for slot := range uint16(ring.Slots) {
			owner := a.Node.View().OwnerMember(slot).Host
			if owner != before.OwnerMember(slot).Host {
				continue
			}
			if keys := s.Get(owner).Node.Engine().SlotStats(slot).Keys; keys != 1 {
				t.Fatalf("slot %d has not moved and %s has %d keys of it", slot, owner, keys)
			}
		}
		if r := c.Node.Ramp(); r.What != "" {
			t.Errorf("a change is still under way: %+v", r)
		}
	})
}

// TestFirstStartHasNoSteps: without content there is nothing to protect.
func TestFirstStartHasNoSteps(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		began := time.Now()
		for _, name := range []string{"a", "b", "c"} {
			n := s.Add(name, "a")
			if !isActive(s, name)(n.Node.View()) {
				t.Fatalf("after its start: %s", members(n.Node.View()))
			}
		}
		s.Settled(watched()...)
		if took := time.Since(began); took > time.Second {
			t.Errorf("three nodes took %v", took)
		}
	})
}

// TestOneChangesAtATime: three nodes want to join at once; they do so one after the
// other, lowest ID first, and each is ready once it has slots.
func TestOneChangesAtATime(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		fill(t, s, a)
		names := []string{"e", "d", "c"}
		for _, name := range names {
			n := s.Open(name, nil, "a:7001")
			start(n)
		}
		var order []string
		all := func(v *topology.View) bool {
			return isActive(s, "c")(v) && isActive(s, "d")(v) && isActive(s, "e")(v)
		}
		follow(t, a, all, func(v *topology.View) {
			changing := 0
			for _, name := range names {
				m := entry(s, v, name)
				if p := m.Presence(); p > 0 && p < 1 {
					changing++
					if len(order) == 0 || order[len(order)-1] != name {
						order = append(order, name)
					}
				}
			}
			if changing > 1 {
				t.Errorf("%d change at once: %s", changing, members(v))
			}
		})
		if len(order) != 3 {
			t.Errorf("in the order %v", order)
		}
		s.Settled(watched()...)
	})
}

// TestTwoBeginAtOnce: two joiners do not know of each other when they begin. They
// settle: the lower ID goes on, the other stands still until it has ended.
func TestTwoBeginAtOnce(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		fill(t, s, a)
		s.Rumours.Mute(s.ID("c"), true)
		s.Rumours.Mute(s.ID("d"), true)
		c, d := s.Open("c", nil, "a:7001"), s.Open("d", nil, "a:7001")
		startedC, startedD := start(c), start(d)
		pass(3 * time.Second)
		both := 0
		for _, n := range []*SimNode{c, d} {
			m := entry(s, n.Node.View(), n.Name)
			if p := m.Presence(); p > 0 {
				both++
			}
		}
		if both != 2 {
			t.Fatalf("only %d have begun: %s, %s", both, members(c.Node.View()), members(d.Node.View()))
		}
		s.Rumours.Mute(s.ID("c"), false)
		s.Rumours.Mute(s.ID("d"), false)
		for _, at := range []string{"a", "c", "d"} {
			s.Rumours.Tell(s.ID(at), s.ID("a"), s.ID("c"), s.ID("d"))
		}
		follow(t, a, func(v *topology.View) bool { return isActive(s, "c")(v) && isActive(s, "d")(v) }, func(v *topology.View) {
			if isActive(s, "d")(v) && !isActive(s, "c")(v) {
				t.Errorf("the higher ID ended first: %s", members(v))
			}
		})
		for _, started := range []<-chan error{startedC, startedD} {
			if err := <-started; err != nil {
				t.Error(err)
			}
		}
		s.Settled(watched()...)
	})
}

// halfway starts a joiner and stops it in its tracks at half of its slots: b does
// not answer it.
func halfway(t *testing.T, s *Sim, name string) *SimNode {
	t.Helper()
	n := s.Open(name, nil, "a:7001")
	started := start(n)
	follow(t, n, func(v *topology.View) bool { m := entry(s, v, name); return m.Presence() >= 0.5 }, func(*topology.View) {})
	s.Net.Block("b", name, true)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	if m := entry(s, s.Get("a").Node.View(), name); m.Presence() < 0.5 || m.Presence() == 1 {
		t.Fatalf("%s is not half way: %s", name, members(s.Get("a").Node.View()))
	}
	return n
}

// TestCancelledJoinInSteps: a joiner dies half way. The owners of before have their slots
// back, in the same places, and all that they have served without a break.
func TestCancelledJoinInSteps(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		before := a.Node.View()
		halfway(t, s, "c")
		moved := map[uint16]bool{}
		for slot := range uint16(ring.Slots) {
			moved[slot] = a.Node.View().OwnerID(slot) != before.OwnerID(slot) || !s.Get(before.OwnerMember(slot).Host).Node.Serving(slot)
		}
		s.Kill("c")
		s.Rumours.Forget(s.ID("c"))
		s.Settled(watched()...)
		kept := 0
		for slot := range uint16(ring.Slots) {
			owner := a.Node.View().OwnerMember(slot).Host
			if owner != before.OwnerMember(slot).Host {
				t.Fatalf("slot %d is %s's, was %s's", slot, owner, before.OwnerMember(slot).Host)
			}
			if keys := s.Get(owner).Node.Engine().SlotStats(slot).Keys; !moved[slot] && keys != 1 {
				t.Fatalf("%s has lost slot %d, which it has served all the while", owner, slot)
			}
			if !moved[slot] {
				kept++
			}
		}
		if kept < ring.Slots/2 || kept == ring.Slots {
			t.Errorf("%d slots have not moved", kept)
		}
	})
}

// TestStuckHalfMigration: a member that lives but does not answer a joiner keeps
// it half way. Every slot is served all the while, and when the member answers
// again the join goes on to its end.
func TestStuckHalfMigration(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		halfway(t, s, "c")
		for slot := range uint16(ring.Slots) {
			if by := s.Servers(slot); len(by) != 1 {
				t.Fatalf("slot %d is served by %v", slot, by)
			}
		}
		s.Net.Block("b", "c", false)
		follow(t, a, isActive(s, "c"), func(*topology.View) {})
		s.Settled(watched()...)
	})
}

// TestStandstillDoesNotLast: the joiner before stands still for ever. The next one
// waits, and passes it by in the end.
func TestStandstillDoesNotLast(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		halfway(t, s, "c") // its own bound is ten minutes
		d := s.Open("d", func(o *node.Options) { o.Steps.JoinTime = 5 * time.Second }, "a:7001")
		if err := d.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Node.Ready(); err == nil {
			t.Error("a node without slots says that it is ready")
		}
		if r := d.Node.Ramp(); r.What != "join" || r.WaitingFor != s.ID("c") || r.Progress != 0 {
			t.Errorf("it waits: %+v", r)
		}
		pass(4 * time.Second)
		if m := entry(s, a.Node.View(), "d"); m.Presence() == 0 {
			t.Errorf("it did not pass by: %s", members(a.Node.View()))
		}
		s.Net.Block("b", "c", false)
		follow(t, a, func(v *topology.View) bool { return isActive(s, "c")(v) && isActive(s, "d")(v) }, func(*topology.View) {})
		s.Settled(watched()...)
	})
}

// TestOwnerDiesDuringJoin: a, the only other owner, dies while c is half way. c
// owns all slots at once, and nobody serves a slot twice.
func TestOwnerDiesDuringJoin(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		fill(t, s, a)
		c := s.Open("c", nil, "a:7001")
		started := start(c)
		follow(t, c, func(v *topology.View) bool { m := entry(s, v, "c"); return m.Presence() >= 0.5 }, func(*topology.View) {})
		s.Kill("a")
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		pass(500 * time.Millisecond)
		s.Rumours.Bury(s.ID("c"), s.ID("a"))
		follow(t, c, isActive(s, "c"), func(v *topology.View) {
			if _, there := v.Index(s.ID("a")); !there && v.Owned() != ring.Slots {
				t.Errorf("%d slots have an owner: %s", v.Owned(), members(v))
			}
		})
		s.Settled(watched()...)
	})
}

// TestOwnerDiesBeforeFirstStep: the joiner waits for another one when all owners
// die. It does not wait any longer.
func TestOwnerDiesBeforeFirstStep(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		halfway(t, s, "c")
		d := s.Open("d", nil, "a:7001")
		if err := d.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			s.Kill(name)
			s.Rumours.Forget(s.ID(name))
		}
		follow(t, d, isActive(s, "d"), func(*topology.View) {})
		s.Settled(watched()...)
	})
}

// TestOwnersDieBesideAnotherJoiner: two joiners wait when all owners die, and the
// second one hears nothing more of the first, whose turn it is. It does not wait for
// that: somebody has to own the slots.
func TestOwnersDieBesideAnotherJoiner(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		halfway(t, s, "c")
		for _, name := range []string{"d", "e"} {
			if err := s.Open(name, nil, "a:7001").Node.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Rumours.Mute(s.ID("d"), true)
		for _, name := range []string{"a", "b", "c"} {
			s.Kill(name)
			s.Rumours.Forget(s.ID(name))
		}
		follow(t, s.Get("e"), isActive(s, "e"), func(*topology.View) {})
		s.Rumours.Mute(s.ID("d"), false)
		s.Rumours.Tell(s.ID("e"), s.ID("d"))
		s.Settled(watched()...)
	})
}

// TestJoinerRestarts: a joiner that is half way dies and is back before anybody
// noticed. It goes on where it was, and no slot goes back and forth.
func TestJoinerRestarts(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		halfway(t, s, "c")
		var m moves
		m.see(a.Node.View())
		s.Kill("c")
		s.Net.Block("b", "c", false)
		pass(300 * time.Millisecond)
		c := s.Open("c", nil, "a:7001")
		started := start(c)
		follow(t, a, isActive(s, "c"), m.see)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		m.check(t, m.steps)
		if m.steps == 0 || m.steps > 4 {
			t.Errorf("%d steps for the second half", m.steps)
		}
		s.Settled(watched()...)
	})
}

// TestTwoOwnersHalfway: a dies while c is half way, and b hears of neither at
// first: three views at once, with slots on their way. No slot has two servers.
func TestTwoOwnersHalfway(t *testing.T) {
	for _, first := range []string{"crash", "join"} {
		t.Run("b hears first of the "+first, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				nodes := []*SimNode{s.Add("a", "a"), s.Add("b", "a")}
				s.Settled(watched()...)
				fill(t, s, nodes...)
				c := s.Open("c", nil, "a:7001")
				w := s.NewWatch(t)
				started := start(c)
				follow(t, c, func(v *topology.View) bool { m := entry(s, v, "c"); return m.Presence() >= 0.5 }, func(*topology.View) {})
				b, joiner, gone := s.ID("b"), s.ID("c"), s.ID("a")
				s.Rumours.Deaf(b, true)
				pass(200 * time.Millisecond) // the next step waits for b
				s.Net.Kill("a")
				pass(200 * time.Millisecond)
				s.Rumours.Deaf(b, false)
				switch first {
				case "crash":
					s.Rumours.Bury(b, gone)
					w.Excuse("a", "b", true) // a is dead: what it serves, nobody reaches
					pass(500 * time.Millisecond)
					s.Rumours.Tell(b, joiner)
				case "join":
					s.Rumours.Tell(b, joiner)
					pass(500 * time.Millisecond)
					w.Excuse("a", "b", true)
					s.Rumours.Bury(b, gone)
				}
				pass(300 * time.Millisecond)
				w.Excuse("a", "c", true)
				s.Rumours.Bury(joiner, gone)
				follow(t, c, isActive(s, "c"), func(*topology.View) {})
				pass(2 * time.Second)
				w.Stop()
				s.Kill("a")
				if err := <-started; err != nil {
					t.Fatal(err)
				}
				s.Settled(watched()...)
			})
		})
	}
}

// TestEdgeSlots: slots 0 and 16383 go to joiners and back in steps; they take
// writes in every View on the way.
func TestEdgeSlots(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		open := func(name string) *SimNode {
			return s.Open(name, func(o *node.Options) { o.Params.Placement = ring.NameContiguous }, "m:7001")
		}
		m := open("m")
		if err := m.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		fill(t, s, m)
		edges := map[string]uint16{"a": 0, "z": ring.Slots - 1} // by who gets them
		write := func(*topology.View) {
			for _, slot := range edges {
				if v, path := s.Follow(3, "m", "SET", keyOf(slot), "v"); v.Text() != "OK" {
					t.Errorf("slot %d by %v: %q", slot, path, v.Text())
				}
				if by := s.Servers(slot); len(by) > 1 {
					t.Errorf("slot %d is served by %v", slot, by)
				}
			}
		}
		for name, slot := range edges {
			n := open(name)
			started := start(n)
			follow(t, m, isActive(s, name), write)
			if err := <-started; err != nil {
				t.Fatal(err)
			}
			s.Settled(0, ring.Slots-1)
			if by := s.Servers(slot); by[0] != name {
				t.Fatalf("slot %d is served by %v", slot, by)
			}
		}
		for name, slot := range edges {
			n := s.Get(name)
			done := make(chan error, 1)
			go func() { done <- n.Node.Drain(context.Background()) }()
			follow(t, m, func(v *topology.View) bool { return entry(s, v, name).ID.IsZero() }, write)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			s.Kill(name)
			s.Settled(0, ring.Slots-1)
			if by := s.Servers(slot); by[0] == name {
				t.Fatalf("slot %d is served by %v", slot, by)
			}
		}
	})
}
