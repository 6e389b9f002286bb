package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache/internal/config"
	"github.com/ringcache/ringcache/internal/workload"
)

// benchFlags are the flags of `ringcache bench`.
type benchFlags struct {
	load   workload.LoadOptions
	size   string
	reads  float64
	access accessFlags
}

func newBench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [flags] [ADDR]...",
		Short: "Put a load on a RESP server or cluster and measure latencies",
		Long: `Put a load of GET and SET on any server that speaks RESP, or on a whole cluster:
its nodes are found by CLUSTER SLOTS, each request goes to the owner of its slot, and
MOVED is followed. ADDR is 127.0.0.1:7001 by default; of several the first that
answers is asked.

With --rate the load is open: requests are due at fixed times, whether or not earlier
ones were answered, and latency counts from when a request was due. A server that
stops for 100 ms shows in the latency of every request that was due meanwhile. With
--rate 0 each connection sends as soon as it may; latency then counts from sending
and says little, the rate is the result.

  p50 ... p99.99   at most 1/32 above the true latency; max is exact
  late             p99 of by how much this program itself sent too late: it needs
                   processors of its own
  unanswered       had no reply when the load had ended; their time until then counts

The load ends after --warmup and --duration, or with Ctrl-C, which prints what was
measured until then.`,
		Example: `  ringcache bench
  ringcache bench --rate 20000 --conns 100 --reads 90 --zipf 0.99 127.0.0.1:7001
  ringcache bench --rate 0 --pipeline 32 --size 64-4096 --ttl 1m -o json`,
		Args: cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	flags.Float64Var(&f.load.Rate, "rate", 10_000, "requests per second (0: as many as the connections carry)")
	flags.IntVar(&f.load.Conns, "conns", 50, "connections, spread over the nodes")
	flags.IntVar(&f.load.Pipeline, "pipeline", 1, "requests that wait for replies on a connection at most")
	flags.IntVar(&f.load.Keys, "keys", 100_000, "different keys")
	flags.Float64Var(&f.load.Theta, "zipf", 0, "skew of the keys by Zipf's law, 0 to below 1 (0: uniform)")
	flags.StringVar(&f.size, "size", "64", "bytes of a value, or a range (64-4096)")
	flags.Float64Var(&f.reads, "reads", 90, "per cent of GET; the others are SET")
	flags.DurationVar(&f.load.TTL, "ttl", 0, "time to live of what is stored (0: none)")
	flags.BoolVar(&f.load.Preload, "preload", true, "store every key first")
	flags.DurationVar(&f.load.Warmup, "warmup", time.Second, "time at the start that does not count")
	flags.DurationVar(&f.load.Duration, "duration", 10*time.Second, "time that counts")
	flags.Uint64Var(&f.load.Seed, "seed", 1, "seed of keys and commands")
	f.access.add(flags)
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.prepare(args); err != nil {
			return usage(err)
		}
		report, err := f.run(cmd)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), report, func(w io.Writer) { benchTable(w, report) })
	}
	return cmd
}

// prepare turns flags into options.
func (f *benchFlags) prepare(args []string) (err error) {
	o := &f.load
	if o.Seeds = args; len(args) == 0 {
		o.Seeds = []string{"127.0.0.1:7001"}
	}
	if err := checkAddrs(o.Seeds); err != nil {
		return err
	}
	if o.Reads = f.reads / 100; !(f.reads >= 0 && f.reads <= 100) {
		return fmt.Errorf("--reads %g: must be 0 to 100 per cent", f.reads)
	}
	least, most, ranged := strings.Cut(f.size, "-")
	if o.MinValue, err = parseBytes(least); err != nil {
		return fmt.Errorf("--size %s: %w", f.size, err)
	}
	if o.MaxValue = o.MinValue; ranged {
		if o.MaxValue, err = parseBytes(most); err != nil {
			return fmt.Errorf("--size %s: %w", f.size, err)
		}
	}
	o.User, o.Password = f.access.user, f.access.password
	if o.Dial, err = f.access.dialer(); err != nil {
		return err
	}
	return o.Validate()
}

func parseBytes(s string) (int, error) {
	if n, err := strconv.Atoi(s); err == nil {
		return n, nil
	}
	n, err := config.ParseSize(s)
	return int(n), err
}

func (f *benchFlags) run(cmd *cobra.Command) (*workload.LoadReport, error) {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	kind := "saturation"
	if f.load.Rate > 0 {
		kind = fmt.Sprintf("%g requests/s", f.load.Rate)
	}
	fmt.Fprintf(stderr, "load on %s: %s, %d connections, pipeline %d\n", strings.Join(f.load.Seeds, ", "), kind, f.load.Conns, f.load.Pipeline)
	var bar *progress
	phase := ""
	f.load.Progress = func(name string, done, total int) {
		if name != phase {
			noun := "keys"
			if name == "measuring" {
				noun = "ms"
			}
			phase, bar = name, newProgress(stderr, name, noun)
		}
		bar.show(ctx, done, total)
	}
	report, err := workload.Load(ctx, f.load)
	if bar != nil {
		bar.clear()
	}
	return report, err
}

// benchTable prints a report.
func benchTable(w io.Writer, r *workload.LoadReport) {
	line := func(name string, l workload.Latencies, more string) {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, l.Requests, l.Rate,
			micros(l.P50), micros(l.P90), micros(l.P99), micros(l.P999), micros(l.P9999), micros(l.Max), more)
	}
	fmt.Fprintln(w, "\tREQUESTS\tPER SECOND\tP50\tP90\tP99\tP99.9\tP99.99\tMAX\t")
	line("all", r.All, "")
	if r.Get.Requests > 0 && r.Set.Requests > 0 {
		line("GET", r.Get, "")
		line("SET", r.Set, "")
	}
	if r.Cluster {
		for _, n := range r.Nodes {
			more := ""
			if n.Errors > 0 {
				more = fmt.Sprintf("%d errors", n.Errors)
			}
			line(n.Addr, n.Latencies, more)
		}
	}
	fmt.Fprintln(w)
	if r.Target > 0 {
		fmt.Fprintf(w, "rate\t%.0f asked for\t%.1f%% reached\tlate %s\n", r.Target, 100*r.All.Rate/r.Target, micros(r.LateP99))
	}
	if r.Get.Requests > 0 {
		fmt.Fprintf(w, "hits\t%.2f%%\n", 100*float64(r.Hits)/float64(max(r.Hits+r.Misses, 1)))
	}
	if r.Moved+r.Errors+r.Unanswered > 0 {
		fmt.Fprintf(w, "moved\t%d\terrors %d\tunanswered %d\n", r.Moved, r.Errors, r.Unanswered)
	}
	if r.FirstError != "" {
		fmt.Fprintf(w, "first error\t%s\n", r.FirstError)
	}
	if r.Interrupted {
		fmt.Fprintf(w, "interrupted\tafter %.1f s\n", r.Seconds)
	}
}

// micros prints microseconds with a unit that suits.
func micros(us float64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.0fµs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2fms", us/1e3)
	}
	return fmt.Sprintf("%.2fs", us/1e6)
}
