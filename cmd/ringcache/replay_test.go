package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// idTrace writes n requests over objects that are drawn more often the smaller
// their number is.
func idTrace(t *testing.T, n, objects int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range n {
		b.WriteString(strconv.Itoa(int(float64(objects)*rng.Float64()*rng.Float64())) + "\n")
	}
	path := filepath.Join(t.TempDir(), "ids.txt")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Three real nodes, one more that joins, one that is killed: every request is
// counted once, no value is wrong, and a join costs less than with modulo. The
// deadline is for answers that never come, not for those that a busy machine delays.
func TestReplay(t *testing.T) {
	trace := idTrace(t, 20_000, 2000)
	out, _ := runTo(t, exitOK, command(t, nil, "replay", "--trace", trace, "--format", "ids", "--capacity", "4000",
		"--join-at", "0.5", "--kill-at", "0.75", "--timeout", "5s", "-o", "json"))
	var r replayReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Requests != 20_000 || len(r.Runs) != 2 {
		t.Fatalf("%d requests, %d runs; want 20000 and 2", r.Requests, len(r.Runs))
	}
	for _, run := range r.Runs {
		var sum int64
		for i, p := range run.Phases {
			sum += p.Requests
			if want := []int{3, 4, 3}[i]; len(p.Nodes) != want {
				t.Errorf("%s, %s: %d nodes, want %d", run.Routing, p.Name, len(p.Nodes), want)
			}
			if p.Errors != 0 || p.Hits+p.OriginLoads != p.Requests {
				t.Errorf("%s, %s: %d hits and %d origin loads of %d requests, %d errors", run.Routing, p.Name, p.Hits, p.OriginLoads, p.Requests, p.Errors)
			}
		}
		if sum != 20_000 {
			t.Errorf("%s: %d requests in all phases", run.Routing, sum)
		}
	}
	ring, modulo := r.Runs[0].Phases[1], r.Runs[1].Phases[1]
	if ring.FirstBin < modulo.FirstBin+0.1 {
		t.Errorf("first bin after the join: ring %.3f, modulo %.3f; want the ring clearly ahead", ring.FirstBin, modulo.FirstBin)
	}
}

func TestReplayAgainstARunningCluster(t *testing.T) {
	port := freePorts(t, 1)
	addr := "127.0.0.1:" + strconv.Itoa(port)
	p := start(t, command(t, nil, "serve", "--addr", addr))
	defer p.stop(t, syscall.SIGTERM)
	out, _ := runTo(t, exitOK, command(t, nil, "replay", "--trace", idTrace(t, 500, 50), "--format", "ids", "--seeds", addr))
	contains(t, out, "ROUTING", addr, "start")
}

func TestReplayUsage(t *testing.T) {
	trace := idTrace(t, 10, 5)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"all faults at once", []string{"--nodes", "0", "--workers", "0"}, "--trace is missing"},
		{"unknown format", []string{"--trace", trace, "--format", "arcs", "--capacity", "10"}, `"arcs" is unknown; use one of arc`},
		{"missing file", []string{"--trace", trace + "x", "--format", "ids", "--capacity", "10"}, "no such file"},
		{"join in a foreign cluster", []string{"--trace", trace, "--seeds", "127.0.0.1:1", "--join-at", "0.5"}, "leave out --seeds"},
		{"bad capacity", []string{"--trace", trace, "--format", "ids", "--capacity", "10zb"}, "--capacity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errOut := runTo(t, exitUsage, command(t, nil, append([]string{"replay"}, c.args...)...))
			contains(t, errOut, c.want)
		})
	}
}
