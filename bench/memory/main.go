// Command memory measures what a cache server needs per item beside the key and the
// value: (resident memory - resident memory of the same binary started empty
// with the smallest limit) / items - key - value. One server is filled step by
// step; the worst of several item counts is the result, so that a table that has
// just doubled counts.
//
// It starts redis-server and memcached when they are in PATH, ring-cache built
// from this checkout, and any other server that is named.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/bench/internal/report"
)

// shape is the size of a key and a value.
type shape struct {
	Key   int `json:"key"`
	Value int `json:"value"`
}

func (s shape) String() string { return fmt.Sprintf("%d+%d B", s.Key, s.Value) }

// options are the command line.
type options struct {
	shapes   []shape
	counts   []int
	ttls     []time.Duration
	limit    int // MiB that the servers may use
	smallest int // MiB: the smallest limit
	settle   time.Duration
	out      report.Output
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	o := options{out: report.Output{W: stdout}}
	var extra []server
	f := flag.NewFlagSet("memory", flag.ContinueOnError)
	f.SetOutput(stderr)
	shapes := f.String("shapes", "16+16,24+64,40+270", "comma-separated key+value sizes in bytes")
	from := f.Int("from", 1_000_000, "smallest number of items")
	to := f.Int("to", 2_000_000, "largest number of items")
	steps := f.Int("steps", 8, "numbers of items between -from and -to")
	ttl := f.String("ttl", "0s,1h", "comma-separated TTLs; 0s is none")
	only := f.String("servers", "ring-cache,redis,memcached", "which of the known servers to start")
	binary := f.String("ringcache", "", "ring-cache binary (default: built from this checkout)")
	f.IntVar(&o.limit, "limit", 8192, "memory limit of the servers in MiB; must be above what the items need")
	f.IntVar(&o.smallest, "smallest", 1, "limit in MiB with which the empty server is started")
	f.DurationVar(&o.settle, "settle", 8*time.Second, "how long to wait at most until resident memory stands still")
	f.Func("server", "another server, name=path,arg,arg...; {port} and {mb} in the arguments stand for port and limit; name:memcached for that protocol (repeatable)",
		func(s string) error {
			srv, err := parseServer(s)
			extra = append(extra, srv)
			return err
		})
	f.StringVar(&o.out.Format, "o", "table", "output: table or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	var faults [4]error
	o.shapes, faults[0] = parseShapes(*shapes)
	o.counts, faults[1] = spread(*from, *to, *steps)
	o.ttls, faults[2] = parseTTLs(*ttl)
	faults[3] = o.out.Check()
	if err := errors.Join(faults[:]...); err != nil {
		return err
	}
	servers, cleanup, err := known(*only, *binary, stderr)
	defer cleanup()
	if err != nil {
		return err
	}
	servers = append(servers, extra...)
	if len(servers) == 0 {
		return errors.New("no server to measure: install redis-server or memcached, or name one with -server")
	}
	results, err := measure(o, servers)
	if err != nil {
		return err
	}
	return o.out.Write(report.ThisMachine(), results, tables(o, servers, results)...)
}

func parseShapes(list string) ([]shape, error) {
	var out []shape
	for s := range strings.SplitSeq(list, ",") {
		var sh shape
		if n, err := fmt.Sscanf(s, "%d+%d", &sh.Key, &sh.Value); n != 2 || err != nil || sh.Key < 12 || sh.Value < 1 {
			return nil, fmt.Errorf("-shapes: %q is not key+value with a key of at least 12 bytes", s)
		}
		out = append(out, sh)
	}
	return out, nil
}

func parseTTLs(list string) ([]time.Duration, error) {
	var out []time.Duration
	for s := range strings.SplitSeq(list, ",") {
		d, err := time.ParseDuration(s)
		if err != nil || d != 0 && d < time.Minute {
			return nil, fmt.Errorf("-ttl: %q is not 0s or a duration of at least 1m, which nothing outlives during the run", s)
		}
		out = append(out, d)
	}
	return out, nil
}

// spread returns n numbers from the first to the last, in even steps.
func spread(first, last, n int) ([]int, error) {
	if first < 1 || last < first || n < 1 || n > 1 && last-first < n-1 {
		return nil, fmt.Errorf("-from %d, -to %d and -steps %d give no numbers of items", first, last, n)
	}
	out := make([]int, n)
	for i := range out {
		out[i] = first + (last-first)*i/max(1, n-1)
	}
	return out, nil
}

// known returns the servers of the list that are there, and says which are not.
func known(list, binary string, stderr io.Writer) ([]server, func(), error) {
	cleanup := func() {}
	var out []server
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimSpace(name); name {
		case "":
		case "ring-cache":
			if binary == "" {
				dir, err := os.MkdirTemp("", "ringcache-bench")
				if err != nil {
					return nil, cleanup, err
				}
				cleanup = func() { os.RemoveAll(dir) }
				binary = filepath.Join(dir, "ringcache")
				if err := build(binary); err != nil {
					return nil, cleanup, err
				}
			}
			out = append(out, server{name: name, path: binary, speak: resp{}, args: []string{
				"serve", "--addr", "127.0.0.1:{port}", "--max-memory", "{mb}mb", "--log-level", "error"}})
		case "redis":
			out = append(out, server{name: name, path: "redis-server", speak: resp{}, args: []string{
				"--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxmemory", "{mb}mb"}})
		case "memcached":
			args := []string{"-l", "127.0.0.1", "-p", "{port}", "-U", "0", "-m", "{mb}"}
			if os.Geteuid() == 0 {
				args = append(args, "-u", "root")
			}
			out = append(out, server{name: name, path: "memcached", least: 2, speak: memcache{}, args: args})
		default:
			return nil, cleanup, fmt.Errorf("-servers: %q is not known; use -server for others", name)
		}
		if n := len(out); n > 0 {
			if _, err := exec.LookPath(out[n-1].path); err != nil {
				fmt.Fprintf(stderr, "memory: %s is left out: %s is not in PATH (Debian: apt-get install %s)\n", out[n-1].name, out[n-1].path, out[n-1].path)
				out = out[:n-1]
			}
		}
	}
	return out, cleanup, nil
}

// build makes the ring-cache binary of the checkout around this module.
func build(binary string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ringcache/ringcache").Output()
	if err != nil {
		return fmt.Errorf("looking for the checkout of ring-cache: %w; run this inside bench/, or give -ringcache", err)
	}
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/ringcache")
	cmd.Dir = strings.TrimSpace(string(root))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building ring-cache: %w\n%s", err, text)
	}
	return nil
}

// tables shows the worst overhead per shape and TTL, servers across.
func tables(o options, servers []server, results []result) []*report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("Bytes per item beside key and value, the worst of %d counts from %d to %d items", len(o.counts), o.counts[0], o.counts[len(o.counts)-1]),
		Head:  []string{"key+value, TTL"},
	}
	for _, s := range servers {
		t.Head = append(t.Head, s.name)
	}
	for _, sh := range o.shapes {
		for _, ttl := range o.ttls {
			name := sh.String()
			if ttl > 0 {
				name += ", " + strings.TrimSuffix(strings.TrimSuffix(ttl.String(), "0s"), "0m")
			}
			row := []string{name}
			for _, s := range servers {
				row = append(row, worst(results, s.name, sh, ttl))
			}
			t.Add(row...)
		}
	}
	return []*report.Table{t}
}

func worst(results []result, name string, sh shape, ttl time.Duration) string {
	var worst *result
	for i, r := range results {
		if r.Server == name && r.Shape == sh && r.TTL == ttl.Seconds() && (worst == nil || cmp.Less(worst.Overhead, r.Overhead)) {
			worst = &results[i]
		}
	}
	if worst == nil {
		return "-"
	}
	return strconv.FormatFloat(worst.Overhead, 'f', 1, 64)
}
