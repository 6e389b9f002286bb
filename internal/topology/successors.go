package topology

import (
	"github.com/zeebo/xxh3"
)

// MaxReplicas is the greatest number of successors of a slot.
const MaxReplicas = 2

// Successors appends to dst the members, by index, that keep copies of a slot, n
// at most. The first is Successor: whoever owns the slot when its owner is gone.
// The second is the one of the other owners that shares its zone with the fewest
// of these two, and among equals the one that the slot hashes to, so that the
// second copies of a node are spread over all others.
func (v *View) Successors(dst []int, slot uint16, n int) []int {
	first := v.Successor(slot)
	if n < 1 || first < 0 {
		return dst
	}
	if dst = append(dst, first); n < 2 {
		return dst
	}
	owner := v.Owner(slot)
	zones := [2]string{v.members[owner].Zone, v.members[first].Zone}
	best, apart, hash := -1, -1, uint64(0)
	var key [len(NodeID{}) + 2]byte
	key[0], key[1] = byte(slot>>8), byte(slot)
	for i := range v.members {
		if m := &v.members[i]; i == owner || i == first || m.State != Active || m.Weight == 0 {
			continue
		}
		far := 0
		for _, z := range zones {
			if z != v.members[i].Zone {
				far++
			}
		}
		copy(key[2:], v.members[i].ID[:])
		if h := xxh3.Hash(key[:]); far > apart || far == apart && h > hash {
			best, apart, hash = i, far, h
		}
	}
	if best >= 0 {
		dst = append(dst, best)
	}
	return dst
}
