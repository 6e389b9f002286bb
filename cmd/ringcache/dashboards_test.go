package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/admin"
)

// panel is what one curve of a dashboard asks Prometheus.
type panel struct{ title, expr string }

// dashboards are the two of grafana.com that are made for redis_exporter and used
// most, curve by curve. Their variables come from redis_up.
var dashboards = map[string][]panel{
	"763": {
		{"variables", `redis_up{namespace=~"$namespace"}`},
		{"Max Uptime", `max(max_over_time(redis_uptime_in_seconds{namespace=~"$namespace", instance=~"$instance"}[$__interval]))`},
		{"Clients", `sum(redis_connected_clients{namespace=~"$namespace", instance=~"$instance"})`},
		{"Memory Usage", `sum(100 * (redis_memory_used_bytes{namespace=~"$namespace", instance=~"$instance"}  / redis_memory_max_bytes{namespace=~"$namespace", instance=~"$instance"}))`},
		{"Total Commands / sec", `sum(rate(redis_commands_total{namespace=~"$namespace", instance=~"$instance"} [1m])) by (cmd)`},
		{"Hits per Sec", `irate(redis_keyspace_hits_total{instance=~"$instance"}[5m])`},
		{"Misses per Sec", `irate(redis_keyspace_misses_total{instance=~"$instance"}[5m])`},
		{"Memory Used", `redis_memory_used_bytes{instance=~"$instance"}`},
		{"Memory Max", `redis_memory_max_bytes{instance=~"$instance"}`},
		{"Network In", `sum(rate(redis_net_input_bytes_total{instance=~"$instance"}[5m]))`},
		{"Network Out", `sum(rate(redis_net_output_bytes_total{instance=~"$instance"}[5m]))`},
		{"Total Items per DB", `sum (redis_db_keys{instance=~"$instance"}) by (db, instance)`},
		{"Not-Expiring Keys", `sum (redis_db_keys{instance=~"$instance"}) by (instance) - sum (redis_db_keys_expiring{instance=~"$instance"}) by (instance)`},
		{"Expiring Keys", `sum (redis_db_keys_expiring{instance=~"$instance"}) by (instance)`},
		{"Expired", `sum(rate(redis_expired_keys_total{instance=~"$instance"}[5m])) by (instance)`},
		{"Evicted", `sum(rate(redis_evicted_keys_total{instance=~"$instance"}[5m])) by (instance)`},
		{"Connected Clients", `sum(redis_connected_clients{instance=~"$instance"})`},
		{"Blocked Clients", `sum(redis_blocked_clients{instance=~"$instance"})`},
		{"Average Time Spent by Command / sec", `sum(irate(redis_commands_duration_seconds_total{namespace=~"$namespace", instance =~ "$instance"}[1m])) by (cmd)
  /
sum(irate(redis_commands_total{namespace=~"$namespace", instance =~ "$instance"}[1m])) by (cmd)
`},
		{"Total Time Spent by Command / sec", `sum(irate(redis_commands_duration_seconds_total{instance=~"$instance"}[1m])) by (cmd) != 0`},
	},
	"11835": {
		{"variables", `redis_up{namespace=~"$namespace"}`},
		{"Uptime", `max(max_over_time(redis_uptime_in_seconds{instance=~"$instance"}[$__interval]))`},
		{"Clients", `redis_connected_clients{instance=~"$instance"}`},
		{"Memory Usage", `100 * (redis_memory_used_bytes{instance=~"$instance"}  / redis_memory_max_bytes{instance=~"$instance"})`},
		{"Commands Executed / sec", `rate(redis_commands_processed_total{instance=~"$instance"}[1m])`},
		{"Hits per Sec", `irate(redis_keyspace_hits_total{instance=~"$instance"}[5m])`},
		{"Misses per Sec", `irate(redis_keyspace_misses_total{instance=~"$instance"}[5m])`},
		{"Memory Used", `redis_memory_used_bytes{instance=~"$instance"} `},
		{"Memory Max", `redis_memory_max_bytes{instance=~"$instance"} `},
		{"Network In", `rate(redis_net_input_bytes_total{instance=~"$instance"}[5m])`},
		{"Network Out", `rate(redis_net_output_bytes_total{instance=~"$instance"}[5m])`},
		{"Total Items per DB", `sum (redis_db_keys{instance=~"$instance"}) by (db)`},
		{"Not-Expiring Keys", `sum (redis_db_keys{instance=~"$instance"}) - sum (redis_db_keys_expiring{instance=~"$instance"}) `},
		{"Expiring Keys", `sum (redis_db_keys_expiring{instance=~"$instance"}) `},
		{"Expired", `sum(rate(redis_expired_keys_total{instance=~"$instance"}[5m])) by (instance)`},
		{"Evicted", `sum(rate(redis_evicted_keys_total{instance=~"$instance"}[5m])) by (instance)`},
		{"Command Calls / sec", `topk(5, irate(redis_commands_total{instance=~"$instance"} [1m]))`},
		{"Connected Clients", `redis_connected_clients{instance="$instance"}`},
	},
}

// wireClient counts the bytes of its connection, and its commands by name.
type wireClient struct {
	t       *testing.T
	nc      net.Conn
	r       *bufio.Reader
	in, out int
	calls   map[string]float64
	total   float64
}

// do sends one command and returns the first line of its reply.
func (c *wireClient) do(line string) string {
	c.t.Helper()
	c.calls[strings.ToLower(strings.Fields(line)[0])]++
	c.total++
	c.nc.SetDeadline(time.Now().Add(10 * time.Second))
	n, err := io.WriteString(c.nc, line+"\r\n")
	if err != nil {
		c.t.Fatal(err)
	}
	c.in += n
	reply, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	c.out += len(reply)
	if size, err := strconv.Atoi(strings.TrimSpace(reply[1:])); err == nil && reply[0] == '$' && size >= 0 {
		if _, err := c.r.Discard(size + 2); err != nil {
			c.t.Fatal(err)
		}
		c.out += size + 2
	}
	return strings.TrimSpace(reply)
}

// Every curve of the stock dashboards shows what a client did: the figures are those
// that it counted itself.
func TestStockDashboards(t *testing.T) {
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Standalone: true, MaxMemory: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	ops, err := admin.Start(admin.Options{Addr: ":0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer ops.Close()
	defer http.DefaultClient.CloseIdleConnections()
	ops.Attach(node)
	nc, err := net.Dial("tcp", node.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := &wireClient{t: t, nc: nc, r: bufio.NewReader(nc), calls: map[string]float64{}}
	for _, first := range []string{"SET a 1", "GET a", "GET nosuch", "FLUSHALL", "INCR n", "PING"} { // so that all series are there
		c.do(first)
	}
	target := map[string]string{"instance": "instance", "namespace": "namespace"} // what the variables are called
	settled := func() map[string]float64 {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			got := scrape(t, ops.Addr())
			if got["redis_net_output_bytes_total"] == float64(c.out) && got["redis_commands_processed_total"] == c.total {
				return got
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v bytes out and %v commands, the client counts %d and %v", got["redis_net_output_bytes_total"], got["redis_commands_processed_total"], c.out, c.total)
			}
		}
	}
	data := &scrapes{before: byMetric(settled(), target)}
	startIn, startOut, startTotal := c.in, c.out, c.total
	clear(c.calls)
	value := strings.Repeat("v", 60_000)
	for i := range 400 { // 24 MB
		c.do(fmt.Sprintf("SET big:%d %s", i, value))
	}
	c.do("FLUSHALL")
	hits, misses := 0.0, 0.0
	c.do("SET short x PX 1")
	for c.do("GET short") != "$-1" {
		hits++
	}
	misses++
	for i := range 5 {
		c.do(fmt.Sprintf("SET k%d v", i))
	}
	for i := range 3 {
		c.do(fmt.Sprintf("SET e%d v EX 1000", i))
	}
	for range 7 {
		c.do("GET k1")
		hits++
	}
	c.do("GET nosuch")
	misses++
	for range 200 { // together they take some microseconds, in which INFO tells times
		c.do("INCR n")
	}
	data.after = byMetric(settled(), target)

	near := func(want float64) func(float64) bool {
		return func(v float64) bool { return math.Abs(v-want) < 1e-9 }
	}
	between := func(lo, hi float64) func(float64) bool {
		return func(v float64) bool { return v >= lo && v <= hi }
	}
	byCommand := func(s series) func(float64) bool { return near(c.calls[s.labels["cmd"]]) }
	want := map[string]func(s series) func(float64) bool{
		"variables": func(series) func(float64) bool { return near(1) }, "Max Uptime": func(series) func(float64) bool { return between(0, 600) },
		"Clients": func(series) func(float64) bool { return near(1) }, "Blocked Clients": func(series) func(float64) bool { return near(0) },
		"Memory Usage": func(series) func(float64) bool { return between(0.001, 100) }, "Memory Max": func(series) func(float64) bool { return near(16 << 20) },
		"Memory Used": func(series) func(float64) bool { return between(100, 16<<20) }, "Total Commands / sec": byCommand, "Command Calls / sec": byCommand,
		"Commands Executed / sec": func(series) func(float64) bool { return near(c.total - startTotal) },
		"Hits per Sec":            func(series) func(float64) bool { return near(hits) }, "Misses per Sec": func(series) func(float64) bool { return near(misses) },
		"Network In":  func(series) func(float64) bool { return near(float64(c.in - startIn)) },
		"Network Out": func(series) func(float64) bool { return near(float64(c.out - startOut)) },
		"Total Items per DB": func(s series) func(float64) bool {
			if s.labels["db"] != "db0" {
				return near(0)
			}
			return near(9)
		},
		"Not-Expiring Keys": func(series) func(float64) bool { return near(6) }, "Expiring Keys": func(series) func(float64) bool { return near(3) },
		"Expired": func(series) func(float64) bool { return near(1) }, "Evicted": func(series) func(float64) bool { return between(100, 400) },
		"Average Time Spent by Command / sec": func(series) func(float64) bool { return between(1e-9, 1) },
		"Total Time Spent by Command / sec":   func(series) func(float64) bool { return between(1e-9, 60) },
	}
	want["Uptime"], want["Connected Clients"] = want["Max Uptime"], want["Clients"]
	for board, panels := range dashboards {
		for _, p := range panels {
			got, err := eval(p.expr, data)
			if err != nil || len(got) == 0 {
				t.Errorf("%s, %s shows nothing: %v", board, p.title, err)
				continue
			}
			if strings.Contains(p.expr, "by (cmd)") { // of commands that were not used there is no time
				kept := got[:0]
				for _, s := range got {
					if !math.IsNaN(s.value) && c.calls[s.labels["cmd"]] > 0 {
						kept = append(kept, s)
					}
				}
				if got = kept; len(got) != len(c.calls) {
					t.Errorf("%s, %s shows %d commands of %d", board, p.title, len(got), len(c.calls))
				}
			}
			for _, s := range got {
				if !want[p.title](s)(s.value) {
					t.Errorf("%s, %s: %v %s", board, p.title, s.value, s.key())
				}
			}
		}
	}
}
