package clustertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
)

// fill stores one key in every slot, at its owner, and returns the keys by slot.
func fill(t *testing.T, s *Sim, nodes ...*SimNode) []string {
	t.Helper()
	keys := make([]string, ring.Slots)
	for slot := range keys {
		keys[slot] = "k" + string(rune('a'+slot%26))
		for _, n := range nodes {
			if n.Node.Serving(uint16(slot)) {
				if err := n.Node.Engine().Set(uint16(slot), []byte(keys[slot]), []byte("v"), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return keys
}

// lateJoin keeps a node joining, known to all others, until the gate opens.
type lateJoin struct {
	node.Members
	gate chan struct{}
}

func (l lateJoin) Join(ctx context.Context) (int, error) {
	reached, err := l.Members.Join(ctx)
	<-l.gate
	return reached, err
}

// TestRestartBeforeAnybodyNoticed: b dies and comes back as a later incarnation
// before a and c took it for dead. It keeps its place while it joins, so that
// no slot moves and no key of a and c is lost; whoever asks b meanwhile waits,
// and is not sent round in a circle.
func TestRestartBeforeAnybodyNoticed(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		s.Add("b", "a")
		c := s.Add("c", "a")
		s.Settled(watched()...)
		fill(t, s, a, c, s.Get("b"))
		before := a.Node.View()
		s.Kill("b")
		pass(300 * time.Millisecond)
		gate := make(chan struct{})
		b := s.Open("b", func(o *node.Options) {
			o.StartMembership = func(o membership.Options) (node.Members, error) {
				m, err := s.Rumours.Start(o)
				return lateJoin{m, gate}, err
			}
		}, "a:7001")
		w := s.NewWatch(t)
		defer w.Stop()

		done := make(chan error, 1)
		go func() { done <- b.Node.Start(t.Context()) }()
		pass(100 * time.Millisecond) // the others know that it is joining
		slot := uint16(0)
		for before.OwnerMember(slot).Host != "b" {
			slot++
		}
		for _, at := range []string{"a", "c"} {
			v := s.Do(at, "GET", keyOf(slot))
			if !strings.HasSuffix(v.Text(), "b:7001") {
				t.Errorf("%s answers %q", at, v.Text())
			}
		}
		start := time.Now()
		if v := s.Do("b", "GET", keyOf(slot)); !strings.HasPrefix(v.Text(), "TRYAGAIN") || time.Since(start) < 900*time.Millisecond {
			t.Errorf("after %v the joiner answers %q", time.Since(start), v.Text())
		}
		close(gate)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !isActive(s, "b")(b.Node.View()) { // steps would move slots of a and c
			t.Errorf("after its start: %s", members(b.Node.View()))
		}
		v, path := s.Follow(1, "a", "GET", keyOf(slot))
		if !v.IsNull() {
			t.Errorf("by %v: %q", path, v.Text())
		}
		s.Settled(watched()...)
		for slot := range uint16(ring.Slots) {
			owner, was := a.Node.View().OwnerMember(slot).Host, before.OwnerMember(slot).Host
			if owner != was {
				t.Fatalf("slot %d has moved from %s to %s", slot, was, owner)
			}
			if keys := s.Get(owner).Node.Engine().SlotStats(slot).Keys; (keys == 1) != (owner != "b") {
				t.Fatalf("%s has %d keys of slot %d", owner, keys, slot)
			}
		}
	})
}

// TestRestartThatNeverJoins: the place of a restarted node is kept for two
// seconds, not for ever.
func TestRestartThatNeverJoins(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		slot := ownedBy(t, a, "b", nil)
		s.Kill("b")
		s.Rumours.Reappear(s.ID("b"))
		pass(1900 * time.Millisecond)
		if owner := a.Node.View().OwnerMember(slot); owner.Host != "b" {
			t.Fatalf("after 1.9 s slot %d belongs to %s", slot, owner.Host)
		}
		pass(200 * time.Millisecond)
		if owner := a.Node.View().OwnerMember(slot); owner.Host != "a" {
			t.Fatalf("after 2.1 s slot %d belongs to %s", slot, owner.Host)
		}
		s.Rumours.Bury(s.ID("a"), s.ID("b"))
		s.Settled(watched()...)
	})
}
