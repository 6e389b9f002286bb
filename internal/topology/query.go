package topology

import (
	"slices"

	"github.com/ringcache/ringcache/internal/ring"
)

// Members returns all members sorted by ID. The caller must not modify them.
func (v *View) Members() []Member { return v.members }

// Len returns the number of members in any state.
func (v *View) Len() int { return len(v.members) }

// Index returns the index of a member among Members.
func (v *View) Index(id NodeID) (int, bool) {
	return slices.BinarySearchFunc(v.members, id, func(m Member, id NodeID) int { return m.ID.Compare(id) })
}

// Member returns the member of an index, which must be in range. The caller
// must not modify it.
func (v *View) Member(i int) *Member { return &v.members[i] }

// Owner returns the index of the member that owns the slot, or -1 when nobody
// does; a slot beyond the last one has no owner.
func (v *View) Owner(slot uint16) int {
	if slot >= ring.Slots || v.owners[slot] == ring.NoOwner {
		return -1
	}
	return int(v.owners[slot])
}

// OwnerMember returns the member that owns the slot, or nil.
func (v *View) OwnerMember(slot uint16) *Member {
	if i := v.Owner(slot); i >= 0 {
		return &v.members[i]
	}
	return nil
}

// OwnerID returns the ID of the slot's owner, or the zero ID.
func (v *View) OwnerID(slot uint16) NodeID {
	if i := v.Owner(slot); i >= 0 {
		return v.members[i].ID
	}
	return NodeID{}
}

// Successor returns the index of the member that owns the slot when its
// present owner is gone, or -1. The first call of a View computes the table
// for all slots, at the cost of one placement per owner.
func (v *View) Successor(slot uint16) int {
	if v.Owner(slot) < 0 {
		return -1
	}
	v.successorsOnce.Do(v.computeSuccessors)
	if v.successors[slot] == ring.NoOwner {
		return -1
	}
	return int(v.successors[slot])
}

// Hash identifies the view: xxh3-64 of its canonical encoding.
func (v *View) Hash() uint64 { return v.hash }

// Epoch returns the greatest sequence of the members.
func (v *View) Epoch() Epoch { return v.epoch }

// Params returns the ring parameters with their defaults filled in.
func (v *View) Params() Params { return v.params }

// Pins returns the pins sorted by slot. The caller must not modify them.
func (v *View) Pins() []ring.Pin { return v.pins }

// Ranges returns the owned slots as maximal ranges in slot order. The caller
// must not modify them.
func (v *View) Ranges() []OwnedRange { return v.ranges }

// RangesOf returns the ranges of one member in slot order.
func (v *View) RangesOf(i int) []OwnedRange {
	var out []OwnedRange
	for _, r := range v.ranges {
		if r.Owner == i {
			out = append(out, r)
		}
	}
	return out
}

// OwnedBy returns the number of slots that member i owns.
func (v *View) OwnedBy(i int) int { return v.counts[i] }

// Owned returns the number of slots that have an owner: all of them as soon as
// one member that is present has weight.
func (v *View) Owned() int {
	var n int
	for _, c := range v.counts {
		n += c
	}
	return n
}

// AppendBinary appends the canonical encoding, of which Hash is the hash.
func (v *View) AppendBinary(dst []byte) []byte { return append(dst, v.encoding...) }
