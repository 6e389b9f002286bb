package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/errs"
)

func mustNew(t interface{ Fatal(...any) }, name string, p Params) Placement {
	place, err := New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// testNodes returns n nodes of weight 1 with fixed random IDs, sorted.
func testNodes(n int) []Node {
	random := rand.New(rand.NewPCG(7, uint64(n)))
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{ID: randomID(random), Weight: 1}
	}
	sortNodes(nodes)
	return nodes
}

func sortNodes(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
}

// drawNodes draws up to most nodes with distinct IDs, sorted, with equal or
// with odd weights.
func drawNodes(t *rapid.T, least, most int) []Node {
	ids := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%016x%016x%08x", rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b"), rapid.Uint32().Draw(t, "c"))
	}), least, most, rapid.ID[string]).Draw(t, "ids")
	weight := rapid.SampledFrom([]float64{0, 1e-9, 0.001, 0.1, 0.5, 1, 1, 1, 2, 3.7, 100, 1e9, -1, math.NaN()})
	equal := rapid.Bool().Draw(t, "equal weights")
	nodes := make([]Node, len(ids))
	for i, id := range ids {
		nodes[i] = Node{ID: id, Weight: 1}
		if !equal {
			nodes[i].Weight = weight.Draw(t, "weight")
		}
	}
	sortNodes(nodes)
	return nodes
}

func drawPlacement(t *rapid.T) Placement {
	return mustNew(t, rapid.SampledFrom(Names()).Draw(t, "placement"), Params{
		Tokens: rapid.SampledFrom([]int{1, 2, 16, 160}).Draw(t, "tokens"),
		Bound:  rapid.SampledFrom([]float64{1, 1.01, 1.05, 1.5, 10, math.Inf(1)}).Draw(t, "bound"),
	})
}

func TestNew(t *testing.T) {
	for _, name := range Names() {
		if got := mustNew(t, name, Params{}).Name(); got != name {
			t.Errorf("New(%q).Name() = %q", name, got)
		}
	}
	if got := mustNew(t, "", Params{}).Name(); got != NameRing {
		t.Errorf("the default placement is %q, want %q", got, NameRing)
	}
	for name, p := range map[string]Params{
		"tokens -1":   {Tokens: -1},
		"tokens 4097": {Tokens: MaxTokens + 1},
		"bound 0.99":  {Bound: 0.99},
		"bound -1":    {Bound: -1},
		"bound NaN":   {Bound: math.NaN()},
	} {
		if _, err := New("ring", p); !errors.Is(err, errs.ErrConfig) {
			t.Errorf("%s: error %v, want ErrConfig", name, err)
		}
	}
	_, err := New("ketama", Params{Tokens: -1, Bound: 0.5})
	for _, part := range append(Names(), "ketama", "tokens is -1", "bound is 0.5") {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name %q", err, part)
		}
	}
}

// A change of these values means that nodes of two versions disagree about
// owners: such a change needs a new placement name.
func TestPlacementNeverChanges(t *testing.T) {
	nodes := testNodes(7)
	nodes[2].Weight, nodes[3].Weight, nodes[4].Weight = 0.3, 2.5, 0
	const first = 0x0f8d7d1896483d0a
	if got := hashTokens(nodes[:1], 2)[0].hash; got != first || got != xxh3.HashString(nodes[0].ID+"#0") {
		t.Errorf("hash of the first token is %#x, want %#x", got, uint64(first))
	}
	for name, want := range map[string]uint64{
		NameRing:       0x3598ed74e1c32249,
		NameUnbounded:  0xf55dbaca5b4dbb01,
		NameModulo:     0x20dfa8260101375e,
		NameContiguous: 0xdd4dcb12c1721f1a,
	} {
		var table Table
		mustNew(t, name, Params{}).Place(nodes, &table)
		var b []byte
		for _, i := range table {
			b = binary.BigEndian.AppendUint16(b, i)
		}
		if got := xxh3.Hash(b); got != want {
			t.Errorf("%s: table hash %#x, want %#x", name, got, want)
		}
	}
}

func TestContiguousIsRedisLayout(t *testing.T) {
	for n, want := range map[int]string{
		1: "0-16383",
		2: "0-8191 8192-16383",
		3: "0-5460 5461-10922 10923-16383",
		6: "0-2730 2731-5460 5461-8191 8192-10922 10923-13652 13653-16383",
	} {
		var table Table
		contiguous{}.Place(testNodes(n), &table)
		var got []string
		for s, first := 0, 0; s < Slots; s++ {
			if s == Slots-1 || table[s+1] != table[s] {
				got = append(got, fmt.Sprintf("%d-%d", first, s))
				first = s + 1
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%d nodes: %s, want %s", n, text, want)
		}
	}
}

func TestFirstAndLastSlot(t *testing.T) {
	for _, name := range Names() {
		for _, n := range []int{1, 2, 3, 20} {
			var table Table
			mustNew(t, name, Params{}).Place(testNodes(n), &table)
			for _, s := range []int{0, Slots - 1} {
				if int(table[s]) >= n {
					t.Errorf("%s, %d nodes: slot %d belongs to %d", name, n, s, table[s])
				}
			}
		}
	}
}

func TestPlaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, nodes := drawPlacement(t), drawNodes(t, 0, 12)
		var a, b Table
		for i := range b {
			b[i] = uint16(i) // what stood there before must not matter
		}
		p.Place(nodes, &a)
		p.Place(slices.Clone(nodes), &b)
		if a != b {
			t.Fatal("two placements of the same nodes differ")
		}
		someone := slices.ContainsFunc(nodes, func(n Node) bool { return n.Weight > 0 })
		for s, i := range a {
			switch {
			case !someone && i != NoOwner:
				t.Fatalf("slot %d belongs to %d, nobody has weight", s, i)
			case someone && int(i) >= len(nodes):
				t.Fatalf("slot %d belongs to nobody (%d)", s, i)
			case someone && !(nodes[i].Weight > 0):
				t.Fatalf("slot %d belongs to %d of weight %v", s, i, nodes[i].Weight)
			}
		}
	})
}

// The rings know no order of nodes but that of the circle.
func TestRingIgnoresOrderOfNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{NameRing, NameUnbounded}).Draw(t, "placement")
		p, nodes := mustNew(t, name, Params{Tokens: 40}), drawNodes(t, 1, 12)
		shuffled := rapid.Permutation(nodes).Draw(t, "shuffled")
		var a, b Table
		p.Place(nodes, &a)
		p.Place(shuffled, &b)
		if changed := Affected(nodes, &a, shuffled, &b); len(changed) > 0 {
			t.Fatalf("the order of nodes changes %v", changed)
		}
	})
}
