package handoff

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/topology"
)

// bitSlots is the engine as the barrier sees it.
type bitSlots struct {
	on    []bool
	drops int
}

func (s *bitSlots) Serving(slot uint16) bool        { return s.on[slot] }
func (s *bitSlots) SetServing(slot uint16, on bool) { s.on[slot] = on }
func (s *bitSlots) DropSlot(uint16) int             { s.drops++; return 0 }

func nodeID(i int) (id topology.NodeID) { id[19] = byte(i + 1); return id }

// message is an Ask or the answer to one.
type message struct {
	from, to int
	ask      Ask
	answer   bool
	agreed   bool
	ready    bool
	served   string
	key      string // names the message; set by post
}

func (m message) name() string {
	return fmt.Sprintf("%d>%d #%d %s %v %v %v %v %s", m.from, m.to, m.ask.ID, FormatRanges(m.ask.Ranges), m.ask.Last, m.answer, m.agreed, m.ready, m.served)
}

// world is N barriers and a network that keeps every message for ever: any of
// them may be delivered at any time, in any order, any number of times or
// never. That covers delay, reordering, repetition and loss.
type world struct {
	barriers []*Barrier
	slots    []*bitSlots
	net      []message // sorted by key, each once
	// acceptStale makes the world broken on purpose: answers to void Asks count.
	acceptStale bool
}

func newWorld(nodes, slots int) *world {
	w := &world{}
	for i := range nodes {
		s := &bitSlots{on: make([]bool, slots)}
		w.slots = append(w.slots, s)
		w.barriers = append(w.barriers, NewBarrier(nodeID(i), s))
	}
	return w
}

// targets builds Targets: members by index, owner per slot by index.
func targets(members []int, owner []int) *Targets {
	t := &Targets{Owner: make([]uint16, len(owner))}
	hash := uint64(1)
	for _, m := range members {
		t.Members = append(t.Members, Peer{ID: nodeID(m), Boot: 1})
		hash = hash*31 + uint64(m) + 1
	}
	for s, o := range owner {
		t.Owner[s] = NoOwner
		if i := slices.Index(members, o); i >= 0 {
			t.Owner[s] = uint16(i)
		}
		hash = hash*31 + uint64(o) + 7
	}
	t.Hash = hash
	return t
}

func (w *world) post(m message) {
	m.key = m.name()
	at, known := slices.BinarySearchFunc(w.net, m.key, func(m message, key string) int { return strings.Compare(m.key, key) })
	if !known {
		w.net = slices.Insert(w.net, at, m)
	}
}

func (w *world) postAsks(from int, asks []Ask) {
	for _, a := range asks {
		w.post(message{from: from, to: int(a.To[19]) - 1, ask: a})
	}
}

func (w *world) adopt(node int, t *Targets) { w.postAsks(node, w.barriers[node].Adopt(t)) }

func (w *world) deliver(m message) {
	b := w.barriers[m.to]
	if !m.answer {
		v := b.Release(nodeID(m.from), m.ask.Ranges, m.ask.Last)
		w.postAsks(m.to, v.Asks)
		if m.ask.ID != 0 {
			w.post(message{from: m.to, to: m.from, ask: m.ask, answer: true, agreed: v.Agreed, ready: v.Ready, served: FormatRanges(v.Served)})
		}
		return
	}
	ask := m.ask
	ask.To = nodeID(m.from)
	if w.acceptStale {
		ask.ID = b.pending[ask.To].ID
	}
	if !m.agreed {
		b.Answered(ask, m.ready)
		w.repeat(m.to)
		return
	}
	served, err := ParseRanges(m.served)
	if err != nil {
		panic(err)
	}
	b.Agreed(ask, served)
	w.repeat(m.to)
}

// repeat sends what a node still asks in its present form.
func (w *world) repeat(node int) {
	for _, p := range w.barriers[node].pending {
		if p.agreed {
			continue
		}
		if a, ok := w.barriers[node].Current(p.Ask); ok {
			w.postAsks(node, []Ask{a})
		}
	}
}

// servers returns who serves the slot.
func (w *world) servers(slot int) (out []int) {
	for i, s := range w.slots {
		if s.on[slot] {
			out = append(out, i)
		}
	}
	return out
}

func (w *world) fingerprint(b []byte) string {
	for i, x := range w.barriers {
		for _, on := range w.slots[i].on {
			b = strconv.AppendBool(b, on)
		}
		b = strconv.AppendInt(b, int64(x.gained.Len()), 10)
		if x.cur != nil {
			b = strconv.AppendUint(append(b, 'h'), x.cur.Hash, 16)
		}
		for j := range w.barriers {
			p := x.pending[nodeID(j)]
			_, stranger := x.strangers[nodeID(j)]
			b = strconv.AppendUint(append(b, ','), p.ID, 10)
			for _, bit := range []bool{p.opens, p.ready, p.agreed, stranger} {
				b = strconv.AppendBool(b, bit)
			}
		}
	}
	for i := range w.net {
		b = append(append(b, '|'), w.net[i].key...)
	}
	return string(b)
}

func (w *world) clone() *world {
	c := &world{net: slices.Clone(w.net), acceptStale: w.acceptStale}
	for i, b := range w.barriers {
		s := &bitSlots{on: slices.Clone(w.slots[i].on)}
		nb := *b
		nb.slots, nb.pending, nb.strangers = s, maps.Clone(b.pending), maps.Clone(b.strangers)
		c.slots = append(c.slots, s)
		c.barriers = append(c.barriers, &nb)
	}
	return c
}
