package topology

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

func pinID(n byte) (id NodeID) {
	id[0], id[19] = n+1, n
	return id
}

// drawRecords draws records of few slots, stamps and writers, so that they meet.
func drawRecords(t *rapid.T, name string) []PinRecord {
	var out []PinRecord
	for range rapid.IntRange(0, 12).Draw(t, name) {
		r := PinRecord{
			Slot: uint16(rapid.IntRange(0, 4).Draw(t, "slot")), Stamp: uint64(rapid.IntRange(1, 3).Draw(t, "stamp")),
			Writer: pinID(byte(rapid.IntRange(0, 2).Draw(t, "writer"))), Group: rapid.SampledFrom([]string{"", "g"}).Draw(t, "group"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "nodes") {
			r.Nodes = append(r.Nodes, pinID(byte(rapid.IntRange(0, 3).Draw(t, "node"))))
		}
		out = append(out, r)
	}
	return MergePins(out, nil)
}

func TestMergePins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawRecords(t, "a"), drawRecords(t, "b"), drawRecords(t, "c")
		ab, ba := MergePins(a, b), MergePins(b, a)
		if !reflect.DeepEqual(ab, ba) || PinsDigest(ab) != PinsDigest(ba) {
			t.Fatalf("not commutative: %v, %v", ab, ba)
		}
		if left, right := MergePins(ab, c), MergePins(a, MergePins(b, c)); !reflect.DeepEqual(left, right) {
			t.Fatalf("not associative: %v, %v", left, right)
		}
		if again := MergePins(ab, a); !reflect.DeepEqual(again, ab) {
			t.Fatalf("not idempotent: %v, %v", again, ab)
		}
		// The latest of each slot stands, and no slot is lost.
		for _, r := range slices.Concat(a, b) {
			i := slices.IndexFunc(ab, func(x PinRecord) bool { return x.Slot == r.Slot })
			if i < 0 || comparePins(&ab[i], &r) < 0 {
				t.Fatalf("%v lost to %v", r, ab)
			}
		}
	})
}

func TestPinsCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecords(t, "pins")
		b := AppendPins(nil, want)
		got, err := DecodePins(b)
		if err != nil || PinsDigest(got) != PinsDigest(want) {
			t.Fatalf("%v: %v, want %v", err, got, want)
		}
		for n := range b {
			if short, err := DecodePins(b[:n]); err == nil {
				t.Fatalf("%d of %d bytes give %v", n, len(b), short)
			}
		}
	})
	many := make([]NodeID, MaxPinNodes+1)
	for i := range many {
		many[i] = pinID(byte(i))
	}
	for _, tc := range []struct {
		r    PinRecord
		want string
	}{
		{PinRecord{Slot: 16384}, "the last slot is 16383"},
		{PinRecord{Stamp: MaxPinStamp + 1}, "stamp"},
		{PinRecord{Nodes: many}, "nodes of a pin is 17, limit 16"},
		{PinRecord{Group: "a b"}, "group"},
		{PinRecord{Group: strings.Repeat("x", 33)}, "limit 32"},
	} {
		_, err := DecodePins(AppendPins(nil, []PinRecord{tc.r}))
		if !errors.Is(err, errs.ErrProtocol) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.r, err, tc.want)
		}
	}
}

func FuzzDecodePins(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendPins(nil, []PinRecord{{Slot: 7, Stamp: 9, Writer: pinID(1), Group: "g", Nodes: []NodeID{pinID(2), pinID(3)}}, {Slot: 9}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := DecodePins(b)
		if err != nil {
			return
		}
		again, err := DecodePins(AppendPins(nil, records))
		if err != nil || PinsDigest(again) != PinsDigest(records) {
			t.Fatalf("%v: %v, then %v", err, records, again)
		}
	})
}

// TestResolvePins: one of several nodes owns the slot; when it goes, its slots alone
// move, to the others.
func TestResolvePins(t *testing.T) {
	var members []Member
	var nodes []NodeID
	for i := range byte(4) {
		id := pinID(i)
		members = append(members, Member{ID: id, State: Active, Weight: 1, Host: fmt.Sprint("h", i), Port: 1})
		nodes = append(nodes, id)
	}
	var records []PinRecord
	for s := range uint16(900) {
		records = append(records, PinRecord{Slot: s, Nodes: nodes[:3]})
	}
	records = append(records, PinRecord{Slot: 900, Nodes: nodes[3:]}, PinRecord{Slot: 901})
	before := chosen(ResolvePins(records, members))
	if len(before) != 901 {
		t.Fatalf("%d pins", len(before))
	}
	load := map[string]int{}
	for _, p := range before {
		load[p.Node]++
	}
	for _, id := range nodes[:3] {
		if n := load[id.String()]; n < 250 || n > 350 {
			t.Errorf("%s has %d of 900 slots", id, n)
		}
	}
	if load[nodes[3].String()] != 1 {
		t.Errorf("%v", load)
	}
	v := mustView(t, Params{}, members, ResolvePins(records, members)...)
	members[1].State = Draining
	members[3].State = Joining
	for i, p := range chosen(ResolvePins(records, members)) {
		switch {
		case p.Node == nodes[1].String():
			t.Fatalf("slot %d stays with the node that leaves", p.Slot)
		case before[i].Node != nodes[1].String() && p != before[i]:
			t.Fatalf("slot %d moved from %s to %s", p.Slot, before[i].Node, p.Node)
		case before[i].Node != p.Node && v.Member(v.Successor(p.Slot)).ID.String() != p.Node:
			t.Fatalf("slot %d went to %s, not to its successor", p.Slot, p.Node)
		}
	}
	for i := range members {
		members[i].State = Left
	}
	if pins := ResolvePins(records, members); len(pins) != 901 {
		t.Errorf("%d pins are kept without any active node", len(pins))
	}
}

// chosen are the first choices of pins, which are sorted.
func chosen(pins []ring.Pin) (out []ring.Pin) {
	for i, p := range pins {
		if i+1 == len(pins) || pins[i+1].Slot != p.Slot {
			out = append(out, p)
		}
	}
	return out
}

// A pinned slot goes from one node of its pin to the next step by step, as one of them
// leaves or comes, moves once, and stays among them.
func TestPinnedSlotsMoveInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := testMembers(6)
		for i := range members {
			members[i].State = rapid.SampledFrom([]State{Active, Active, Active, Joining}).Draw(t, "state")
		}
		members[5].State = Active // somebody has the slots that are not pinned
		var records []PinRecord
		for g := range 64 {
			r := PinRecord{Slot: uint16(g * 256), Stamp: 1}
			for i := range 4 {
				if rapid.Bool().Draw(t, "in") {
					r.Nodes = append(r.Nodes, members[i].ID)
				}
			}
			records = append(records, r)
		}
		one := &members[rapid.IntRange(0, 3).Draw(t, "one")]
		view := func(state State, progress float64) *View {
			one.State, one.Progress = state, progress
			return mustView(t, Params{Tokens: 20}, members, ResolvePins(records, members)...)
		}
		gone := view(Draining, 0)
		there := view(Active, 0)
		state := rapid.SampledFrom([]State{Warming, Draining}).Draw(t, "changing")
		steps, last := 0, gone
		for k := 1; k <= 8; k++ {
			now := view(state, float64(k)/8)
			moved := false
			for i := range records {
				r := &records[i]
				was, is := last.OwnerID(r.Slot), now.OwnerID(r.Slot)
				if was != is {
					moved = true
					if was != gone.OwnerID(r.Slot) || is != there.OwnerID(r.Slot) {
						t.Fatalf("slot %d goes from %s to %s at %d/8, in all from %s to %s", r.Slot, was, is, k, gone.OwnerID(r.Slot), there.OwnerID(r.Slot))
					}
				}
				if present := slices.ContainsFunc(r.Nodes, func(id NodeID) bool { m := members[mustIndex(members, id)]; return m.Presence() == 1 }); present && !slices.Contains(r.Nodes, is) {
					t.Fatalf("slot %d, pinned to %v, is at %s", r.Slot, r.Nodes, is)
				}
			}
			if moved {
				steps++
			}
			last = now
		}
		changed := 0
		for i := range records {
			if gone.OwnerID(records[i].Slot) != there.OwnerID(records[i].Slot) {
				changed++
			}
			if last.OwnerID(records[i].Slot) != there.OwnerID(records[i].Slot) {
				t.Fatalf("slot %d has not its owner in the end", records[i].Slot)
			}
		}
		if changed > 16 && steps < 3 {
			t.Fatalf("%d pinned slots move in %d steps", changed, steps)
		}
	})
}

func mustIndex(members []Member, id NodeID) int {
	return slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
}

// A view keeps the choices that may count, the first one last.
func TestPinChoices(t *testing.T) {
	members := testMembers(5)
	pin := func(nodes ...int) (pins []ring.Pin) {
		for _, n := range nodes {
			pins = append(pins, ring.Pin{Slot: 9, Node: members[n].ID.String()})
		}
		return pins
	}
	members[2].State, members[2].Progress = Draining, 0.5
	members[3].State = Joining
	for _, tc := range []struct{ given, want []int }{
		{[]int{0, 1}, []int{0, 1}},
		{[]int{4, 0, 1}, []int{0, 1}},
		{[]int{0, 1, 1}, []int{0, 1}},
		{[]int{4, 1, 0, 2}, []int{1, 0, 2}},
		{[]int{4, 1, 0, 3}, []int{1, 0, 3}},
		{[]int{2, 3, 2}, []int{3, 2}},
		{[]int{3}, []int{3}},
	} {
		if got := mustView(t, Params{}, members, pin(tc.given...)...).Pins(); !slices.Equal(got, pin(tc.want...)) {
			t.Errorf("%v gives %v, want %v", tc.given, got, pin(tc.want...))
		}
	}
	if _, err := NewView(Params{}, nil, members, make([]ring.Pin, maxViewPins+1)); err == nil || !strings.Contains(err.Error(), "81921 pins, limit 81920") {
		t.Error(err)
	}
}
