package clustertest

import (
	"context"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
)

// openWarm opens a node that keeps its entries in dir, and starts it.
func openWarm(t *testing.T, s *Sim, name, dir string, seeds ...string) *SimNode {
	t.Helper()
	for i := range seeds {
		seeds[i] += ":7001"
	}
	n := s.Open(name, func(o *node.Options) { o.WarmDir = dir }, seeds...)
	if err := n.Node.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

// keysOf counts the keys of a node in slots that were a member's in a View.
func keysOf(n *SimNode, owned map[uint16]bool) (keys int) {
	for slot := range owned {
		keys += int(n.Node.Engine().SlotStats(slot).Keys)
	}
	return keys
}

func slotsOf(n *SimNode, owner string) map[uint16]bool {
	owned := map[uint16]bool{}
	for slot := range uint16(ring.Slots) {
		if m := n.Node.View().OwnerMember(slot); m != nil && m.Host == owner {
			owned[slot] = true
		}
	}
	return owned
}

// warmThree starts a, b and c, of which b keeps its entries, with a key in every
// slot.
func warmThree(t *testing.T, s *Sim, dir string) (a, c *SimNode, ofB map[uint16]bool) {
	a = s.Add("a", "a")
	b := openWarm(t, s, "b", dir, "a")
	c = s.Add("c", "a")
	s.Settled(everySlot()...) // else what is filled in is dropped where a slot is still on its way
	fill(t, s, a, b, c)
	return a, c, slotsOf(a, "b")
}

// TestWarmRestart: b ends and is back before anybody gave its slots away. All its
// entries are there again.
func TestWarmRestart(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		a, _, ofB := warmThree(t, s, dir)
		for range 3 { // each process proves what the one before left
			s.Kill("b")
			pass(300 * time.Millisecond)
			b := openWarm(t, s, "b", dir, "a")
			s.Settled(everySlot()...)
			if keys := keysOf(b, ofB); keys != len(ofB) {
				t.Fatalf("%d of %d keys are back", keys, len(ofB))
			}
			if keys := b.Node.Engine().Stats().Keys; keys != int64(len(ofB)) {
				t.Fatalf("b has %d keys", keys)
			}
			if owned := slotsOf(a, "b"); len(owned) != len(ofB) {
				t.Fatalf("b owns %d slots, %d before", len(owned), len(ofB))
			}
		}
	})
}

// TestWarmRestartAfterSuccessor: the others took the slots over and took writes.
// Nothing older is there again.
func TestWarmRestartAfterSuccessor(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		a, _, ofB := warmThree(t, s, dir)
		s.Kill("b")
		s.Rumours.Bury(s.ID("a"), s.ID("b"))
		s.Rumours.Bury(s.ID("c"), s.ID("b"))
		s.Settled(watched()...)
		for slot := range ofB {
			owner := s.Get(a.Node.View().OwnerMember(slot).Host)
			if err := owner.Node.Engine().Set(slot, []byte("k"+string(rune('a'+slot%26))), []byte("new"), 0); err != nil {
				t.Fatal(err)
			}
		}
		b := openWarm(t, s, "b", dir, "a")
		s.Settled(watched()...)
		if keys := b.Node.Engine().Stats().Keys; keys != 0 {
			t.Errorf("%d keys that others owned meanwhile are served", keys)
		}
	})
}

// TestWarmRestartOneTookOver: only a, of two others, gave the slots away, and was
// not allowed to open them. Its word is missing, so nothing comes back.
func TestWarmRestartOneTookOver(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		_, _, ofB := warmThree(t, s, dir)
		s.Kill("b")
		s.Rumours.Bury(s.ID("a"), s.ID("b"))
		pass(time.Second)
		b := openWarm(t, s, "b", dir, "a")
		s.Settled(watched()...)
		if keys := keysOf(b, ofB); keys != 0 {
			t.Errorf("%d keys came back without proof", keys)
		}
	})
}

// TestWarmRestartWitnessRestarted: c has restarted since, so it knows nothing of
// the time between.
func TestWarmRestartWitnessRestarted(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		warmThree(t, s, dir)
		s.Kill("b")
		s.Kill("c")
		pass(100 * time.Millisecond)
		s.Add("c", "a")
		b := openWarm(t, s, "b", dir, "a")
		s.Settled(watched()...)
		if keys := b.Node.Engine().Stats().Keys; keys != 0 {
			t.Errorf("%d keys came back without proof", keys)
		}
	})
}

// TestWarmRestartAlone: a node that has never had others gets everything back,
// unless it is not alone any more.
func TestWarmRestartAlone(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		a := openWarm(t, s, "a", dir)
		fill(t, s, a)
		for range 2 {
			if err := a.Node.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Kill("a")
			a = openWarm(t, s, "a", dir)
			if keys := a.Node.Engine().Stats().ServedKeys; keys != ring.Slots {
				t.Fatalf("%d keys are back", keys)
			}
		}
		s.Kill("a")
		s.Rumours.Forget(s.ID("a"))
		s.Add("b", "b")
		a = openWarm(t, s, "a", dir, "b")
		s.Settled(watched()...)
		if keys := a.Node.Engine().Stats().Keys; keys != 0 {
			t.Errorf("%d keys came back though another node served", keys)
		}
	})
}

// TestWarmStopOfWholeCluster: nodes that leave hand their slots over, without
// content; of the last one nothing is kept either, since the first that comes
// back does not know of it.
func TestWarmStopOfWholeCluster(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		a := openWarm(t, s, "a", dir)
		b := openWarm(t, s, "b", dir, "a")
		s.Settled(watched()...)
		fill(t, s, a, b)
		for _, name := range []string{"a", "b"} {
			if err := s.Get(name).Node.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Kill(name)
		}
		for _, name := range []string{"a", "b"} {
			n := openWarm(t, s, name, dir, "a", "b")
			if keys := n.Node.Engine().Stats().Keys; keys != 0 {
				t.Errorf("%s has %d keys", name, keys)
			}
		}
	})
}
