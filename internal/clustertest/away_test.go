package clustertest

import (
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// TestAwayProcessLooksBeforeItServes: c is stopped for so long that a and b take it
// for dead, take its slots over and write to them. When it wakes up, the first thing
// that it executes is a request that has waited in its socket. It must not answer
// with what it remembers.
func TestAwayProcessLooksBeforeItServes(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		c := NewClocks()
		s.Clock = c.Of
		s.Add("a", "a")
		s.Add("b", "a")
		s.Add("c", "a")
		pass(10 * time.Second) // joins come in steps
		s.Settled(watched()...)
		slot := placedAt(t, s, "c")
		key := keyOf(slot)
		if v := s.Do("c", "SET", key, "old"); v.Text() != "OK" {
			t.Fatal(v.Text())
		}
		s.Rumours.Deaf(s.ID("c"), true)
		for _, at := range []string{"a", "b"} {
			s.Rumours.Bury(s.ID(at), s.ID("c"))
		}
		pass(20 * time.Millisecond) // a and b agree; c has not run since, as far as its clock goes
		if v, path := s.Follow(2, "a", "SET", key, "new"); v.Text() != "OK" {
			t.Fatalf("%v: %q", path, v.Text())
		}
		c.Away("c", 20*time.Second)
		start := time.Now()
		v := s.Do("c", "GET", key)
		if v.Kind == resp.Bulk && v.Text() == "old" {
			t.Error("c answers with a value from before it was away")
		}
		if took := time.Since(start); took > 2500*time.Millisecond {
			t.Errorf("c answers after %s", took)
		}
		if c := s.Get("c").Node; c.Engine().Stats().Keys != 0 {
			t.Error("c still holds what it had before")
		}
		if text := s.Get("c").Node.Info(); !strings.Contains(text, "ringcache_view_losses:1\r\n") {
			t.Error("INFO does not tell of the loss")
		}
		// The others learn that it is back, and all is well again.
		s.Rumours.Deaf(s.ID("c"), false)
		for _, at := range []string{"a", "b"} {
			s.Rumours.Tell(s.ID(at), s.ID("c"))
		}
		s.Settled(watched()...)
	})
}

// placedAt finds a slot of a node.
func placedAt(t *testing.T, s *Sim, name string) uint16 {
	t.Helper()
	for slot := range uint16(16384) {
		if s.Nodes[0].Node.View().OwnerMember(slot).Host == name {
			return slot
		}
	}
	t.Fatalf("%s owns nothing", name)
	return 0
}

// A process that was away and that nobody has missed keeps what it has, and answers
// within a round trip.
func TestAwayButNotMissed(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		c := NewClocks()
		s.Clock = c.Of
		s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		pass(30 * time.Second) // as a member for longer than it will be away
		key := keyOf(placedAt(t, s, "b"))
		s.Do("b", "SET", key, "v")
		c.Away("b", 20*time.Second)
		start := time.Now()
		if v := s.Do("b", "GET", key); v.Text() != "v" || time.Since(start) > 50*time.Millisecond {
			t.Errorf("%q after %s", v.Text(), time.Since(start))
		}
		if text := s.Get("b").Node.Info(); !strings.Contains(text, "ringcache_view_looks:1\r\n") || !strings.Contains(text, "ringcache_view_losses:0\r\n") {
			t.Error("b has not looked around, or lost its slots by it")
		}
	})
}

// All are away together, as on a machine that was suspended: nobody can have done
// anything, and nobody waits for a second.
func TestAllAwayTogether(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		c := NewClocks()
		s.Clock = c.Of
		for _, name := range []string{"a", "b", "c"} {
			s.Add(name, "a")
		}
		pass(10 * time.Second) // joins come in steps
		s.Settled(watched()...)
		keys := map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			keys[name] = keyOf(placedAt(t, s, name))
			if v := s.Do(name, "SET", keys[name], "v"); v.Text() != "OK" {
				t.Fatalf("%s: %q", name, v.Text())
			}
		}
		for name := range keys {
			c.Away(name, time.Hour)
		}
		for name, key := range keys {
			start := time.Now()
			if v := s.Do(name, "GET", key); v.Text() != "v" || time.Since(start) > 400*time.Millisecond {
				t.Errorf("%s: %q after %s", name, v.Text(), time.Since(start))
			}
		}
	})
}

// With nobody to ask, a process that was away serves on after a second: each part of
// a split cluster does.
func TestAwayAndCutOff(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		c := NewClocks()
		s.Clock = c.Of
		s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		pass(30 * time.Second) // as a member for longer than it will be away
		key := keyOf(placedAt(t, s, "b"))
		s.Do("b", "SET", key, "v")
		s.Net.Block("a", "b", true)
		c.Away("b", 20*time.Second)
		for i, limit := range []time.Duration{2500 * time.Millisecond, 10 * time.Millisecond} {
			start := time.Now()
			if v := s.Do("b", "GET", key); v.Text() != "v" || time.Since(start) > limit {
				t.Errorf("request %d: %q after %s", i, v.Text(), time.Since(start))
			}
		}
		s.Net.Block("a", "b", false)
		s.Settled(watched()...)
	})
}

// Alone in its cluster a node has nobody to ask and never waits.
func TestAwayAlone(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		c := NewClocks()
		s.Clock = c.Of
		s.Add("a", "a")
		s.Settled(watched()...)
		s.Do("a", "SET", "k", "v")
		c.Away("a", time.Hour)
		start := time.Now()
		if v := s.Do("a", "GET", "k"); v.Text() != "v" || time.Since(start) > 10*time.Millisecond {
			t.Errorf("%q after %s", v.Text(), time.Since(start))
		}
	})
}
