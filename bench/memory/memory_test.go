package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/bench/internal/report"
)

// TestServers fills the servers of this machine with a few items.
func TestServers(t *testing.T) {
	for _, name := range []string{"redis", "memcached"} {
		t.Run(name, func(t *testing.T) {
			servers, cleanup, err := known(name, "", io.Discard)
			defer cleanup()
			if err != nil {
				t.Fatal(err)
			}
			if len(servers) == 0 {
				t.Skipf("%s is not installed", name)
			}
			o := options{shapes: []shape{{16, 16}}, counts: []int{20_000, 50_000}, ttls: []time.Duration{0, time.Hour}, limit: 256, smallest: 1, settle: 1}
			if name == "memcached" {
				o.ttls = o.ttls[:1]
			}
			results, err := measure(o, servers)
			if err != nil {
				t.Fatal(err)
			}
			if len(results) != 2*len(o.ttls) {
				t.Fatalf("%d results", len(results))
			}
			for _, r := range results {
				if r.Items < 20_000 || r.Overhead < 20 || r.Overhead > 1000 {
					t.Errorf("%+v", r)
				}
			}
			if got := tables(o, servers, results)[0]; len(got.Rows) != len(o.ttls) || got.Rows[0][1] == "-" {
				t.Errorf("table %+v", got)
			}
		})
	}
}

func TestTooSmallLimit(t *testing.T) {
	if _, err := exec.LookPath("memcached"); err != nil {
		t.Skip("memcached is not installed")
	}
	servers, cleanup, err := known("memcached", "", io.Discard)
	defer cleanup()
	if err != nil {
		t.Fatal(err)
	}
	o := options{shapes: []shape{{16, 1000}}, counts: []int{50_000}, ttls: []time.Duration{0}, limit: 2, smallest: 1, settle: 1}
	if _, err := measure(o, servers); err == nil || !strings.Contains(err.Error(), "holds") {
		t.Errorf("a server that evicted was measured: %v", err)
	}
}

func TestParse(t *testing.T) {
	s, err := parseServer("valkey=/opt/valkey-server,--port,{port},--maxmemory,{mb}mb")
	if err != nil || s.name != "valkey" || s.path != "/opt/valkey-server" || len(s.args) != 4 || s.speak != (resp{}) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := parseServer("x:memcached=mc,-p,{port}"); err != nil || s.name != "x" || s.speak != (memcache{}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "x", "=y,{port}", "x=", "x=y", "x:http=y,{port}"} {
		if _, err := parseServer(bad); err == nil {
			t.Errorf("server %q was accepted", bad)
		}
	}
	if got, err := spread(1000, 2000, 5); err != nil || !slices.Equal(got, []int{1000, 1250, 1500, 1750, 2000}) {
		t.Errorf("spread = %v, %v", got, err)
	}
	if got, err := spread(7, 7, 1); err != nil || !slices.Equal(got, []int{7}) {
		t.Errorf("spread of one = %v, %v", got, err)
	}
	if n, err := parseRSS("Name:\tx\nVmRSS:\t    1024 kB\nThreads: 1\n"); err != nil || n != 1<<20 {
		t.Errorf("parseRSS = %d, %v", n, err)
	}
	for _, args := range [][]string{{"-shapes", "1+1"}, {"-shapes", "x"}, {"-from", "0"}, {"-ttl", "1s"}, {"-ttl", "x"}, {"-o", "xml"}, {"-servers", "best"}, {"-servers", ""}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestAbsentServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var said bytes.Buffer
	err := run([]string{"-servers", "redis,memcached"}, io.Discard, &said)
	if err == nil || !strings.Contains(said.String(), "redis-server is not in PATH") {
		t.Errorf("%v, and said %q", err, said.String())
	}
}

func TestItem(t *testing.T) {
	for _, sh := range []shape{{12, 1}, {16, 16}, {40, 270}} {
		it := newItem(sh)
		it.set(1234567)
		a := string(it.key)
		it.set(1234568)
		if b := string(it.key); a == b || len(a) != sh.Key || !strings.HasSuffix(a, "000001234567") {
			t.Errorf("%v: keys %q and %q", sh, a, b)
		}
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	out := report.Output{Format: "json", W: &b}
	if err := out.Write(report.Machine{}, []result{{Server: "x", Shape: shape{16, 16}, Overhead: 1.5}}); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b.Bytes()) || !strings.Contains(b.String(), `"overhead_bytes": 1.5`) {
		t.Error(b.String())
	}
}
