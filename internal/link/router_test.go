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

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// bubble runs a test on a fake cluster in virtual time.
func bubble(t *testing.T, nodes int, change func(*RouterOptions), run func(t *testing.T, c *fakeCluster, r *Router)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, nodes)
		defer c.close()
		r := c.router(change)
		defer r.Close()
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, c, r)
	})
}

// do runs a command and says how long it took.
func do(t *testing.T, r *Router, args ...string) (resp.Value, time.Duration, error) {
	t.Helper()
	start := time.Now()
	v, err := r.Do(t.Context(), words(args...)...)
	return v, time.Since(start), err
}

// wantOK fails the test unless the command gives the text.
func wantOK(t *testing.T, r *Router, want string, args ...string) {
	t.Helper()
	v, _, err := do(t, r, args...)
	if err != nil || v.Text() != want {
		t.Errorf("%s = %q, %v; want %q", strings.Join(args, " "), v.Text(), err, want)
	}
}

// replyTo answers the commands of a name by a function, the others normally.
func replyTo(name string, f func() *act) func([]string) *act {
	return func(args []string) *act {
		if args[0] == name {
			return f()
		}
		return nil
	}
}

func TestRouterSendsToOwners(t *testing.T) {
	bubble(t, 3, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		for i := range 3 {
			k := c.on(i)
			wantOK(t, r, "OK", "SET", k, "v")
			wantOK(t, r, "v", "GET", k)
			if !c.nodes[i].logged("GET " + k) {
				t.Errorf("node %d did not get its GET", i)
			}
		}
		if s := r.Stats(); s.Moved != 0 || s.Dials != 3 || s.Links != 3 {
			t.Errorf("stats %+v: want no redirect and one link per node", s)
		}
		if got := strings.Join(r.Nodes(), " "); got != "n1:1 n2:1 n3:1" {
			t.Errorf("nodes %q", got)
		}
	})
}

func TestRouterSingleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, o := oneNode()
		defer n.stop()
		r, err := NewRouter(RouterOptions{Seeds: []string{"b:1", "a:1"}, Link: o})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		wantOK(t, r, "OK", "SET", "k", "v") // the first call waits for the first table
		wantOK(t, r, "v", "GET", "k")
		if !r.Table().Single() || len(r.Nodes()) != 1 {
			t.Errorf("table %v", r.Nodes())
		}
	})
}

func TestRouterMovedIsAdoptedAndRefreshedOnce(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		all := c.nodes[1].addr
		for _, n := range c.nodes {
			n.set(func() { n.owners = func(uint16) string { return all } })
		}
		before := c.nodes[0].count("CLUSTER") + c.nodes[1].count("CLUSTER")
		k := c.on(0)
		wantOK(t, r, "OK", "SET", k, "v") // a write follows MOVED
		wantOK(t, r, "v", "GET", k)
		if s := r.Stats(); s.Moved != 1 || s.Retries != 0 {
			t.Errorf("stats %+v: want one redirect, adopted at once, and no retry", s)
		}
		<-time.After(time.Second)
		if got := c.nodes[0].count("CLUSTER") + c.nodes[1].count("CLUSTER") - before; got != 1 {
			t.Errorf("%d refreshes after a redirect, want 1", got)
		}
		if len(r.Nodes()) != 1 {
			t.Errorf("after the refresh the table names %v", r.Nodes())
		}
	})
}

// TestMovedStorm: a thousand calls that are redirected at once cause one
// refresh, not a thousand (go-redis#3023).
func TestMovedStorm(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		<-time.After(time.Second)
		all := c.nodes[1].addr
		for _, n := range c.nodes {
			n.set(func() {
				n.owners = func(uint16) string { return all }
				// The refresh takes a while, so that every call meets its redirect.
				n.script = func(args []string) *act {
					if args[0] == "CLUSTER" {
						return &act{reply: oneOwner(all), delay: 20 * time.Millisecond}
					}
					return nil
				}
			})
		}
		refreshes := r.Stats().Refreshes
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				if _, err := r.Do(t.Context(), words("SET", fmt.Sprint("k", i), "v")...); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		<-time.After(time.Second)
		s := r.Stats()
		if got := s.Refreshes - refreshes; got < 1 || got > 2 {
			t.Errorf("%d refreshes for %d redirects, want one (two if some came after it)", got, s.Moved)
		}
		if s.Moved < 100 {
			t.Errorf("only %d redirects: the test did not make a storm", s.Moved)
		}
	})
}

// oneOwner is the reply to CLUSTER SLOTS where one node owns all.
func oneOwner(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
}

func TestRouterAsk(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		k := c.on(0)
		c.nodes[0].set(func() {
			c.nodes[0].script = replyTo("GET", func() *act {
				return &act{reply: fmt.Sprintf("-ASK %d n2:1\r\n", ring.SlotString(k))}
			})
		})
		c.nodes[1].set(func() { c.nodes[1].data[k] = "moving" })
		wantOK(t, r, "moving", "GET", k)
		wantOK(t, r, "moving", "GET", k)
		if c.nodes[1].count("ASKING") != 2 || r.Table().Addr(ring.SlotString(k)) != "n1:1" {
			t.Errorf("ASK must not be adopted: %d ASKING, owner %s", c.nodes[1].count("ASKING"), r.Table().Addr(ring.SlotString(k)))
		}
	})
}

// TestRedirectLoopIsBounded: two nodes that point at each other cost a bounded
// number of attempts.
func TestRedirectLoopIsBounded(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		k := c.on(0)
		for i, n := range c.nodes {
			other := c.nodes[1-i].addr
			n.set(func() {
				n.script = replyTo("SET", func() *act {
					return &act{reply: fmt.Sprintf("-MOVED %d %s\r\n", ring.SlotString(k), other)}
				})
			})
		}
		_, _, err := do(t, r, "SET", k, "v")
		if !errors.Is(err, errs.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		if got := c.nodes[0].count("SET") + c.nodes[1].count("SET"); got != MaxRedirects+1 {
			t.Errorf("%d attempts, want %d", got, MaxRedirects+1)
		}
	})
}

// TestDeadlineCoversEverything: dial x retries x redirects stay inside one
// deadline (go-redis#2641), whatever goes wrong.
func TestDeadlineCoversEverything(t *testing.T) {
	const limit = DefaultTimeout
	slow := func(reply string, d time.Duration) func([]string) *act {
		return replyTo("GET", func() *act { return &act{reply: reply, delay: d} })
	}
	tests := []struct {
		name  string
		setup func(c *fakeCluster, k string)
	}{
		{"silent owner", func(c *fakeCluster, k string) { c.nodes[0].set(func() { c.nodes[0].script = hangOn("GET") }) }},
		{"dial hangs", func(c *fakeCluster, k string) {
			c.net.mu.Lock()
			c.net.blackhole["n1:1"] = true
			c.net.mu.Unlock()
			c.nodes[0].cut()
		}},
		{"refused", func(c *fakeCluster, k string) { c.nodes[0].stop() }},
		{"slow redirects", func(c *fakeCluster, k string) {
			for i, n := range c.nodes[:2] {
				n.set(func() {
					n.script = slow(fmt.Sprintf("-MOVED %d %s\r\n", ring.SlotString(k), c.nodes[1-i].addr), 20*time.Millisecond)
				})
			}
		}},
		{"slow TRYAGAIN", func(c *fakeCluster, k string) {
			c.nodes[0].set(func() { c.nodes[0].script = slow("-TRYAGAIN later\r\n", 30*time.Millisecond) })
		}},
		{"loading", func(c *fakeCluster, k string) {
			c.nodes[0].set(func() { c.nodes[0].script = slow("-LOADING wait\r\n", 0) })
		}},
		{"breaks at once", func(c *fakeCluster, k string) {
			c.nodes[0].set(func() { c.nodes[0].script = replyTo("GET", func() *act { return &act{close: true} }) })
		}},
		{"refused, refresh hangs", func(c *fakeCluster, k string) {
			for _, n := range c.nodes[1:] {
				n.set(func() { n.script = hangOn("CLUSTER") })
			}
			c.nodes[0].stop()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 3, nil, func(t *testing.T, c *fakeCluster, r *Router) {
				k := c.on(0)
				for i := range 3 {
					wantOK(t, r, "", "GET", c.on(i))
				}
				<-time.After(2 * time.Second)
				tt.setup(c, k)
				synctest.Wait()
				over, failed := 0, 0
				for range 20 {
					_, took, err := do(t, r, "GET", k)
					if took > limit {
						over++
					}
					if err != nil {
						failed++
						if !errors.Is(err, errs.ErrUnavailable) {
							t.Errorf("error %v, want ErrUnavailable", err)
						}
					}
					<-time.After(7 * time.Millisecond)
				}
				if over > 0 || failed == 0 {
					t.Errorf("%d calls above their deadline (want 0), %d of 20 failed (want some)", over, failed)
				}
			})
		})
	}
}

func TestContextDeadlineIsEarlier(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		c.nodes[0].set(func() { c.nodes[0].script = hangOn("GET") })
		start := time.Now()
		_, err := r.Do(within(t, 12*time.Millisecond), words("GET", "k")...)
		if took := time.Since(start); took != 12*time.Millisecond || !errors.Is(err, errs.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestContextIsHeededWhileDialling (go-redis#2145).
func TestContextIsHeededWhileDialling(t *testing.T) {
	bubble(t, 2, func(o *RouterOptions) { o.Timeout = time.Hour }, func(t *testing.T, c *fakeCluster, r *Router) {
		c.net.mu.Lock()
		c.net.blackhole["n2:1"] = true
		c.net.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Millisecond, cancel)
		start := time.Now()
		_, err := r.Do(ctx, words("GET", c.on(1))...)
		if took := time.Since(start); took != 3*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("%v after %v, want the cancellation after 3ms", err, took)
		}
	})
}

// TestShortDeadlinesDoNotStarveThePool: when a connect takes longer than a call
// may, the dial goes on without its callers and serves the later ones
// (go-redis#3497).
func TestShortDeadlinesDoNotStarveThePool(t *testing.T) {
	bubble(t, 2, func(o *RouterOptions) {
		inner := o.Link.Dialer
		o.Link.Dialer = slowDial(inner, "n2:1", 200*time.Millisecond)
	}, func(t *testing.T, c *fakeCluster, r *Router) {
		k := c.on(1)
		start := time.Now()
		failed := 0
		for {
			_, took, err := do(t, r, "GET", k)
			if took > DefaultTimeout {
				t.Fatalf("a call took %v", took)
			}
			if err == nil {
				break
			}
			failed++
			if time.Since(start) > time.Second {
				t.Fatal("the pool never got its connection")
			}
		}
		if failed == 0 || c.net.dialsTo("n2:1") != 1 {
			t.Errorf("%d calls failed, %d dials: want some, and one dial shared by all", failed, c.net.dialsTo("n2:1"))
		}
	})
}

func slowDial(inner Dialer, addr string, d time.Duration) Dialer {
	return func(ctx context.Context, a string) (net.Conn, error) {
		if a == addr {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return inner(ctx, a)
	}
}
