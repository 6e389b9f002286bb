// Command pair compares the CPU time that two RESP servers spend on a request. Both
// run at the same time, pinned to one processor, and are preloaded; the generator
// has another. Blocks of load alternate A B B A, so that what changes on the
// machine meets both; the result is the median of the ratios of neighbouring
// blocks with a confidence interval.
//
//	go run ./pair -a 'ringcache serve --addr 127.0.0.1:{port}' -b 'redis-server --port {port}'
//
// CPU time is field 1 of /proc/PID/task/*/schedstat, summed over the threads:
// what the scheduler gave to the process, system calls and the network's work in them
// included.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ringcache/ringcache/bench/internal/report"
)

// options are the command line.
type options struct {
	commands  [2]string
	load      load
	block     time.Duration
	pairs     int
	serverCPU int
	clientCPU int
	out       report.Output
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pair:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	o := options{out: report.Output{W: stdout}}
	f := flag.NewFlagSet("pair", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.commands[0], "a", "", "command line of server A; {port} stands for its port")
	f.StringVar(&o.commands[1], "b", "redis-server --save '' --port {port}", "command line of server B")
	f.IntVar(&o.load.conns, "conns", 50, "connections")
	f.IntVar(&o.load.pipeline, "pipeline", 1, "commands that a connection sends at once")
	f.IntVar(&o.load.size, "size", 64, "bytes of a value")
	f.IntVar(&o.load.keys, "keys", 100_000, "keys")
	f.IntVar(&o.load.reads, "reads", 100, "per cent of GET; the others are SET")
	f.DurationVar(&o.block, "block", 2*time.Second, "length of a block")
	f.IntVar(&o.pairs, "pairs", 10, "pairs of blocks")
	f.IntVar(&o.serverCPU, "server-cpu", 0, "processor of the servers")
	f.IntVar(&o.clientCPU, "client-cpu", 1, "processor of the generator")
	f.StringVar(&o.out.Format, "o", "table", "output: table or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	r, err := o.measure(stderr)
	if err != nil {
		return err
	}
	t := report.Table{Title: fmt.Sprintf("%d connections, pipeline %d, %d%% GET, %d B, %d pairs of %s",
		o.load.conns, o.load.pipeline, o.load.reads, o.load.size, o.pairs, o.block),
		Head: []string{"server", "CPU s per million requests", "requests/s"}}
	for i, name := range []string{"A", "B"} {
		t.Add(name+": "+o.commands[i], fmt.Sprintf("%.2f", r.CPU[i]), fmt.Sprintf("%.0f", r.Rate[i]))
	}
	t.Add("A / B", fmt.Sprintf("%.3f [%.3f, %.3f]", r.Ratio, r.Low, r.High), "")
	return o.out.Write(report.ThisMachine(), r, &t)
}

func (o *options) check() error {
	switch {
	case o.commands[0] == "" || o.commands[1] == "":
		return errors.New("give the command lines of both servers, -a and -b")
	case o.load.conns < 1 || o.load.pipeline < 1 || o.load.keys < 1 || o.load.size < 1 || o.load.reads < 0 || o.load.reads > 100:
		return errors.New("conns, pipeline, keys and size must be positive, reads 0 to 100")
	case o.pairs < minPairs:
		return fmt.Errorf("pairs is %d, an interval needs %d", o.pairs, minPairs)
	case o.block < 100*time.Millisecond:
		return fmt.Errorf("block is %s, must be at least 100ms", o.block)
	case o.serverCPU == o.clientCPU:
		return errors.New("server and generator need a processor each")
	}
	return o.out.Check()
}

// result is what was found.
type result struct {
	CPU    [2]float64 `json:"cpu_seconds_per_million"` // medians over the blocks
	Rate   [2]float64 `json:"requests_per_second"`
	Ratio  float64    `json:"ratio"` // median of the paired ratios A / B
	Low    float64    `json:"low"`   // 95% confidence interval
	High   float64    `json:"high"`
	Ratios []float64  `json:"ratios"`
}

// measure starts the servers and lets them take turns.
func (o *options) measure(progress io.Writer) (*result, error) {
	if err := pin(o.clientCPU); err != nil {
		return nil, fmt.Errorf("cannot pin the generator: %w", err)
	}
	var sides [2]*side
	for i, line := range o.commands {
		s, err := startSide(line, o.serverCPU, o.load)
		if err != nil {
			return nil, fmt.Errorf("server %c: %w", 'A'+i, err)
		}
		defer s.stop()
		sides[i] = s
	}
	for _, s := range sides { // caches and branch predictors know both
		if _, _, err := s.block(o.block / 2); err != nil {
			return nil, err
		}
	}
	var r result
	var cpu, rate [2][]float64
	for p := range o.pairs {
		for n := range 2 {
			i := (n + p) % 2
			c, q, err := sides[i].block(o.block)
			if err != nil {
				return nil, fmt.Errorf("server %c: %w", 'A'+i, err)
			}
			cpu[i], rate[i] = append(cpu[i], c), append(rate[i], q)
		}
		r.Ratios = append(r.Ratios, cpu[0][p]/cpu[1][p])
		fmt.Fprintf(progress, "pair %d of %d: A %.2f, B %.2f, ratio %.3f\n", p+1, o.pairs, cpu[0][p], cpu[1][p], r.Ratios[p])
	}
	for i := range 2 {
		r.CPU[i], _, _ = median(cpu[i])
		r.Rate[i], _, _ = median(rate[i])
	}
	r.Ratio, r.Low, r.High = median(r.Ratios)
	return &r, nil
}
