// Command engine measures ring-cache's local package beside other Go caches inside one
// process: operations per second, and what the garbage collector pays for a
// full cache.
//
// Speed is compared in pairs: ring-cache and the other cache run alternately, in
// the order A B B A, and the result is the median of the rounds' ratios, so that
// what the machine does meanwhile falls on both.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/bench/internal/report"
	"github.com/ringcache/ringcache/bench/internal/rivals"
)

// options are the command line.
type options struct {
	kinds   []rivals.Kind // the first is what the others are compared with
	parts   []string
	items   int
	values  []int
	mixes   []mix
	dists   []string
	threads []int
	time    time.Duration
	clock   func() time.Duration
	rounds  int
	gcItems int
	aside   bool // who misses a key stores it
	own     bool // caches of references get a value of its own for each key
	seed    uint64
	out     report.Output
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout, stderr)
	if err != nil {
		return err
	}
	var results struct {
		Speed []speed `json:"speed,omitempty"`
		GC    []pause `json:"gc,omitempty"`
	}
	var tables []*report.Table
	if slices.Contains(o.parts, "speed") {
		if results.Speed, err = measureSpeed(o); err != nil {
			return err
		}
		tables = append(tables, speedTables(o, results.Speed)...)
	}
	if slices.Contains(o.parts, "gc") {
		if results.GC, err = measureGC(o); err != nil {
			return err
		}
		tables = append(tables, gcTable(o, results.GC))
	}
	return o.out.Write(report.ThisMachine(), results, tables...)
}

func parse(args []string, stdout, stderr io.Writer) (options, error) {
	o := options{out: report.Output{W: stdout}}
	f := flag.NewFlagSet("engine", flag.ContinueOnError)
	f.SetOutput(stderr)
	caches := f.String("caches", "ring-cache,otter,ristretto,theine,freecache,bigcache,fastcache", "the first is compared with each of the others")
	parts := f.String("parts", "speed,gc", "what to measure: speed, gc")
	values := f.String("values", "64,1024", "bytes of a value")
	mixes := f.String("mixes", "read,75/25,write", "mixes of reads and writes: read, 75/25, write")
	dists := f.String("dists", "zipf,uniform", "distributions of keys: zipf (0.99), uniform")
	threads := f.String("threads", "1,0", "goroutines; 0 is one per core")
	clock := f.String("clock", "wall", "operations per second of what: wall, or cpu, the time of all threads of the process, for a machine with other load")
	misses := f.String("misses", "store", "what follows a read that misses: store, as cache-aside does, or nothing, which makes a cache faster that forgets")
	refs := f.String("references", "own", "what caches that keep references get: own, a copy of the value for each write, as a program makes one, or shared, one value for all keys")
	quick := f.Bool("quick", false, "a tenth of the items, two short rounds: to see that it works")
	f.IntVar(&o.items, "items", 1_000_000, "items of a full cache")
	f.DurationVar(&o.time, "time", 300*time.Millisecond, "length of one sample")
	f.IntVar(&o.rounds, "rounds", 7, "rounds of A B B A")
	f.IntVar(&o.gcItems, "gc-items", 20_000_000, "items of 16+64 B while garbage collections are measured")
	f.Uint64Var(&o.seed, "seed", 1, "of the keys' order")
	f.StringVar(&o.out.Format, "o", "table", "output: table or json")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		o.items, o.time, o.rounds, o.gcItems = o.items/10, 50*time.Millisecond, 2, o.gcItems/20
	}
	o.clock, o.aside, o.own = clocks[*clock], *misses == "store", *refs == "own"
	var err error
	o.kinds, err = rivals.Select(*caches)
	faults := []error{err, o.out.Check()}
	o.parts = strings.Split(*parts, ",")
	o.dists = strings.Split(*dists, ",")
	faults = append(faults, among("-misses", []string{*misses}, "store", "nothing"), among("-references", []string{*refs}, "own", "shared"),
		among("-parts", o.parts, "speed", "gc"), among("-dists", o.dists, "zipf", "uniform"))
	for s := range strings.SplitSeq(*mixes, ",") {
		i := slices.IndexFunc(allMixes, func(m mix) bool { return m.name == s })
		if i < 0 {
			faults = append(faults, fmt.Errorf("-mixes: %q is not read, 75/25 or write", s))
			continue
		}
		o.mixes = append(o.mixes, allMixes[i])
	}
	if o.clock == nil {
		faults = append(faults, fmt.Errorf("-clock: %q is not wall or cpu", *clock))
	}
	var bad error
	if o.values, bad = numbers(*values, 1); bad != nil {
		faults = append(faults, fmt.Errorf("-values: %w", bad))
	}
	if o.threads, bad = numbers(*threads, 0); bad != nil {
		faults = append(faults, fmt.Errorf("-threads: %w", bad))
	}
	if o.items < 1000 || o.gcItems < 1000 || o.time <= 0 || o.rounds < 1 {
		faults = append(faults, errors.New("want at least 1000 items, one round and a time above 0"))
	}
	return o, errors.Join(faults...)
}

func among(flag string, got []string, known ...string) error {
	for _, s := range got {
		if !slices.Contains(known, s) {
			return fmt.Errorf("%s: %q is not one of %s", flag, s, strings.Join(known, ", "))
		}
	}
	return nil
}

func numbers(list string, least int) ([]int, error) {
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < least {
			return nil, fmt.Errorf("%q is not a number from %d on", s, least)
		}
		out = append(out, n)
	}
	return out, nil
}
