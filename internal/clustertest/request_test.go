package clustertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// TestWaitAndForward: the new owner does not serve yet. A counter is executed
// once, by the old owner; with nobody to forward to, the request waits.
func TestWaitAndForward(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		s.Rumours.Deaf(s.ID("a"), true)
		b := s.Open("b", nil, "a:7001")
		if err := b.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		slot := ownedBy(t, b, "b", nil)
		for want := range 3 {
			wantText(t, s.Do("b", "INCR", keyOf(slot)), fmt.Sprint(want+1))
		}
		if n := a.Node.Engine().SlotStats(slot).Keys; n != 1 {
			t.Fatalf("the old owner has %d keys, want the counter", n)
		}
		if v := s.Do("b", "INCR", keyOf(slot), "extra"); v.Kind != resp.Error || strings.HasPrefix(v.Text(), "MOVED") {
			t.Fatalf("wrong arity answers %q", v.Text())
		}
		// The old owner cannot be reached: the request waits and gives up.
		s.Net.Block("a", "b", true)
		start := time.Now()
		v := s.Do("b", "GET", keyOf(slot))
		if !strings.HasPrefix(v.Text(), "TRYAGAIN") || time.Since(start) > 1200*time.Millisecond {
			t.Fatalf("after %v: %q", time.Since(start), v.Text())
		}
		if v = s.Do("b", "SET", keyOf(slot), "x"); v.Kind != resp.Error {
			t.Fatalf("a write whose fate is unknown answers %q", v.Text())
		}
		s.Net.Block("a", "b", false)
		// It waits, the bit is set meanwhile, and it is executed here.
		s.Rumours.Deaf(s.ID("a"), false)
		s.Rumours.Tell(s.ID("a"), s.ID("b"))
		wantText(t, s.Do("b", "SET", keyOf(slot), "x"), "OK")
		s.Settled(slot)
	})
}

// TestRedirectsEnd asks every node for slots of all owners while members come
// and go.
func TestRedirectsEnd(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		probe := func(nodes ...string) {
			for _, slot := range []uint16{0, 5000, 10000, 16383} {
				for _, at := range nodes {
					v, path := s.Follow(2, at, "SET", keyOf(slot), "v")
					if v.Text() != "OK" {
						t.Errorf("slot %d by %v: %q", slot, path, v.Text())
					}
				}
			}
		}
		probe("a")
		for _, name := range []string{"b", "c", "d"} {
			s.Add(name, "a")
			probe("a", "b", name)
		}
		if err := s.Get("c").Node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		probe("a", "b", "c", "d")
	})
}

// TestSuperseded: a second process with the same ID appears; the first gives
// everything up and says so.
func TestSuperseded(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		s.Rumours.Supersede(s.ID("a"), "a2")
		pass(time.Second)
		for _, slot := range watched() {
			if a.Node.Serving(slot) {
				t.Fatalf("a superseded node serves slot %d", slot)
			}
		}
		slot := ownedBy(t, a, "a2", nil)
		wantText(t, s.Do("a", "GET", keyOf(slot)), fmt.Sprintf("MOVED %d a2:7001", slot))
	})
}
