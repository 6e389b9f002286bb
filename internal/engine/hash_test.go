package engine

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// Fingerprints, buckets and shards of sampling use different bits: each half of
// a hash must be as good as random for keys as people name them.
func TestHashSpreadsSimilarKeys(t *testing.T) {
	oneGoroutine(t)
	shapes := []string{"%d", "key-%08d", "user:%d:profile", "%016x", "a-long-prefix-that-all-keys-share/%d", "%d-and-a-long-suffix-of-all-keys"}
	keys, seeds := scale(1<<14), uint64(8)
	for _, shape := range shapes {
		low, high := 0, 0
		for seed := range seeds {
			h := newHasher(seed + 1)
			lows, highs := map[uint32]bool{}, map[uint32]bool{}
			for i := range keys {
				sum := h.sum(fmt.Appendf(nil, shape, i))
				lows[uint32(sum)], highs[uint32(sum>>32)] = true, true
			}
			low, high = low+keys-len(lows), high+keys-len(highs)
		}
		// 8 times 2^14 keys collide 0.25 times on average in 32 bits.
		if low > 4 || high > 4 {
			t.Errorf("%q: %d and %d collisions of the lower and upper 32 bits", shape, low, high)
		}
	}
}

func TestHashDependsOnEveryBitAndTheSeed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a, b := newHasher(1), newHasher(2)
	for n := 1; n <= 70; n++ {
		key := make([]byte, n)
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		sum := a.sum(key)
		if d := bits.OnesCount64(sum ^ b.sum(key)); d < 10 {
			t.Errorf("%d bytes: another seed changes %d bits", n, d)
		}
		for bit := range n * 8 {
			key[bit/8] ^= 1 << (bit % 8)
			if d := bits.OnesCount64(sum ^ a.sum(key)); d < 10 {
				t.Errorf("%d bytes: bit %d changes %d bits", n, bit, d)
			}
			key[bit/8] ^= 1 << (bit % 8)
		}
		if a.sum(append(key, 0)) == sum {
			t.Errorf("%d bytes: a zero behind the key changes nothing", n)
		}
	}
}
