package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Zipf draws item numbers 0..n-1, item i with a probability proportional to
// 1/(i+1)^theta, for theta in [0, 1): the range that cache studies use and that
// the standard library's generator leaves out. Method: J. Gray et al., "Quickly
// generating billion-record synthetic databases", SIGMOD 1994.
type Zipf struct {
	rng                                    *rand.Rand
	n                                      float64
	theta, alpha, zetan, eta, halfPowTheta float64
}

// NewZipf prepares a generator over n items; it costs n steps once.
func NewZipf(seed uint64, n int, theta float64) (*Zipf, error) {
	if n < 2 || theta < 0 || theta >= 1 {
		return nil, fmt.Errorf("zipf: %d items with theta %g; want at least 2 items and 0 <= theta < 1", n, theta)
	}
	z := &Zipf{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), n: float64(n), theta: theta}
	for i := 1; i <= n; i++ {
		z.zetan += 1 / math.Pow(float64(i), theta)
	}
	zeta2 := 1 + math.Pow(0.5, theta)
	z.alpha = 1 / (1 - theta)
	z.eta = (1 - math.Pow(2/z.n, 1-theta)) / (1 - zeta2/z.zetan)
	z.halfPowTheta = math.Pow(0.5, theta)
	return z, nil
}

// Fork returns a generator over the same items with a seed of its own, without the
// cost of preparing it.
func (z *Zipf) Fork(seed uint64) *Zipf {
	f := *z
	f.rng = rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	return &f
}

// Next draws one item number.
func (z *Zipf) Next() uint64 {
	u := z.rng.Float64()
	uz := u * z.zetan
	if uz < 1 {
		return 0
	}
	if uz < 1+z.halfPowTheta {
		return 1
	}
	i := uint64(z.n * math.Pow(z.eta*u-z.eta+1, z.alpha))
	return min(i, uint64(z.n)-1)
}
