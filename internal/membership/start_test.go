package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

// seedProber answers Contact from a table; data ports always answer.
type seedProber map[string]any

func (p seedProber) Probe(context.Context, topology.Member) error { return nil }
func (p seedProber) Contact(_ context.Context, seed string) (string, topology.NodeID, error) {
	switch v := p[seed].(type) {
	case error:
		return "", topology.NodeID{}, v
	case *host:
		return v.ip + ":17001", v.member.ID, nil
	}
	return "", topology.NodeID{}, syscall.ECONNREFUSED
}

func TestJoinErrors(t *testing.T) {
	refusal := fmt.Errorf("tokens 160 here, 512 there: %w", errs.ErrMismatch)
	secret := fmt.Errorf("wrong secret: %w", errs.ErrAuth)
	for _, tc := range []struct {
		name  string
		seeds []string
		table seedProber
		n     int
		is    error
		says  []string
	}{
		{"no seeds", nil, seedProber{}, 0, nil, nil},
		{"only itself", []string{"self"}, seedProber{}, 0, nil, nil},
		{"nobody answers", []string{"self", "x:1", "y:2"}, seedProber{"y:2": errors.New("no route")}, 0, errs.ErrNoSeed,
			[]string{"x:1: connection refused", "y:2: no route"}},
		{"mismatch", []string{"x:1", "y:2"}, seedProber{"y:2": refusal}, 0, errs.ErrMismatch, []string{"y:2", "160 here, 512 there"}},
		{"secret", []string{"y:2"}, seedProber{"y:2": secret}, 0, errs.ErrAuth, []string{"wrong secret"}},
		{"one is enough", []string{"x:1", "peer", "y:2"}, seedProber{"y:2": refusal}, 1, nil, nil},
		{"gossip does not answer", []string{"gone"}, seedProber{}, 0, errs.ErrNoSeed, []string{"gossip at 10.0.0.8:17001"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 2, nil)
				defer c.close()
				self := topology.Member{ID: idOf(6), Boot: 1, Weight: 1, Port: 7001}
				h := c.net.add("10.0.0.7", self)
				tc.table["self"], tc.table["peer"] = h, c.net.hosts[ipOfNode(1)]
				tc.table["gone"] = &host{ip: "10.0.0.8", member: topology.Member{ID: idOf(7)}}
				m, err := Start(Options{Self: self, Cluster: "test", Secret: []byte("secret"), Transport: h,
					Prober: tc.table, Discovery: staticSeeds(tc.seeds)})
				if err != nil {
					t.Fatal(err)
				}
				n, err := m.Join(context.Background())
				if n != tc.n || !errors.Is(err, tc.is) || tc.is != errs.ErrNoSeed && errors.Is(err, errs.ErrNoSeed) {
					t.Errorf("%d, %v", n, err)
				}
				for _, part := range tc.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not say %q", err, part)
					}
				}
				if err := errors.Join(m.Close(), m.Close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestJoinEndsWithItsContextAndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		defer c.close()
		self := topology.Member{ID: idOf(6), Boot: 1, Weight: 1, Port: 7001}
		h := c.net.add("10.0.0.7", self)
		c.net.isolate("10.0.0.7", true)
		m, err := Start(Options{Self: self, Cluster: "test", Transport: h, Prober: h, Discovery: c.seeds})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := m.Join(ctx); !errors.Is(err, errs.ErrNoSeed) || time.Since(at) > time.Second {
			t.Errorf("after %s: %v", time.Since(at), err)
		}
		done := make(chan error)
		go func() { _, err := m.Join(context.Background()); done <- err }()
		c.wait(time.Second)
		at = time.Now()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil || time.Since(at) > 0 {
			t.Errorf("Join outlived Close by %s: %v", time.Since(at), err)
		}
	})
}

// A node that started alone finds the others once a seed is there.
func TestRejoinLoopTriesSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: newNetwork(), start: time.Now(), nodes: map[string]*member{}, lonely: true}
		c.seeds = staticSeeds{ipOfNode(0) + ":7001", ipOfNode(1) + ":7001"}
		defer c.close()
		c.boot(0, ipOfNode(0), 1)
		c.wait(time.Minute)
		c.net.sever(ipOfNode(0), ipOfNode(1), true)
		c.boot(1, ipOfNode(1), 1)
		c.wait(time.Minute)
		c.net.sever(ipOfNode(0), ipOfNode(1), false)
		c.wait(12 * time.Second)
		for ip := range c.nodes {
			if got := c.alive(ip); got != 2 {
				t.Errorf("%s sees %d of 2", ip, got)
			}
		}
	})
}

func TestStartRefusesBadOptions(t *testing.T) {
	_, err := Start(Options{Cluster: strings.Repeat("c", 256), Bind: "nowhere", ProbeInterval: time.Hour, SuspicionMult: 99, HoldDown: -1})
	if !errors.Is(err, errs.ErrConfig) {
		t.Fatal(err)
	}
	for _, part := range []string{"Prober", "256 bytes, limit 255", "nowhere", "1h0m0s", "99", "hold-down"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	_, err = Start(Options{Bind: "127.0.0.1:0", Prober: seedProber{}, Self: topology.Member{ID: idOf(1), Weight: 1, Port: 1,
		Host: strings.Repeat("h", 60)}})
	if !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), "60 bytes") {
		t.Error(err)
	}
	_, err = Start(Options{Bind: "127.0.0.1:0", Advertise: "127.0.0.1:x", Prober: seedProber{}, Self: topology.Member{ID: idOf(1), Weight: 1, Port: 1}})
	if !errors.Is(err, errs.ErrConfig) {
		t.Error(err)
	}
}

func TestHeardAllocatesNothing(t *testing.T) {
	flag := new(atomic.Bool)
	m := &Membership{}
	m.flags.Store(&map[topology.NodeID]*atomic.Bool{idOf(1): flag})
	if n := testing.AllocsPerRun(100, func() { m.Heard(idOf(1)); m.Heard(idOf(2)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !flag.Load() {
		t.Error("not noted")
	}
}

func TestLoggerRoutesLevels(t *testing.T) {
	var out strings.Builder
	l := newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.Printf("[DEBUG] memberlist: one")
	l.Printf("[INFO] memberlist: two")
	l.Printf("[WARN] memberlist: three")
	l.Printf("[ERR] memberlist: four")
	l.Printf("five")
	l.Printf("[WARN] memberlist: Got ping for unexpected node 'x' from=127.0.0.1:1")
	l.Printf("[ERR] memberlist: Failed fallback TCP ping: timeout 500ms: dial tcp: refused")
	l.Printf("[ERR] memberlist: discarding stream with unacceptable label \"other\": from=127.0.0.1:1")
	l.Printf("[ERR] memberlist: Decrypt packet failed: no key from=127.0.0.1:1")
	for _, want := range []string{"level=DEBUG msg=one", "level=DEBUG msg=two", "level=DEBUG msg=three", "level=DEBUG msg=four", "level=DEBUG msg=five",
		"level=DEBUG msg=\"Got ping", "level=DEBUG msg=\"Failed fallback", "level=WARN msg=\"discarding stream", "level=WARN msg=\"Decrypt packet"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// Close ends streams that memberlist would keep until their timeout.
func TestCloseEndsStreams(t *testing.T) {
	m, err := Start(Options{Bind: "127.0.0.1:0", Prober: seedProber{}, Self: topology.Member{ID: idOf(1), Weight: 1, Port: 1}})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", m.Gossip())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{244}); err != nil { // half a label: memberlist waits for the rest
		t.Fatal(err)
	}
	open := func() int {
		m.t.mu.Lock()
		defer m.t.mu.Unlock()
		return len(m.t.conns)
	}
	for open() == 0 { // until it is accepted
		<-time.After(time.Millisecond)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if n := open(); n != 0 {
		t.Errorf("%d streams are open after Close", n)
	}
	if _, err := m.t.DialTimeout(m.Gossip(), time.Second); err == nil {
		t.Error("a dial after Close succeeded")
	}
}

// tcpProber dials real data ports.
type tcpProber struct{ gossip map[string]*Membership }

func (p tcpProber) Probe(ctx context.Context, m topology.Member) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p tcpProber) Contact(_ context.Context, seed string) (string, topology.NodeID, error) {
	m := p.gossip[seed]
	if m == nil {
		return "", topology.NodeID{}, syscall.ECONNREFUSED
	}
	return m.Gossip(), m.o.Self.ID, nil
}

// Three nodes on real sockets: join, update, leave, kill; no goroutine stays.
func TestRealSockets(t *testing.T) {
	for _, tcpOnly := range []bool{false, true} {
		t.Run(map[bool]string{false: "udp", true: "tcp only"}[tcpOnly], func(t *testing.T) { realSockets(t, tcpOnly) })
	}
}

func realSockets(t *testing.T, tcpOnly bool) {
	before := goleak.IgnoreCurrent()
	p := tcpProber{gossip: map[string]*Membership{}}
	var nodes []*Membership
	var data []net.Listener
	var seeds staticSeeds
	events := make(chan struct{}, 1)
	for i := range 3 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends when ln is closed
			for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
				_ = conn.Close()
			}
		}()
		data, seeds = append(data, ln), append(seeds, ln.Addr().String())
		m, err := Start(Options{
			Self: topology.Member{ID: idOf(i), Boot: 1, State: topology.Active, Weight: 1, Port: uint16(ln.Addr().(*net.TCPAddr).Port)},
			Bind: "127.0.0.1:0", Cluster: "real", Secret: []byte("s"), Prober: p, Discovery: seeds, TCPOnly: tcpOnly,
			OnChange: func(Snapshot) { signal(events) },
		})
		if err != nil {
			t.Fatal(err)
		}
		p.gossip[ln.Addr().String()] = m
		if n, err := m.Join(context.Background()); n != i || err != nil {
			t.Fatalf("node %d joined %d, %v", i, n, err)
		}
		nodes = append(nodes, m)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.After(time.Minute); !ok(); {
			select {
			case <-events:
			case <-time.After(20 * time.Millisecond):
			case <-deadline:
				t.Fatalf("%s: %+v", what, nodes[0].Snapshot())
			}
		}
	}
	count := func(m *Membership, h Health) (n int) {
		for _, p := range m.Snapshot().Members {
			if p.Health == h {
				n++
			}
		}
		return n
	}
	until("join", func() bool {
		return count(nodes[0], Alive) == 3 && count(nodes[1], Alive) == 3 && count(nodes[2], Alive) == 3
	})
	if err := nodes[1].Leave(context.Background()); err != nil {
		t.Error(err)
	}
	until("leave", func() bool { return len(nodes[0].Snapshot().Members) == 2 })
	_ = data[2].Close()
	_ = nodes[2].Close()
	until("kill", func() bool { return count(nodes[0], Dead) == 1 })
	_ = data[0].Close()
	_ = data[1].Close()
	_ = nodes[0].Close()
	_ = nodes[1].Close()
	// A probe of memberlist in flight may outlive Close by three intervals.
	for deadline := time.Now().Add(time.Minute); goleak.Find(before) != nil && time.Now().Before(deadline); {
	}
	goleak.VerifyNone(t, before)
}
