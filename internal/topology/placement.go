package topology

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

// How a member that joins or leaves takes its slots over or gives them up step
// by step: the slots are divided into groups, and each changing member gives
// each group a number from 0 to 1, the same on every node. A group whose number
// is below the member's presence is placed with the member, the others without
// it. So a slot belongs to the owner that the placement gives among the members
// that its group sees.
//
// While one presence grows from 0 to 1, each group begins to see the member
// once, so each slot moves at most once, whatever other members change; slots
// that go from one old node to another are no exception. At 0 and 1 the table
// is exactly that without, and with, the member. What a death changes is what
// it would change without the join.
//
// A change of weight is the same: a group whose number is below the progress is
// placed with the member at its new weight, the others with it at its old one.
//
// The numbers of consecutive groups are a Weyl sequence, multiples of the golden
// ratio modulo 1 (Knuth, The Art of Computer Programming 3, section 6.4),
// shifted by a hash of the member's ID. Unlike independent hashes it is even on
// every run of groups, and so on the arcs that a node takes.
const (
	// groupSlots consecutive slots change hands together: one by one, every
	// other slot of an arc would, and CLUSTER SLOTS would be many times as long.
	groupSlots = 8
	groups     = ring.Slots / groupSlots
	golden     = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio

	// maxChanging bounds the members that are placed in steps at a time, since
	// each doubles the number of placements. Nodes change one after another; of
	// more members the first ones by ID count, the others are placed as if they
	// had reached the nearer end.
	maxChanging = 3
)

// changing is a member whose presence is between 0 and 1, or whose weight changes.
type changing struct {
	member int
	below  uint64 // progress x 2^64
	shift  uint64
}

func newChanging(i int, m *Member) changing {
	return changing{member: i, below: uint64(m.Progress * (1 << 64)), shift: xxh3.Hash(m.ID[:])}
}

// seenBy tells whether a group is placed with the member, with its new weight if
// that changes.
func (c changing) seenBy(group int) bool { return uint64(group)*golden+c.shift < c.below }

// How a roster treats a member.
const (
	absent uint8 = iota // no group sees it
	here                // every group sees it
	before              // every group sees it, with its old weight
	inPart              // one of changing
)

// roster says which members are placed, and how.
type roster struct {
	kinds    []uint8 // per member
	changing []changing
	// seen has a bit per changing member for each group; nil without any.
	seen *[groups]uint8
}

// newRoster leaves one member out, -1 for none.
func (v *View) newRoster(without int) roster {
	r := roster{kinds: make([]uint8, len(v.members))}
	weight := false
	for i := range v.members {
		m := &v.members[i]
		p := m.Presence()
		switch {
		case i == without || p == 0:
		case (p < 1 || m.Weighing()) && len(r.changing) < maxChanging:
			r.kinds[i] = inPart
			r.changing = append(r.changing, newChanging(i, m))
			weight = weight || p == 1 && m.Weight > 0 && m.OldWeight > 0
		case m.Weighing() && m.Progress < 0.5:
			r.kinds[i] = before
			weight = weight || m.OldWeight > 0
		case p >= 0.5:
			r.kinds[i] = here
			weight = weight || m.Weight > 0
		}
	}
	if len(r.changing) > 0 && !weight {
		// Nobody is there to own what a group does not see.
		for i := range v.members {
			if i != without && v.members[i].Presence() > 0 {
				r.kinds[i] = here
			}
		}
		r.changing = nil
	}
	if len(r.changing) > 0 {
		r.seen = new([groups]uint8)
		for g := range r.seen {
			for b, c := range r.changing {
				if c.seenBy(g) {
					r.seen[g] |= 1 << b
				}
			}
		}
	}
	return r
}

// sets is the number of different sets of members that groups may see.
func (r *roster) sets() int { return 1 << len(r.changing) }

// sees tells whether a slot is placed among set number k.
func (r *roster) sees(slot, k int) bool {
	return r.seen == nil || int(r.seen[slot/groupSlots]) == k
}

// layout is a placement of all slots among one set of members.
type layout struct {
	nodes  []ring.Node
	member []uint16   // index among nodes -> member index
	table  ring.Table // indexes among nodes, pins applied
}

// lay places all slots among the members of set number k.
func (v *View) lay(r *roster, k int) (*layout, error) {
	l := new(layout)
	bit := 1 // of the next changing member: they are in member order
	for i, kind := range r.kinds {
		m := &v.members[i]
		in, weight := kind != absent, m.Weight
		switch {
		case kind == before:
			weight = m.OldWeight
		case kind == inPart && k&bit == 0: // a group that its progress has not passed
			in, weight = m.Weighing(), m.OldWeight
		}
		if kind == inPart {
			bit <<= 1
		}
		if in {
			l.nodes = append(l.nodes, ring.Node{ID: m.ID.String(), Weight: weight})
			l.member = append(l.member, uint16(i))
		}
	}
	if len(l.nodes) == 0 {
		l.table.Clear()
		return l, nil
	}
	v.place.Place(l.nodes, &l.table)
	ring.Apply(&l.table, l.nodes, v.pins)
	for s, c := range l.table {
		if c != ring.NoOwner && int(c) >= len(l.nodes) {
			return nil, fmt.Errorf("%w: placement %s gives slot %d to node %d of %d",
				errs.ErrConfig, v.place.Name(), s, c, len(l.nodes))
		}
	}
	return l, nil
}

// owner returns the member that the layout gives a slot, or ring.NoOwner.
func (l *layout) owner(slot int) uint16 {
	if c := l.table[slot]; c != ring.NoOwner {
		return l.member[c]
	}
	return ring.NoOwner
}

// assign fills t with the owners of all slots, as member indexes.
func (v *View) assign(r *roster, t *ring.Table) error {
	for k := range r.sets() {
		l, err := v.lay(r, k)
		if err != nil {
			return err
		}
		for s := range t {
			if r.sees(s, k) {
				t[s] = l.owner(s)
			}
		}
	}
	return nil
}

// placeSlots fills owners, counts and ranges.
func (v *View) placeSlots() error {
	r := v.newRoster(-1)
	if err := v.assign(&r, &v.owners); err != nil {
		return err
	}
	v.counts = make([]int, len(v.members))
	for s, i := range v.owners {
		if i == ring.NoOwner {
			continue
		}
		v.counts[i]++
		if n := len(v.ranges); n > 0 && int(v.ranges[n-1].Last)+1 == s && v.ranges[n-1].Owner == int(i) {
			v.ranges[n-1].Last = uint16(s)
			continue
		}
		v.ranges = append(v.ranges, OwnedRange{First: uint16(s), Last: uint16(s), Owner: int(i)})
	}
	return nil
}

// computeSuccessors asks for each slot who owns it without its owner.
func (v *View) computeSuccessors() {
	next := new(ring.Table)
	next.Clear()
	v.successors = next
	r := v.newRoster(-1)
	for k := range r.sets() {
		l, err := v.lay(&r, k)
		if err != nil {
			return // NewView has had the same placement and refused it
		}
		after := ring.Successors(v.place, l.nodes, &l.table)
		v.pinnedSuccessors(l, after)
		for s, c := range after {
			if c != ring.NoOwner && r.sees(s, k) {
				next[s] = l.member[c]
			}
		}
	}
	// Without some owner another member may be placed otherwise, in full or in
	// part (see newRoster): then the placement without it is made as a whole.
	var without ring.Table
	for i := range v.members {
		if v.counts[i] == 0 || !v.partly() {
			continue
		}
		rest := v.newRoster(i)
		if rest.sameBut(&r, i) {
			continue
		}
		if v.assign(&rest, &without) != nil {
			return
		}
		for s, o := range v.owners {
			if int(o) == i {
				next[s] = without[s]
			}
		}
	}
}

// pinnedSuccessors corrects the successors of a layout: the second choice of a pin owns
// the slot when the first is gone, and not the owner that the placement gives.
func (v *View) pinnedSuccessors(l *layout, after *ring.Table) {
	if len(v.pins) == 0 {
		return
	}
	index := make(map[string]uint16, len(l.nodes))
	for i := range l.nodes {
		index[l.nodes[i].ID] = uint16(i)
	}
	for _, p := range v.pins { // of each slot the owner's is the last that is there
		if i, there := index[p.Node]; there && i != l.table[p.Slot] {
			after[p.Slot] = i
		}
	}
}

// partly tells whether some member is seen in one way by some groups and in another
// one by others.
func (v *View) partly() bool {
	for i := range v.members {
		if p := v.members[i].Presence(); p > 0 && p < 1 || v.members[i].Weighing() {
			return true
		}
	}
	return false
}

// sameBut tells whether two rosters treat all members but i alike.
func (r *roster) sameBut(other *roster, i int) bool {
	for j := range r.kinds {
		if j != i && r.kinds[j] != other.kinds[j] {
			return false
		}
	}
	return true
}
