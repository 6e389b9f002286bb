package workload

import (
	"math/bits"
	"time"
)

// Histogram counts latencies in buckets whose width is at most 1/32 of their
// value, from 1 ns to about 68 s; longer ones are counted in the last bucket.
// The zero value is ready.
type Histogram struct {
	counts [histBuckets]uint64
	total  uint64
	max    time.Duration
}

const (
	histSub     = 32 // linear steps per power of two
	histSubBits = 5
	histBuckets = (36 - histSubBits + 1) * histSub
)

func histBucket(d time.Duration) int {
	if d < 0 {
		d = 0
	}
	v := uint64(d)
	if v < histSub {
		return int(v)
	}
	exp := bits.Len64(v) - 1 - histSubBits
	b := (exp+1)*histSub + int(v>>exp) - histSub
	return min(b, histBuckets-1)
}

// histUpper is the greatest latency that bucket b holds.
func histUpper(b int) time.Duration {
	if b < histSub {
		return time.Duration(b)
	}
	exp := b/histSub - 1
	return time.Duration((uint64(b%histSub)+histSub+1)<<exp - 1)
}

// Record counts one latency.
func (h *Histogram) Record(d time.Duration) {
	h.counts[histBucket(d)]++
	h.total++
	h.max = max(h.max, d)
}

// Merge adds another histogram's counts.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// Count returns the number of recorded latencies.
func (h *Histogram) Count() uint64 { return h.total }

// Quantile returns an upper bound of the q-quantile (0 < q <= 1), at most 1/32
// above the true value and never above the greatest recorded latency.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(q * float64(h.total))
	if float64(rank) < q*float64(h.total) || rank == 0 {
		rank++
	}
	var seen uint64
	for b, n := range h.counts {
		if seen += n; seen >= rank {
			return min(histUpper(b), h.max)
		}
	}
	return h.max
}
