package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/topology"
)

// changer makes a member by its state and progress.
func changer(id byte, state topology.State, progress float64) topology.Member {
	m := member(int(id), fmt.Sprintf("10.0.0.%d", id), state)
	m.Progress = progress
	return m
}

func nobodyPassed(*topology.Member) bool { return false }

func TestTurns(t *testing.T) {
	const w, a, d = topology.Warming, topology.Active, topology.Draining
	for _, tc := range []struct {
		name    string
		members []topology.Member
		self    byte
		want    byte // 0: nobody
	}{
		{"alone", []topology.Member{changer(1, a, 0), changer(2, w, 0)}, 2, 0},
		{"lowest ID among waiting", []topology.Member{changer(1, w, 0), changer(2, w, 0)}, 2, 1},
		{"who is first", []topology.Member{changer(1, w, 0), changer(2, w, 0)}, 1, 0},
		{"who has begun goes on", []topology.Member{changer(1, w, 0), changer(2, w, .125)}, 1, 2},
		{"it does not look back", []topology.Member{changer(1, w, 0), changer(2, w, .125)}, 2, 0},
		{"of two that have begun the lower ID", []topology.Member{changer(1, w, .5), changer(2, w, .125)}, 2, 1},
		{"and the other waits", []topology.Member{changer(1, w, .125), changer(2, w, .5)}, 1, 0},
		{"leaving comes before joining", []topology.Member{changer(1, w, .5), changer(2, d, 1)}, 1, 2},
		{"and does not wait for it", []topology.Member{changer(1, w, .5), changer(2, d, 1)}, 2, 0},
		{"one leaves after the other", []topology.Member{changer(1, d, 1), changer(2, d, .5)}, 1, 2},
		{"one that has left everything", []topology.Member{changer(1, d, 0), changer(2, w, 0)}, 2, 0},
		{"a joiner not yet waiting", []topology.Member{changer(1, topology.Joining, 0), changer(2, w, 0)}, 2, 0},
		{"a change of weight is one", []topology.Member{changer(1, a, .25), changer(2, w, 0)}, 2, 1},
		{"it waits for a join", []topology.Member{changer(1, a, 0), changer(2, w, .25)}, 1, 2},
		{"the first of several", []topology.Member{changer(1, w, 0), changer(2, w, 0), changer(3, d, 1), changer(4, d, .5), changer(5, w, 0)}, 5, 4},
	} {
		got := byte(0)
		if m := ahead(tc.members, member(int(tc.self), "", a).ID, nobodyPassed); m != nil {
			got = m.ID[0]
		}
		if got != tc.want {
			t.Errorf("%s: %d waits for %d, want %d", tc.name, tc.self, got, tc.want)
		}
	}
}

// Of any members that change, exactly one has nobody before it, and in any part of
// them that some node knows of, some one has.
func TestSomebodyIsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []topology.Member
		for i := range byte(rapid.IntRange(1, 6).Draw(t, "members")) {
			state := rapid.SampledFrom([]topology.State{topology.Warming, topology.Active, topology.Draining}).Draw(t, "state")
			all = append(all, changer(i+1, state, rapid.SampledFrom([]float64{0, .125, .5, 1}).Draw(t, "progress")))
		}
		changing := slices.DeleteFunc(slices.Clone(all), func(m topology.Member) bool { return rankOf(&m) == rankNone })
		first := 0
		for i := range changing {
			if ahead(all, changing[i].ID, nobodyPassed) == nil {
				first++
			}
		}
		if len(changing) > 0 && first != 1 {
			t.Fatalf("%d of %d are first: %v", first, len(changing), changing)
		}
		// Each waits for one that comes before it in one and the same order: so
		// there is no circle, whatever each of them knows.
		for i := range changing {
			known := slices.DeleteFunc(slices.Clone(all), func(m topology.Member) bool {
				return m.ID != changing[i].ID && rapid.Bool().Draw(t, "unknown")
			})
			m := ahead(known, changing[i].ID, nobodyPassed)
			if m == nil {
				continue
			}
			own, other := rankOf(&changing[i]), rankOf(m)
			if other > own || other == own && !m.ID.Less(changing[i].ID) {
				t.Fatalf("%v waits for %v", changing[i], m)
			}
		}
	})
}

// A member that says nothing new for the time of a join is passed by, and the one
// behind it counts then.
func TestStandstillIsPassedBy(t *testing.T) {
	members := []topology.Member{changer(1, topology.Warming, .5), changer(2, topology.Warming, .5), changer(3, topology.Warming, 0)}
	p := patience{limit: time.Minute}
	now := time.Unix(1, 0)
	first := func() byte {
		if m := ahead(members, members[2].ID, func(m *topology.Member) bool { return p.passed(m, now) }); m != nil {
			return m.ID[0]
		}
		return 0
	}
	if got := first(); got != 1 {
		t.Fatalf("at first %d", got)
	}
	now = now.Add(59 * time.Second)
	members[1].Sequence++
	if got := first(); got != 1 {
		t.Fatalf("after 59 s %d", got)
	}
	now = now.Add(time.Second)
	if got := first(); got != 2 {
		t.Fatalf("after a minute %d", got)
	}
	members[0].Sequence++ // it goes on
	if got := first(); got != 1 {
		t.Fatalf("after a sign of life %d", got)
	}
	now = now.Add(time.Minute)
	if got := first(); got != 0 {
		t.Fatalf("at last %d", got)
	}
}

func TestStepsUpAndDown(t *testing.T) {
	for _, steps := range []int{1, 3, 7, 8, 64} {
		p, n := 0.0, 0
		for ; p < 1; n++ {
			p = stepUp(p, steps)
		}
		if n != steps || p != 1 {
			t.Errorf("%d steps up, want %d, to %v", n, steps, p)
		}
		for n = 0; p > 0; n++ {
			p = stepDown(p, steps)
		}
		if n != steps || p != 0 {
			t.Errorf("%d steps down, want %d, to %v", n, steps, p)
		}
	}
	// What another number of steps has left.
	if up, down := stepUp(0.3, 8), stepDown(0.3, 8); up != 0.375 || down != 0.25 {
		t.Errorf("from 0.3 to %v and %v", up, down)
	}
}

func TestOthers(t *testing.T) {
	v, err := topology.NewView(topology.Params{}, nil, []topology.Member{
		changer(1, topology.Active, 0), changer(2, topology.Warming, 0), changer(3, topology.Warming, .5),
		changer(4, topology.Draining, 1), changer(5, topology.Left, 0), changer(6, topology.Joining, 0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if staying, present := others(v, v.Member(0).ID); staying != 3 || present != 1 {
		t.Errorf("%d stay, %d own slots", staying, present)
	}
}
