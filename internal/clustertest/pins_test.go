package clustertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// ringOf asks a node and reads the reply.
func ringOf[T any](t *testing.T, s *Sim, at string, words ...string) (out T) {
	t.Helper()
	if err := operate.Read(s.Do(at, append([]string{"RING"}, words...)...), &out); err != nil {
		t.Fatalf("RING %v at %s: %v", words, at, err)
	}
	return out
}

// settled waits until the cluster is as it should be, by its own word.
func settled(t *testing.T, s *Sim, at string) {
	t.Helper()
	var st operate.Status
	for range 600 {
		pass(time.Second)
		if st = ringOf[operate.Status](t, s, at, "STATUS"); st.State == operate.StateOK {
			return
		}
	}
	t.Fatalf("after ten minutes: %+v", st)
}

// pinnedAlike fails unless all live nodes have the pins, "slot:host".
func pinnedAlike(t *testing.T, s *Sim, want ...string) {
	t.Helper()
	s.Settled(watched()...)
	for _, n := range s.Nodes {
		if n.dead {
			continue
		}
		var got []string
		for _, p := range n.Node.View().Pins() {
			id, _ := topology.ParseNodeID(p.Node)
			got = append(got, fmt.Sprintf("%d:%s", p.Slot, strings.TrimRight(string(id[:]), "\x00")))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s has the pins %v, want %v", n.Name, got, want)
		}
	}
}

// TestPin: the slot moves to the node that it is pinned to, through the barrier, and
// back; a node that joins later knows of it at once.
func TestPin(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		w := s.NewWatch(t)
		a := s.Get("a")
		slot := ownedBy(t, a, "a", func(slot uint16) bool { return slices.Contains(watched(), slot) })
		wantText(t, s.Do("a", "RING", "PIN", fmt.Sprint(slot), "b:7001"), "OK")
		pinnedAlike(t, s, fmt.Sprintf("%d:b", slot))
		if by := s.Servers(slot); len(by) != 1 || by[0] != "b" {
			t.Fatalf("the slot is served by %v", by)
		}
		w.Stop()
		c := s.Add("c", "b")
		if pins := c.Node.View().Pins(); len(pins) != 1 {
			t.Fatalf("c joins with the pins %v", pins)
		}
		pinnedAlike(t, s, fmt.Sprintf("%d:b", slot))
		// While b is away the ring has the slot; b gets it back.
		s.Kill("b")
		for _, at := range []string{"a", "c"} {
			s.Rumours.Bury(s.ID(at), s.ID("b"))
		}
		s.Settled(watched()...)
		if by := s.Servers(slot); len(by) != 1 || by[0] == "b" {
			t.Fatalf("without b the slot is served by %v", by)
		}
		s.Add("b", "c")
		pinnedAlike(t, s, fmt.Sprintf("%d:b", slot))
		wantText(t, s.Do("c", "RING", "UNPIN", "0-16383"), "1")
		pinnedAlike(t, s)
		for _, n := range []string{"a", "b", "c"} {
			if st := ringOf[operate.Status](t, s, n, "STATUS"); st.State != operate.StateOK || st.Pins != 0 || st.Members != 3 {
				t.Errorf("%s says %+v", n, st)
			}
		}
	})
}

// TestPinsConverge: both halves of a split go on pinning; when they meet, the later
// word about each slot stands everywhere. A node that hears nothing learns of it from
// the others' exchange.
func TestPinsConverge(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		names := []string{"a", "b", "c", "d"}
		for _, n := range names {
			s.Add(n, "a")
		}
		s.Settled(watched()...)
		wantText(t, s.Do("a", "RING", "PIN", "1-4", "a:7001"), "OK")
		pinnedAlike(t, s, "1:a", "2:a", "3:a", "4:a")
		split := func(on bool) {
			for _, x := range names[:2] {
				for _, y := range names[2:] {
					s.Net.Block(x, y, on)
					s.Net.Cut(x, y)
					if on {
						s.Rumours.Bury(s.ID(x), s.ID(y))
						s.Rumours.Bury(s.ID(y), s.ID(x))
					} else {
						s.Rumours.Tell(s.ID(x), s.ID(y))
						s.Rumours.Tell(s.ID(y), s.ID(x))
					}
				}
			}
		}
		split(true)
		pass(2 * time.Second)
		wantText(t, s.Do("a", "RING", "PIN", "1", "b:7001"), "OK")
		pass(time.Second)
		wantText(t, s.Do("c", "RING", "PIN", "1", "d:7001"), "OK") // later
		wantText(t, s.Do("d", "RING", "PIN", "2", "c:7001"), "OK")
		pass(time.Second)
		wantText(t, s.Do("b", "RING", "UNPIN", "2"), "1") // later
		wantText(t, s.Do("d", "RING", "UNPIN", "3"), "1")
		wantText(t, s.Do("a", "RING", "PIN", "9", "a:7001"), "OK")
		pass(time.Second)
		split(false)
		pass(time.Second)
		pinnedAlike(t, s, "1:d", "4:a", "9:a")
		for _, slot := range []uint16{1, 2, 3, 4, 9} {
			if by := s.Servers(slot); len(by) != 1 {
				t.Errorf("slot %d is served by %v", slot, by)
			}
		}
	})
}

// TestPinsWithoutPush: a member that was cut off while pins were told gets them by
// the exchange that every node makes now and then.
func TestPinsWithoutPush(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		for _, n := range []string{"a", "b", "c"} {
			s.Add(n, "a")
		}
		s.Settled(watched()...)
		for _, n := range []string{"a", "b"} {
			s.Net.Block(n, "c", true)
			s.Net.Cut(n, "c")
		}
		wantText(t, s.Do("a", "RING", "PIN", "77", "a:7001"), "OK")
		pass(2 * time.Second)
		if pins := s.Get("c").Node.View().Pins(); len(pins) != 0 {
			t.Fatalf("c has heard of %v through a network that is cut", pins)
		}
		st := ringOf[operate.Status](t, s, "a", "STATUS")
		if st.State != operate.StateDegraded || !slices.Contains(st.Problems, "c:7001 does not answer") {
			t.Errorf("%+v", st)
		}
		for _, n := range []string{"a", "b"} {
			s.Net.Block(n, "c", false)
		}
		pass(20 * time.Second)
		pinnedAlike(t, s, "77:a")
	})
}

// TestGroup: the slots of tags stay with the nodes of the group while one of them is
// there.
func TestGroup(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		for _, n := range []string{"a", "b", "c"} {
			s.Add(n, "a")
		}
		s.Settled(watched()...)
		words := []string{"RING", "GROUP", "eu", "a:7001,b:7001"}
		slots := map[uint16]bool{}
		for i := range 40 {
			tag := fmt.Sprintf("tenant:%d", i)
			words = append(words, tag)
			slots[ring.SlotString("{"+tag+"}:cart")] = true
		}
		wantText(t, s.Do("c", words...), fmt.Sprint(len(slots)))
		s.Settled(watched()...)
		owners := func() (by map[string]int) {
			by = map[string]int{}
			for slot := range slots {
				by[s.Get("c").Node.View().OwnerMember(slot).Host]++
			}
			return by
		}
		if by := owners(); by["a"] < 8 || by["b"] < 8 || by["c"] > 0 {
			t.Errorf("%v", by)
		}
		// As a leaves, they go to b step by step, like all other slots.
		fill(t, s, s.Get("a"), s.Get("b"), s.Get("c"))
		done := make(chan error, 1)
		go func() { done <- s.Get("a").Node.Drain(context.Background()) }()
		m, steps, left := moves{last: s.Get("c").Node.View()}, map[int]bool{}, 0
		follow(t, s.Get("c"), func(v *topology.View) bool { return v.Len() == 2 }, func(v *topology.View) {
			m.see(v)
			left = 0
			for slot := range slots {
				switch owner := v.OwnerMember(slot).Host; owner {
				case "a":
					left++
				case "c":
					t.Errorf("slot %d of the group is at c", slot)
				}
			}
			steps[left] = true
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		m.check(t, 8)
		if left != 0 || len(steps) < 5 {
			t.Errorf("the group's slots at a, from view to view: %v", steps)
		}
		s.Kill("a")
		s.Settled(watched()...)
		if by := owners(); by["b"] != len(slots) {
			t.Errorf("without a: %v", by)
		}
		wantText(t, s.Do("b", "RING", "UNGROUP", "eu"), fmt.Sprint(len(slots)))
		s.Settled(watched()...)
		if by := owners(); by["c"] == 0 {
			t.Errorf("without the group: %v", by)
		}
	})
}

// TestPlanComesTrue: what PLAN REMOVE and PLAN WEIGHT say is what happens then. The
// weight is set through another node.
func TestPlanComesTrue(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		for _, n := range []string{"a", "b", "c"} {
			s.Add(n, "a")
		}
		s.Settled(watched()...)
		fill(t, s, s.Get("a"), s.Get("b"), s.Get("c"))
		check := func(p operate.Plan, at string) {
			t.Helper()
			v := s.Get(at).Node.View()
			for _, e := range p.Nodes {
				id, _ := topology.ParseNodeID(e.ID)
				owned := 0
				if i, ok := v.Index(id); ok {
					owned = v.OwnedBy(i)
				}
				if owned != e.SlotsAfter {
					t.Errorf("%s owns %d slots, %d by the plan", e.Addr, owned, e.SlotsAfter)
				}
			}
		}
		p := ringOf[operate.Plan](t, s, "a", "PLAN", "WEIGHT", "b:7001", "0.25")
		if !p.Exact || p.Keys != int64(p.Slots) || p.Slots < 3000 { // a key in every slot
			t.Errorf("%+v", p)
		}
		wantText(t, s.Do("a", "RING", "WEIGHT", "b:7001", "0.25"), "OK")
		s.weighed(t, "b", 0.25)
		s.Settled(watched()...)
		check(p, "c")
		p = ringOf[operate.Plan](t, s, "c", "PLAN", "REMOVE", "b:7001")
		if len(p.Moves) < 2 || p.Moves[0].FromAddr == "" {
			t.Errorf("%+v", p.Moves)
		}
		if err := s.Get("b").Node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Kill("b")
		s.Settled(watched()...)
		check(p, "a")
	})
}

// TestRingEvents: a node writes down what it notices.
func TestRingEvents(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		wantText(t, s.Do("b", "RING", "PIN", "3", "a:7001"), "OK")
		wantText(t, s.Do("a", "RING", "WEIGHT", "b:7001", "2"), "OK")
		s.weighed(t, "b", 2)
		s.Settled(watched()...)
		s.Kill("b")
		s.Rumours.Bury(s.ID("a"), s.ID("b"))
		s.Settled(watched()...)
		var got []string
		last := int64(0)
		for _, e := range ringOf[[]operate.Event](t, s, "a", "EVENTS", "1000") {
			got = append(got, e.Kind+" "+e.Addr+" "+e.Text)
			if e.ID != last+1 || e.AtMS == 0 {
				t.Errorf("%+v behind %d", e, last)
			}
			last = e.ID
		}
		text := strings.Join(got, "\n")
		for _, want := range []string{"member b:7001 is a member now", "state b:7001 active", "slots change their owner, 2 members", "pins  pins came from another member: 1 slots are pinned",
			"weight b:7001 weight 2, was 1: in steps\n", "weight b:7001 weight 2 in all slots\n", "health b:7001 dead, was alive", "member b:7001 is out: taken for dead", "slots have gone to other nodes, after "} {
			if !strings.Contains(text, want) {
				t.Errorf("no event %q in:\n%s", want, text)
			}
		}
		if more := ringOf[[]operate.Event](t, s, "a", "EVENTS", "SINCE", fmt.Sprint(last-2)); len(more) != 2 {
			t.Errorf("%+v", more)
		}
	})
}

// TestRingDrain: a node is asked through another one; one that belongs to a program
// refuses.
func TestRingDrain(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		asked := make(chan string, 1)
		b := s.Open("b", func(o *node.Options) { o.OnShutdown = func(reason string) { asked <- reason } }, "a:7001")
		if err := b.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Settled(watched()...)
		if v := s.Do("b", "RING", "DRAIN", "a:7001"); !strings.Contains(v.Text(), "belongs to another program") {
			t.Errorf("%q", v.Text())
		}
		wantText(t, s.Do("a", "RING", "DRAIN", "b:7001"), "OK")
		if reason := <-asked; reason != "RING DRAIN" {
			t.Errorf("%q", reason)
		}
	})
}
