package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache/internal/drill"
)

// drillFlags are the flags of `ringcache drill`.
type drillFlags struct {
	o                  drill.Options
	limits             drill.Limits
	scenarios, targets []string
	html               string
	verbose            bool
}

// drillReport is the output of `ringcache drill -o json`.
type drillReport struct {
	Reports []*drill.Report `json:"reports"`
	Failed  []string        `json:"failed,omitempty"` // drills that did not come to their end
}

func newDrill() *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Run faults on clusters of real nodes under load and check every answer",
		Long: "Start a cluster of `ringcache serve` processes on this machine, put a cache-aside\n" +
			`load on it (Zipf), and let nodes join, leave, die, freeze or be cut off. A second
cluster, the control, gets the same requests at the same times and no fault. Every
answer is checked: it may be absent, but never invented, mixed, older than an
acknowledged write, back after an acknowledged delete, or beyond its TTL.

Scenarios:
` + drillScenarios() + `
Targets: ringcache; modulo and ketama (the client shards over separate nodes);
redis-cluster (redis-server and redis-cli --cluster).

Exit code 1: an answer was never legal, or a limit that a flag gives was missed.`,
		Example: `  ringcache drill --scenario join --quick
  ringcache drill --scenario kill --nodes 5 --html drill.html
  ringcache drill --scenario join,leave --target ringcache,modulo,ketama,redis-cluster -o json
  ringcache drill --scenario mixed --faults 200 --duration 40m --seed 7`,
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := f.run(cmd)
		if err != nil {
			return err
		}
		if err := output.print(cmd.OutOrStdout(), report, func(w io.Writer) { drillTable(w, report) }); err != nil {
			return err
		}
		return report.failure()
	}
	return cmd
}

func drillScenarios() string {
	var b strings.Builder
	for _, name := range drill.Scenarios() {
		fmt.Fprintf(&b, "  %-14s %s\n", name, drill.About(name))
	}
	return b.String()
}

func (f *drillFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", []string{"join"}, "scenarios, one after the other; all for all of them")
	flags.StringSliceVar(&f.targets, "target", []string{drill.TargetRing}, "what to drill: "+strings.Join(drill.Targets(), ", "))
	flags.IntVar(&f.o.Nodes, "nodes", 3, fmt.Sprintf("nodes at the start (1 to %d)", drill.MaxNodes))
	flags.IntVar(&f.o.Replicas, "replicas", 0, "copies of every slot beside the owner's (0 to 2)")
	flags.BoolVar(&f.o.Lazy, "lazy", false, "keys move only when a request needs them; a join takes two thirds of --duration")
	flags.StringVar(&f.o.MaxMemory, "max-memory", "256mb", "memory for entries, of each node")
	flags.StringArrayVar(&f.o.Args, "serve-arg", nil, "further argument of `ringcache serve`, for example --loops=1; repeatable")
	flags.IntVar(&f.o.Keys, "keys", 0, "different keys (100,000)")
	flags.Float64Var(&f.o.Theta, "zipf", 0.99, "skew of the keys by Zipf's law, above 0 to below 1")
	flags.Float64Var(&f.o.Rate, "rate", 0, "requests per second on each of the two clusters (4,000)")
	flags.Float64Var(&f.o.Reads, "reads", 0.95, "share of reads")
	flags.IntVar(&f.o.Value, "value", 100, "bytes of a value")
	flags.DurationVar(&f.o.TTL, "ttl", 5*time.Minute, "time to live of the values, shortened by up to half from key to key")
	flags.DurationVar(&f.o.Timeout, "timeout", 50*time.Millisecond, "total deadline of one call")
	flags.IntVar(&f.o.Clients, "clients", 2, "clients of each cluster")
	flags.DurationVar(&f.o.Duration, "duration", 0, "load from the first fault on (1m)")
	flags.DurationVar(&f.o.Before, "before", 0, "load before the first fault (two bins)")
	flags.IntVar(&f.o.Faults, "faults", 0, "number of faults (depends on the scenario)")
	flags.IntVar(&f.o.BinRequests, "bin", 0, "requests of a bin (50,000)")
	flags.BoolVar(&f.o.Quick, "quick", false, "smaller defaults: 10,000 keys, 1,000 requests/s, bins of 2,000, 12 s")
	flags.Uint64Var(&f.o.Seed, "seed", 1, "seed of keys, commands and faults")
	flags.StringVar(&f.html, "html", "", "write a page with charts to this file")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print events as they happen")
	flags.Float64Var(&f.limits.HitDrop, "max-drop", 0, "limit: points of hit ratio below the control, worst bin (0: none)")
	flags.Float64Var(&f.limits.OriginPeak, "max-origin", 0, "limit: origin load over the control's, worst bin (0: none)")
	flags.Float64Var(&f.limits.P99Ratio, "max-p99", 0, "limit: p99 over the control's, worst bin (0: none)")
	flags.DurationVar(&f.limits.SlotP99, "max-slot", 0, "limit: first success of a slot after a fault, p99 (0: none)")
	flags.DurationVar(&f.limits.Out, "max-out", 0, "limit: until a node that is cut off is out (0: none)")
	flags.DurationVar(&f.limits.Heal, "max-heal", 0, "limit: until all agree after the network is back (0: none)")
	flags.BoolVar(&f.limits.NoOverdue, "no-overdue", false, "limit: no call beyond its deadline")
}

// run drills every scenario on every target that it runs on.
func (f *drillFlags) run(cmd *cobra.Command) (*drillReport, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the own executable: %w", err)
	}
	f.o.Binary = binary
	all := slices.Equal(f.scenarios, []string{"all"})
	if all {
		f.scenarios = drill.Scenarios()
	}
	var list []drill.Options
	var faults []error
	for _, scenario := range f.scenarios {
		for _, target := range f.targets {
			o := f.o
			o.Scenario, o.Target = scenario, target
			if err := o.Validate(); err == nil {
				list = append(list, o)
			} else if !all {
				faults = append(faults, err)
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, usage(err)
	}
	if len(list) == 0 {
		return nil, usage(errors.New("no scenario runs with these options"))
	}
	report := &drillReport{}
	for _, o := range list {
		r, err := f.one(cmd, o)
		switch {
		case cmd.Context().Err() != nil:
			return nil, err
		case err != nil:
			report.Failed = append(report.Failed, fmt.Sprintf("%s on %s: %v", o.Scenario, o.Target, err))
		default:
			report.Reports = append(report.Reports, r)
		}
	}
	return report, f.page(report)
}

func (f *drillFlags) one(cmd *cobra.Command, o drill.Options) (*drill.Report, error) {
	stderr := cmd.ErrOrStderr()
	var bar *progress
	phase := ""
	o.Progress = func(name string, done, total int) {
		if name != phase {
			noun := "ms"
			if strings.HasSuffix(name, "keys") {
				noun = "keys"
			}
			phase, bar = name, newProgress(stderr, o.Target+": "+name, noun)
		}
		bar.show(cmd.Context(), done, total)
	}
	if f.verbose {
		o.Note = func(text string) { fmt.Fprintf(stderr, "\r%s %s: %s\n", o.Scenario, o.Target, text) }
	}
	r, err := drill.Run(cmd.Context(), o)
	if bar != nil {
		bar.clear()
	}
	if err != nil {
		return nil, err
	}
	r.Judge(f.limits)
	return r, nil
}

func (f *drillFlags) page(report *drillReport) error {
	if f.html == "" {
		return nil
	}
	file, err := os.Create(f.html)
	if err != nil {
		return err
	}
	return errors.Join(drill.WriteHTML(file, report.Reports), file.Close())
}

// failure is an error if a drill was not passed.
func (r *drillReport) failure() error {
	var faults []error
	for _, text := range r.Failed {
		faults = append(faults, errors.New(text))
	}
	for _, d := range r.Reports {
		for _, m := range d.Missed {
			faults = append(faults, fmt.Errorf("%s on %s: %s", d.Scenario, d.Target, m))
		}
	}
	return errors.Join(faults...)
}

func drillTable(w io.Writer, r *drillReport) {
	fmt.Fprintln(w, "SCENARIO\tTARGET\tNODES\tFAULTS\tHITS BEFORE\tWORST BIN\tMEAN\tORIGIN PEAK\tP99\tERRORS\tOVERDUE\tSLOT P99\tCHECKED\tVIOLATIONS\tOLD AFTER CRASH")
	for _, d := range r.Reports {
		s := d.Summary
		slot := "-"
		if s.Slots+s.NoAnswer > 0 {
			slot = fmt.Sprintf("%.0fms", s.SlotP99)
		}
		if s.NoAnswer > 0 {
			slot += fmt.Sprintf(" (%d none)", s.NoAnswer)
		}
		old := "0"
		if s.Check.Excused > 0 {
			old = fmt.Sprintf("%d, %.1fs", s.Check.Excused, s.Check.ExcusedAge)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.2f%%\t%s\t%s\t%.2fx\t%.2fx\t%d\t%d\t%s\t%d\t%d\t%s\n", d.Scenario, d.Target, d.Nodes, d.Faults,
			100*s.HitBefore, drill.Points(s.WorstDrop), drill.Points(s.MeanDrop), s.OriginPeak, s.P99Ratio, s.Errors, s.Overdue, slot, s.Check.Reads, s.Check.Violations(), old)
	}
	for _, d := range r.Reports {
		fmt.Fprintf(w, "\n%s on %s\tREQUESTS\tHITS\tCONTROL\tPOINTS\tORIGIN/S\tCONTROL\tERRORS\tP50\tCONTROL\tP99\tCONTROL\n", d.Scenario, d.Target)
		for _, b := range d.Bins {
			fmt.Fprintf(w, "%.1f-%.1f s\t%d\t%.2f%%\t%.2f%%\t%s\t%.0f\t%.0f\t%d\t%s\t%s\t%s\t%s\n", b.From, b.To, b.Fault.Requests,
				100*b.Fault.HitRatio, 100*b.Control.HitRatio, drill.Points(b.Drop()), b.Fault.Origin, b.Control.Origin, b.Fault.Errors(),
				micros(1000*b.Fault.P50), micros(1000*b.Control.P50), micros(1000*b.Fault.P99), micros(1000*b.Control.P99))
		}
		drillEvents(w, d)
	}
}

// maxDrillEvents bounds the events of the table; JSON and HTML have all.
const maxDrillEvents = 12

func drillEvents(w io.Writer, d *drill.Report) {
	for _, e := range d.Events[:min(len(d.Events), maxDrillEvents)] {
		fmt.Fprintf(w, "  %.2f s: %s\n", e.At, e.What)
	}
	if more := len(d.Events) - maxDrillEvents; more > 0 {
		fmt.Fprintf(w, "  and %d more events\n", more)
	}
	for _, text := range d.Summary.Check.Examples {
		fmt.Fprintf(w, "  violation at %s\n", text)
	}
}
