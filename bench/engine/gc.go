package main

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/ringcache/ringcache/bench/internal/report"
	"github.com/ringcache/ringcache/bench/internal/rivals"
)

// pause is what garbage collections cost beside one full cache.
type pause struct {
	Cache   string  `json:"cache"`
	Items   int     `json:"items"`           // held
	Forced  float64 `json:"forced_gc_ms"`    // median of runtime.GC
	Stopped float64 `json:"stopped_max_ms"`  // upper bound of the longest stop of the world for the collector
	CPU     float64 `json:"gc_cpu_ms"`       // CPU time of the collector per forced collection
	Live    int64   `json:"heap_live_bytes"` // that the collector knows
}

const (
	gcValue = 64
	// collections is how many forced collections are measured.
	collections = 9

	stoppedMetric = "/sched/pauses/total/gc:seconds"
	cpuMetric     = "/cpu/classes/gc/total:cpu-seconds"
	liveMetric    = "/gc/heap/live:bytes"
)

// measureGC fills one cache after the other and forces collections. The first
// row is the process without a cache.
func measureGC(o options) ([]pause, error) {
	bar := report.NewProgress(len(o.kinds) + 1)
	defer bar.End()
	bar.Step("garbage collection without a cache")
	results := []pause{collect("none")}
	for _, k := range o.kinds {
		bar.Step(fmt.Sprintf("garbage collection, %s", k.Name))
		p, err := gcOf(k, o)
		if err != nil {
			return nil, err
		}
		results = append(results, p)
		debug.FreeOSMemory() // the next one starts with what this one held
	}
	return results, nil
}

func gcOf(k rivals.Kind, o options) (pause, error) {
	l := limitFor(o.gcItems, gcValue, o.seed)
	l.Memory = max(l.Memory, k.Least)
	c, err := k.New(l)
	if err != nil {
		return pause{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	defer c.Close()
	value := make([]byte, gcValue)
	for i := range o.gcItems {
		if !k.Copies {
			value = make([]byte, gcValue) // as an application's values are
		}
		c.Set(keyOf(i), value)
		if i%1000 == 0 {
			c.Sync()
		}
	}
	c.Sync()
	p := collect(k.Name)
	p.Items = c.Len()
	return p, nil
}

// collect forces collections and reads what they cost.
func collect(name string) pause {
	runtime.GC()
	runtime.GC() // what was garbage before is gone, and swept
	before := read()
	forced := make([]float64, collections)
	for i := range forced {
		start := time.Now()
		runtime.GC()
		forced[i] = ms(time.Since(start).Seconds())
	}
	after := read()
	return pause{
		Cache: name, Forced: median(forced), Stopped: ms(longest(before[0].Value.Float64Histogram(), after[0].Value.Float64Histogram())),
		CPU:  ms(after[1].Value.Float64()-before[1].Value.Float64()) / collections,
		Live: int64(after[2].Value.Uint64()),
	}
}

func ms(seconds float64) float64 { return seconds * 1e3 }

func read() []metrics.Sample {
	s := []metrics.Sample{{Name: stoppedMetric}, {Name: cpuMetric}, {Name: liveMetric}}
	metrics.Read(s)
	return s
}

// longest returns the upper end of the highest bucket that grew.
func longest(before, after *metrics.Float64Histogram) float64 {
	for i := len(after.Counts) - 1; i >= 0; i-- {
		if after.Counts[i] > before.Counts[i] {
			if top := after.Buckets[i+1]; !math.IsInf(top, 1) {
				return top
			}
			return after.Buckets[i]
		}
	}
	return 0
}

func gcTable(o options, results []pause) *report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("Garbage collection beside a cache of %d items of %d+%d B", o.gcItems, keyBytes, gcValue),
		Head:  []string{"cache", "items held", "forced GC, ms", "longest stop, ms", "CPU per GC, ms", "live heap"},
	}
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
	for _, r := range results {
		t.Add(r.Cache, strconv.Itoa(r.Items), f(r.Forced), f(r.Stopped), f(r.CPU), report.Bytes(r.Live))
	}
	return t
}
