// Command hitratio measures hit ratios: real access traces and Zipf loads against every
// eviction policy of ring-cache, other Go caches, and simulations of known
// policies. A miss stores the object; every request counts, cold ones too.
//
// A cache that is bounded by memory gets values of one size and as much memory
// as makes it hold the wanted number of items on average (see calibrate.go); a
// sized trace is measured by the bytes of its values, which are then the
// capacity.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ringcache/ringcache/bench/internal/report"
	"github.com/ringcache/ringcache/bench/internal/rivals"
	"github.com/ringcache/ringcache/bench/internal/sim"
)

// options are the command line.
type options struct {
	traces string
	loads  string
	caches string
	sims   bool
	quick  bool
	seed   uint64
	scale  int64
	out    report.Output
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hitratio:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	o := options{out: report.Output{W: stdout}}
	f := flag.NewFlagSet("hitratio", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.traces, "traces", "", "folder of the traces (default $RINGCACHE_TRACES, then shared/data/traces beside the checkout)")
	f.StringVar(&o.loads, "loads", "", "comma-separated loads, e.g. oltp,web07,zipf,zipf0.9 (default all)")
	f.StringVar(&o.caches, "caches", "", "comma-separated caches; ring-cache is its default policy, ring-cache/* all of them (default all)")
	f.BoolVar(&o.sims, "sims", true, "simulate the reference policies too")
	f.BoolVar(&o.quick, "quick", false, "smaller Zipf loads, and two capacities of the sized trace with sizes divided by 16")
	f.Uint64Var(&o.seed, "seed", 1, "of Zipf loads and of ring-cache")
	f.Int64Var(&o.scale, "scale", 1, "divide the sizes and capacities of the sized trace by this for real caches; saves memory")
	f.StringVar(&o.out.Format, "o", "table", "output: table or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := errors.Join(o.out.Check(), o.check()); err != nil {
		return err
	}
	kinds, err := rivals.Select(o.caches)
	if err != nil {
		return err
	}
	loads, err := openLoads(o)
	if err != nil {
		return err
	}
	results, err := measure(o, kinds, loads)
	if err != nil {
		return err
	}
	return o.out.Write(report.ThisMachine(), results, tables(results)...)
}

func (o *options) check() error {
	if o.scale < 1 {
		return fmt.Errorf("-scale is %d, must be at least 1", o.scale)
	}
	if o.quick && o.scale == 1 {
		o.scale = 16
	}
	return nil
}

// measure runs every cache and simulation through every load and capacity.
func measure(o options, kinds []rivals.Kind, loads []*load) ([]result, error) {
	steps := 0
	var sims []string
	if o.sims {
		sims = sim.Names()
	}
	for _, l := range loads {
		steps += len(l.capacities) * (len(kinds) + len(sims))
	}
	bar := report.NewProgress(steps)
	defer bar.End()
	var results []result
	for _, l := range loads {
		if err := l.read(); err != nil {
			return nil, err
		}
		for _, capacity := range l.capacities {
			for _, name := range sims {
				bar.Step(fmt.Sprintf("%s %s", l.at(capacity), name))
				results = append(results, simulate(name, l, capacity))
			}
			for _, k := range kinds {
				bar.Step(fmt.Sprintf("%s %s", l.at(capacity), k.Name))
				r, err := replay(o, k, l, capacity)
				if err != nil {
					return nil, fmt.Errorf("%s through %s: %w", l.at(capacity), k.Name, err)
				}
				results = append(results, r)
			}
		}
		l.release()
	}
	return results, nil
}

// selected says whether the list names the load, with or without the number at
// its end.
func selected(list, name string) bool {
	family := strings.TrimRight(name, "0123456789.")
	return list == "" || slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
		s = strings.TrimSpace(s)
		return s == name || s == family
	})
}
