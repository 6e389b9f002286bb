package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/bench/internal/report"
	"github.com/ringcache/ringcache/bench/internal/rivals"
	"github.com/ringcache/ringcache/internal/workload"
)

// mix is how many of 4 operations are writes, and over how many times the
// capacity their keys spread: writes alone also insert and evict.
type mix struct {
	name   string
	writes int
	spread int
}

var allMixes = []mix{{"read", 0, 1}, {"75/25", 1, 1}, {"write", 4, 2}}

// speed is one cache beside the first one in one scenario.
type speed struct {
	Cache   string  `json:"cache"`
	Against string  `json:"against"`
	Mix     string  `json:"mix"`
	Dist    string  `json:"distribution"`
	Value   int     `json:"value_bytes"`
	Threads int     `json:"threads"`
	Ops     float64 `json:"ops_per_second"`         // median, per second of the clock that was chosen
	Base    float64 `json:"against_ops_per_second"` // median of the first cache in the same rounds
	Ratio   float64 `json:"ratio"`                  // median of the rounds' Base / Ops
	Hits    float64 `json:"hit_ratio"`              // of its reads; 0 without reads
	Own     bool    `json:"own_references"`         // a cache of references got a copy of each value
	Aside   bool    `json:"misses_store"`           // a read that missed was followed by a write, within the same operation
}

const (
	keyBytes = 16
	// room is what a copying cache gets per item beside key and value: more
	// than each of them needs, so that all items of a mix with reads fit.
	room = 160
	// sequence is how many operations are prepared at most; they repeat, and the
	// goroutines begin at different ones.
	sequence = 1 << 20
	theta    = 0.99
	// warmMost is how many samples a cache is warmed for at most.
	warmMost = 32
	// fullHits is the share of hits below which a ratio is marked in the table.
	fullHits = 0.99
)

// makeKeys returns the keys of n items, 16 bytes each, in no order.
func makeKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = keyOf(i)
	}
	return keys
}

func keyOf(i int) string { return fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15) }

// makeOrder draws item numbers of n items.
func makeOrder(dist string, n int, seed uint64) ([]uint32, error) {
	out := make([]uint32, min(sequence, 16*n))
	rng := rand.New(rand.NewPCG(seed, 7))
	if dist == "uniform" {
		for i := range out {
			out[i] = uint32(rng.IntN(n))
		}
		return out, nil
	}
	z, err := workload.NewZipf(seed, n, theta)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = uint32(z.Next())
	}
	return out, nil
}

// limitFor gives room for items values.
func limitFor(items, value int, seed uint64) rivals.Limit {
	return rivals.Limit{Items: items, Memory: int64(items) * int64(keyBytes+value+room), Seed: seed}
}

// filled returns a cache that holds all items.
func filled(k rivals.Kind, o options, keys []string, value []byte) (rivals.Cache, error) {
	l := limitFor(o.items, len(value), o.seed)
	l.Memory = max(l.Memory, k.Least)
	c, err := k.New(l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	if !k.Copies && o.own {
		c = owning{c}
	}
	for i, key := range keys[:o.items] {
		c.Set(key, value)
		if i%1000 == 0 {
			c.Sync()
		}
	}
	c.Sync()
	return c, nil
}

// owning makes a copy of each value for a cache that keeps references: a program that
// stored one value for all keys would need no cache.
type owning struct{ rivals.Cache }

func (c owning) Set(key string, value []byte) { c.Cache.Set(key, bytes.Clone(value)) }

// measureSpeed compares the first cache with each of the others.
func measureSpeed(o options) ([]speed, error) {
	if len(o.kinds) < 2 {
		return nil, fmt.Errorf("speed needs at least two caches")
	}
	keys := makeKeys(2 * o.items)
	orders := map[string][]uint32{}
	for _, d := range o.dists {
		for _, m := range o.mixes {
			order, err := makeOrder(d, o.items*m.spread, o.seed)
			if err != nil {
				return nil, err
			}
			orders[d+m.name] = order
		}
	}
	bar := report.NewProgress(len(o.values) * (len(o.kinds) - 1) * len(o.mixes) * len(o.dists) * len(o.threads))
	defer bar.End()
	var results []speed
	for _, size := range o.values {
		value := make([]byte, size)
		for _, k := range o.kinds[1:] {
			base, err := filled(o.kinds[0], o, keys, value)
			if err != nil {
				return nil, err
			}
			other, err := filled(k, o, keys, value)
			if err != nil {
				base.Close()
				return nil, err
			}
			for _, m := range o.mixes { // reads first: writes change what is held
				for _, d := range o.dists {
					for _, threads := range o.threads {
						if threads == 0 {
							threads = runtime.GOMAXPROCS(0)
						}
						bar.Step(fmt.Sprintf("%s %s %s %d B, %d threads", k.Name, m.name, d, size, threads))
						s := pair(base, other, scenario{keys, orders[d+m.name], value, m, threads, o.time, o.clock, o.aside}, o.rounds)
						s.Cache, s.Against, s.Mix, s.Dist, s.Value, s.Threads, s.Aside, s.Own = k.Name, o.kinds[0].Name, m.name, d, size, threads, o.aside, o.own
						results = append(results, s)
					}
				}
			}
			base.Close()
			other.Close()
		}
	}
	return results, nil
}

// scenario is what one sample does.
type scenario struct {
	keys    []string
	order   []uint32
	value   []byte
	mix     mix
	threads int
	time    time.Duration
	clock   func() time.Duration
	aside   bool // who misses a key stores it
}

// pair runs rounds of A B B A.
func pair(a, b rivals.Cache, sc scenario, rounds int) speed {
	runtime.GC()
	warm(a, sc)
	warm(b, sc)
	var as, bs, ratios []float64
	var hits, reads int64
	for range rounds {
		a1, b1 := sample(a, sc), sample(b, sc)
		b2, a2 := sample(b, sc), sample(a, sc)
		as, bs = append(as, a1.rate, a2.rate), append(bs, b1.rate, b2.rate)
		ratios = append(ratios, (a1.rate+a2.rate)/(b1.rate+b2.rate))
		hits, reads = hits+b1.hits+b2.hits, reads+b1.reads+b2.reads
	}
	s := speed{Ops: median(bs), Base: median(as), Ratio: median(ratios)}
	if reads > 0 {
		s.Hits = float64(hits) / float64(reads)
	}
	return s
}

// warm runs a cache for one sample, and on until there was a write per key if
// the mix has any: tables that still grow and memory that is touched for the first
// time are no steady state.
func warm(c rivals.Cache, sc scenario) {
	enough := int64(sc.mix.spread*len(sc.keys)) / 2
	written := int64(0)
	for n := 0; n < warmMost; n++ {
		t := sample(c, sc)
		if written += t.ops - t.reads; sc.mix.writes == 0 || written >= enough {
			return
		}
	}
}

// tally is what came of one sample.
type tally struct {
	ops, hits, reads int64
	rate             float64 // operations per second
}

// sample runs one cache for the scenario's time.
func sample(c rivals.Cache, sc scenario) tally {
	var stop atomic.Bool
	var ops, hits, reads atomic.Int64
	var wg sync.WaitGroup
	start := sc.clock()
	for t := range sc.threads {
		wg.Go(func() { // ends by stop
			n, h, r := work(c, sc, t, &stop)
			ops.Add(n)
			hits.Add(h)
			reads.Add(r)
		})
	}
	time.Sleep(sc.time)
	stop.Store(true)
	wg.Wait()
	return tally{ops.Load(), hits.Load(), reads.Load(), float64(ops.Load()) / (sc.clock() - start).Seconds()}
}

// work is one goroutine of a sample.
func work(c rivals.Cache, sc scenario, t int, stop *atomic.Bool) (ops, hits, reads int64) {
	at := t * len(sc.order) / sc.threads
	dst := make([]byte, 0, len(sc.value))
	for !stop.Load() {
		for i := range 64 {
			key := sc.keys[sc.order[at]]
			if at++; at == len(sc.order) {
				at = 0
			}
			if i&3 < sc.mix.writes {
				c.Set(key, sc.value)
				continue
			}
			reads++
			if _, ok := c.Get(dst, key); ok {
				hits++
			} else if sc.aside {
				c.Set(key, sc.value)
			}
		}
		ops += 64
	}
	return ops, hits, reads
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// speedTables shows ratios and speeds: scenarios down, caches across.
func speedTables(o options, results []speed) []*report.Table {
	first := o.kinds[0].Name
	ratios := &report.Table{Title: first + " : the other cache, median of paired ratios (above 1: " + first + " is faster; * the other cache answered less than 99 % of the reads)",
		Head: []string{"mix, keys, value, goroutines"}}
	speeds := &report.Table{Title: "Million operations per second", Head: []string{"mix, keys, value, goroutines", first}}
	for _, k := range o.kinds[1:] {
		ratios.Head = append(ratios.Head, k.Name)
		speeds.Head = append(speeds.Head, k.Name)
	}
	var names []string
	rows := map[string]map[string]speed{}
	for _, r := range results {
		name := fmt.Sprintf("%s, %s, %d B, %d", r.Mix, r.Dist, r.Value, r.Threads)
		if rows[name] == nil {
			names, rows[name] = append(names, name), map[string]speed{}
		}
		rows[name][r.Cache] = r
	}
	for _, name := range names {
		var base []float64
		ratio, ops := []string{name}, []string{}
		for _, k := range o.kinds[1:] {
			r := rows[name][k.Name]
			base = append(base, r.Base)
			mark := ""
			if r.Mix != "write" && r.Hits < fullHits {
				mark = "*"
			}
			ratio = append(ratio, strconv.FormatFloat(r.Ratio, 'f', 2, 64)+mark)
			ops = append(ops, strconv.FormatFloat(r.Ops/1e6, 'f', 2, 64))
		}
		ratios.Add(ratio...)
		speeds.Add(append([]string{name, strconv.FormatFloat(median(base)/1e6, 'f', 2, 64)}, ops...)...)
	}
	return []*report.Table{ratios, speeds}
}
