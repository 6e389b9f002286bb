package clustertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// TestDrainInSteps: each slot moves once, the first and the last slot too, and
// what did not move is still there.
func TestDrainInSteps(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		c := s.Add("c", "a")
		s.Settled(watched()...)
		fill(t, s, a, b, c)
		w := s.NewWatch(t)
		defer w.Stop()
		done := make(chan error, 1)
		go func() { done <- b.Node.Drain(context.Background()) }()
		var m moves
		follow(t, a, func(v *topology.View) bool { return v.Len() == 2 }, m.see)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		m.check(t, 8)
		if err := b.Node.Ready(); err == nil {
			t.Error("a node that has left says that it is ready")
		}
	})
}

// TestDrainWithoutContent takes no steps.
func TestDrainWithoutContent(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		began := time.Now()
		if err := b.Node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// TestHurriedDrain: SHUTDOWN NOW hands all slots over at once.
func TestHurriedDrain(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		b.Node.Hurry()
		var m moves
		done := make(chan error, 1)
		go func() { done <- b.Node.Drain(context.Background()) }()
		follow(t, a, func(v *topology.View) bool { return v.Len() == 1 }, m.see)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		m.check(t, 1)
	})
}

// TestDrainGoesBeforeJoin: a node that is to leave does not wait for a join that
// takes long, and one that leaves while it joins gives back what it has.
func TestDrainGoesBeforeJoin(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		d := s.Add("d", "a")
		s.Settled(watched()...)
		fill(t, s, a, b, d)
		c := halfway(t, s, "c")
		at := entry(s, a.Node.View(), "c").Progress
		s.Net.Block("b", "c", false)
		done := make(chan error, 1)
		go func() { done <- d.Node.Drain(context.Background()) }()
		follow(t, a, func(v *topology.View) bool { return v.Len() == 3 }, func(v *topology.View) {
			m := entry(s, v, "c")
			if leaving := entry(s, v, "d"); leaving.Presence() > 0 && m.State == topology.Active {
				t.Errorf("the join ended before the drain, from %v: %s", at, members(v))
			}
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := c.Node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Kill("c")
		s.Kill("d")
		s.Settled(watched()...)
	})
}

// TestWholeClusterLeaves: nobody waits for takers that leave as well.
func TestWholeClusterLeaves(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		nodes := []*SimNode{s.Add("a", "a"), s.Add("b", "a"), s.Add("c", "a")}
		s.Settled(watched()...)
		fill(t, s, nodes...)
		began := time.Now()
		done := make(chan error, len(nodes))
		for _, n := range nodes {
			go func() { done <- n.Node.Drain(context.Background()) }()
		}
		for range nodes {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestDrainIsBounded: nobody takes the slots over, and Drain ends nevertheless.
func TestDrainIsBounded(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		s.Net.Block("a", "b", true)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := b.Node.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("took %v", took)
		}
		s.Kill("b")
		s.Rumours.Forget(s.ID("b"))
	})
}

// weighed waits until a node has got a weight step by step, as the first one sees it.
func (s *Sim) weighed(t *testing.T, name string, weight float64) {
	t.Helper()
	follow(t, s.Nodes[0], func(v *topology.View) bool { m := entry(s, v, name); return m.Weight == weight && m.Progress == 0 }, func(*topology.View) {})
}

// TestWeightInSteps: a node gets twice its weight, then none, while it serves.
func TestWeightInSteps(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		for _, weight := range []float64{2, 0} {
			if err := b.Node.SetWeight(weight); err != nil {
				t.Fatal(err)
			}
			steps, m := 0, moves{last: a.Node.View()}
			before := entry(s, m.last, "b").Weight
			follow(t, a, func(v *topology.View) bool { m := entry(s, v, "b"); return m.Weight == weight && m.Progress == 0 }, func(v *topology.View) {
				m.see(v)
				if m := entry(s, v, "b"); m.Progress > 0 {
					steps++
					if m.State != topology.Active || m.Weight != weight || m.OldWeight != before {
						t.Errorf("on the way: %+v", m)
					}
				}
			})
			if steps != 7 {
				t.Errorf("to weight %v in %d steps before the last", weight, steps)
			}
			m.check(t, 8)
			s.Settled(watched()...)
		}
		i, _ := a.Node.View().Index(s.ID("b"))
		if n := a.Node.View().OwnedBy(i); n != 0 {
			t.Errorf("with weight 0 it owns %d slots", n)
		}
		if err := b.Node.SetWeight(-1); err == nil {
			t.Error("a negative weight is accepted")
		}
	})
}

// TestWeightChangesItsMind: a weight that is set while another one is on its way takes
// that to the nearer end first, so slots that have moved move back or stay, and none
// moves twice in one direction.
func TestWeightChangesItsMind(t *testing.T) {
	for _, tc := range []struct {
		name      string
		to, final float64
		most      int // moves of one slot
	}{
		{"back", 4, 1, 2},
		{"nearly back", 4, 1.5, 3},
		{"further", 4, 5, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				a := s.Add("a", "a")
				b := s.Add("b", "a")
				s.Add("c", "a")
				s.Settled(watched()...)
				fill(t, s, a, b, s.Get("c"))
				if err := b.Node.SetWeight(tc.to); err != nil {
					t.Fatal(err)
				}
				m := moves{last: a.Node.View()}
				follow(t, a, func(v *topology.View) bool { return entry(s, v, "b").Progress == 0.5 }, m.see)
				if err := b.Node.SetWeight(tc.final); err != nil {
					t.Fatal(err)
				}
				follow(t, a, func(v *topology.View) bool {
					e := entry(s, v, "b")
					return e.Weight == tc.final && e.Progress == 0
				}, m.see)
				s.Settled(watched()...)
				total := 0
				for slot, n := range m.count {
					total += n
					if n > tc.most {
						t.Fatalf("slot %d has moved %d times", slot, n)
					}
				}
				if total == 0 {
					t.Error("no slot has moved")
				}
			})
		})
	}
}

// TestDrainWhileWeighing: a node that leaves before it has its new weight gives back what
// it has got, and hands over the rest; nothing comes to it any more.
func TestDrainWhileWeighing(t *testing.T) {
	for _, weight := range []float64{4, 0.25} {
		simulate(t, func(t *testing.T, s *Sim) {
			a := s.Add("a", "a")
			b := s.Add("b", "a")
			c := s.Add("c", "a")
			s.Settled(watched()...)
			fill(t, s, a, b, c)
			if err := b.Node.SetWeight(weight); err != nil {
				t.Fatal(err)
			}
			follow(t, a, func(v *topology.View) bool { return entry(s, v, "b").Progress == 0.25 }, func(*topology.View) {})
			done := make(chan error, 1)
			go func() { done <- b.Node.Drain(context.Background()) }()
			least := ring.Slots
			follow(t, a, func(v *topology.View) bool { return v.Len() == 2 }, func(v *topology.View) {
				if i, ok := v.Index(s.ID("b")); ok && entry(s, v, "b").State == topology.Draining {
					if v.OwnedBy(i) > least {
						t.Errorf("b gets slots while it leaves: %d, had %d", v.OwnedBy(i), least)
					}
					least = v.OwnedBy(i)
				}
			})
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			s.Kill("b")
			s.Settled(watched()...)
		})
	}
}

// TestWeightWithoutRoom: where the metadata have no room for two weights, the new one
// comes at once.
func TestWeightWithoutRoom(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		b := s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		s.Rumours.Refuse(func(m topology.Member) error {
			if m.Weighing() {
				return fmt.Errorf("%w: no room", errs.ErrConfig)
			}
			return nil
		})
		if err := b.Node.SetWeight(2); err != nil {
			t.Fatal(err)
		}
		s.weighed(t, "b", 2)
		s.Settled(watched()...)
	})
}
