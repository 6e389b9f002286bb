package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/admin"
	"github.com/ringcache/ringcache/lua"
)

// recording is a node as the admin listener sees it, with what it was told last.
type recording struct {
	*ringcache.Node
	mu            sync.Mutex
	info, cluster string
}

func (r *recording) Info() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.info = r.Node.Info()
	return r.info
}

func (r *recording) ClusterInfo() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cluster = r.Node.ClusterInfo()
	return r.cluster
}

// scrape returns the samples of /metrics by name with labels.
func scrape(t *testing.T, addr string) map[string]float64 {
	t.Helper()
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", r.Status, err)
	}
	out := map[string]float64{}
	for row := range strings.SplitSeq(string(body), "\n") {
		if row == "" || row[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(row, ' ')
		if out[row[:at]], err = strconv.ParseFloat(row[at+1:], 64); err != nil {
			t.Fatalf("%q: %v", row, err)
		}
	}
	return out
}

// exporterNames are the names that redis_exporter gives to fields of INFO where it
// does not keep them.
var exporterNames = map[string]string{
	"maxclients": "max_clients", "client_recent_max_output_buffer": "client_recent_max_output_buffer_bytes",
	"client_recent_max_input_buffer": "client_recent_max_input_buffer_bytes", "allocator_active": "allocator_active_bytes",
	"allocator_allocated": "allocator_allocated_bytes", "allocator_resident": "allocator_resident_bytes", "used_memory": "memory_used_bytes",
	"used_memory_rss": "memory_used_rss_bytes", "used_memory_peak": "memory_used_peak_bytes", "used_memory_dataset": "memory_used_dataset_bytes",
	"maxmemory": "memory_max_bytes", "total_connections_received": "connections_received_total", "total_commands_processed": "commands_processed_total",
	"rejected_connections": "rejected_connections_total", "total_net_input_bytes": "net_input_bytes_total", "total_net_output_bytes": "net_output_bytes_total",
	"expired_keys": "expired_keys_total", "evicted_keys": "evicted_keys_total", "keyspace_hits": "keyspace_hits_total", "keyspace_misses": "keyspace_misses_total",
	"used_cpu_sys": "cpu_sys_seconds_total", "used_cpu_user": "cpu_user_seconds_total", "loading": "loading_dump_file",
	"repl_backlog_size": "replication_backlog_bytes", "sync_full": "replica_resyncs_full", "number_of_cached_scripts": "number_of_cached_scripts",
}

// wellKnown are metrics that other dashboards and alerts read; for the stock ones see
// TestStockDashboards.
var wellKnown = []string{
	"redis_up", "redis_uptime_in_seconds", "redis_connected_clients", "redis_blocked_clients", "redis_memory_used_bytes", "redis_memory_max_bytes",
	"redis_commands_total", "redis_commands_duration_seconds_total", "redis_commands_processed_total", "redis_keyspace_hits_total", "redis_keyspace_misses_total",
	"redis_net_input_bytes_total", "redis_net_output_bytes_total", "redis_db_keys", "redis_db_keys_expiring", "redis_expired_keys_total",
	"redis_evicted_keys_total", "redis_instance_info", "redis_start_time_seconds", "redis_connected_slaves", "redis_mem_fragmentation_ratio",
	"redis_rejected_connections_total", "redis_memory_used_rss_bytes",
}

// Every alias has the value that INFO of the same node has, and those that are well
// known are there.
func TestMetricsAreINFO(t *testing.T) {
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Standalone: true, MaxMemory: 16 << 20, Scripts: lua.New(nil)})
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
	src := &recording{Node: node}
	ops.Attach(src)
	for _, c := range []string{"SET a 1", "SET b 2 EX 100", "GET a", "GET a", "GET nosuch", "INCR b", "LCS a", "EVAL \"return 1\" 0", "MGET a", "FOO"} {
		call(t, node.Addr(), c)
	}
	got := scrape(t, ops.Addr())
	checked := 0
	for _, text := range []string{src.info, src.cluster} {
		for row := range strings.SplitSeq(text, "\r\n") {
			field, value, ok := strings.Cut(row, ":")
			if !ok {
				continue
			}
			name := field
			if other := exporterNames[field]; other != "" {
				name = other
			}
			have, there := got["redis_"+name]
			want, err := strconv.ParseFloat(strings.NewReplacer("ok", "1", "fail", "0").Replace(value), 64)
			if !there || err != nil {
				continue
			}
			checked++
			if have != want {
				t.Errorf("redis_%s is %v, INFO says %s:%s", name, have, field, value)
			}
		}
	}
	if checked < 90 {
		t.Errorf("only %d fields of INFO are told", checked)
	}
	for field, name := range exporterNames {
		if !strings.Contains(src.info, "\r\n"+field+":") {
			t.Errorf("INFO lacks %s", field)
		} else if _, there := got["redis_"+name]; !there {
			t.Errorf("there is no redis_%s", name)
		}
	}
	for _, name := range wellKnown {
		if !slices.ContainsFunc(slices.Collect(keysOf(got)), func(have string) bool { return have == name || strings.HasPrefix(have, name+"{") }) {
			t.Errorf("there is no %s", name)
		}
	}
	for name, want := range map[string]float64{
		"redis_up": 1, "ringcache_ready": 1, `redis_commands_total{cmd="set"}`: 2, `redis_commands_total{cmd="get"}`: 3,
		`redis_db_keys{db="db0"}`: 2, `redis_db_keys_expiring{db="db0"}`: 1, "redis_memory_max_bytes": 16 << 20, "redis_keyspace_misses_total": 1,
		"ringcache_keys": 2, "ringcache_memory_limit_bytes": 16 << 20, "redis_cluster_slots_assigned": 16384, "redis_number_of_cached_scripts": 1,
		"ringcache_misses_total": 1, "redis_config_maxclients": 10000, "redis_max_clients": 10000,
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, there, want)
		}
	}
}

func keysOf(m map[string]float64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// What a scrape costs does not depend on how many clients there are.
func TestScrapeCostIsBounded(t *testing.T) {
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Standalone: true, MaxMemory: 16 << 20, IO: "std"})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	cost := func() float64 { return testing.AllocsPerRun(20, func() { _, _ = node.Info(), node.ClusterInfo() }) }
	open := func(clients int) {
		for range clients {
			c, err := net.Dial("tcp", node.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			fmt.Fprint(c, "PING\r\n")
			if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	const clients = 500
	open(1) // INFO has lines about PING from now on
	before := cost()
	open(clients)
	// Figures above 255 take an allocation each to be printed, of which there are some two
	// dozen; what is done for each client would be at least one for each.
	if after := cost(); after > before+clients/10 {
		t.Errorf("INFO takes %v allocations with one client, %v with %d", before, after, clients+1)
	}
}

// A process tells by /readyz when it serves, and no longer when it stops.
func TestServeAdmin(t *testing.T) {
	base := freePorts(t, 3)
	addr, ops := devAddr(base), devAddr(base+1)
	p := start(t, command(t, nil, "serve", "--addr", addr, "--max-memory", "16mb", "--admin", fmt.Sprintf(":%d", base+1), "--admin-pprof"))
	contains(t, p.first, "admin http://"+ops+"/")
	for path, want := range map[string]int{"/readyz": 200, "/healthz": 200, "/metrics": 200, "/debug/pprof/": 200, "/nosuch": 404} {
		r, err := http.Get("http://" + ops + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	_, stderr := runTo(t, exitStart, command(t, nil, "serve", "--addr", devAddr(base+2), "--max-memory", "16mb", "--admin", ops))
	contains(t, stderr, "address already in use", "choose another admin address")
	_, stderr = runTo(t, exitUsage, command(t, nil, "serve", "--admin-pprof"))
	contains(t, stderr, "admin-pprof", "there is no admin listener")
	p.stop(t, syscall.SIGTERM)
}
