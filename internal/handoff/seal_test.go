package handoff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// copyWorld is a world in which nodes that serve a slot keep copies of its key at
// others once it was read, by streams like those of Streams: numbered batches over a
// network that may lose, repeat and reorder them, one under way at a time.
type copyWorld struct {
	*world
	streams map[streamOf]*modelStream
	net     []copyMessage
	taken   map[streamOf]modelInbound // by who receives
	last    int                       // stream number

	// Broken on purpose:
	noFlight bool // what is under way does not count as behind
	noQueue  bool // what waits does not count as behind
	noReset  bool // copies count as the latest before the receiver has agreed to a reset
}

type streamOf struct {
	from, to Peer
	slot     uint16
}

// modelStream is what the sender knows.
type modelStream struct {
	stream, number int
	live           bool // the receiver has copies from nothing on
	known          bool // the key was read: its changes are sent
	fill           bool // its value is to be sent because it was read
	queued         bool // a change waits
	flight         bool // a change is under way
	under          *copyMessage
}

type modelInbound struct {
	stream, number int
	refused        bool
}

type copyMessage struct {
	of             streamOf
	stream, number int
	reset          bool
	value          int
	answer         bool
	refused        bool
}

func newCopyWorld() *copyWorld {
	c := &copyWorld{world: newWorld(walkNodes, walkSlots), streams: map[streamOf]*modelStream{}, taken: map[streamOf]modelInbound{}}
	for i := range c.barriers {
		c.barriers[i].sealer = modelSealer{c, i}
	}
	return c
}

func (c *copyWorld) self(i int) Peer { return Peer{nodeID(i), c.boots[i]} }

// modelSealer is Streams.Seal.
type modelSealer struct {
	c    *copyWorld
	node int
}

func (m modelSealer) Seal(p Peer, slots *Set) (exact Set, behind []SlotKey) {
	slots.Each(func(slot uint16) {
		st := m.c.streams[streamOf{m.c.self(m.node), p, slot}]
		if st == nil || !st.live && !m.c.noReset {
			return
		}
		exact.Add(slot)
		if st.queued && !m.c.noQueue || st.flight && !m.c.noFlight {
			behind = append(behind, SlotKey{Slot: slot})
		}
		st.live, st.known, st.under = false, false, nil
	})
	return exact, behind
}

// restart replaces a process; what it has sent may arrive all the same.
func (c *copyWorld) restart(i int) {
	old := c.self(i)
	for of := range c.streams {
		if of.from == old {
			delete(c.streams, of)
		}
	}
	c.world.restart(i)
	c.barriers[i].sealer = modelSealer{c, i}
}

// changed notes that the key of a slot has changed at a node.
func (c *copyWorld) changed(node int, slot uint16) {
	for of, st := range c.streams {
		if of.from == c.self(node) && of.slot == slot && st.known {
			st.queued = true
		}
	}
}

// copy does one thing for copies of a slot at a node to which it may go.
func (c *copyWorld) copy(r *rand.Rand, slot uint16, to int) {
	node := r.IntN(walkNodes)
	if by := c.servers(int(slot)); len(by) > 0 && r.IntN(8) > 0 {
		node = by[r.IntN(len(by))]
	}
	b := c.barriers[node]
	if to == node || b.cur == nil {
		return
	}
	peer, ok := b.cur.peer(nodeID(to))
	if !ok {
		return
	}
	of := streamOf{c.self(node), peer, slot}
	st, on := c.streams[of], c.slots[node].on[slot]
	switch n := r.IntN(8); {
	case st == nil || n == 0 && r.IntN(12) == 0: // it begins (anew)
		if on {
			c.last++
			st = &modelStream{stream: c.last}
			c.streams[of] = st
			c.send(st, copyMessage{of: of, reset: true})
		}
	case st.under != nil: // it is sent again
		c.net = append(c.net, *st.under)
	case !on || !st.live:
	case !st.known:
		st.known, st.fill = true, true
	case st.fill || st.queued:
		st.flight = st.queued
		st.fill, st.queued = false, false
		c.send(st, copyMessage{of: of, value: c.slots[node].cell(slot).value})
	}
}

func (c *copyWorld) send(st *modelStream, m copyMessage) {
	st.number++
	m.stream, m.number = st.stream, st.number
	st.under = &m
	c.net = append(c.net, m)
}

// deliverCopy delivers a message about copies; it may come again.
func (c *copyWorld) deliverCopy(r *rand.Rand) {
	if len(c.net) == 0 {
		return
	}
	i := r.IntN(len(c.net))
	m := c.net[i]
	if r.IntN(4) > 0 || len(c.net) > 30 {
		c.net = slices.Delete(c.net, i, i+1)
	}
	to := int(m.of.to.ID[19]) - 1
	if m.answer {
		st := c.streams[m.of]
		if st == nil || st.under == nil || st.stream != m.stream || st.number != m.number {
			return
		}
		st.live = !m.refused && (st.live || st.under.reset)
		st.under, st.flight = nil, false
		if !st.live {
			delete(c.streams, m.of)
		}
		return
	}
	if c.self(to) != m.of.to {
		return
	}
	b, in := c.barriers[to], c.taken[m.of]
	if in.stream != m.stream {
		if m.number != 1 || m.stream < in.stream {
			return
		}
		in = modelInbound{stream: m.stream}
		b.EndCopies(m.of.from, m.of.slot)
	}
	answer := m
	answer.answer = true
	switch m.number {
	case in.number:
		answer.refused = in.refused
	case in.number + 1:
		in.number++
		if m.reset {
			answer.refused = b.AcceptMirror(m.of.from, m.of.slot) != ""
		} else {
			b.copies.Write(m.of.from, func(holds func(uint16) bool) {
				if answer.refused = !holds(m.of.slot); !answer.refused {
					c.slots[to].cell(m.of.slot).value = m.value
				}
			})
		}
	default:
		return
	}
	in.refused = answer.refused
	c.taken[m.of] = in
	c.net = append(c.net, answer)
}

// kept are the slots that kept copies over a takeover.
func (c *copyWorld) kept() (n int) {
	for _, b := range c.barriers {
		n += b.kept
	}
	return n
}

// walkCopies is valueWalk with copies.
func walkCopies(r *rand.Rand, steps int, breakIt func(c *copyWorld)) (kept int, what string) {
	c := newCopyWorld()
	if breakIt != nil {
		breakIt(c)
	}
	tabs, now := randomTables(r), 0
	everybody := []int{0, 1, 2, 3}
	for step := range steps {
		node, slot := r.IntN(walkNodes), uint16(r.IntN(walkSlots))
		cell := c.slots[node].cell(slot)
		switch n := r.IntN(100); {
		case n < 3 || len(c.world.net) == 0:
			owner := tabs[now]
			if r.IntN(8) == 0 {
				owner = tabs[r.IntN(walkTables)]
			}
			c.adopt(node, targetsWith(c.boots, everybody, owner[:]))
		case n == 3:
			if r.IntN(3) == 0 {
				now = r.IntN(walkTables)
			}
		case n == 4:
			for _, p := range c.barriers[node].pending {
				if a, ok := c.barriers[node].Renew(p.Ask); ok {
					c.postAsks(node, []Ask{a})
				}
			}
		case n == 5:
			c.postAsks(node, c.barriers[node].Reminders())
		case n == 6 && r.IntN(16) == 0:
			c.restart(node)
		case n < 12:
			if c.write(node, slot, n == 8) {
				c.changed(node, slot)
			}
		case n < 15:
			c.take(node, slot)
		case n == 15: // eviction or expiry, of a ceded key and of a copy too
			cell.value, cell.touched = 0, true
			c.changed(node, slot)
		case n == 16:
			c.barriers[node].Taken(cell.to.Peer, []Range{{slot, slot}})
		case n < 45:
			c.copy(r, slot, tabs[r.IntN(walkTables)][slot])
		case n < 70:
			c.deliverCopy(r)
		default:
			i := c.pick(r)
			m := c.world.net[i]
			if r.IntN(3) > 0 {
				c.world.net = slices.Delete(c.world.net, i, i+1)
			}
			c.deliver(m)
		}
		if node, slot, bad := c.stale(); bad {
			return c.kept(), fmt.Sprintf("step %d: node %d serves version %d of slot %d, the latest is %d",
				step, node, c.slots[node].cells[slot].value, slot, c.latest[slot])
		}
	}
	return c.kept(), ""
}

// TestRandomCopies: copies that a next owner has become content only where they are
// what the owner before had last.
func TestRandomCopies(t *testing.T) {
	oneGoroutine(t)
	walks := uint64(1500)
	if testing.Short() {
		walks = 300
	}
	kept := 0
	for seed := range walks {
		n, what := walkCopies(rand.New(rand.NewPCG(seed, 13)), 800, nil)
		if what != "" {
			t.Fatalf("seed %d: %s", seed, what)
		}
		kept += n
	}
	if kept < int(walks)/20 {
		t.Fatalf("only %d slots kept their copies in %d walks", kept, walks)
	}
	t.Logf("%d slots kept their copies", kept)
}

// TestRandomCopiesCanFail shows that the walks see what is broken on purpose.
func TestRandomCopiesCanFail(t *testing.T) {
	oneGoroutine(t)
	for name, breakIt := range map[string]func(c *copyWorld){
		"a change that is under way does not count": func(c *copyWorld) { c.noFlight = true },
		"a change that waits does not count":        func(c *copyWorld) { c.noQueue = true },
		"copies count before they have begun anew":  func(c *copyWorld) { c.noReset = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2000) {
				if _, what := walkCopies(rand.New(rand.NewPCG(seed, 13)), 800, breakIt); what != "" {
					t.Logf("seed %d: %s", seed, what)
					return
				}
			}
			t.Fatal("went unnoticed")
		})
	}
}

// TestOnlySealedCopiesStay: the word of the process that the copies are of counts,
// for the cession that came with it, and for nothing else.
func TestOnlySealedCopiesStay(t *testing.T) {
	slot0 := []Range{{0, 0}}
	for _, tc := range []struct {
		name  string
		said  func(b *Barrier, a Ask) Ask
		stays bool
	}{
		{"sealed", func(b *Barrier, a Ask) Ask {
			b.Offered(a, []Offer{{a.ID, slot0}})
			b.Sealed(a, Sealed{Slots: slot0})
			return a
		}, true},
		{"not sealed", func(b *Barrier, a Ask) Ask {
			b.Offered(a, []Offer{{a.ID, slot0}})
			return a
		}, false},
		{"the key is behind", func(b *Barrier, a Ask) Ask {
			b.Offered(a, []Offer{{a.ID, slot0}})
			b.Sealed(a, Sealed{Slots: slot0, Behind: []SlotKey{{0, []byte("k")}}})
			return a
		}, false},
		{"sealed, but nothing is offered", func(b *Barrier, a Ask) Ask {
			b.Sealed(a, Sealed{Slots: slot0})
			return a
		}, false},
		{"an earlier cession was sealed", func(b *Barrier, a Ask) Ask {
			b.Offered(a, []Offer{{a.ID, slot0}})
			b.Sealed(a, Sealed{Slots: slot0})
			a = b.Adopt(targets([]int{0, 1}, []int{0, 1, 0}))[0]
			b.Offered(a, []Offer{{a.ID, slot0}})
			return a
		}, false},
		{"an earlier cession was sealed, and still stands", func(b *Barrier, a Ask) Ask {
			b.Offered(a, []Offer{{a.ID, slot0}})
			b.Sealed(a, Sealed{Slots: slot0})
			first := a.ID
			a = b.Adopt(targets([]int{0, 1}, []int{0, 1, 0}))[0]
			b.Offered(a, []Offer{{first, slot0}})
			return a
		}, true},
		{"the copies are those of another process", func(b *Barrier, a Ask) Ask {
			b.copies.change(0, b.copies.tagFor(Peer{nodeID(2), 1}), func() {})
			b.Offered(a, []Offer{{a.ID, slot0}})
			b.slots.(*bitSlots).cell(0).value = 7
			b.Sealed(a, Sealed{Slots: slot0})
			return a
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &bitSlots{on: make([]bool, 3)}
			b := newModelBarrier(0, s)
			b.Adopt(targets([]int{0, 1}, []int{1, 1, 1}))
			if why := b.AcceptMirror(Peer{nodeID(1), 1}, 0); why != "" {
				t.Fatal(why)
			}
			s.cell(0).value = 7
			a := tc.said(b, b.Adopt(targets([]int{0, 1}, []int{0, 1, 1}))[0])
			if !b.Agreed(a, slot0) || !s.on[0] {
				t.Fatal("the slot is not opened")
			}
			if c := s.cell(0); c.value == 7 != tc.stays {
				t.Errorf("the copy stays: %v", !tc.stays)
			}
			if _, ok := b.copies.Of(0); ok {
				t.Error("the slot still takes copies")
			}
		})
	}
}
