package topology

import (
	"bytes"
	"cmp"
	"slices"
)

// MergeMember returns the later of two descriptions of one node: the one of
// the greater Boot, then of the greater Sequence, then of the greater
// canonical encoding, so that the order is total and every node chooses alike.
func MergeMember(a, b Member) Member {
	if compareMembers(&a, &b) < 0 {
		return b
	}
	return a
}

func compareMembers(a, b *Member) int {
	if c := cmp.Or(cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.Sequence, b.Sequence)); c != 0 {
		return c
	}
	return bytes.Compare(appendMember(nil, a), appendMember(nil, b))
}

// Merge returns, for every node ID in a or b, the latest description, sorted
// by ID. It is commutative, associative and idempotent, so nodes that hear the
// same descriptions in any order end with the same members. It changes neither
// argument.
func Merge(a, b []Member) []Member {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y Member) int {
		return cmp.Or(x.ID.Compare(y.ID), compareMembers(&y, &x)) // latest first
	})
	return slices.CompactFunc(all, func(x, y Member) bool { return x.ID == y.ID })
}
