package link

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

func TestParseRedirect(t *testing.T) {
	tests := []struct {
		text, addr string
		slot       uint16
		ok         bool
	}{
		{"MOVED 3999 127.0.0.1:6381", "127.0.0.1:6381", 3999, true},
		{"ASK 0 cache-1.example:7001", "cache-1.example:7001", 0, true},
		{"MOVED 16383 ::1:6381", "[::1]:6381", 16383, true},
		{"MOVED 1 [::1]:6381", "[::1]:6381", 1, true},
		{"MOVED 1 :6381", "asked:6381", 1, true},
		{"MOVED 1 ?:6381", "asked:6381", 1, true},
		{text: "MOVED 16384 127.0.0.1:6381"},
		{text: "MOVED -1 127.0.0.1:6381"},
		{text: "MOVED x 127.0.0.1:6381"},
		{text: "MOVED 1 127.0.0.1"},
		{text: "MOVED 1 127.0.0.1:0"},
		{text: "MOVED 1 127.0.0.1:65536"},
		{text: "MOVED 1"},
		{text: "MOVED"},
	}
	for _, tt := range tests {
		slot, addr, ok := parseRedirect(tt.text, "asked:1")
		if slot != tt.slot || addr != tt.addr || ok != tt.ok {
			t.Errorf("%q gives %d %q %v", tt.text, slot, addr, ok)
		}
	}
}

func parseReply(t testing.TB, raw string) (resp.Value, bool) {
	t.Helper()
	var p resp.ReplyParser
	lim := resp.ReplyLimits{MaxDepth: maxReplyDepth, MaxElems: 1 << 16, MaxBulk: 1 << 16, MaxBytes: 1 << 20}
	v, n, err := p.Next([]byte(raw), &lim)
	return v, err == nil && n > 0
}

func TestParseSlots(t *testing.T) {
	node := func(host, port string) string { return "*2\r\n" + host + port }
	span := func(first, last, node string) string {
		return "*3\r\n:" + first + "\r\n:" + last + "\r\n" + node
	}
	tests := []struct {
		name, raw, want string
	}{
		{"two nodes", "*2\r\n" + span("0", "99", node("$1\r\na\r\n", ":1\r\n")) + span("100", "16383", node("$1\r\nb\r\n", ":2\r\n")), "0-99 a:1,100-16383 b:2"},
		{"empty host", "*1\r\n" + span("0", "1", node("$0\r\n\r\n", ":7\r\n")), "0-1 asked:7"},
		{"null host", "*1\r\n" + span("0", "1", node("$-1\r\n", ":7\r\n")), "0-1 asked:7"},
		{"unknown host", "*1\r\n" + span("0", "1", node("$1\r\n?\r\n", ":7\r\n")), "0-1 asked:7"},
		{"nobody", "*0\r\n", ""},
		{"range backwards", "*1\r\n" + span("5", "1", node("$1\r\na\r\n", ":1\r\n")), "error"},
		{"slot too great", "*1\r\n" + span("0", "16384", node("$1\r\na\r\n", ":1\r\n")), "error"},
		{"no port", "*1\r\n" + span("0", "1", node("$1\r\na\r\n", ":0\r\n")), "error"},
		{"no node", "*1\r\n*2\r\n:0\r\n:1\r\n", "error"},
		{"a text", "+OK\r\n", "error"},
	}
	for _, tt := range tests {
		v, ok := parseReply(t, tt.raw)
		if !ok {
			t.Fatalf("%s: the test's own reply does not parse", tt.name)
		}
		runs, err := parseSlots(v, "asked:1")
		var b []string
		for _, r := range runs {
			b = append(b, strings.Join([]string{itoa(r.First) + "-" + itoa(r.Last), r.Addr}, " "))
		}
		got := strings.Join(b, ",")
		if err != nil {
			got = "error"
			if !errors.Is(err, errs.ErrProtocol) {
				t.Errorf("%s: %v is not ErrProtocol", tt.name, err)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func itoa(n uint16) string { return resp.Value{Kind: resp.Integer, Int: int64(n)}.Text() }

// FuzzSlots: whatever a server answers, the table holds valid slots only.
func FuzzSlots(f *testing.F) {
	f.Add("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n")
	f.Add("*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n")
	f.Add("*2\r\n*3\r\n:0\r\n:1\r\n*2\r\n$-1\r\n:1\r\n*3\r\n:1\r\n:2\r\n*2\r\n$0\r\n\r\n:1\r\n")
	f.Add("*1\r\n*3\r\n$1\r\nx\r\n:-1\r\n*0\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		v, ok := parseReply(t, raw)
		if !ok {
			return
		}
		runs, err := parseSlots(v, "asked:1")
		if err != nil {
			return
		}
		p := newPool(Options{})
		tab, err := newTable(runs, false, p.endpoint)
		if err != nil {
			return
		}
		for _, r := range runs {
			if tab.owner(r.Last) == nil {
				t.Errorf("slot %d has no owner after %v", r.Last, runs)
			}
		}
	})
}

func TestTableAdoptIsImmutable(t *testing.T) {
	p := newPool(Options{})
	defer p.close()
	old, err := newTable([]Owned{{First: 0, Last: 16383, Addr: "a:1"}}, false, p.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := p.endpoint("b:1")
	next := old.with(300, b)
	if old.Addr(300) != "a:1" || next.Addr(300) != "b:1" || next.Addr(301) != "a:1" || next.Addr(299) != "a:1" {
		t.Errorf("old %s, new %s, neighbours %s %s", old.Addr(300), next.Addr(300), next.Addr(299), next.Addr(301))
	}
	if next.chunks[0] != old.chunks[0] || next.chunks[1] == old.chunks[1] {
		t.Error("adopting one slot must copy its own chunk and share the others")
	}
	// An answer that was on its way when the slot was adopted does not undo it.
	stale, _ := newTable([]Owned{{First: 0, Last: 16383, Addr: "a:1"}}, false, p.endpoint)
	if got := stale.carry(old, next).Addr(300); got != "b:1" {
		t.Errorf("the adopted slot went back to %s", got)
	}
	if got := (&Table{}).with(5, b); got.Addr(5) != "b:1" || got.Addr(6) != "" {
		t.Errorf("in an empty table: %q %q", got.Addr(5), got.Addr(6))
	}
}

func TestRefreshPassesOverBadSeeds(t *testing.T) {
	tests := []struct {
		name string
		hole bool // the first seed swallows the dial; otherwise it refuses
		most time.Duration
	}{
		{"refused", false, 0},
		{"silent", true, refreshStagger},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(t, 2)
				defer c.close()
				c.net.blackhole["bad:1"] = tt.hole
				r := c.router(func(o *RouterOptions) { o.Seeds = []string{"bad:1", "n2:1"} })
				defer r.Close()
				start := time.Now()
				if err := r.Refresh(t.Context()); err != nil || time.Since(start) > tt.most {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				if len(r.Nodes()) != 2 {
					t.Errorf("nodes %v", r.Nodes())
				}
			})
		})
	}
}

func TestRefreshFailures(t *testing.T) {
	tests := []struct {
		name   string
		script map[string]string
		down   bool
		want   []error
	}{
		{"nobody listens", nil, true, []error{errs.ErrNoSeed, errs.ErrUnavailable}},
		{"wrong password", map[string]string{"HELLO": "-WRONGPASS no\r\n"}, false, []error{errs.ErrNoSeed, errs.ErrAuth}},
		{"nonsense", map[string]string{"CLUSTER": ":1\r\n"}, false, []error{errs.ErrNoSeed, errs.ErrProtocol}},
		{"empty cluster", map[string]string{"CLUSTER": "*0\r\n"}, false, []error{errs.ErrNoSeed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(t, 1)
				defer c.close()
				if tt.down {
					c.nodes[0].stop()
				}
				c.nodes[0].set(func() {
					c.nodes[0].script = func(args []string) *act {
						if s, ok := tt.script[args[0]]; ok {
							return &act{reply: s}
						}
						return nil
					}
				})
				r := c.router(nil)
				defer r.Close()
				err := r.Refresh(t.Context())
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("%v is not %v", err, want)
					}
				}
			})
		})
	}
}

func TestRefreshForgetsNodesThatLeft(t *testing.T) {
	bubble(t, 3, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		for i := range 3 {
			wantOK(t, r, "", "GET", c.on(i))
		}
		for _, n := range c.nodes {
			n.set(func() { n.owners = func(uint16) string { return "n1:1" } })
		}
		<-time.After(time.Second)
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := r.Stats(); s.Links != 1 {
			t.Errorf("%d links after two of three nodes left, want 1", s.Links)
		}
	})
}

func TestPeriodicRefresh(t *testing.T) {
	bubble(t, 1, func(o *RouterOptions) { o.RefreshEvery = 10 * time.Second }, func(t *testing.T, c *fakeCluster, r *Router) {
		<-time.After(time.Minute)
		if got := r.Stats().Refreshes; got < 5 || got > 8 {
			t.Errorf("%d refreshes in a minute at a period of 10s", got)
		}
	})
}

func TestManualRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		defer c.close()
		peers, err := NewPeers(Options{Dialer: c.net.dial})
		if err != nil {
			t.Fatal(err)
		}
		defer peers.Close()
		r, err := NewRouter(RouterOptions{Manual: true, Peers: peers})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, _, err := do(t, r, "GET", "k"); !errors.Is(err, errs.ErrUnavailable) {
			t.Errorf("without a table: %v", err)
		}
		if err := r.Install([]Owned{{First: 0, Last: 8191, Addr: "n1:1"}, {First: 8192, Last: 16383, Addr: "n2:1"}}); err != nil {
			t.Fatal(err)
		}
		k := c.on(1)
		wantOK(t, r, "OK", "SET", k, "v")
		if err := r.Install([]Owned{{First: 0, Last: 16383, Addr: "n1:1"}}); err != nil {
			t.Fatal(err)
		}
		wantOK(t, r, "v", "GET", k) // MOVED is followed and adopted
		if r.Table().Addr(uint16(16383)) != "n1:1" || c.nodes[0].count("CLUSTER")+c.nodes[1].count("CLUSTER") != 0 {
			t.Error("a manual router asked for a table")
		}
		if err := r.Install([]Owned{{First: 5, Last: 4, Addr: "n1:1"}}); !errors.Is(err, errs.ErrConfig) {
			t.Errorf("a backward range: %v", err)
		}
	})
}

func TestFirstKey(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"GET", "k"}, "k"},
		{[]string{"mset", "a", "1", "b", "2"}, "a"},
		{[]string{"OBJECT", "ENCODING", "k"}, "k"},
		{[]string{"PING"}, ""},
		{[]string{"DBSIZE"}, ""},
		{[]string{"INFO", "server"}, ""},
		{[]string{"CLUSTER", "SLOTS"}, ""},
		{[]string{"EVAL", "return 1", "1", "k"}, "k"},
		{[]string{"EVAL", "return 1", "0"}, ""},
		{[]string{"XREAD", "COUNT", "1", "STREAMS", "s", "0"}, "s"},
		{[]string{"JSON.GET", "doc"}, "doc"},
		{[]string{"MODULECMD"}, ""},
	}
	for _, tt := range tests {
		args := words(tt.args...)
		if got := firstKey(command.Lookup(args[0]), args, &scratch{}); string(got) != tt.want {
			t.Errorf("%v: %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestUnshareableCommandsAreRefused(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		for _, line := range []string{"SUBSCRIBE x", "multi", "BLPOP l 0", "client reply off", "XREAD BLOCK 0 STREAMS s 0", "AUTH p"} {
			if _, _, err := do(t, r, strings.Fields(line)...); !errors.Is(err, errs.ErrConfig) {
				t.Errorf("%s: %v", line, err)
			}
		}
		if _, err := r.Do(t.Context()); !errors.Is(err, errs.ErrConfig) {
			t.Errorf("no command: %v", err)
		}
		wantOK(t, r, "OK", "CLIENT", "LIST")
	})
}

func TestOptionFaultsComeAtOnce(t *testing.T) {
	_, err := NewRouter(RouterOptions{Seeds: []string{"nohost", ":1", "a:0"}, Timeout: -1,
		Link: Options{Proto: 4, ClientName: "two words", Username: "u", DialTimeout: -1, MaxReply: -1}})
	if !errors.Is(err, errs.ErrConfig) {
		t.Fatal(err)
	}
	for _, part := range []string{`"nohost"`, `":1"`, `"a:0"`, "timeout", "protocol version 4", "client name", "without a password", "dial timeout", "reply limit"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s:\n%v", part, err)
		}
	}
	if _, err := NewRouter(RouterOptions{}); !errors.Is(err, errs.ErrConfig) {
		t.Errorf("no seeds: %v", err)
	}
}

func TestRouterAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	r, err := NewRouter(RouterOptions{Manual: true, Link: Options{Proto: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Install([]Owned{{First: 0, Last: 16383, Addr: rawServer(t, "$5\r\nhello\r\n")}}); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	req := encode("GET", "k")
	got := testing.AllocsPerRun(200, func() {
		if v, err := r.DoSlot(ctx, 7, true, req); err != nil && !errors.Is(err, errs.ErrTimeout) || err == nil && len(v.Str) != 5 {
			t.Fatal(v, err)
		}
	})
	if got > 1 {
		t.Errorf("a call allocates %v times, budget 1: the value", got)
	}
}

// TestDirectWriteNeverBlocks: what a full socket does not take goes to the
// writer, in order.
func TestDirectWriteNeverBlocks(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := startFake(ln.Addr().String(), ln)
	defer n.stop()
	c, err := Dial(t.Context(), n.addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	big := strings.Repeat("0123456789abcdef", 1<<19) // 8 MiB, above any socket buffer
	if _, err := c.Do(within(t, time.Minute), encode("SET", "k", big)); err != nil {
		t.Fatal(err)
	}
	v, err := c.Do(within(t, time.Minute), encode("GET", "k"))
	if err != nil || string(v.Str) != big {
		t.Fatalf("%d bytes came back, %v", len(v.Str), err)
	}
}

// TestGivenUpLinkRecovers: a table that still names a link that was given up is
// learnt again within the call, writes included.
func TestGivenUpLinkRecovers(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		<-time.After(time.Second)
		r.pool.forget("n2:1")
		k := c.on(1)
		wantOK(t, r, "OK", "SET", k, "v")
		wantOK(t, r, "v", "GET", k)
		if s := r.Stats(); s.Retries != 0 {
			t.Errorf("%d retries spent: nothing was sent", s.Retries)
		}
	})
}
