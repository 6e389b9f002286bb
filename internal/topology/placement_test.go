package topology

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/ring"
)

// drawCluster draws members of which one changes, and the rest is present, absent
// or changes as well. It returns the index of the one.
func drawCluster(t *rapid.T) (members []Member, one int) {
	members = drawMembers(t, "state")
	changing := 1
	for i := range members {
		if p := members[i].Presence(); p > 0 && p < 1 || members[i].Weighing() {
			if changing++; changing > maxChanging {
				members[i].State, members[i].Progress = Active, 0
				members[i] = members[i].Canonical()
			}
		}
	}
	m := testMember(99)
	m.State = rapid.SampledFrom([]State{Warming, Draining}).Draw(t, "changing state")
	m.Weight = rapid.SampledFrom([]float64{0, 0.5, 1, 3}).Draw(t, "changing weight")
	members = append(members, m)
	return members, len(members) - 1
}

// rooted tells whether a member has weight in every group of slots.
func rooted(m *Member) bool {
	return m.Presence() == 1 && m.Weight > 0 && (!m.Weighing() || m.OldWeight > 0)
}

func ownersByID(v *View) *[ring.Slots]NodeID {
	t := new([ring.Slots]NodeID)
	for s := range t {
		t[s] = v.OwnerID(uint16(s))
	}
	return t
}

// followSteps takes one member from 0 to 1 in steps and fails unless each slot moves
// once at most, from its owner in from to that in to. unless says that some may not.
func followSteps(t *rapid.T, p Params, members []Member, pins []ring.Pin, one int, from, to *[ring.Slots]NodeID, unless bool) {
	steps := rapid.IntRange(1, 9).Draw(t, "steps")
	before := *from
	for k := 1; k < steps; k++ {
		members[one].Progress = float64(k) / float64(steps)
		now := ownersByID(mustView(t, p, members, pins...))
		for s := range now {
			switch {
			case now[s] == before[s] || unless:
			case before[s] != from[s]:
				t.Fatalf("slot %d moves again at progress %d/%d: from %s to %s", s, k, steps, before[s], now[s])
			case now[s] != to[s]:
				t.Fatalf("slot %d goes to %s, which is not its owner in the end (%s)", s, now[s], to[s])
			}
		}
		before = *now
	}
}

// With the progress of one member each slot moves at most once, and at the ends
// the owners are exactly those without and with it, whatever others do.
func TestEachSlotMovesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, one := drawCluster(t)
		p := Params{Placement: rapid.SampledFrom(ring.Names()).Draw(t, "placement"), Tokens: 20}
		pins := drawPins(t)
		without := ownersByID(mustView(t, p, slices.Delete(slices.Clone(members), one, one+1), pins...))
		active := slices.Clone(members)
		active[one].State = Active
		with := ownersByID(mustView(t, p, active, pins...))
		alone := true // else nobody but changing members has weight, and p does not count
		for i := range members {
			alone = alone && (i == one || !rooted(&members[i]))
		}
		for progress, want := range []*[ring.Slots]NodeID{without, with} {
			members[one].Progress = float64(progress)
			if *ownersByID(mustView(t, p, members, pins...)) != *want {
				t.Fatalf("the owners at progress %d are not those without or with an active member", progress)
			}
		}
		followSteps(t, p, members, pins, one, without, with, alone)
	})
}

// Between two weights of one member each slot moves at most once, and between the
// owners by the one and by the other, whatever others do.
func TestWeightMovesEachSlotOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, one := drawCluster(t)
		p := Params{Placement: rapid.SampledFrom(ring.Names()).Draw(t, "placement"), Tokens: rapid.SampledFrom([]int{5, 40}).Draw(t, "tokens")}
		pins := drawPins(t)
		weights := [2]float64{rapid.Float64Range(0, 4).Draw(t, "from"), rapid.SampledFrom([]float64{0, 0.3, 1, 1.1, 7}).Draw(t, "to")}
		var ends [2]*[ring.Slots]NodeID
		for i, w := range weights {
			members[one].State, members[one].Weight, members[one].Progress = Active, w, 0
			ends[i] = ownersByID(mustView(t, p, members, pins...))
		}
		members[one].OldWeight = weights[0]
		alone := weights[0] == 0 || weights[1] == 0
		for i := range members {
			alone = alone && (i == one || !rooted(&members[i]))
		}
		followSteps(t, p, members, pins, one, ends[0], ends[1], alone)
	})
}

// Changes of weight move slots step by step, as evenly as joins do, and between old
// nodes too.
func TestWeightStepsAreEven(t *testing.T) {
	const steps = 8
	for _, n := range []int{2, 3, 5, 10, 20} {
		for _, weights := range [][2]float64{{1, 2}, {2, 1}, {1, 0}} {
			members := testMembers(n)
			m := &members[n-1]
			var ends [2]*[ring.Slots]NodeID
			for i, w := range weights {
				m.Weight, m.Progress = w, 0
				ends[i] = ownersByID(mustView(t, Params{}, members))
			}
			total := differences(ends[0], ends[1])
			m.OldWeight = weights[0]
			before, worst := ends[0], 0.0
			for k := 1; k <= steps; k++ {
				now := ends[1]
				if m.Progress = float64(k) / steps; k < steps {
					now = ownersByID(mustView(t, Params{}, members))
				}
				worst = max(worst, math.Abs(float64(differences(before, now))*steps/float64(total)-1))
				before = now
			}
			t.Logf("%d nodes, weight %g to %g: a step is within %.0f %% of %d/%d slots", n, weights[0], weights[1], 100*worst, total, steps)
			if worst > 0.6 {
				t.Errorf("%d nodes, weight %g to %g: one of %d steps is %.0f %% off", n, weights[0], weights[1], steps, 100*worst)
			}
		}
	}
}

// Weights in between as the steps would move slots more than once: what one bound lets
// in leaves with the next. See docs/adr/0010.
func TestWeightsInBetweenMoveMore(t *testing.T) {
	const steps, sets = 8, 3
	for _, n := range []int{3, 5, 10, 20} {
		var moves, ideal int
		for set := range sets {
			members := testMembers(n * (set + 1))[n*set:]
			var first, before, now *[ring.Slots]NodeID
			for k := range steps + 1 {
				members[0].Weight = 1 + float64(k)/steps
				if now = ownersByID(mustView(t, Params{}, members)); k == 0 {
					first, before = now, now
				}
				moves += differences(before, now)
				before = now
			}
			ideal += differences(first, now)
		}
		t.Logf("%d nodes, weight 1 to 2 in %d steps: %d moves by weights in between, %d by progress", n, steps, moves/sets, ideal/sets)
		if float64(moves) < 1.03*float64(ideal) {
			t.Errorf("%d nodes: weights in between move as little: %d, %d", n, moves, ideal)
		}
	}
}

func differences(a, b *[ring.Slots]NodeID) (n int) {
	for s := range a {
		if a[s] != b[s] {
			n++
		}
	}
	return n
}

// Slots that move between old nodes do so by the same steps.
func TestOldNodesMoveInSteps(t *testing.T) {
	members := testMembers(21)
	joiner := &members[20]
	*joiner = testMember(21)
	joiner.State = Warming
	start := ownersByID(mustView(t, Params{}, members))
	between := make([]int, 9)
	for k := range between {
		joiner.Progress = float64(k) / 8
		now := ownersByID(mustView(t, Params{}, members))
		for s := range now {
			if now[s] != start[s] && now[s] != joiner.ID {
				between[k]++
			}
		}
	}
	if between[0] != 0 || between[8] == 0 || !slices.IsSorted(between) || between[4] == 0 || between[4] == between[8] {
		t.Errorf("moved between old nodes by progress: %v", between)
	}
}

// Without anybody who is present in full, those in part own all slots: a death
// while the only other member joins or leaves leaves no slot without an owner.
func TestNobodyPresentInFull(t *testing.T) {
	for _, state := range []State{Warming, Draining} {
		m := testMember(1)
		m.State, m.Progress = state, 0.125
		if v := mustView(t, Params{}, []Member{m}); v.OwnedBy(0) != ring.Slots || v.Owner(0) != 0 || v.Owner(ring.Slots-1) != 0 {
			t.Errorf("%s alone owns %d slots", state, v.OwnedBy(0))
		}
		other := testMember(2)
		v := mustView(t, Params{}, []Member{m, other})
		i, _ := v.Index(other.ID)
		if n := v.OwnedBy(i); n == ring.Slots || n < ring.Slots/2 {
			t.Errorf("beside %s the other owns %d slots", state, n)
		}
		for s := range uint16(ring.Slots) {
			if v.Successor(s) != 1-v.Owner(s) {
				t.Fatalf("slot %d of %d has successor %d", s, v.Owner(s), v.Successor(s))
			}
		}
	}
}

// A view of many changing members is bounded in its cost, and every slot has an
// owner.
func TestManyChange(t *testing.T) {
	members := testMembers(40)
	for i := range members {
		members[i].State, members[i].Progress = Draining, float64(1+i%8)/9
	}
	v := mustView(t, Params{}, members)
	if r := v.newRoster(-1); v.Owned() != ring.Slots || r.sets() > 1<<maxChanging {
		t.Errorf("%d slots owned, %d sets", v.Owned(), r.sets())
	}
}

// Each step moves about as much as the others: a joiner's budget is made for that.
func TestStepsAreEven(t *testing.T) {
	const steps = 8
	for _, n := range []int{2, 3, 5, 10, 20} {
		members := testMembers(n + 1)
		joiner := &members[n]
		joiner.State = Warming
		worst, ranges, before := 0.0, 0, 0
		var total, full int
		{
			joiner.Progress = 1
			v := mustView(t, Params{}, members)
			i, _ := v.Index(joiner.ID)
			total, full = v.OwnedBy(i), len(v.Ranges())
		}
		for k := 1; k <= steps; k++ {
			joiner.Progress = float64(k) / steps
			v := mustView(t, Params{}, members)
			i, _ := v.Index(joiner.ID)
			part := float64(v.OwnedBy(i)-before) / (float64(total) / steps)
			worst = max(worst, math.Abs(part-1))
			before = v.OwnedBy(i)
			ranges = max(ranges, len(v.Ranges()))
		}
		t.Logf("%d nodes: a step is within %.0f %% of %d/%d slots; at most %d ranges, %d in the end", n, 100*worst, total, steps, ranges, full)
		if most := map[bool]float64{true: 0.15, false: 0.5}[n <= 5]; worst > most {
			t.Errorf("%d nodes: one of %d steps is %.0f %% off", n, steps, 100*worst)
		}
		if ranges > 3*full {
			t.Errorf("%d nodes: %d ranges on the way, %d in the end", n, ranges, full)
		}
	}
}

// A change of these values means that nodes of two versions disagree about
// owners.
func TestStepsNeverChange(t *testing.T) {
	m := testMember(1)
	m.State, m.Progress = Warming, 0.5
	c := newChanging(0, &m)
	var got string
	for g := range 16 {
		got += fmt.Sprintf("%d", map[bool]int{true: 1}[c.seenBy(g)])
	}
	if got != "1011010010110100" || c.below != 1<<63 {
		t.Errorf("groups %s, below %#x", got, c.below)
	}
	for p, want := range map[float64]uint64{math.Nextafter(1, 0): math.MaxUint64 - 1<<11 + 1, 0.125: 1 << 61, math.SmallestNonzeroFloat64: 0} {
		if m.Progress = p; newChanging(0, &m).below != want {
			t.Errorf("progress %v: %#x, want %#x", p, newChanging(0, &m).below, want)
		}
	}
}

func BenchmarkNewViewChanging(b *testing.B) {
	for _, n := range []int{3, 10, 50} {
		for k := 1; k <= 2; k++ {
			b.Run(fmt.Sprintf("members=%d/changing=%d", n, k), func(b *testing.B) {
				members := testMembers(n)
				for i := range k {
					members[i].State, members[i].Progress = Warming, 0.5
				}
				for b.Loop() {
					mustView(b, Params{}, members)
				}
			})
		}
	}
}
