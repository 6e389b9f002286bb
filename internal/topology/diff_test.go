package topology

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/ring"
)

func TestDiffEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := mustView(t, Params{Tokens: 10}, drawMembers(t, "old state"), drawPins(t)...)
		now := mustView(t, Params{Tokens: 10}, drawMembers(t, "new state"), drawPins(t)...)
		got := Diff(old, now)
		var want Change
		for _, m := range old.Members() {
			if i, ok := now.Index(m.ID); !ok {
				want.Left = append(want.Left, m.ID)
			} else if *now.Member(i) != m {
				want.Changed = append(want.Changed, m.ID)
			}
		}
		for _, m := range now.Members() {
			if _, ok := old.Index(m.ID); !ok {
				want.Joined = append(want.Joined, m.ID)
			}
		}
		for s := range uint16(ring.Slots) {
			from, to := old.OwnerID(s), now.OwnerID(s)
			if from == to {
				continue
			}
			if n := len(want.Moves); n > 0 {
				if last := &want.Moves[n-1]; last.Last+1 == s && last.From == from && last.To == to {
					last.Last = s
					continue
				}
			}
			want.Moves = append(want.Moves, Move{First: s, Last: s, From: from, To: to})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDiffOfNil(t *testing.T) {
	m := testMember(1)
	v := mustView(t, Params{}, []Member{m})
	first := Diff(nil, v)
	want := Change{Joined: []NodeID{m.ID}, Moves: []Move{{First: 0, Last: ring.Slots - 1, To: m.ID}}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	last := Diff(v, nil)
	want = Change{Left: []NodeID{m.ID}, Moves: []Move{{First: 0, Last: ring.Slots - 1, From: m.ID}}}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Change{}, Diff(v, v)); diff != "" || !slices.Equal(v.Members(), []Member{m}) {
		t.Errorf("a view differs from itself: %s", diff)
	}
}
