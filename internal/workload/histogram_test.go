package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Quantiles are at most 1/32 above those of the values themselves, and never below.
func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"uniform":     func() float64 { return 1e6 * rng.Float64() },
		"exponential": func() float64 { return 2e5 * rng.ExpFloat64() },
		"log-normal":  func() float64 { return math.Exp(11 + 1.5*rng.NormFloat64()) },
		"two peaks": func() float64 {
			if rng.IntN(1000) == 0 {
				return 1e8 + 1e6*rng.Float64()
			}
			return 5e4
		},
		"tiny": func() float64 { return float64(rng.IntN(40)) },
	} {
		var whole Histogram
		parts := make([]Histogram, 4)
		values := make([]time.Duration, 200_000)
		for i := range values {
			values[i] = time.Duration(draw())
			parts[i%len(parts)].Record(values[i])
		}
		for i := range parts {
			whole.Merge(&parts[i])
		}
		slices.Sort(values)
		for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1} {
			rank := int(math.Ceil(q*float64(len(values)))) - 1
			want, got := values[rank], whole.Quantile(q)
			if got < want || float64(got) > float64(want)*(1+1.0/32) {
				t.Errorf("%s: quantile %g is %d, that of the values %d", name, q, got, want)
			}
		}
		if whole.Count() != uint64(len(values)) || whole.Quantile(1) != values[len(values)-1] {
			t.Errorf("%s: %d values up to %d", name, whole.Count(), whole.Quantile(1))
		}
	}
}
