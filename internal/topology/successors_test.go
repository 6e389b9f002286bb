package topology

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/ring"
)

// The first copy lies where the slot goes when its owner dies, the second at
// another active member, in a zone of its own where there is one.
func TestSuccessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, "members")
		for i := range members {
			members[i].Zone = rapid.SampledFrom([]string{"", "z1", "z2", "z3"}).Draw(t, "zone")
		}
		v := mustView(t, Params{}, members)
		slot := uint16(rapid.IntRange(0, ring.Slots-1).Draw(t, "slot"))
		first, owner := v.Successor(slot), v.Owner(slot)
		if got := v.Successors(nil, slot, 0); len(got) != 0 {
			t.Fatalf("no copies at %v", got)
		}
		one, two := v.Successors(nil, slot, 1), v.Successors(nil, slot, 2)
		if first < 0 {
			if len(one)+len(two) > 0 {
				t.Fatalf("%v, %v without a successor", one, two)
			}
			return
		}
		if len(one) != 1 || one[0] != first || two[0] != first {
			t.Fatalf("%v, %v, the successor is %d", one, two, first)
		}
		shares := func(i int) int {
			n := 0
			for _, o := range []int{owner, first} {
				if v.Member(o).Zone == v.Member(i).Zone {
					n++
				}
			}
			return n
		}
		least := -1
		for i := range v.Len() {
			if m := v.Member(i); m.State == Active && m.Weight > 0 && i != owner && i != first && (least < 0 || shares(i) < least) {
				least = shares(i)
			}
		}
		switch {
		case least < 0 && len(two) == 1:
		case len(two) != 2 || two[1] == owner || two[1] == first || v.Member(two[1]).State != Active:
			t.Fatalf("%v for owner %d", two, owner)
		case shares(two[1]) != least:
			t.Fatalf("the second shares its zone with %d, %d are possible", shares(two[1]), least)
		}
	})
}

// The second copies of a node's slots are spread over all others.
func TestSecondCopiesAreSpread(t *testing.T) {
	v := mustView(t, Params{}, testMembers(6))
	counts := map[string]int{}
	for slot := range uint16(ring.Slots) {
		two := v.Successors(nil, slot, 2)
		if slices.Contains(two, v.Owner(slot)) || len(two) != 2 {
			t.Fatalf("slot %d of %d: %v", slot, v.Owner(slot), two)
		}
		counts[fmt.Sprint(v.Owner(slot), two[1])]++
	}
	if len(counts) != 6*5 {
		t.Errorf("%d pairs", len(counts))
	}
	for pair, n := range counts {
		if mean := ring.Slots / 30; n < mean*2/3 || n > mean*3/2 {
			t.Errorf("%s: %d slots, %d in the mean", pair, n, mean)
		}
	}
}

// What docs/adr/0012 says of zones: where the first copy lies follows from the placement
// alone, so it is in another zone as often as another node is; with two copies one always is.
func TestZonesOfCopies(t *testing.T) {
	for _, tc := range []struct{ nodes, zones int }{{4, 2}, {6, 2}, {6, 3}, {9, 3}, {12, 3}} {
		first, any, slots := 0, 0, 0
		for set := range 4 {
			members := testMembers(tc.nodes * (set + 1))[tc.nodes*set:]
			for i := range members {
				members[i].Zone = fmt.Sprint("z", i%tc.zones)
			}
			v := mustView(t, Params{}, members)
			for slot := range uint16(ring.Slots) {
				own := v.OwnerMember(slot).Zone
				two := v.Successors(nil, slot, 2)
				slots++
				if v.Member(two[0]).Zone != own {
					first++
				}
				if v.Member(two[0]).Zone != own || v.Member(two[1]).Zone != own {
					any++
				}
			}
		}
		chance := float64(tc.nodes-tc.nodes/tc.zones) / float64(tc.nodes-1)
		share := float64(first) / float64(slots)
		t.Logf("%d nodes in %d zones: the first copy is in another zone for %.0f %% of the slots (chance %.0f %%), one of two for %.1f %%",
			tc.nodes, tc.zones, 100*share, 100*chance, 100*float64(any)/float64(slots))
		if share < chance-0.08 || share > chance+0.08 || any != slots {
			t.Errorf("%d nodes in %d zones: %.3f of the first copies, %d of %d slots with two", tc.nodes, tc.zones, share, any, slots)
		}
	}
}
