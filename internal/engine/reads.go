package engine

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Reads without a lock count what they found in stripes: one cache line per
// processor would be the least, several keep two goroutines from sharing one by
// chance.
const (
	stripesPerProcessor = 16
	stripesMost         = 1 << 10
	stackShift          = 11 // log2 of the smallest stack
)

// tallies are hits and misses; a sum over all stripes is exact.
type tallies struct {
	hits, misses atomic.Int64
	_            [cacheLine - 16]byte
}

type stripes struct {
	of    []tallies // a power of two
	shift uint8
}

func newStripes() stripes {
	n := min(stripesMost, 1<<bits.Len(uint(stripesPerProcessor*runtime.GOMAXPROCS(0)-1)))
	return stripes{make([]tallies, n), 64 - log2(n)}
}

// mine returns the stripe of the calling goroutine: which one it is depends on
// where its stack lies, and any would be right.
func (s *stripes) mine() *tallies {
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here)))
	return &s.of[at>>stackShift*0x9e3779b97f4a7c15>>s.shift]
}

// sum returns the totals.
func (s *stripes) sum() (c counters) {
	for i := range s.of {
		c.hits += s.of[i].hits.Load()
		c.misses += s.of[i].misses.Load()
	}
	return c
}

func (s *stripes) reset() {
	for i := range s.of {
		s.of[i].hits.Store(0)
		s.of[i].misses.Store(0)
	}
}
