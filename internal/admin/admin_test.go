package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringcache/ringcache/internal/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeSource struct {
	info, cluster string
	err           atomic.Pointer[error]
	block         chan struct{} // if set, Info waits for it
	entered       chan struct{}
}

func (f *fakeSource) Info() string {
	if f.block != nil {
		f.entered <- struct{}{}
		<-f.block
	}
	return f.info
}
func (f *fakeSource) ClusterInfo() string { return f.cluster }
func (f *fakeSource) Ready() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

func startAdmin(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + s.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// samples are the lines of a scrape, by name with labels.
func samples(t *testing.T, s *Server) map[string]float64 {
	t.Helper()
	status, body := get(t, s, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	out := map[string]float64{}
	for row := range strings.SplitSeq(body, "\n") {
		if row == "" || row[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(row, ' ')
		v, err := strconv.ParseFloat(row[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		out[row[:at]] = v
	}
	return out
}

func TestReadiness(t *testing.T) {
	s := startAdmin(t, Options{})
	check := func(path string, status int, text string) {
		t.Helper()
		if got, body := get(t, s, path); got != status || !strings.Contains(body, text) {
			t.Errorf("%s: %d %q, want %d %q", path, got, body, status, text)
		}
	}
	check("/readyz", 503, "the node is starting")
	check("/healthz", 200, "ok")
	if got := samples(t, s); got["redis_up"] != 0 || got["ringcache_ready"] != 0 {
		t.Errorf("before the node is there: up %v, ready %v", got["redis_up"], got["ringcache_ready"])
	}
	src := &fakeSource{}
	s.Attach(src)
	check("/readyz", 200, "ok")
	if got := samples(t, s); got["redis_up"] != 1 || got["ringcache_ready"] != 1 {
		t.Errorf("serving: up %v, ready %v", got["redis_up"], got["ringcache_ready"])
	}
	why := errors.New("the node is draining")
	src.err.Store(&why)
	check("/readyz", 503, "not ready: the node is draining")
	check("/healthz", 200, "ok")
	if got := samples(t, s); got["redis_up"] != 1 || got["ringcache_ready"] != 0 {
		t.Errorf("draining: up %v, ready %v", got["redis_up"], got["ringcache_ready"])
	}
}

func TestLabels(t *testing.T) {
	s := startAdmin(t, Options{})
	s.Attach(&fakeSource{cluster: "cluster_state:ok\r\ncluster_known_nodes:3\r\n", info: strings.Join([]string{
		"# Server", "redis_version:7.4.0", "run_id:abc", "uptime_in_seconds:7", "server_time_usec:1000000000", "maxmemory_policy:s3fifo",
		"# Memory", `ringcache_class0:prefix="a,bytes=9\"",rank=1,quota=100,bytes=42,evicted=7`, "ringcache_class1:prefix=broken", "latest_fork_usec:500000",
		"# Commandstats", "cmdstat_client|id:calls=5,usec=10,usec_per_call=2.00,rejected_calls=3,failed_calls=1",
		"# Latencystats", "latency_percentiles_usec_client|id:p50=1.003,p99=2.007,p99.9=3.015",
		"# Errorstats", "errorstat_ERR:count=4",
		"# Cluster", "ringcache_changes:3", "ringcache_change0:id=a-b1,kind=open,percent=50.0,slots=8,slots_done=4,keys=0,keys_left=0,bytes=0,keys_per_second=0.0,eta_ms=-1",
		"ringcache_change1:id=a-t1,kind=gain,percent=25.0,slots=4,slots_done=1,keys=10,keys_left=30,bytes=99,keys_per_second=5.5,eta_ms=100",
		"ringcache_change2:id=a-t2,kind=gain,percent=25.0,slots=6,slots_done=2,keys=10,keys_left=12,bytes=99,keys_per_second=1.5,eta_ms=100",
		"# Keyspace", "db0:keys=10,expires=2,avg_ttl=1500,subexpiry=0", ""}, "\r\n")})
	want := map[string]float64{
		`ringcache_info{node="abc",policy="s3fifo",version="7.4.0"}`:      1,
		`ringcache_class_bytes{prefix="a,bytes=9\""}`:                     42,
		`ringcache_class_quota_bytes{prefix="a,bytes=9\""}`:               100,
		`ringcache_class_evicted_total{prefix="a,bytes=9\""}`:             7,
		`redis_commands_total{cmd="client|id"}`:                           5,
		`ringcache_commands_total{cmd="client|id"}`:                       5,
		`redis_commands_duration_seconds_total{cmd="client|id"}`:          1e-5,
		`redis_commands_rejected_calls_total{cmd="client|id"}`:            3,
		`redis_commands_failed_calls_total{cmd="client|id"}`:              1,
		`redis_latency_percentiles_usec{cmd="client|id",quantile="99.9"}`: 3.015,
		`redis_latency_percentiles_usec_sum{cmd="client|id"}`:             10,
		`redis_latency_percentiles_usec_count{cmd="client|id"}`:           5,
		`redis_errors_total{err="ERR"}`:                                   4,
		`ringcache_errors_total{code="ERR"}`:                              4,
		`redis_db_keys{db="db0"}`:                                         10,
		`redis_db_keys_expiring{db="db0"}`:                                2,
		`redis_db_avg_ttl_seconds{db="db0"}`:                              1.5,
		"ringcache_keys":                                                  10,
		"ringcache_changes_running":                                       3,
		`ringcache_change_slots{kind="open"}`:                             8,
		`ringcache_change_slots{kind="gain"}`:                             10,
		`ringcache_change_slots_done{kind="gain"}`:                        3,
		`ringcache_change_keys_left{kind="gain"}`:                         42,
		`ringcache_change_keys_per_second{kind="gain"}`:                   7,
		"redis_start_time_seconds":                                        993,
		"redis_latest_fork_seconds":                                       0.5,
		"redis_cluster_state":                                             1,
		"redis_cluster_known_nodes":                                       3,
		"ringcache_members":                                               3,
		"redis_uptime_in_seconds":                                         7,
	}
	got := samples(t, s)
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s is %v (there: %v), want %v", name, g, ok, v)
		}
	}
	if _, there := got["redis_connected_clients"]; there {
		t.Error("a metric without a field was made up")
	}
}

func TestReadOnly(t *testing.T) {
	s := startAdmin(t, Options{})
	for _, path := range []string{"/", "/metrics", "/healthz", "/readyz"} {
		r, err := http.Post("http://"+s.Addr()+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, r.StatusCode)
		}
	}
}

func TestProfiles(t *testing.T) {
	off, on := startAdmin(t, Options{}), startAdmin(t, Options{Pprof: true})
	for _, tt := range []struct {
		server *Server
		path   string
		status int
	}{
		{off, "/debug/pprof/", 404}, {off, "/debug/pprof/heap", 404}, {off, "/debug/pprof/profile", 404},
		{on, "/debug/pprof/", 200}, {on, "/debug/pprof/goroutine?debug=1", 200}, {on, "/debug/pprof/symbol", 200},
		{on, "/debug/pprof/cmdline", 404}, // it may show a secret
		{on, "/debug/pprof/profile?seconds=3600", 400},
	} {
		if status, _ := get(t, tt.server, tt.path); status != tt.status {
			t.Errorf("%s: %d, want %d", tt.path, status, tt.status)
		}
	}
}

// One slow scrape holds up neither the others nor the health checks, and no more
// than two are made at a time.
func TestScrapesAreBounded(t *testing.T) {
	s := startAdmin(t, Options{})
	src := &fakeSource{block: make(chan struct{}), entered: make(chan struct{}, maxScrapes)}
	s.Attach(src)
	results := make(chan int, maxScrapes)
	for range maxScrapes {
		go func() {
			r, err := http.Get("http://" + s.Addr() + "/metrics")
			if err != nil {
				results <- 0
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			results <- r.StatusCode
		}()
	}
	for range maxScrapes {
		<-src.entered
	}
	if status, _ := get(t, s, "/metrics"); status != http.StatusServiceUnavailable {
		t.Errorf("scrape %d: %d", maxScrapes+1, status)
	}
	if status, _ := get(t, s, "/healthz"); status != http.StatusOK {
		t.Errorf("health: %d", status)
	}
	close(src.block)
	for range maxScrapes {
		if status := <-results; status != http.StatusOK {
			t.Errorf("a scrape ended with %d", status)
		}
	}
}

func TestBounds(t *testing.T) {
	s := startAdmin(t, Options{})
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "431") {
		t.Errorf("64 KiB of headers: %q", line)
	}
	// Idle connections take all places; further ones are closed at once.
	var idle []net.Conn
	for range maxConns {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	over, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	_ = over.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := over.Read(make([]byte, 1)); n != 0 || errors.Is(err, net.ErrClosed) || err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("connection %d: %d bytes, %v", maxConns+1, n, err)
	}
	idle[0].Close()
	deadline := time.Now().Add(time.Minute)
	for {
		r, err := http.Get("http://" + s.Addr() + "/healthz")
		if err == nil {
			r.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no place was given back")
		}
	}
}

func TestAddresses(t *testing.T) {
	for addr, wantErr := range map[string]error{"nonsense": errs.ErrConfig, "127.0.0.1:notaport": nil} {
		if _, err := Start(Options{Addr: addr}); err == nil || wantErr != nil && !errors.Is(err, wantErr) {
			t.Errorf("%q: %v", addr, err)
		}
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	local := startAdmin(t, Options{Addr: ":0", Logger: logger})
	if !strings.HasPrefix(local.Addr(), "127.0.0.1:") || log.Len() > 0 {
		t.Errorf("without a host: %s, log %q", local.Addr(), log.String())
	}
	wide := startAdmin(t, Options{Addr: "0.0.0.0:0", Logger: logger})
	if !strings.Contains(log.String(), "can be reached from other machines") {
		t.Errorf("%s: log %q", wide.Addr(), log.String())
	}
	if _, err := Start(Options{Addr: local.Addr()}); err == nil || !strings.Contains(err.Error(), "choose another admin address") {
		t.Errorf("a taken port: %v", err)
	}
}
