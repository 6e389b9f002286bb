package main

import (
	"github.com/ringcache/ringcache/bench/internal/rivals"
	"github.com/ringcache/ringcache/bench/internal/sim"
)

// result is one cache at one capacity of one load.
type result struct {
	Load     string  `json:"load"`
	Capacity int64   `json:"capacity"` // items, or bytes of values when sized
	Sized    bool    `json:"sized"`
	At       string  `json:"at"`
	Cache    string  `json:"cache"`
	Simulant bool    `json:"simulation"`
	Fits     bool    `json:"fits"` // false: the cache cannot be given this capacity
	Requests int     `json:"requests"`
	Misses   int     `json:"misses"`
	HitRatio float64 `json:"hit_ratio"`
	Held     float64 `json:"held,omitempty"`        // average in use during the second half
	Memory   int64   `json:"max_memory,omitempty"`  // given to a memory-bounded cache
	Value    int64   `json:"value_bytes,omitempty"` // of every value
}

func newResult(l *load, capacity int64, cache string) result {
	return result{Load: l.name, Capacity: capacity, Sized: l.sized, At: l.at(capacity), Cache: cache, Fits: true, Requests: len(l.requests)}
}

func (r *result) count(misses int) {
	r.Misses = misses
	r.HitRatio = 1 - float64(misses)/float64(r.Requests)
}

// simulate runs a load through a simulated policy.
func simulate(name string, l *load, capacity int64) result {
	r := newResult(l, capacity, name)
	r.Simulant = true
	p, err := sim.New(name, capacity)
	if err != nil {
		panic(err) // the name comes from sim.Names
	}
	misses := 0
	for _, n := range l.requests {
		size := int64(1)
		if l.sized {
			size = l.sizes[n]
		}
		if !p.Access(uint64(n), size) {
			misses++
		}
	}
	r.count(misses)
	return r
}

// samples is how often the number of items is looked at during a replay.
const samples = 50

// replay runs a load through a real cache: a miss stores the object.
func replay(o options, k rivals.Kind, l *load, capacity int64) (result, error) {
	r := newResult(l, capacity, k.Name)
	find := func() (setting, error) { return calibrate(o, k, capacity) }
	if l.sized {
		find = func() (setting, error) { return calibrateBytes(o, k, l, capacity) }
	}
	s, err := find()
	if err != nil {
		return r, err
	}
	if r.Fits = s.fits; !r.Fits {
		return r, nil
	}
	if k.Copies {
		r.Memory, r.Value = s.limit.Memory, s.value
	}
	c, err := k.New(s.limit)
	if err != nil {
		return r, err
	}
	defer c.Close()
	value := make([]byte, max(s.value, l.maxSize, 1))
	var dst []byte
	misses, sampled, held := 0, 0, 0
	every := max(1, len(l.requests)/(2*samples))
	for i, n := range l.requests {
		got, ok := c.Get(dst[:0], l.keys[n])
		if ok {
			if k.Copies {
				dst = got
			}
		} else {
			size := s.value
			if l.sized {
				size = max(1, l.sizes[n]/o.scale)
			}
			c.Set(l.keys[n], value[:size])
			c.Sync()
			misses++
		}
		if !l.sized && i >= len(l.requests)/2 && i%every == 0 {
			held += c.Len()
			sampled++
		}
	}
	r.Held = float64(held) / float64(max(1, sampled))
	switch {
	case l.sized:
		r.Held = heldBytes(o, c, l)
	case k.Coarse:
		r.Held = s.held
	}
	r.count(misses)
	return r, nil
}

// heldBytes sums the values that are in the cache, in the trace's bytes.
func heldBytes(o options, c rivals.Cache, l *load) float64 {
	var dst []byte
	held := 0
	for _, key := range l.keys {
		if got, ok := c.Get(dst[:0], key); ok {
			held += len(got)
		}
	}
	return float64(held) * float64(o.scale)
}
