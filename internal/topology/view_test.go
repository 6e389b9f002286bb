package topology

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

// testMember returns an active member with a fixed ID that depends on n.
func testMember(n int) Member {
	h := xxh3.HashString128(fmt.Sprint(n)).Bytes()
	m := Member{Boot: 5, Sequence: uint64(n), State: Active, Weight: 1, Zone: "z1", Host: "127.0.0.1",
		Port: uint16(7000 + n), Gossip: fmt.Sprintf("127.0.0.1:%d", 17000+n)}
	copy(m.ID[:], h[:])
	m.ID[19] = 1
	return m
}

func testMembers(n int) []Member {
	out := make([]Member, n)
	for i := range out {
		out[i] = testMember(i + 1)
	}
	return out
}

func mustView(t interface{ Fatal(...any) }, p Params, members []Member, pins ...ring.Pin) *View {
	v, err := NewView(p, nil, members, pins)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func drawMembers(t *rapid.T, label string) []Member {
	var out []Member
	for i := range 7 {
		m := testMember(i)
		m.State = rapid.SampledFrom([]State{Joining, Warming, Active, Active, Active, Draining, Left, stateCount}).Draw(t, label)
		if m.State < stateCount { // else it is no member
			m.Weight = rapid.SampledFrom([]float64{0, 0.5, 1, 1, 3}).Draw(t, "weight")
			m.Progress = rapid.SampledFrom([]float64{0, 0.125, 0.5, 0.9, 1}).Draw(t, "progress")
			m.OldWeight = rapid.SampledFrom([]float64{m.Weight, m.Weight, 0, 2}).Draw(t, "old weight")
			m = m.Canonical()
			out = append(out, m)
		}
	}
	return rapid.Permutation(out).Draw(t, "order")
}

func drawPins(t *rapid.T) (pins []ring.Pin) {
	for range rapid.IntRange(0, 4).Draw(t, "pins") {
		slot := rapid.SampledFrom([]uint16{0, 1, 100, ring.Slots - 1}).Draw(t, "slot")
		pins = append(pins, ring.Pin{Slot: slot, Node: testMember(rapid.IntRange(0, 7).Draw(t, "node")).ID.String()})
	}
	return pins
}

func TestViewOfNobody(t *testing.T) {
	drained, waiting := testMember(1), testMember(2)
	drained.State, waiting.State = Draining, Warming
	for name, members := range map[string][]Member{"no member": nil, "nobody present": {drained, waiting}} {
		v := mustView(t, Params{}, members)
		for _, s := range []uint16{0, ring.Slots - 1, ring.Slots, math.MaxUint16} {
			if v.Owner(s) != -1 || v.OwnerMember(s) != nil || !v.OwnerID(s).IsZero() || v.Successor(s) != -1 {
				t.Errorf("%s: slot %d has an owner or successor", name, s)
			}
		}
		if len(v.Ranges()) != 0 || v.Owned() != 0 {
			t.Errorf("%s: ranges %v, %d slots owned", name, v.Ranges(), v.Owned())
		}
	}
}

func TestViewOfOne(t *testing.T) {
	m := testMember(1)
	v := mustView(t, Params{}, []Member{m})
	for _, s := range []uint16{0, 1, ring.Slots - 1} {
		if v.Owner(s) != 0 || v.OwnerID(s) != m.ID || *v.OwnerMember(s) != m || v.Successor(s) != -1 {
			t.Errorf("slot %d: owner %d, successor %d", s, v.Owner(s), v.Successor(s))
		}
	}
	if v.Owner(ring.Slots) != -1 || v.Successor(ring.Slots) != -1 {
		t.Error("the slot behind the last one has an owner")
	}
	if want := []OwnedRange{{0, ring.Slots - 1, 0}}; !slices.Equal(v.Ranges(), want) {
		t.Errorf("ranges %v, want %v", v.Ranges(), want)
	}
	if v.OwnedBy(0) != ring.Slots || v.Owned() != ring.Slots || v.Len() != 1 || v.Epoch() != 1 {
		t.Errorf("owned %d of %d, %d members, epoch %d", v.OwnedBy(0), v.Owned(), v.Len(), v.Epoch())
	}
}

func TestViewProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, pins := drawMembers(t, "state"), drawPins(t)
		p := Params{Placement: rapid.SampledFrom(ring.Names()).Draw(t, "placement"), Tokens: 20}
		v := mustView(t, p, members, pins...)
		if !slices.IsSortedFunc(v.Members(), func(a, b Member) int { return a.ID.Compare(b.ID) }) || v.Len() != len(members) {
			t.Fatalf("members are lost or not sorted: %v", v.Members())
		}
		for i, m := range v.Members() {
			if at, ok := v.Index(m.ID); !ok || at != i || v.Member(i).ID != m.ID {
				t.Fatalf("Index of member %d is %d, %v", i, at, ok)
			}
		}
		counts, pinned := make([]int, v.Len()), map[uint16]string{} // the first choice
		for k, pin := range v.Pins() {
			pinned[pin.Slot] = pin.Node
			if k > 0 && pin.Slot < v.Pins()[k-1].Slot {
				t.Fatalf("pins are not sorted: %v", v.Pins())
			}
		}
		var weight float64
		for _, m := range members {
			if m.Presence() > 0 {
				weight += m.Weight
			}
		}
		for s := range uint16(ring.Slots) {
			i := v.Owner(s)
			if i < 0 {
				if weight > 0 {
					t.Fatalf("slot %d has no owner", s)
				}
				continue
			}
			counts[i]++
			m := v.Member(i)
			if m.Presence() == 0 || m.Weight == 0 && !m.Weighing() && !slices.Contains(v.Pins(), ring.Pin{Slot: s, Node: m.ID.String()}) {
				t.Fatalf("slot %d belongs to a %s member of progress %v, weight %v", s, m.State, m.Progress, m.Weight)
			}
			if j, ok := indexOfHex(v, pinned[s]); ok && v.Member(j).State == Active && i != j {
				t.Fatalf("slot %d is pinned to %d and belongs to %d", s, j, i)
			}
		}
		checkRanges(t, v, counts)
		again := mustView(t, p, rapid.Permutation(members).Draw(t, "again"), pins...)
		if again.Hash() != v.Hash() || again.owners != v.owners {
			t.Fatal("the order of members changes the view")
		}
	})
}

func indexOfHex(v *View, text string) (int, bool) {
	id, err := ParseNodeID(text)
	if err != nil {
		return 0, false
	}
	return v.Index(id)
}

// checkRanges holds Ranges, RangesOf and OwnedBy against Owner and counts.
func checkRanges(t *rapid.T, v *View, counts []int) {
	var owned int
	for k, r := range v.Ranges() {
		for s := int(r.First); s <= int(r.Last); s++ {
			if v.Owner(uint16(s)) != r.Owner {
				t.Fatalf("slot %d belongs to %d, range says %d", s, v.Owner(uint16(s)), r.Owner)
			}
			owned++
		}
		if k > 0 {
			p := v.Ranges()[k-1]
			if p.Last >= r.First || p.Last+1 == r.First && p.Owner == r.Owner {
				t.Fatalf("ranges %v and %v overlap or should be one", p, r)
			}
		}
	}
	if owned != v.Owned() {
		t.Fatalf("ranges hold %d slots, %d are owned", owned, v.Owned())
	}
	for i, n := range counts {
		var inRanges int
		for _, r := range v.RangesOf(i) {
			inRanges += int(r.Last) - int(r.First) + 1
		}
		if v.OwnedBy(i) != n || inRanges != n {
			t.Fatalf("member %d owns %d slots, OwnedBy %d, RangesOf %d", i, n, v.OwnedBy(i), inRanges)
		}
	}
}

// The successor of a slot is its owner in the view without its present owner.
func TestSuccessorIsTheNextOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, pins := drawMembers(t, "state"), drawPins(t)
		v := mustView(t, Params{Tokens: 20}, members, pins...)
		if v.Len() == 0 {
			return
		}
		i := rapid.IntRange(0, v.Len()-1).Draw(t, "gone")
		gone := v.Member(i).ID
		rest := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.ID == gone })
		without := mustView(t, Params{Tokens: 20}, rest, pins...)
		for s := range uint16(ring.Slots) {
			if v.Owner(s) != i {
				continue
			}
			var got NodeID
			if next := v.Successor(s); next >= 0 {
				got = v.Member(next).ID
			}
			if want := without.OwnerID(s); got != want {
				t.Fatalf("slot %d: successor %s, next owner %s", s, got, want)
			}
		}
	})
}

func TestSuccessorOfPinnedSlot(t *testing.T) {
	members := testMembers(3)
	plain := mustView(t, Params{}, members)
	other := plain.Member((plain.Owner(0) + 1) % 3).ID
	v := mustView(t, Params{}, members, ring.Pin{Slot: 0, Node: other.String()})
	if v.OwnerID(0) != other {
		t.Fatalf("slot 0 belongs to %s, pinned to %s", v.OwnerID(0), other)
	}
	rest := slices.DeleteFunc(members, func(m Member) bool { return m.ID == other })
	if got, want := v.Member(v.Successor(0)).ID, mustView(t, Params{}, rest).OwnerID(0); got != want {
		t.Errorf("successor of the pinned slot is %s, want %s", got, want)
	}
}

func TestConcurrentReaders(t *testing.T) {
	v := mustView(t, Params{}, testMembers(5))
	nodes := v.nodes()
	for i := range nodes {
		nodes[i].Weight = v.Member(i).Weight
	}
	want := ring.Successors(v.place, nodes, &v.owners)
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() { // ends after one pass over the slots
			for s := range uint16(ring.Slots) {
				if v.Successor(s) != int(want[s]) {
					t.Errorf("slot %d: successor %d, want %d", s, v.Successor(s), want[s])
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestViewCopiesItsArguments(t *testing.T) {
	members, pins := testMembers(3), []ring.Pin{{Slot: 9, Node: testMember(2).ID.String()}}
	v := mustView(t, Params{}, members, pins...)
	before := slices.Clone(v.Members())
	members[0].Weight, pins[0].Slot = 77, 10
	if diff := cmp.Diff(before, v.Members()); diff != "" || v.Pins()[0].Slot != 9 {
		t.Errorf("the view changed with its arguments: %s %v", diff, v.Pins())
	}
}

func TestNewViewNamesAllFaults(t *testing.T) {
	good := testMember(1)
	bad := testMember(2)
	bad.Weight, bad.Host = -1, strings.Repeat("x", 254)
	_, err := NewView(Params{Placement: "ketama", Tokens: -1, Bound: 0.5}, nil, []Member{good, bad, good},
		[]ring.Pin{{Slot: ring.Slots, Node: "xyz"}})
	if !errors.Is(err, errs.ErrConfig) {
		t.Fatalf("error %v, want ErrConfig", err)
	}
	for _, part := range []string{"tokens is -1", "bound is 0.5", "weight is -1", "host has 254 bytes",
		good.ID.String() + " is given twice", "pin of slot 16384: the last slot is 16383", "node ID has 3 characters"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not name %q: %v", part, err)
		}
	}
	if _, err := NewView(Params{Placement: "ketama"}, nil, nil, nil); err == nil || !strings.Contains(err.Error(), `"ketama" is unknown`) {
		t.Errorf("unknown placement: %v", err)
	}
	modulo, err := Params{Placement: ring.NameModulo}.NewPlacement()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewView(Params{}, modulo, nil, nil); err == nil {
		t.Error("a placement under another name is accepted")
	}
	if _, err := NewView(Params{}, nil, make([]Member, MaxMembers+1), nil); err == nil || !strings.Contains(err.Error(), "limit 1000") {
		t.Error("1001 members are accepted")
	}
}

// wild is a placement that gives slots to a node that does not exist.
type wild struct{}

func (wild) Name() string { return "wild" }
func (wild) Place(nodes []ring.Node, t *ring.Table) {
	t.Clear()
	t[ring.Slots-1] = uint16(len(nodes))
}

func TestNewViewChecksUserPlacement(t *testing.T) {
	_, err := NewView(Params{Placement: "wild"}, wild{}, testMembers(2), nil)
	if !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), "slot 16383 to node 2 of 2") {
		t.Errorf("error %v", err)
	}
}

func TestParams(t *testing.T) {
	p := Params{}.WithDefaults()
	if want := (Params{Placement: "ring", Tokens: 160, Bound: 1.05}); p != want || p.WithDefaults() != want {
		t.Errorf("defaults %v, want %v", p, want)
	}
	if got, want := p.String(), "placement ring, 160 tokens, bound 1.05"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	if v := mustView(t, Params{}, nil); v.Params() != p {
		t.Errorf("Params of a view: %v, want %v", v.Params(), p)
	}
}

func TestOwnerAllocatesNothing(t *testing.T) {
	v := mustView(t, Params{}, testMembers(3))
	var sum int
	if n := testing.AllocsPerRun(100, func() { sum += v.Owner(5) + int(v.OwnerMember(6).Port) + int(v.OwnerID(7)[0]) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkNewView(b *testing.B) {
	for _, n := range []int{3, 10, 50} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			members := testMembers(n)
			for b.Loop() {
				mustView(b, Params{}, members)
			}
		})
	}
}
