package handoff

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// cell is what a node has of a slot: one key, whose values are versions, and the
// states that Transfer and the engine keep of a slot.
type cell struct {
	value   int // 0: there is none
	gen     int // counts the windows of the slot
	open    bool
	from    Cession // of the window
	touched bool    // the key was touched since the window opened
	ceded   bool
	to      Cession
}

// bitSlots is the engine, with the Transfer, as the barrier sees it.
type bitSlots struct {
	on    []bool
	cells []cell
	drops int
}

func (s *bitSlots) cell(slot uint16) *cell {
	if s.cells == nil {
		s.cells = make([]cell, len(s.on))
	}
	return &s.cells[slot]
}

func (s *bitSlots) Serving(slot uint16) bool        { return s.on[slot] }
func (s *bitSlots) SetServing(slot uint16, on bool) { s.on[slot] = on }

func (s *bitSlots) DropSlot(slot uint16) int {
	s.drops++
	c := s.cell(slot)
	*c = cell{gen: c.gen}
	return 0
}

func (s *bitSlots) Keys(slot uint16) int64 {
	if s.cell(slot).value != 0 {
		return 1
	}
	return 0
}

func (s *bitSlots) Cede(slot uint16, to Cession) {
	c := s.cell(slot)
	c.ceded, c.to = true, to
}

func (s *bitSlots) OpenWindow(slot uint16, from Cession) {
	c := s.cell(slot)
	c.gen++
	c.open, c.from, c.touched = true, from, false
}

func (s *bitSlots) CloseWindow(slot uint16) { s.cell(slot).open = false }

func (s *bitSlots) Decline(uint16, Cession) {}

func (s *bitSlots) Taking(slot uint16) Peer {
	if c := s.cell(slot); c.open {
		return c.from.Peer
	}
	return Peer{}
}

func (s *bitSlots) RemoveKeys(slot uint16, _ [][]byte) { s.cell(slot).value = 0 }

// write sets the key, or deletes it with 0.
func (c *cell) write(version int) {
	c.value = version
	c.touched = true
}

func nodeID(i int) (id topology.NodeID) { id[19] = byte(i + 1); return id }

// message is an Ask or a TAKE, or the answer to one.
type message struct {
	from, to int
	boot     uint64 // of the process that asked
	ask      Ask
	answer   bool
	agreed   bool
	ready    bool
	served   string
	offers   string
	sealed   string

	take  bool // of slot, in the window gen that was opened by a cession
	slot  uint16
	gen   int
	given int // the value; 0: there is none, below: not ceded

	key string // names the message; set by post
}

func (m message) name() string {
	if m.take {
		return fmt.Sprintf("%d/%d>%d take %d gen %d ask %d %v %d", m.from, m.boot, m.to, m.slot, m.gen, m.ask.ID, m.answer, m.given)
	}
	return fmt.Sprintf("%d/%d>%d #%d %s %s %v %v %v %v %s %s %s", m.from, m.boot, m.to, m.ask.ID, FormatRanges(m.ask.Ranges), FormatRanges(m.ask.Pull),
		m.ask.Last, m.answer, m.agreed, m.ready, m.served, m.offers, m.sealed)
}

// world is N barriers and a network that keeps every message for ever: any of
// them may be delivered at any time, in any order, any number of times or
// never. That covers delay, reordering, repetition and loss.
type world struct {
	barriers []*Barrier
	slots    []*bitSlots
	boots    []uint64
	net      []message // sorted by key, each once
	latest   []int     // per slot: the version that was acknowledged last, 0 after a delete
	versions int

	// The following make the world broken on purpose.
	acceptStale bool // answers to void Asks count
	untouched   bool // writes and deletes do not keep an answer out
}

func newWorld(nodes, slots int) *world {
	w := &world{latest: make([]int, slots)}
	for i := range nodes {
		s := &bitSlots{on: make([]bool, slots), cells: make([]cell, slots)}
		w.slots = append(w.slots, s)
		w.boots = append(w.boots, 1)
		w.barriers = append(w.barriers, newModelBarrier(i, s))
	}
	return w
}

func newModelBarrier(i int, s Slots) *Barrier {
	b := NewBarrier(nodeID(i), s)
	b.now = func() time.Time { return time.Time{} }
	return b
}

// targets builds Targets: members by index, owner per slot by index.
func targets(members []int, owner []int) *Targets { return targetsWith(nil, members, owner) }

func targetsWith(boots []uint64, members []int, owner []int) *Targets {
	t := &Targets{Owner: make([]uint16, len(owner))}
	hash := uint64(1)
	for _, m := range members {
		boot := uint64(1)
		if boots != nil {
			boot = boots[m]
		}
		t.Members = append(t.Members, Peer{ID: nodeID(m), Boot: boot})
		hash = hash*31 + uint64(m) + 1 + 1000*(boot-1)
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
		w.post(message{from: from, boot: w.boots[from], to: int(a.To[19]) - 1, ask: a})
	}
}

func (w *world) adopt(node int, t *Targets) { w.postAsks(node, w.barriers[node].Adopt(t)) }

func (w *world) deliver(m message) {
	switch {
	case m.take:
		w.deliverTake(m)
		return
	case m.answer && m.boot != w.boots[m.to]:
		return // the process that asked is gone, and its link with it
	}
	b := w.barriers[m.to]
	if !m.answer {
		v := b.ReleaseFor(Request{From: nodeID(m.from), Process: m.boot, Ranges: m.ask.Ranges, Last: m.ask.Last, Boot: m.boot, Ask: m.ask.ID, Pull: m.ask.Pull})
		w.postAsks(m.to, v.Asks)
		if m.ask.ID != 0 {
			w.post(message{from: m.to, to: m.from, boot: m.boot, ask: m.ask, answer: true, agreed: v.Agreed, ready: v.Ready,
				served: FormatRanges(v.Served), offers: formatOffers(v.Offers), sealed: formatSealed(v.Sealed)})
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
	b.Offered(ask, parseOffers(m.offers))
	b.Sealed(ask, parseSealed(m.sealed))
	b.Agreed(ask, served)
	w.repeat(m.to)
}

func formatOffers(os []Offer) string {
	var parts []string
	for _, o := range os {
		parts = append(parts, fmt.Sprintf("%d:%s", o.Ask, FormatRanges(o.Ranges)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ";")
}

// formatSealed leaves keys out: a slot has one.
func formatSealed(s Sealed) string {
	var behind Set
	for _, k := range s.Behind {
		behind.Add(k.Slot)
	}
	return FormatRanges(s.Slots) + "/" + FormatRanges(behind.Ranges())
}

func parseSealed(text string) (s Sealed) {
	slots, behind, _ := strings.Cut(text, "/")
	var set Set
	for i, part := range []string{slots, behind} {
		rs, err := ParseRanges(part)
		if err != nil {
			panic(text)
		}
		if i == 0 {
			s.Slots = rs
			continue
		}
		set.addRanges(rs)
		set.Each(func(slot uint16) { s.Behind = append(s.Behind, SlotKey{Slot: slot}) })
	}
	return s
}

func parseOffers(s string) (out []Offer) {
	for part := range strings.SplitSeq(s, ";") {
		if ask, ranges, ok := strings.Cut(part, ":"); ok {
			n, err := strconv.ParseUint(ask, 10, 64)
			rs, err2 := ParseRanges(ranges)
			if err != nil || err2 != nil {
				panic(s)
			}
			out = append(out, Offer{n, rs})
		}
	}
	return out
}

// take asks for the key of a slot that a node serves, if it may be pulled.
func (w *world) take(node int, slot uint16) bool {
	c := w.slots[node].cell(slot)
	if !w.slots[node].on[slot] || !c.open || c.touched || c.value != 0 {
		return false
	}
	w.post(message{take: true, from: node, boot: w.boots[node], to: int(c.from.Peer.ID[19]) - 1, slot: slot, gen: c.gen, ask: Ask{ID: c.from.Ask}})
	return true
}

// deliverTake does what Transfer does at both ends.
func (w *world) deliverTake(m message) {
	c := w.slots[m.to].cell(m.slot)
	if !m.answer {
		given := -1
		want := Cession{Peer{nodeID(m.from), m.boot}, m.ask.ID}
		if c.ceded && !w.slots[m.to].on[m.slot] && c.to == want {
			given, c.value = c.value, 0
		}
		w.post(message{take: true, from: m.to, to: m.from, boot: m.boot, slot: m.slot, gen: m.gen, ask: m.ask, answer: true, given: given})
		return
	}
	if m.boot != w.boots[m.to] || !c.open || c.gen != m.gen {
		return
	}
	switch {
	case m.given < 0:
		c.open = false
	case m.given == 0:
		c.touched = true
	case c.value == 0 && !c.touched || w.untouched:
		c.write(m.given)
	}
}

// write lets a client write (or delete) the key of a slot at a node.
func (w *world) write(node int, slot uint16, remove bool) bool {
	if !w.slots[node].on[slot] {
		return false
	}
	version := 0
	if !remove {
		w.versions++
		version = w.versions
	}
	c := w.slots[node].cell(slot)
	c.write(version)
	w.latest[slot] = version
	return true
}

// stale returns a node that would answer a read with another value than the
// latest: nothing at all is always allowed.
func (w *world) stale() (node, slot int, bad bool) {
	for i, s := range w.slots {
		for k, on := range s.on {
			if v := s.cells[k].value; on && v != 0 && v != w.latest[k] {
				return i, k, true
			}
		}
	}
	return 0, 0, false
}

// restart replaces a node by a new process, of which the others do not know yet.
func (w *world) restart(node int) {
	w.boots[node]++
	s := w.slots[node]
	s.on, s.cells = make([]bool, len(s.on)), make([]cell, len(s.on))
	w.barriers[node] = newModelBarrier(node, s)
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
		for k, on := range w.slots[i].on {
			b = strconv.AppendBool(b, on)
			b = w.slots[i].cells[k].fingerprint(b)
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
		for k := range w.slots[i].on {
			o := x.offers[uint16(k)]
			b = append(strconv.AppendUint(append(b, 'o'), o.Ask, 10), o.Peer.ID[19])
			b = strconv.AppendUint(append(b, 's'), x.stampOf(uint16(k)), 10)
		}
	}
	for _, v := range w.latest {
		b = strconv.AppendInt(append(b, 'v'), int64(v), 10)
	}
	for i := range w.net {
		b = append(append(b, '|'), w.net[i].key...)
	}
	return string(b)
}

func (c *cell) fingerprint(b []byte) []byte {
	b = strconv.AppendInt(b, int64(c.value), 10)
	for _, bit := range []bool{c.open, c.touched, c.ceded} {
		b = strconv.AppendBool(b, bit)
	}
	b = strconv.AppendInt(append(b, 'g'), int64(c.gen), 10)
	b = append(strconv.AppendUint(append(b, 'f'), c.from.Ask, 10), c.from.Peer.ID[19])
	return append(strconv.AppendUint(append(b, 't'), c.to.Ask, 10), c.to.Peer.ID[19])
}

func (w *world) clone() *world {
	c := *w
	c.net, c.latest, c.boots = slices.Clone(w.net), slices.Clone(w.latest), slices.Clone(w.boots)
	c.barriers, c.slots = nil, nil
	for i, b := range w.barriers {
		s := &bitSlots{on: slices.Clone(w.slots[i].on), cells: slices.Clone(w.slots[i].cells)}
		nb := *b
		nb.slots, nb.pending, nb.strangers = s, maps.Clone(b.pending), maps.Clone(b.strangers)
		nb.sealed = maps.Clone(b.sealed)
		nb.ceded, nb.offers, nb.stamps = maps.Clone(b.ceded), maps.Clone(b.offers), slices.Clone(b.stamps)
		c.slots = append(c.slots, s)
		c.barriers = append(c.barriers, &nb)
	}
	return &c
}
