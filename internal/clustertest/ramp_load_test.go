package clustertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/ringcache/ringcache/internal/topology"
)

// TestStepsUnderLoad: a client reads, counts and writes in every View of a join and
// of a drain in steps. Each slot moves once, every read finds its key, and no
// counter loses or repeats an increment.
func TestStepsUnderLoad(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		r := s.routed(t)
		defer r.Close()
		const keys = 600
		for i := range keys {
			call(t, r, "SET", fmt.Sprintf("key:%d", i), fmt.Sprint(i))
		}
		round := 0
		use := func() {
			round++
			for i := range keys / 4 {
				i := (i*7 + round) % keys
				if v := call(t, r, "GET", fmt.Sprintf("key:%d", i)); v.Text() != fmt.Sprint(i) {
					t.Fatalf("round %d: key %d is %q", round, i, v.Text())
				}
				if i%10 == 0 {
					call(t, r, "SET", fmt.Sprintf("key:%d", i), fmt.Sprint(i))
				}
			}
			for i := range 20 {
				if v := call(t, r, "INCR", fmt.Sprintf("counter:%d", i)); v.Int != int64(round) {
					t.Fatalf("counter %d is %d in round %d", i, v.Int, round)
				}
			}
		}
		use()

		c := s.Open("c", nil, "a:7001")
		w := s.NewWatch(t)
		started := start(c)
		var up moves
		follow(t, a, isActive(s, "c"), func(v *topology.View) {
			up.see(v)
			use()
		})
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		up.check(t, up.steps)
		s.quiet(t)
		use()
		i, _ := a.Node.View().Index(c.Node.ID())
		if n := a.Node.View().OwnedBy(i); n == 0 || c.Node.Engine().Stats().ServedKeys == 0 {
			t.Errorf("c owns %d slots with %d keys", n, c.Node.Engine().Stats().ServedKeys)
		}

		done := make(chan error, 1)
		go func() { done <- c.Node.Drain(context.Background()) }()
		var down moves
		follow(t, a, func(v *topology.View) bool { return entry(s, v, "c").ID.IsZero() }, func(v *topology.View) {
			down.see(v)
			use()
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		down.check(t, down.steps)
		w.Stop()
		s.Kill("c")
		use()
	})
}
