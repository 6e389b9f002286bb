package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneNode starts a fake single server at a:1 in memory.
func oneNode() (*fakeNode, Options) {
	n := newMemNet()
	return startFake("a:1", n.listen("a:1")), Options{Dialer: n.dial}
}

func mustDial(t *testing.T, o Options) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), "a:1", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// within gives a context with a deadline.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestConnHandshake(t *testing.T) {
	tests := []struct {
		name   string
		o      Options
		resp2  bool
		script map[string]string // answers by first word
		want   string            // commands seen, in order, without the values
		err    error
	}{
		{name: "RESP3", want: "HELLO"},
		{name: "RESP3 with user and name", o: Options{Username: "u", Password: "p", ClientName: "me"}, want: "HELLO"},
		{name: "no HELLO", resp2: true, want: "HELLO PING"},
		{name: "no HELLO, password and name", resp2: true, o: Options{Password: "p", ClientName: "me"}, want: "HELLO AUTH CLIENT PING"},
		{name: "RESP2 wanted", o: Options{Proto: 2}, want: "PING"},
		{name: "wrong password", o: Options{Password: "p"}, script: map[string]string{"HELLO": "-WRONGPASS invalid username-password pair\r\n"}, err: errs.ErrAuth},
		{name: "password needed", script: map[string]string{"HELLO": "-NOAUTH HELLO must be called with the client already authenticated\r\n"}, err: errs.ErrAuth},
		{name: "old server, wrong password", resp2: true, o: Options{Password: "p"}, script: map[string]string{"AUTH": "-ERR invalid password\r\n"}, err: errs.ErrAuth},
		{name: "full server", resp2: true, script: map[string]string{"PING": "-ERR max number of clients reached\r\n"}, err: errs.ErrUnavailable},
		{name: "not RESP", script: map[string]string{"HELLO": "HTTP/1.1 400 Bad Request\r\n"}, err: errs.ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, o := oneNode()
			defer n.stop()
			seen := []string{}
			n.set(func() {
				n.resp2 = tt.resp2
				n.script = func(args []string) *act {
					seen = append(seen, args[0])
					if s, ok := tt.script[args[0]]; ok {
						return &act{reply: s}
					}
					return nil
				}
			})
			dialer := o.Dialer
			o = tt.o
			o.Dialer = dialer
			c, err := Dial(t.Context(), "a:1", o)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			defer c.Close()
			n.set(func() {
				if got := strings.Join(seen, " "); got != tt.want {
					t.Errorf("commands %q, want %q", got, tt.want)
				}
			})
			if _, err := c.Do(within(t, time.Minute), encode("SET", "k", "v")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestConnRepliesMatchUnderConcurrency(t *testing.T) {
	for _, network := range []string{"memory", "tcp"} {
		t.Run(network, func(t *testing.T) {
			n, o := oneNode()
			addr := "a:1"
			if network == "tcp" {
				n.stop()
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				addr = ln.Addr().String()
				n, o = startFake(addr, ln), Options{}
			}
			defer n.stop()
			c, err := Dial(t.Context(), addr, o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 200 {
						k := fmt.Sprintf("k%d-%d", g, i)
						v := k + strings.Repeat("x", i*37%5000)
						if _, err := c.Do(within(t, time.Minute), encode("SET", k, v)); err != nil {
							t.Error(err)
							return
						}
						got, err := c.Do(within(t, time.Minute), encode("GET", k))
						if err != nil || string(got.Str) != v {
							t.Errorf("GET %s = %.40q, %v", k, got.Str, err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestDeadlinesDoNotBurnConnections: a call that times out leaves, its reply is
// dropped in its turn, and the connection lives on (go-redis#2046).
func TestDeadlinesDoNotBurnConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		n.set(func() {
			n.script = func(args []string) *act {
				if args[0] == "GET" && args[1] == "slow" {
					return &act{reply: "$4\r\nlate\r\n", delay: 20 * time.Millisecond}
				}
				return nil
			}
		})
		c := mustDial(t, o)
		defer c.Close()
		for i := range 50 {
			_, err := c.Do(within(t, 5*time.Millisecond), encode("GET", "slow"))
			if !errors.Is(err, errs.ErrTimeout) || !errors.Is(err, errs.ErrUnavailable) {
				t.Fatalf("call %d: %v, want a timeout", i, err)
			}
			var le *Error
			if !errors.As(err, &le) || !le.Sent {
				t.Fatalf("call %d: the request was sent, the error says otherwise: %v", i, err)
			}
		}
		if _, err := c.Do(within(t, 2*time.Second), encode("SET", "k", "v")); err != nil {
			t.Fatal(err)
		}
		v, err := c.Do(within(t, time.Second), encode("GET", "k"))
		if err != nil || string(v.Str) != "v" {
			t.Fatalf("after 50 abandoned calls GET = %q, %v", v.Str, err)
		}
		if n.accepted() != 1 {
			t.Errorf("%d connections, want the first one to live on", n.accepted())
		}
	})
}

func TestConnContextCancelCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		n.set(func() { n.script = hangOn("GET") })
		c := mustDial(t, o)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(7*time.Millisecond, cancel)
		_, err := c.Do(ctx, encode("GET", "k"))
		if !errors.Is(err, context.Canceled) || errors.Is(err, errs.ErrUnavailable) {
			t.Errorf("error %v: the caller's cancellation says nothing about the node", err)
		}
		if took := time.Since(start); took != 7*time.Millisecond {
			t.Errorf("left after %v, want 7ms", took)
		}
		if _, err := c.Do(ctx, encode("GET", "k")); !errors.Is(err, context.Canceled) {
			t.Errorf("a call on a cancelled context: %v", err)
		}
		if n.count("GET") != 1 {
			t.Errorf("a call on a cancelled context was sent")
		}
	})
}

// hangOn lets a node go silent at the first command of a name.
func hangOn(name string) func([]string) *act {
	return func(args []string) *act {
		if args[0] == name {
			return &act{hang: true}
		}
		return nil
	}
}

func TestConnHungPeerBreaks(t *testing.T) {
	tests := []struct {
		name     string
		deadline time.Duration // of the call; 0 = none
		want     time.Duration // when the call ends
		broken   time.Duration // when the connection breaks
	}{
		{"no deadline", 0, time.Second, time.Second},
		{"short deadline", 50 * time.Millisecond, 50 * time.Millisecond, time.Second},
		{"long deadline", 3 * time.Second, 3 * time.Second, 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, o := oneNode()
				defer n.stop()
				n.set(func() { n.script = hangOn("GET") })
				c := mustDial(t, o)
				defer c.Close()
				ctx := t.Context()
				if tt.deadline > 0 {
					ctx = within(t, tt.deadline)
				}
				start := time.Now()
				if _, err := c.Do(ctx, encode("GET", "k")); !errors.Is(err, errs.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(start); took != tt.want {
					t.Errorf("the call took %v, want %v", took, tt.want)
				}
				<-c.dead
				if took := time.Since(start); took != tt.broken {
					t.Errorf("the connection broke after %v, want %v", took, tt.broken)
				}
				if !errors.Is(c.Err(), errStalled) {
					t.Errorf("it broke because %v", c.Err())
				}
			})
		})
	}
}

// TestConnPeerThatDoesNotRead: a full socket holds up the writer, never a caller
// beyond its deadline.
func TestConnPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newHalf(), newHalf()
		b.limit = 64
		far := &memConn{in: b, out: a}
		o := Options{Proto: 2, Dialer: func(context.Context, string) (net.Conn, error) { return &memConn{in: a, out: b}, nil }}
		go func() { // ends when the handshake is answered
			far.Read(make([]byte, 64))
			far.Write([]byte("+PONG\r\n"))
		}()
		c := mustDial(t, o)
		defer c.Close()
		for range 3 {
			start := time.Now()
			_, err := c.Do(within(t, 10*time.Millisecond), encode("SET", "k", strings.Repeat("x", 1000)))
			if took := time.Since(start); !errors.Is(err, errs.ErrTimeout) || took != 10*time.Millisecond {
				t.Errorf("%v after %v", err, took)
			}
		}
	})
}

func TestConnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		n.set(func() { n.script = hangOn("GET") })
		o.MaxInFlight = 4
		c := mustDial(t, o)
		defer c.Close()
		for range 4 {
			if _, err := c.Do(within(t, time.Millisecond), encode("GET", "k")); !errors.Is(err, errs.ErrTimeout) {
				t.Fatal(err)
			}
		}
		start := time.Now()
		_, err := c.Do(within(t, time.Second), encode("GET", "k"))
		if !errors.Is(err, errs.ErrShed) || time.Since(start) != 0 {
			t.Errorf("above the limit: %v after %v, want ErrShed at once", err, time.Since(start))
		}
		var le *Error
		if !errors.As(err, &le) || le.Sent {
			t.Errorf("a shed request was not sent, the error says otherwise")
		}
	})
	t.Run("reply", func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		o.MaxReply = 1000
		c := mustDial(t, o)
		defer c.Close()
		if _, err := c.Do(within(t, time.Minute), encode("SET", "k", strings.Repeat("x", 2000))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(within(t, time.Minute), encode("GET", "k")); !errors.Is(err, errs.ErrProtocol) {
			t.Errorf("a reply above the limit: %v", err)
		}
	})
}

func TestConnSpuriousReplyBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		n.set(func() {
			n.script = func(args []string) *act {
				if args[0] == "GET" {
					return &act{reply: "+one\r\n+two\r\n"}
				}
				return nil
			}
		})
		c := mustDial(t, o)
		defer c.Close()
		if v, err := c.Do(within(t, time.Second), encode("GET", "k")); err != nil || string(v.Str) != "one" {
			t.Fatalf("%q, %v", v.Str, err)
		}
		<-c.dead
		if !errors.Is(c.Err(), errs.ErrProtocol) {
			t.Errorf("two replies to one request: %v; later replies would go to the wrong callers", c.Err())
		}
	})
}

func TestConnPushAndSplitReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		n.set(func() {
			n.script = func(args []string) *act {
				if args[0] == "GET" {
					return &act{reply: ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n$5\r\nhello\r\n", split: true}
				}
				return nil
			}
		})
		var pushed []string
		o.OnPush = func(addr string, v resp.Value) {
			pushed = append(pushed, addr+" "+v.Elems[0].Text()+" "+v.Elems[1].Elems[0].Text())
		}
		c := mustDial(t, o)
		v, err := c.Do(within(t, time.Second), encode("GET", "k"))
		if err != nil || string(v.Str) != "hello" {
			t.Errorf("GET = %q, %v", v.Str, err)
		}
		c.Close()
		if len(pushed) != 1 || pushed[0] != "a:1 invalidate k" {
			t.Errorf("pushed %q", pushed)
		}
	})
}

func TestConnCloseFailsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		n.set(func() { n.script = hangOn("GET") })
		c := mustDial(t, o)
		time.AfterFunc(time.Millisecond, func() { c.Close() })
		if _, err := c.Do(t.Context(), encode("GET", "k")); !errors.Is(err, errs.ErrClosed) {
			t.Errorf("pending at Close: %v", err)
		}
		if _, err := c.Do(t.Context(), encode("GET", "k")); err == nil {
			t.Error("a call after Close succeeded")
		}
	})
}

// rawServer answers every read with the same bytes and allocates nothing; the
// handshake with +PONG. One client, one request at a time.
func rawServer(t *testing.T, answer string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // ends when the client closes its connection
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		buf, reply := make([]byte, 4096), []byte(answer)
		for first := true; ; first = false {
			if _, err := nc.Read(buf); err != nil {
				return
			}
			if out := reply; first {
				nc.Write([]byte("+PONG\r\n"))
			} else if _, err := nc.Write(out); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func TestConnAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	c, err := Dial(t.Context(), rawServer(t, "$5\r\nhello\r\n"), Options{Proto: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := encode("GET", "k")
	ctx := context.Background()
	got := testing.AllocsPerRun(200, func() {
		now := time.Now()
		if v, err := c.roundTrip(ctx, req, now.Add(time.Hour), now, false); err != nil || len(v.Str) != 5 {
			t.Fatal(v, err)
		}
	})
	if got > 1 {
		t.Errorf("a round trip allocates %v times, budget 1: the value", got)
	}
}
