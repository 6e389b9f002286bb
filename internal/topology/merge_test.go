package topology

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

func TestMergeMember(t *testing.T) {
	base := testMember(1)
	with := func(change func(*Member)) Member {
		m := base
		change(&m)
		return m
	}
	for name, c := range map[string]struct{ lose, win Member }{
		"later boot wins over greater sequence": {
			with(func(m *Member) { m.Sequence = 100 }), with(func(m *Member) { m.Boot = 6 })},
		"greater sequence wins": {
			with(func(m *Member) { m.State = Left }), with(func(m *Member) { m.Sequence++ })},
		"else the greater encoding wins": {
			with(func(m *Member) { m.State = Active }), with(func(m *Member) { m.State = Draining })},
	} {
		if got := MergeMember(c.lose, c.win); got != c.win {
			t.Errorf("%s: got %+v", name, got)
		}
		if got := MergeMember(c.win, c.lose); got != c.win {
			t.Errorf("%s, other order: got %+v", name, got)
		}
	}
}

func TestMerge(t *testing.T) {
	m := testMembers(3)
	newer := m[1]
	newer.Sequence, newer.State = 50, Draining
	a, b := []Member{m[2], m[1]}, []Member{newer, m[0]}
	got := Merge(a, b)
	want := []Member{m[0], newer, m[2]}
	slices.SortFunc(want, func(x, y Member) int { return x.ID.Compare(y.ID) })
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if a[0] != m[2] || b[0] != newer {
		t.Error("Merge changed its arguments")
	}
	if got := Merge(nil, nil); len(got) != 0 {
		t.Errorf("nothing merged is %v", got)
	}
}

// membersFrom reads members from fuzz bytes, with few distinct values per
// field so that equal IDs, boots and sequences meet.
func membersFrom(b []byte) (out []Member) {
	for len(b) >= 6 && len(out) < 12 {
		m := Member{Boot: uint64(b[1] % 3), Sequence: uint64(b[2] % 3), State: State(b[3]), Weight: float64(b[4] % 4)}
		m.ID[0] = b[0] % 4
		switch b[5] % 8 {
		case 0:
			m.Weight = math.NaN()
		case 1:
			m.Weight = math.Copysign(0, -1)
		case 2:
			m.Host = "h"
		case 3:
			m.Zone = "h"
		case 4:
			m.Port = uint16(b[5])
		case 5:
			m.Gossip = string(b[:6])
		}
		out, b = append(out, m), b[6:]
	}
	return out
}

// bytesOf makes members comparable in spite of NaN.
func bytesOf(members []Member) (b []byte) {
	for i := range members {
		b = appendMember(b, &members[i])
	}
	return b
}

func FuzzMerge(f *testing.F) {
	f.Fuzz(func(t *testing.T, x, y, z []byte) {
		a, b, c := membersFrom(x), membersFrom(y), membersFrom(z)
		ab := Merge(a, b)
		if !bytes.Equal(bytesOf(ab), bytesOf(Merge(b, a))) {
			t.Error("not commutative")
		}
		if !bytes.Equal(bytesOf(Merge(ab, c)), bytesOf(Merge(a, Merge(b, c)))) {
			t.Error("not associative")
		}
		if !bytes.Equal(bytesOf(Merge(ab, ab)), bytesOf(ab)) || !bytes.Equal(bytesOf(Merge(ab, a)), bytesOf(ab)) {
			t.Error("not idempotent")
		}
		latest := map[NodeID]Member{}
		for _, m := range slices.Concat(a, b) {
			if old, ok := latest[m.ID]; ok {
				m = MergeMember(old, m)
			}
			latest[m.ID] = m
		}
		if len(ab) != len(latest) {
			t.Fatalf("%d members, want %d", len(ab), len(latest))
		}
		for i, m := range ab {
			if i > 0 && !ab[i-1].ID.Less(m.ID) {
				t.Error("not sorted")
			}
			if want := latest[m.ID]; !bytes.Equal(bytesOf([]Member{m}), bytesOf([]Member{want})) {
				t.Errorf("member %s is %+v, want %+v", m.ID, m, want)
			}
		}
	})
}
