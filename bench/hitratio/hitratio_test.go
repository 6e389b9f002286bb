package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/bench/internal/report"
	"github.com/ringcache/ringcache/bench/internal/rivals"
	"github.com/ringcache/ringcache/internal/workload"
)

// list is a Source of given requests.
type list []workload.Access

func (s *list) Next() (workload.Access, error) {
	if len(*s) == 0 {
		return workload.Access{}, io.EOF
	}
	a := (*s)[0]
	*s = (*s)[1:]
	return a, nil
}

func (s *list) Close() error { return nil }

func zipfLoad(sized bool, capacities ...int64) *load {
	return &load{name: "small", sized: sized, capacities: capacities, open: func() (workload.Source, error) {
		z, err := workload.NewZipf(1, 5000, 0.9)
		if err != nil {
			return nil, err
		}
		var s list
		for range 50_000 {
			k := z.Next()
			s = append(s, workload.Access{Key: k, Size: uint32(1000 + k%7*1000)})
		}
		return &s, nil
	}}
}

func TestItems(t *testing.T) {
	kinds, err := rivals.Select("ring-cache,bigcache,otter,golang-lru")
	if err != nil {
		t.Fatal(err)
	}
	results, err := measure(options{sims: true, seed: 1, scale: 1}, kinds, []*load{zipfLoad(false, 1500)})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]result{}
	for _, r := range results {
		by[r.Cache] = r
		if r.Fits && (r.Misses < 5000-1500 || r.HitRatio < 0.4) {
			t.Errorf("%s: %d misses of %d", r.Cache, r.Misses, r.Requests)
		}
		if !r.Simulant && r.Fits && math.Abs(r.Held/1500-1) > 0.1 {
			t.Errorf("%s held %.0f items, want 1500", r.Cache, r.Held)
		}
	}
	if by["golang-lru"].Misses != by["LRU"].Misses {
		t.Errorf("golang-lru has %d misses, the simulation of LRU %d", by["golang-lru"].Misses, by["LRU"].Misses)
	}
	if n := len(tables(results)); n != 1 {
		t.Errorf("%d tables, want 1", n)
	}
}

func TestBytes(t *testing.T) {
	kinds, err := rivals.Select("ring-cache,otter,golang-lru")
	if err != nil {
		t.Fatal(err)
	}
	l := zipfLoad(true, 6<<20)
	results, err := measure(options{sims: true, seed: 1, scale: 1}, kinds, []*load{l})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		switch {
		case r.Cache == "golang-lru":
			if r.Fits {
				t.Error("golang-lru knows no weights, but took part")
			}
		case !r.Fits || r.Misses == 0 || r.HitRatio < 0.3:
			t.Errorf("%+v", r)
		case strings.HasPrefix(r.Cache, "ring-cache") && math.Abs(r.Held/(6<<20)-1) > 0.1:
			t.Errorf("%s held %.0f bytes, want %d", r.Cache, r.Held, 6<<20)
		}
	}
}

func TestTables(t *testing.T) {
	ours, err := rivals.Select("ring-cache")
	if err != nil {
		t.Fatal(err)
	}
	row := func(cache string, sized, sim bool, misses int) result {
		return result{At: "x@1", Cache: cache, Sized: sized, Simulant: sim, Fits: true, Requests: 1000, Misses: misses, HitRatio: 1 - float64(misses)/1000}
	}
	results := []result{
		row("LRU", false, true, 500), row("SIEVE", false, true, 400), row("S3-FIFO/1", false, true, 300), row(ours[0].Name, false, false, 310),
		row("S3-FIFO", true, true, 200), row(ours[0].Name, true, false, 210),
		{At: "x@1", Cache: "none", Sized: true, Requests: 1000},
	}
	var b bytes.Buffer
	if err := (report.Output{Format: "table", W: &b}).Write(report.Machine{}, results, tables(results)...); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"70.00 |", "| S3-FIFO (simulated)", "-1.00 |", "+5.00 % |", "  - |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Setenv("RINGCACHE_TRACES", t.TempDir())
	for name, args := range map[string][]string{
		"no traces": {"-loads", "oltp"}, "no load": {"-loads", "none"}, "no cache": {"-caches", "none"},
		"no format": {"-o", "xml"}, "scale": {"-scale", "0"},
	} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: %v was accepted", name, args)
		}
	}
	if err := run([]string{"-loads", "oltp"}, io.Discard, io.Discard); !strings.Contains(err.Error(), "RINGCACHE_TRACES") {
		t.Errorf("absent traces: %v; want a message that says what to do", err)
	}
	var out bytes.Buffer
	if err := run([]string{"-quick", "-loads", "zipf0.9", "-caches", "golang-lru", "-sims=false", "-o", "json"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got struct{ Results []result }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Results) != 2 {
		t.Errorf("%v: %d results", err, len(got.Results))
	}
}
