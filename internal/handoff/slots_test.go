package handoff

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParseRanges(t *testing.T) {
	for _, tc := range []struct {
		text string
		ok   bool
	}{
		{"", true}, {"0", true}, {"0-16383", true}, {"0,16383", true}, {"5-5", true}, {"1-2,4,6-9", true},
		{"16384", false}, {"5-4", false}, {"-1", false}, {"1-", false}, {"1,,2", false}, {"a", false},
		{"65536", false}, {"1-2-3", false}, {",", false}, {" 1", false},
	} {
		t.Run(tc.text, func(t *testing.T) {
			if _, err := ParseRanges(tc.text); (err == nil) != tc.ok {
				t.Errorf("ParseRanges(%q): %v", tc.text, err)
			}
		})
	}
}

func TestSetRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		model := map[uint16]bool{}
		for _, slot := range rapid.SliceOf(rapid.Uint16Range(0, MaxSlots-1)).Draw(t, "add") {
			s.Add(slot)
			model[slot] = true
		}
		for _, slot := range rapid.SliceOf(rapid.Uint16Range(0, MaxSlots-1)).Draw(t, "remove") {
			s.Remove(slot)
			delete(model, slot)
		}
		ranges, err := ParseRanges(FormatRanges(s.Ranges()))
		if err != nil {
			t.Fatal(err)
		}
		var back Set
		last := -2
		for _, r := range ranges {
			if int(r.First) <= last+1 {
				t.Fatalf("ranges %v touch or overlap", ranges)
			}
			last = int(r.Last)
			for slot := r.First; slot <= r.Last; slot++ {
				back.Add(slot)
			}
		}
		if back != s || s.Len() != len(model) {
			t.Fatalf("%d slots became %d, model %d", s.Len(), back.Len(), len(model))
		}
		for slot := range model {
			if !s.Has(slot) {
				t.Fatalf("slot %d is lost", slot)
			}
		}
	})
}
