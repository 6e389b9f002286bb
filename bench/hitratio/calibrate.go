package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ringcache/ringcache/bench/internal/rivals"
)

// setting is how a real cache is made to have a capacity.
type setting struct {
	limit rivals.Limit
	value int64   // bytes of every value; 0 when the trace has sizes
	held  float64 // items or bytes that it held when it was calibrated
	fits  bool
}

const (
	// payload is about the sum of the values of a cache of items: large enough
	// for the units in which the caches take their memory.
	payload = 16 << 20
	// fitSlack is how far from the wanted number of items a cache may be, as a
	// share. A cache that cannot be brought so near is left out. A coarse one
	// takes whole entries per chunk, so it gets more.
	fitSlack    = 0.02
	coarseSlack = 0.05
	// exact ends the search.
	exact = 0.002
	// searchSteps bounds the search.
	searchSteps = 24
)

// calibrate finds the memory (or, for a coarse cache, the size of the values)
// with which a memory-bounded cache holds capacity items on average.
func calibrate(o options, k rivals.Kind, capacity int64) (setting, error) {
	s := setting{value: min(max(payload/capacity-64, 64), 32<<10)}
	s.limit = rivals.Limit{Items: int(capacity), Shards: 1, Seed: o.seed}
	if !k.Copies {
		s.fits = true
		return s, nil
	}
	// Both searches are over a number that the count of items grows with.
	lo, hi := float64(capacity*s.value/4), float64(capacity*(s.value+512)*4+(16<<20))
	if k.Coarse {
		lo, hi = 1.0/(60<<10), 1
		s.limit.Memory = max(k.Least, payload)
	}
	best := s
	best.held = math.Inf(1)
	for range searchSteps {
		mid := (lo + hi) / 2
		if k.Coarse {
			mid = math.Sqrt(lo * hi)
			s.value = int64(1 / mid)
		} else {
			s.limit.Memory = int64(mid)
		}
		var err error
		if s.held, err = fillItems(k, s, capacity); err != nil {
			return s, err
		}
		if math.Abs(s.held-float64(capacity)) < math.Abs(best.held-float64(capacity)) {
			best = s
		}
		if math.Abs(best.held/float64(capacity)-1) <= exact {
			break
		}
		if s.held > float64(capacity) {
			hi = mid
		} else {
			lo = mid
		}
	}
	slack := fitSlack
	if k.Coarse {
		slack = coarseSlack
	}
	best.fits = math.Abs(best.held/float64(capacity)-1) <= slack
	return best, nil
}

// fillItems stores three times as many distinct keys as the capacity and returns
// how many items the cache held on average during the last third. A coarse cache
// is asked for every key in the end instead, because fastcache counts entries
// that it has overwritten. A limit that the cache refuses as too small counts as
// 0 items.
func fillItems(k rivals.Kind, s setting, capacity int64) (float64, error) {
	c, err := k.New(s.limit)
	if err != nil {
		if s.limit.Memory < 64<<20 {
			return 0, nil
		}
		return 0, err
	}
	defer c.Close()
	value := make([]byte, s.value)
	sum, samples := 0, 0
	every := max(1, capacity/40)
	for i := range 3 * capacity {
		c.Set(fillKey(i), value)
		if !k.Coarse && i > 2*capacity && i%every == 0 {
			sum += c.Len()
			samples++
		}
	}
	if k.Coarse {
		return float64(present(c, 3*capacity)), nil
	}
	return float64(sum) / float64(max(samples, 1)), nil
}

func fillKey(i int64) string { return fmt.Sprintf("f:%016x", i) }

// present counts which of the first n keys of a fill are there.
func present(c rivals.Cache, n int64) (held int) {
	var dst []byte
	for i := range n {
		if got, ok := c.Get(dst[:0], fillKey(i)); ok {
			held, dst = held+1, got
		}
	}
	return held
}

// calibrateBytes finds the memory with which a memory-bounded cache holds
// capacity bytes of the load's values.
func calibrateBytes(o options, k rivals.Kind, l *load, capacity int64) (setting, error) {
	mean := float64(sum(l.sizes)) / float64(len(l.sizes))
	s := setting{limit: rivals.Limit{
		Items: int(float64(capacity) / mean), Weight: capacity / o.scale, Shards: 1, Seed: o.seed, MaxValue: int(l.maxSize),
	}}
	if !k.Copies {
		s.fits = k.Weighted
		return s, nil
	}
	want := float64(capacity / o.scale)
	s.limit.Memory = int64(want * 1.05)
	for range 4 {
		var err error
		if s.held, err = fillBytes(o, k, l, s, want); err != nil {
			return s, err
		}
		if s.fits = math.Abs(s.held/want-1) <= exact; s.fits || s.held == 0 {
			break
		}
		s.fits = math.Abs(s.held/want-1) <= fitSlack
		s.limit.Memory = max(int64(float64(s.limit.Memory)*want/s.held), k.Least)
	}
	return s, nil
}

// fillBytes stores the load's objects in random order, under ever new keys,
// until twice the wanted bytes were stored, and returns how many bytes of values
// the cache holds then.
func fillBytes(o options, k rivals.Kind, l *load, s setting, want float64) (float64, error) {
	c, err := k.New(s.limit)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	value := make([]byte, l.maxSize)
	var keys []string
	stored := 0.0
	for pass := 0; stored < 2*want; pass++ {
		rng := rand.New(rand.NewPCG(o.seed, uint64(pass)))
		for _, i := range rng.Perm(len(l.keys)) {
			size := max(1, l.sizes[i]/o.scale)
			key := fmt.Sprintf("f%d:%016x", pass%10, i)
			keys = append(keys, key)
			c.Set(key, value[:size])
			if stored += float64(size); stored >= 2*want {
				break
			}
		}
	}
	var dst []byte
	held := 0
	for _, key := range keys {
		var ok bool
		if dst, ok = c.Get(dst[:0], key); ok {
			held += len(dst)
		}
	}
	return float64(held), nil
}

func sum(v []int64) (n int64) {
	for _, x := range v {
		n += x
	}
	return n
}
