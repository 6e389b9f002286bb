// Package latency owns what a process keeps of the time that its work took:
// histograms of durations, logs of the commands that stood out, and samples of
// events that were slow. It never measures anything itself and never reads a clock.
//
// Everything is bounded: a histogram by its buckets, a log by its length, an
// event by its samples. All methods may be called from any goroutine; those of a
// Histogram take no lock.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// subBits is how many bits after the leading one a bucket tells apart: its
	// width is at most an eighth of its durations.
	subBits = 3
	sub     = 1 << subBits
	// topBit is the leading bit of the longest durations that are told apart,
	// 2^35 ns, above half a minute.
	topBit  = 35
	buckets = (topBit-subBits+1)*sub + sub
)

// Histogram counts durations in buckets whose width grows with the duration, as
// an HDR histogram does. The zero value is empty.
type Histogram struct {
	sum   atomic.Int64 // ns
	count [buckets]atomic.Uint64
}

// Add counts n works of d each. A negative d counts as 0, one of more than a
// minute as the longest.
func (h *Histogram) Add(d time.Duration, n uint64) {
	if d < 0 {
		d = 0
	}
	h.sum.Add(int64(d) * int64(n))
	h.count[bucketOf(uint64(d))].Add(n)
}

func bucketOf(ns uint64) int {
	if ns < sub {
		return int(ns)
	}
	top := bits.Len64(ns) - 1
	if top > topBit {
		return buckets - 1
	}
	return (top-subBits+1)*sub + int(ns>>(top-subBits))&(sub-1)
}

// highest is the longest duration of a bucket in ns.
func highest(bucket int) uint64 {
	if bucket < sub {
		return uint64(bucket)
	}
	shift := bucket/sub - 1
	return uint64(sub+bucket%sub+1)<<shift - 1
}

// Reset forgets everything. What is added meanwhile may be lost in part.
func (h *Histogram) Reset() {
	h.sum.Store(0)
	for i := range h.count {
		h.count[i].Store(0)
	}
}

// Summary is a histogram at one moment, or the sum of several.
type Summary struct {
	Count uint64
	Sum   time.Duration
	count [buckets]uint64
}

// Add adds what h holds.
func (s *Summary) Add(h *Histogram) {
	s.Sum += time.Duration(h.sum.Load())
	for i := range h.count {
		n := h.count[i].Load()
		s.count[i] += n
		s.Count += n
	}
}

// Percentile gives the duration that p per cent of the works did not exceed,
// rounded up to its bucket. 0 if there are none.
func (s *Summary) Percentile(p float64) time.Duration {
	if s.Count == 0 {
		return 0
	}
	want := uint64(p / 100 * float64(s.Count))
	if float64(want) < p/100*float64(s.Count) || want == 0 {
		want++
	}
	seen := uint64(0)
	for i, n := range s.count {
		if seen += n; seen >= want {
			return time.Duration(highest(i))
		}
	}
	return time.Duration(highest(buckets - 1))
}

// Step says that Count works took less than Micros microseconds, which is rounded
// down.
type Step struct {
	Micros int64
	Count  uint64
}

// Steps gives the cumulative counts at powers of two of about a microsecond
// (1.024 µs), those steps only at which the count grows.
func (s *Summary) Steps() (out []Step) {
	seen, told, i := uint64(0), uint64(0), 0
	for k := 10; k <= topBit+1; k++ {
		end := buckets
		if k <= topBit {
			end = bucketOf(1 << k)
		}
		for ; i < end; i++ {
			seen += s.count[i]
		}
		if seen > told {
			told = seen
			out = append(out, Step{1 << k / 1000, seen})
		}
	}
	return out
}
