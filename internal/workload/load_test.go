package workload

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// loadTarget is a server that knows what a load needs.
type loadTarget struct {
	t     *testing.T
	ln    net.Listener
	slots func() string    // the reply of CLUSTER SLOTS
	owner func(int) string // who owns a slot; "" is this one
	gate  sync.RWMutex     // held while the server stalls
	onSet func(n int, args []string)

	requests atomic.Int64
	password string
	values   sync.Map
	mu       sync.Mutex
	conns    []net.Conn
}

func startTarget(t *testing.T) *loadTarget {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &loadTarget{t: t, ln: ln, slots: func() string { return "-ERR This instance has cluster support disabled\r\n" },
		owner: func(int) string { return "" }}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, nc)
			s.mu.Unlock()
			work.Go(func() { s.serve(nc) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.cut()
		work.Wait()
	})
	return s
}

// set changes how the server answers.
func (s *loadTarget) set(change func()) {
	s.gate.Lock()
	defer s.gate.Unlock()
	change()
}

func (s *loadTarget) addr() string { return s.ln.Addr().String() }

// cut closes all connections.
func (s *loadTarget) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, nc := range s.conns {
		nc.Close()
	}
	s.conns = nil
}

func (s *loadTarget) serve(nc net.Conn) {
	defer nc.Close()
	in := bufio.NewReader(nc)
	s.gate.RLock()
	authed := s.password == ""
	s.gate.RUnlock()
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		s.gate.RLock()
		reply := s.answer(args, &authed)
		s.gate.RUnlock()
		if _, err := io.WriteString(nc, reply); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) (args []string, err error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	for range n {
		size, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args = append(args, string(b[:size]))
	}
	return args, err
}

func (s *loadTarget) answer(args []string, authed *bool) string {
	switch {
	case args[0] == "AUTH":
		*authed = args[len(args)-1] == s.password
		if !*authed {
			return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		}
		return "+OK\r\n"
	case !*authed:
		return "-NOAUTH Authentication required.\r\n"
	case args[0] == "CLUSTER":
		return s.slots()
	}
	slot := int(ring.SlotString(args[1]))
	if to := s.owner(slot); to != "" {
		return fmt.Sprintf("-MOVED %d %s\r\n", slot, to)
	}
	n := s.requests.Add(1)
	if args[0] == "SET" {
		if s.onSet != nil {
			s.onSet(int(n), args)
		}
		s.values.Store(args[1], args[2])
		return "+OK\r\n"
	}
	v, ok := s.values.Load(args[1])
	if !ok {
		return "$-1\r\n"
	}
	return fmt.Sprintf("$%d\r\n%s\r\n", len(v.(string)), v)
}

func load(t *testing.T, ctx context.Context, o LoadOptions) *LoadReport {
	t.Helper()
	r, err := Load(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Get.Requests+r.Set.Requests != r.All.Requests {
		t.Errorf("%d GET and %d SET are not %d", r.Get.Requests, r.Set.Requests, r.All.Requests)
	}
	return r
}

// A rate is kept, whatever the machine does meanwhile: every request that was due is
// counted.
func TestLoadKeepsTheRate(t *testing.T) {
	s := startTarget(t)
	s.set(func() { s.password = "secret" })
	sizes := map[int]bool{}
	var mu sync.Mutex
	s.set(func() {
		s.onSet = func(_ int, args []string) {
			mu.Lock()
			defer mu.Unlock()
			sizes[len(args[2])] = true
			if len(args) != 5 || args[3] != "PX" || args[4] != "60000" {
				t.Errorf("%q", args[3:])
			}
		}
	})
	r := load(t, t.Context(), LoadOptions{Seeds: []string{s.addr()}, Password: "secret", Rate: 3000, Conns: 10, Keys: 500, Theta: 0.9, MinValue: 10, MaxValue: 20,
		Reads: 0.75, TTL: time.Minute, Preload: true, Warmup: 200 * time.Millisecond, Duration: time.Second})
	if r.All.Requests < 2970 || r.All.Requests > 3030 || r.Unanswered > 0 || r.Errors > 0 || r.Misses > 0 || r.Hits != r.Get.Requests || r.Cluster {
		t.Errorf("%+v", r)
	}
	if share := float64(r.Get.Requests) / float64(r.All.Requests); share < 0.70 || share > 0.80 {
		t.Errorf("share of reads %g", share)
	}
	if len(sizes) != 11 || !sizes[10] || !sizes[20] {
		t.Errorf("sizes %v", sizes)
	}
	if got := s.requests.Load(); got < 500+3500 || got > 500+3700 {
		t.Errorf("%d requests arrived, of them 500 to store the keys and 3600 at 3000/s for 1.2 s", got)
	}
}

// A stop of the server is in the latency of all requests that were due meanwhile, not
// only of those that were on their way.
func TestLoadShowsStalls(t *testing.T) {
	const stall = 300 * time.Millisecond
	s := startTarget(t)
	var once sync.Once
	s.set(func() {
		s.onSet = func(n int, _ []string) {
			if n > 700 {
				once.Do(func() {
					go func() {
						s.gate.Lock() // when the requests of this moment are answered
						defer s.gate.Unlock()
						<-time.After(stall)
					}()
				})
			}
		}
	})
	r := load(t, t.Context(), LoadOptions{Seeds: []string{s.addr()}, Rate: 2000, Conns: 4, Keys: 100, Reads: 0, Duration: time.Second})
	// 600 of 2000 were due meanwhile and waited for 150 ms on average.
	if r.All.P90 < 150e3 || r.All.P999 < 250e3 || r.All.Max < 290e3 {
		t.Errorf("%+v", r.All)
	}
	if r.All.Requests < 1980 || r.Unanswered > 0 {
		t.Errorf("%d requests, %d unanswered", r.All.Requests, r.Unanswered)
	}
}

// The nodes of a cluster are found, and MOVED is followed.
func TestLoadOnCluster(t *testing.T) {
	a, b := startTarget(t), startTarget(t)
	_, port, _ := net.SplitHostPort(a.addr())
	half := ring.Slots / 2
	// a claims everything but has the lower half.
	claim := fmt.Sprintf("*1\r\n*3\r\n:0\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:%s\r\n$1\r\nx\r\n", ring.Slots-1, port)
	a.set(func() {
		a.slots = func() string { return claim }
		a.owner = func(slot int) string {
			if slot < half {
				return ""
			}
			return b.addr()
		}
	})
	b.set(func() {
		b.owner = func(slot int) string {
			if slot >= half {
				return ""
			}
			return a.addr()
		}
	})
	for _, rate := range []float64{2000, 0} {
		r := load(t, t.Context(), LoadOptions{Seeds: []string{"127.0.0.1:1", a.addr()}, Rate: rate, Conns: 8, Pipeline: 4, Keys: 300, Reads: 0.5, Preload: true, Duration: 500 * time.Millisecond})
		if !r.Cluster || r.Moved == 0 || r.Errors > 0 || r.Misses > 0 || len(r.Nodes) != 2 || r.Nodes[0].Requests+r.Nodes[1].Requests != r.All.Requests {
			t.Errorf("%+v", r)
		}
		if rate > 0 && (r.Nodes[0].Requests < 300 || r.Nodes[1].Requests < 300 || r.All.Requests < 990) {
			t.Errorf("%+v", r.Nodes)
		}
	}
}

// Connections that break cost their requests and nothing else.
func TestLoadReconnects(t *testing.T) {
	s := startTarget(t)
	var once sync.Once
	s.set(func() {
		s.onSet = func(n int, _ []string) {
			if n > 200 {
				once.Do(s.cut)
			}
		}
	})
	r := load(t, t.Context(), LoadOptions{Seeds: []string{s.addr()}, Rate: 1000, Conns: 4, Keys: 100, Reads: 0.5, Duration: time.Second})
	if r.Errors == 0 || r.Errors > 20 || r.FirstError == "" || r.All.Requests+r.Errors < 980 || r.Unanswered > 0 {
		t.Errorf("%+v", r)
	}
}

func TestLoadInterrupted(t *testing.T) {
	for _, rate := range []float64{1000, 0} {
		s := startTarget(t)
		ctx, cancel := context.WithCancel(t.Context())
		s.set(func() {
			s.onSet = func(n int, _ []string) {
				if n == 300 {
					cancel()
				}
			}
		})
		r := load(t, ctx, LoadOptions{Seeds: []string{s.addr()}, Rate: rate, Conns: 2, Keys: 100, Duration: time.Hour})
		if !r.Interrupted || r.Seconds <= 0 || r.Seconds > 60 || r.All.Requests < 100 {
			t.Errorf("%+v", r)
		}
		cancel()
	}
}

// A server that answers nothing any more is in the report.
func TestLoadUnanswered(t *testing.T) {
	s := startTarget(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.set(func() {
		s.onSet = func(n int, _ []string) {
			if n == 100 {
				go func() {
					s.gate.Lock()
					<-time.After(50 * time.Millisecond) // requests become due
					cancel()
				}()
			}
		}
	})
	r := load(t, ctx, LoadOptions{Seeds: []string{s.addr()}, Rate: 1000, Conns: 2, Keys: 100, Duration: time.Hour})
	s.gate.Unlock()
	if r.Unanswered == 0 || r.All.Max < float64(loadDrain/2/time.Microsecond) {
		t.Errorf("%+v", r)
	}
}

func TestLoadFaults(t *testing.T) {
	s := startTarget(t)
	s.set(func() { s.password = "secret" })
	good := LoadOptions{Seeds: []string{s.addr()}, Keys: 10, Duration: time.Millisecond, Preload: true}
	for name, change := range map[string]func(*LoadOptions){
		"no seeds":     func(o *LoadOptions) { o.Seeds = nil },
		"rate":         func(o *LoadOptions) { o.Rate = -1 },
		"reads":        func(o *LoadOptions) { o.Reads = 2 },
		"sizes":        func(o *LoadOptions) { o.MinValue, o.MaxValue = 3, 2 },
		"zipf":         func(o *LoadOptions) { o.Theta = 1 },
		"duration":     func(o *LoadOptions) { o.Duration = 0 },
		"ttl":          func(o *LoadOptions) { o.TTL = time.Microsecond },
		"no password":  func(*LoadOptions) {},
		"bad password": func(o *LoadOptions) { o.Password = "x" },
		"nobody":       func(o *LoadOptions) { o.Seeds = []string{"127.0.0.1:1"} },
	} {
		o := good
		change(&o)
		if _, err := Load(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMovedReplies(t *testing.T) {
	for line, want := range map[string]string{
		"-MOVED 12 10.0.0.1:7001\r\n": "12 10.0.0.1:7001",
		"-MOVED 12 :7001\r\n":         "12 127.0.0.1:7001",
		"-MOVED 99999 h:1\r\n":        "",
		"-MOVED x h:1\r\n":            "",
		"-MOVED 1\r\n":                "",
		"-ASK 1 h:1\r\n":              "",
	} {
		slot, addr, ok := moved([]byte(line), "127.0.0.1:1")
		got := ""
		if ok {
			got = fmt.Sprint(slot, " ", addr)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for _, bad := range []string{"*0\r\n", "*1\r\n*2\r\n:1\r\n:2\r\n", "*1\r\n*3\r\n:1\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n"} {
		var p resp.ReplyParser
		v, _, err := p.Next([]byte(bad), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseSlots(v, "h:1"); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
