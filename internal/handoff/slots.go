package handoff

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// MaxSlots is the number of slots of a cluster.
const MaxSlots = 16384

// Range is an inclusive range of slots.
type Range struct{ First, Last uint16 }

// Set is a set of slots; the zero value is empty.
type Set struct {
	words [MaxSlots / 64]uint64
	n     int
}

// Add puts a slot into the set.
func (s *Set) Add(slot uint16) {
	w, m := &s.words[slot/64], uint64(1)<<(slot%64)
	if *w&m == 0 {
		*w |= m
		s.n++
	}
}

// addRanges puts slots into the set; those that do not exist are left out.
func (s *Set) addRanges(rs []Range) {
	for _, r := range rs {
		for slot := int(r.First); slot <= int(r.Last) && slot < MaxSlots; slot++ {
			s.Add(uint16(slot))
		}
	}
}

// Remove takes a slot out of the set.
func (s *Set) Remove(slot uint16) {
	w, m := &s.words[slot/64], uint64(1)<<(slot%64)
	if *w&m != 0 {
		*w &^= m
		s.n--
	}
}

// Has reports whether the slot is in the set.
func (s *Set) Has(slot uint16) bool { return s.words[slot/64]&(1<<(slot%64)) != 0 }

// Len is the number of slots in the set.
func (s *Set) Len() int { return s.n }

// Each calls fn for every slot in ascending order.
func (s *Set) Each(fn func(slot uint16)) {
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			fn(uint16(i*64 + bits.TrailingZeros64(w)))
		}
	}
}

// Ranges returns the set as the shortest ascending list of ranges.
func (s *Set) Ranges() []Range {
	var out []Range
	s.Each(func(slot uint16) {
		if n := len(out); n > 0 && int(out[n-1].Last)+1 == int(slot) {
			out[n-1].Last = slot
			return
		}
		out = append(out, Range{slot, slot})
	})
	return out
}

// FormatRanges writes ranges as "0-99,200,300-400"; none gives "".
func FormatRanges(rs []Range) string {
	var b strings.Builder
	for i, r := range rs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(r.First)))
		if r.Last != r.First {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(r.Last)))
		}
	}
	return b.String()
}

// ParseRanges reads what FormatRanges writes. It refuses slots of 16384 and
// above, ranges that run backwards and more ranges than there are slots.
func ParseRanges(s string) ([]Range, error) {
	if s == "" {
		return nil, nil
	}
	var out []Range
	for part := range strings.SplitSeq(s, ",") {
		first, last, both := strings.Cut(part, "-")
		if !both {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("slot range %q: %w", part, err)
		}
		b, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("slot range %q: %w", part, err)
		}
		if a > b || b >= MaxSlots {
			return nil, fmt.Errorf("slot range %q is not within 0-%d", part, MaxSlots-1)
		}
		if len(out) == MaxSlots {
			return nil, fmt.Errorf("more than %d slot ranges", MaxSlots)
		}
		out = append(out, Range{uint16(a), uint16(b)})
	}
	return out, nil
}
