package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache/client"
	"github.com/ringcache/ringcache/internal/config"
	"github.com/ringcache/ringcache/internal/workload"
)

// replayFlags are the flags of `ringcache replay`.
type replayFlags struct {
	trace, format, capacity string
	nodes, workers, value   int
	requests                int64
	bin                     int64
	joinAt, killAt, rate    float64
	seeds                   []string
	password                string
	timeout                 time.Duration
	modulo                  bool
}

// replayReport is the output of `ringcache replay -o json`.
type replayReport struct {
	Trace    string      `json:"trace"`
	Requests int64       `json:"requests"`
	Objects  int64       `json:"objects"`
	Nodes    int         `json:"nodes,omitempty"`
	Capacity string      `json:"capacity,omitempty"`
	Runs     []replayRun `json:"runs"`
}

type replayRun struct {
	Routing string           `json:"routing"`
	Phases  []workload.Phase `json:"phases"`
}

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Replay an access trace against real nodes, with a join and a kill",
		Long: `Replay an access trace as cache-aside traffic through the SDK: read a key; on a
miss load the object from a counted origin and store it. The nodes are processes
of their own and every request crosses a socket. On the way a node can join and
another be killed (SIGKILL); the trace pauses until all slots are served again, so
that the figures show what the change costs in hits, and "settled" tells how long
it took. Beside it the same trace runs over as many separate caches with routing
by hash modulo N.

  hits        share of the requests that the cache answered; an error is a miss
  first, worst hit ratio of the first and of the worst bin of a phase
  origin      loads from the origin
  p50, p99    latency of the reads as the SDK's caller sees it
  load        reads of the busiest node over the ideal share

Formats: arc (text "start count ignored number"), int64be, int32be, ids (a number
per line), oracle (libCacheSim oracleGeneral); .gz and .xz are decompressed.`,
		Example: `  ringcache replay --trace oltp.gz --capacity 4000 --join-at 0.5 --kill-at 0.75
  ringcache replay --trace web07.trace.xz --capacity 1mb --join-at 0.5 -o json
  ringcache replay --trace oltp.gz --seeds 127.0.0.1:7001`,
		Args: cobra.NoArgs,
	}
	var f replayFlags
	flags := cmd.Flags()
	flags.StringVar(&f.trace, "trace", "", "trace file (required)")
	flags.StringVar(&f.format, "format", "auto", "trace format: auto or one of "+strings.Join(workload.Formats(), ", "))
	flags.IntVar(&f.nodes, "nodes", 3, "nodes at the start")
	flags.StringVar(&f.capacity, "capacity", "", "what all nodes at the start hold together: a number of items, or bytes with a unit (64mb)")
	flags.Float64Var(&f.joinAt, "join-at", 0, "fraction of the trace at which a node joins (0: never)")
	flags.Float64Var(&f.killAt, "kill-at", 0, "fraction of the trace at which a node is killed (0: never)")
	flags.StringSliceVar(&f.seeds, "seeds", nil, "use this running cluster instead of starting nodes")
	flags.StringVar(&f.password, "password", "", "password of that cluster")
	flags.Int64Var(&f.requests, "requests", 0, "replay only so many requests (0: all)")
	flags.Int64Var(&f.bin, "bin", 1000, "requests per bin of FIRST and WORST")
	flags.IntVar(&f.workers, "workers", 8, "concurrent callers; requests of one key keep their order")
	flags.IntVar(&f.value, "value-size", 64, "bytes of a value where the trace gives no size")
	flags.Float64Var(&f.rate, "rate", 0, "requests per second (0: as fast as the cache answers)")
	flags.DurationVar(&f.timeout, "timeout", 250*time.Millisecond, "total deadline of one call")
	flags.BoolVar(&f.modulo, "modulo", true, "run the same trace with hash modulo N beside it")
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return usage(err)
		}
		report, err := f.run(cmd)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), report, func(w io.Writer) { replayTable(w, report) })
	}
	return cmd
}

func (f *replayFlags) validate() error {
	var faults []error
	bad := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if f.trace == "" {
		bad("--trace is missing: give the file of a trace")
	}
	if len(f.seeds) > 0 {
		if f.joinAt > 0 || f.killAt > 0 || f.capacity != "" {
			bad("--join-at, --kill-at and --capacity need nodes that the replay starts itself; leave out --seeds")
		}
	} else if f.capacity == "" {
		bad("--capacity is missing: give a number of items (4000) or bytes with a unit (64mb)")
	}
	if f.nodes < 1 || f.nodes > 50 {
		bad("--nodes %d: must be 1 to 50", f.nodes)
	}
	if f.killAt > 0 && f.nodes < 2 {
		bad("--kill-at needs at least 2 nodes")
	}
	if f.workers < 1 || f.workers > 1024 {
		bad("--workers %d: must be 1 to 1024", f.workers)
	}
	if f.value < 8 || f.value > 256<<10 {
		bad("--value-size %d: must be 8 to %d bytes", f.value, 256<<10)
	}
	if f.bin < 1 {
		bad("--bin %d: must be at least 1", f.bin)
	}
	if f.requests < 0 || f.rate < 0 || f.timeout <= 0 {
		bad("--requests and --rate must not be negative, --timeout must be positive")
	}
	return errors.Join(faults...)
}

func (f *replayFlags) run(cmd *cobra.Command) (*replayReport, error) {
	ctx := cmd.Context()
	requests, objects, _, err := workload.CountTrace(f.trace, f.format)
	if err != nil {
		return nil, usage(err)
	}
	if f.requests > 0 {
		requests = min(requests, f.requests)
	}
	report := &replayReport{Trace: filepath.Base(f.trace), Requests: requests, Objects: objects}
	if len(f.seeds) > 0 {
		c, err := client.Open(ctx, client.Options{Seeds: f.seeds, Password: f.password, Timeout: f.timeout})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return report, f.replay(cmd, report, strings.Join(f.seeds, ","), workload.NewSDKCache(c), nil)
	}
	o, err := f.processes(ctx)
	if err != nil {
		return nil, err
	}
	report.Nodes, report.Capacity = f.nodes, f.capacity
	if err := f.overRing(cmd, report, o); err != nil {
		return nil, err
	}
	if f.modulo {
		if err := f.overModulo(cmd, report, o); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// processes turns the capacity into the arguments of the nodes.
func (f *replayFlags) processes(ctx context.Context) (workload.ProcessOptions, error) {
	binary, err := os.Executable()
	if err != nil {
		return workload.ProcessOptions{}, fmt.Errorf("finding the own executable: %w", err)
	}
	o := workload.ProcessOptions{Binary: binary, Nodes: f.nodes, Timeout: f.timeout}
	var total int64
	if items, err := strconv.ParseInt(f.capacity, 10, 64); err == nil {
		each, err := workload.ItemBytes(ctx, o, f.value)
		if err != nil {
			return o, err
		}
		total = items * each
		f.capacity += " items"
	} else if total, err = config.ParseSize(f.capacity); err != nil {
		return o, usage(fmt.Errorf("--capacity: %w", err))
	}
	perNode := (total + int64(f.nodes) - 1) / int64(f.nodes)
	if perNode <= 0 {
		return o, usage(fmt.Errorf("--capacity %s: must be above 0", f.capacity))
	}
	largest := min(max(perNode/4, 1<<10), 256<<10)
	o.Args = []string{"--max-memory", strconv.FormatInt(perNode, 10), "--max-value", strconv.FormatInt(largest, 10), "--log-level", "warn"}
	return o, nil
}

func (f *replayFlags) overRing(cmd *cobra.Command, report *replayReport, o workload.ProcessOptions) error {
	fleet, err := workload.StartRing(cmd.Context(), o)
	if err != nil {
		return err
	}
	defer fleet.Close()
	return f.replay(cmd, report, "ring-cache", fleet, fleet)
}

func (f *replayFlags) overModulo(cmd *cobra.Command, report *replayReport, o workload.ProcessOptions) error {
	fleet, err := workload.StartModulo(cmd.Context(), o)
	if err != nil {
		return err
	}
	defer fleet.Close()
	return f.replay(cmd, report, "hash % N", fleet, fleet)
}

func (f *replayFlags) replay(cmd *cobra.Command, report *replayReport, routing string, cache workload.Cache, fleet workload.Fleet) error {
	bar := newProgress(cmd.ErrOrStderr(), "replaying over "+routing, "requests")
	phases, err := workload.Replay(cmd.Context(), workload.ReplayOptions{
		Open:     func() (workload.Source, error) { return workload.OpenTrace(f.trace, f.format) },
		Requests: report.Requests, Cache: cache, Fleet: fleet, JoinAt: f.joinAt, KillAt: f.killAt,
		Workers: f.workers, ValueSize: f.value, Rate: f.rate, Bin: f.bin,
		Progress: func(done, total int64, phase string, hits float64) {
			bar.noun = fmt.Sprintf("requests, %s, hit ratio %.1f%%", phase, 100*hits)
			bar.show(cmd.Context(), int(done), int(total))
		},
	})
	bar.clear()
	if err != nil {
		return fmt.Errorf("over %s: %w", routing, err)
	}
	report.Runs = append(report.Runs, replayRun{routing, phases})
	return nil
}

func replayTable(w io.Writer, r *replayReport) {
	fmt.Fprintln(w, "ROUTING\tPHASE\tREQUESTS\tHITS\tFIRST\tWORST\tORIGIN\tERRORS\tSETTLED\tP50\tP99\tNODES\tLOAD")
	for _, run := range r.Runs {
		for _, p := range run.Phases {
			load := 0.0
			for _, n := range p.Nodes {
				load = max(load, n.Share/n.Ideal)
			}
			settled := "-"
			if p.Settle > 0 {
				settled = p.Settle.Round(10 * time.Millisecond).String()
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%.2f%%\t%.2f%%\t%.2f%%\t%d\t%d\t%s\t%s\t%s\t%d\t%.2f\n", run.Routing, p.Name, p.Requests,
				100*p.HitRatio, 100*p.FirstBin, 100*p.WorstBin, p.OriginLoads, p.Errors, settled,
				p.P50.Round(time.Microsecond), p.P99.Round(time.Microsecond), len(p.Nodes), load)
		}
	}
	fmt.Fprintln(w)
	for _, run := range r.Runs {
		for _, p := range run.Phases {
			for _, n := range p.Nodes {
				fmt.Fprintf(w, "%s\t%s\t%s\t%.1f%% of the reads\tideal %.1f%%\n", run.Routing, p.Name, n.Node, 100*n.Share, 100*n.Ideal)
			}
		}
	}
}
