package ring

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// idOf names an owner by ID, "" for nobody.
func idOf(nodes []Node, i uint16) string {
	if i == NoOwner {
		return ""
	}
	return nodes[i].ID
}

// drawTable draws a table of runs over the nodes, some of them unowned.
func drawTable(t *rapid.T, nodes []Node) (table Table) {
	table.Clear()
	for range rapid.IntRange(0, 6).Draw(t, "runs") {
		a, b := rapid.IntRange(0, Slots-1).Draw(t, "a"), rapid.IntRange(0, Slots-1).Draw(t, "b")
		owner := uint16(NoOwner)
		if i := rapid.IntRange(-1, len(nodes)-1).Draw(t, "owner"); i >= 0 {
			owner = uint16(i)
		}
		for s := min(a, b); s <= max(a, b); s++ {
			table[s] = owner
		}
	}
	return table
}

func TestAffectedEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawNodes(t, 1, 6)
		pick := func(label string) (out []Node) {
			for _, n := range rapid.Permutation(all).Draw(t, label) {
				if rapid.Bool().Draw(t, "in") {
					out = append(out, n)
				}
			}
			return out
		}
		oldNodes, newNodes := pick("old"), pick("new")
		before, after := drawTable(t, oldNodes), drawTable(t, newNodes)
		got := Affected(oldNodes, &before, newNodes, &after)
		covered := make([]bool, Slots)
		for k, r := range got {
			if r.First > r.Last {
				t.Fatalf("range %v is empty", r)
			}
			if k > 0 {
				p := got[k-1]
				if p.Last >= r.First {
					t.Fatalf("ranges %v and %v overlap or are out of order", p, r)
				}
				if p.Last+1 == r.First && p.From == r.From && p.To == r.To {
					t.Fatalf("ranges %v and %v should be one", p, r)
				}
			}
			for s := r.First; s <= r.Last; s++ {
				covered[s] = true
				if before[s] != r.From || after[s] != r.To {
					t.Fatalf("slot %d goes from %d to %d, range says %v", s, before[s], after[s], r)
				}
			}
		}
		for s := range Slots {
			if changed := idOf(oldNodes, before[s]) != idOf(newNodes, after[s]); changed != covered[s] {
				t.Fatalf("slot %d: changed %v, in a range %v", s, changed, covered[s])
			}
		}
	})
}

func TestAffectedAtTheEnds(t *testing.T) {
	nodes := testNodes(2)
	var before, after Table
	after[0], after[Slots-1] = 1, 1
	want := []Range{{0, 0, 0, 1}, {Slots - 1, Slots - 1, 0, 1}}
	if got := Affected(nodes, &before, nodes, &after); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	after.Clear()
	want = []Range{{0, Slots - 1, 0, NoOwner}}
	if got := Affected(nodes, &before, nil, &after); !slices.Equal(got, want) {
		t.Errorf("all lost: got %v, want %v", got, want)
	}
	if got := Affected(nodes, &before, nodes, &before); got != nil {
		t.Errorf("no change: got %v", got)
	}
}

// userPlacement hides what is inside, as a user's own placement would be.
type userPlacement struct{ Placement }

func TestSuccessorsEqualBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, nodes := drawPlacement(t), drawNodes(t, 1, 8)
		var table Table
		p.Place(nodes, &table)
		for range rapid.IntRange(0, 3).Draw(t, "pins") {
			Apply(&table, nodes, []Pin{{
				Slot: uint16(rapid.IntRange(0, Slots-1).Draw(t, "slot")),
				Node: rapid.SampledFrom(nodes).Draw(t, "node").ID,
			}})
		}
		var want Table
		want.Clear()
		for gone := range nodes {
			rest := slices.Delete(slices.Clone(nodes), gone, gone+1)
			var without Table
			p.Place(rest, &without)
			for s := range table {
				if int(table[s]) == gone && without[s] != NoOwner {
					want[s] = uint16(slices.IndexFunc(nodes, func(n Node) bool { return n.ID == rest[without[s]].ID }))
				}
			}
		}
		if got := Successors(p, nodes, &table); *got != want {
			t.Fatalf("%s differs: %v", p.Name(), Affected(nodes, &want, nodes, got)[0])
		}
		if got := Successors(userPlacement{p}, nodes, &table); *got != want {
			t.Fatalf("%s of a user differs: %v", p.Name(), Affected(nodes, &want, nodes, got)[0])
		}
	})
}

func TestSuccessorOfTheOnlyNode(t *testing.T) {
	nodes := append(testNodes(1), Node{ID: "zero", Weight: 0})
	p := mustNew(t, NameRing, Params{})
	var table Table
	p.Place(nodes, &table)
	for s, i := range Successors(p, nodes, &table) {
		if i != NoOwner {
			t.Fatalf("slot %d has successor %d", s, i)
		}
	}
}

func TestApply(t *testing.T) {
	nodes := testNodes(3)
	var table Table
	Apply(&table, nodes, []Pin{
		{Slot: 0, Node: nodes[2].ID},
		{Slot: Slots - 1, Node: nodes[1].ID},
		{Slot: 7, Node: nodes[1].ID}, {Slot: 7, Node: nodes[2].ID}, // the last one counts
		{Slot: 8, Node: "unknown"},
		{Slot: Slots, Node: nodes[1].ID},
	})
	for s, i := range table {
		want := map[int]uint16{0: 2, 7: 2, Slots - 1: 1}[s]
		if i != want {
			t.Errorf("slot %d belongs to %d, want %d", s, i, want)
		}
	}
}

func TestBalance(t *testing.T) {
	nodes := []Node{{ID: "a", Weight: 1}, {ID: "b", Weight: 3}, {ID: "c", Weight: 0}}
	var table Table
	for s := range table {
		table[s] = 1
		if s < Slots/8 {
			table[s] = 0
		}
	}
	f := Balance(nodes, &table)
	// a has 1/8 for 1/4 (0.5), b has 7/8 for 3/4 (1.1667).
	want := Figures{SD: math.Sqrt((0.25 + 1.0/36) / 2), MaxOverMean: 7.0 / 6, MinOverMean: 0.5, Ranges: 2}
	if math.Abs(f.SD-want.SD) > 1e-12 || math.Abs(f.MaxOverMean-want.MaxOverMean) > 1e-12 ||
		f.MinOverMean != want.MinOverMean || f.Ranges != want.Ranges || f.Unowned != 0 {
		t.Errorf("got %+v, want %+v", f, want)
	}
	table.Clear()
	if f := Balance(nil, &table); f.Unowned != Slots || f.Ranges != 0 || f.SD != 0 {
		t.Errorf("nobody: %+v", f)
	}
}
