package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// TestRetryRule holds which failures are repeated, for reads and for writes.
func TestRetryRule(t *testing.T) {
	once := func(a act) func() *act {
		used := false
		return func() *act {
			if used {
				return nil
			}
			used = true
			return &a
		}
	}
	tests := []struct {
		name        string
		first       act // of the owner, the first time
		read, write bool
	}{
		{"TRYAGAIN", act{reply: "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"}, true, true},
		{"LOADING", act{reply: "-LOADING Redis is loading the dataset in memory\r\n"}, true, true},
		{"CLUSTERDOWN", act{reply: "-CLUSTERDOWN The cluster is down\r\n"}, true, true},
		{"READONLY", act{reply: "-READONLY You can't write against a read only replica.\r\n"}, true, true},
		{"the connection breaks", act{close: true}, true, false},
		{"silence", act{hang: true}, false, false},
	}
	for _, tt := range tests {
		for _, cmd := range []string{"GET", "SET"} {
			for _, retry := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/retry %v", tt.name, cmd, retry), func(t *testing.T) {
					bubble(t, 1, func(o *RouterOptions) { o.NoRetry = !retry }, func(t *testing.T, c *fakeCluster, r *Router) {
						<-time.After(2 * time.Second)
						n := c.nodes[0]
						n.set(func() { n.script = replyTo(cmd, once(tt.first)) })
						args := []string{cmd, "k"}
						want := tt.read && retry
						if cmd == "SET" {
							args = append(args, "v")
							want = tt.write && retry
						}
						_, took, err := do(t, r, args...)
						if (err == nil) != want {
							t.Errorf("error %v, want success %v", err, want)
						}
						if err != nil && !errors.Is(err, errs.ErrUnavailable) {
							t.Errorf("error %v is not ErrUnavailable", err)
						}
						if got := n.count(cmd); got > 2 || (got == 2) != want {
							t.Errorf("sent %d times", got)
						}
						if took > DefaultTimeout {
							t.Errorf("took %v", took)
						}
					})
				})
			}
		}
	}
}

// TestTryAgain: a slot is on its way for a while. Every call that may last so long is
// done in the end, single or in a batch, whatever the budget of retries has; shorter ones
// fail at their deadline. The server is told not to wait itself.
func TestTryAgain(t *testing.T) {
	for _, retry := range []bool{true, false} {
		bubble(t, 1, func(o *RouterOptions) { o.NoRetry = !retry }, func(t *testing.T, c *fakeCluster, r *Router) {
			const moving = 30 * time.Millisecond
			n := c.nodes[0]
			wantOK(t, r, "OK", "SET", "k", "v")
			told := 0
			if retry {
				told = 1
			}
			if got := n.count("CLIENT"); got != told {
				t.Errorf("the server was told %d times what the link can do, want %d", got, told)
			}
			if !retry {
				return
			}
			start := time.Now()
			n.set(func() {
				n.script = func(args []string) *act {
					if args[0] == "SET" && time.Since(start) < moving {
						return &act{reply: "-TRYAGAIN later\r\n"}
					}
					return nil
				}
			})
			var wg sync.WaitGroup
			for i := range 10 * retryBurst {
				wg.Go(func() {
					if i%2 == 0 {
						for _, res := range r.CallAll(t.Context(), []Request{{Slot: int(ring.SlotString("k")), Bytes: resp.AppendCommandStrings(nil, "SET", "k", "v")}}) {
							if res.Err != nil || res.Value.Text() != "OK" {
								t.Errorf("in a batch: %q, %v", res.Value.Text(), res.Err)
							}
						}
						return
					}
					if v, _, err := do(t, r, "SET", "k", "v"); err != nil || v.Text() != "OK" {
						t.Errorf("%q, %v", v.Text(), err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(start); took < moving || took > moving+mostTryAgain+time.Millisecond {
				t.Errorf("they took %v", took)
			}
			calls := 10 * retryBurst
			if s := r.Stats(); s.Retries != 0 || s.TryAgains < uint64(calls) || s.TryAgains > uint64(6*calls) {
				t.Errorf("%d repetitions, %d retries", s.TryAgains, s.Retries)
			}
			start = time.Now().Add(time.Hour)
			if _, took, err := do(t, r, "SET", "k", "v"); !errors.Is(err, errs.ErrUnavailable) || took > DefaultTimeout || took < DefaultTimeout/2 {
				t.Errorf("%v after %v", err, took)
			}
		})
	}
}

// TestOtherErrorRepliesAreTheCallers: they are neither retried nor errors.
func TestOtherErrorRepliesAreTheCallers(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		c.nodes[0].set(func() {
			c.nodes[0].script = replyTo("GET", func() *act { return &act{reply: "-WRONGTYPE no\r\n"} })
		})
		v, _, err := do(t, r, "GET", "k")
		if err != nil || v.Err() == nil || c.nodes[0].count("GET") != 1 {
			t.Errorf("%v, %v, sent %d times", v, err, c.nodes[0].count("GET"))
		}
	})
}

// TestRefusedRefreshesAtOnce: a dead node's slots are found at their new owner
// within the same call, writes included.
func TestRefusedRefreshesAtOnce(t *testing.T) {
	bubble(t, 3, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		k := c.on(2)
		wantOK(t, r, "OK", "SET", k, "v")
		<-time.After(2 * time.Second)
		for _, n := range c.nodes[:2] {
			n.set(func() {
				n.owners = func(s uint16) string {
					if c.even(s) == "n3:1" {
						return "n2:1"
					}
					return c.even(s)
				}
			})
		}
		c.nodes[2].stop()
		synctest.Wait()
		v, took, err := do(t, r, "SET", k, "w")
		if err != nil || v.Text() != "OK" || took > 10*time.Millisecond {
			t.Errorf("%v, %v after %v: want the successor at once", v, err, took)
		}
		if s := r.Stats(); s.Refused != 1 || s.Retries != 1 {
			t.Errorf("stats %+v", s)
		}
		if got := len(r.Nodes()); got != 2 {
			t.Errorf("%d nodes in the table, want 2", got)
		}
	})
}

// TestHungNodeNoEndlessRetries: a silent node is asked once per call, not again
// and again, and calls stop waiting for it when they may (rueidis#680).
func TestHungNodeNoEndlessRetries(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		k := c.on(1)
		wantOK(t, r, "", "GET", k)
		n := c.nodes[1]
		sent := 0
		n.set(func() {
			n.script = func(args []string) *act {
				if args[0] == "GET" {
					sent++
				}
				return &act{delay: time.Hour}
			}
		})
		const calls = 40
		for range calls {
			if _, took, err := do(t, r, "GET", k); !errors.Is(err, errs.ErrUnavailable) || took > DefaultTimeout {
				t.Fatalf("%v after %v", err, took)
			}
		}
		s := r.Stats()
		if s.Calls != calls+1 || s.Retries > 2 {
			t.Errorf("stats %+v: a silent node was asked again and again", s)
		}
		if s.Dials < 2 || s.Dials > 6 {
			t.Errorf("%d dials in %d ms: the hung connection is replaced, with back-off", s.Dials, calls*50)
		}
	})
}

// TestReadMovesWhenTheOwnerChanged: a read that waits for a silent node moves to
// the new owner once the table names one.
func TestReadMovesWhenTheOwnerChanged(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		k := c.on(0)
		c.nodes[0].set(func() { c.nodes[0].script = hangOn("GET") })
		c.nodes[1].set(func() { c.nodes[1].owners = func(uint16) string { return "n2:1" }; c.nodes[1].data[k] = "here" })
		time.AfterFunc(10*time.Millisecond, func() {
			e, _ := r.pool.endpoint("n2:1")
			r.adopt(ring.SlotString(k), e)
		})
		v, took, err := do(t, r, "GET", k)
		if err != nil || v.Text() != "here" || took != DefaultTimeout/2 {
			t.Errorf("%q, %v after %v", v.Text(), err, took)
		}
	})
}

// TestOneBadNodeDoesNotDragTheOthers (rueidis#658): single calls and batches.
func TestOneBadNodeDoesNotDragTheOthers(t *testing.T) {
	bubble(t, 3, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		var reqs []Request
		for i := range 3 {
			wantOK(t, r, "OK", "SET", c.on(i), "v")
			reqs = append(reqs, Request{Slot: int(ring.SlotString(c.on(i))), Read: true, Bytes: encode("GET", c.on(i))})
		}
		c.nodes[1].set(func() { c.nodes[1].script = func([]string) *act { return &act{hang: true} } })
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { r.Do(t.Context(), words("GET", c.on(1))...) })
		}
		for range 20 {
			if _, took, err := do(t, r, "GET", c.on(2)); err != nil || took > 0 {
				t.Errorf("a healthy node's call: %v after %v", err, took)
			}
		}
		start := time.Now()
		res := r.CallAll(t.Context(), reqs)
		if took := time.Since(start); took > DefaultTimeout {
			t.Errorf("the batch took %v", took)
		}
		for i, want := range []bool{true, false, true} {
			if (res[i].Err == nil) != want {
				t.Errorf("part %d: %v", i, res[i].Err)
			}
		}
		wg.Wait()
	})
}

func TestRetryBudget(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		c.nodes[0].set(func() {
			c.nodes[0].script = replyTo("GET", func() *act { return &act{reply: "-LOADING wait\r\n"} })
		})
		const calls = 500
		for range calls {
			do(t, r, "GET", "k")
		}
		if s := r.Stats(); s.Retries > calls/10+retryBurst || s.Retries < calls/10 {
			t.Errorf("%d retries for %d calls, want a tenth and the burst of %d at most", s.Retries, calls, retryBurst)
		}
	})
}

func TestBatchFollowsRedirects(t *testing.T) {
	bubble(t, 3, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		rotated := func(s uint16) string { return c.nodes[(int(s)*3/ring.Slots+1)%3].addr }
		for _, n := range c.nodes {
			n.set(func() { n.owners = rotated })
		}
		const n = 2000
		reqs := make([]Request, n)
		for i := range reqs {
			k := fmt.Sprint("k", i)
			reqs[i] = Request{Slot: int(ring.SlotString(k)), Bytes: encode("SET", k, "v")}
		}
		for i, res := range r.CallAll(t.Context(), reqs) {
			if res.Err != nil || res.Value.Text() != "OK" || res.Addr != rotated(uint16(reqs[i].Slot)) {
				t.Fatalf("part %d: %v, %v at %s", i, res.Value, res.Err, res.Addr)
			}
		}
		stored := 0
		for _, node := range c.nodes {
			node.set(func() { stored += len(node.data) })
		}
		if stored != n {
			t.Errorf("%d keys stored, want %d", stored, n)
		}
	})
}

func TestBatchAskAndNoOwner(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		k, other := c.on(0), c.on(1)
		c.nodes[0].set(func() {
			c.nodes[0].script = replyTo("GET", func() *act {
				return &act{reply: fmt.Sprintf("-ASK %d n2:1\r\n", ring.SlotString(k))}
			})
		})
		c.nodes[1].set(func() { c.nodes[1].data[k], c.nodes[1].data[other] = "asked", "own" })
		res := r.CallAll(t.Context(), []Request{
			{Slot: int(ring.SlotString(k)), Read: true, Bytes: encode("GET", k)},
			{Slot: int(ring.SlotString(other)), Read: true, Bytes: encode("GET", other)},
		})
		for i, want := range []string{"asked", "own"} {
			if res[i].Err != nil || res[i].Value.Text() != want {
				t.Errorf("part %d: %q, %v", i, res[i].Value.Text(), res[i].Err)
			}
		}
	})
}

func TestSlotWithoutOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 1)
		defer c.close()
		c.nodes[0].set(func() {
			c.nodes[0].owners = func(s uint16) string {
				if s < 100 {
					return "n1:1"
				}
				return ""
			}
		})
		r := c.router(nil)
		defer r.Close()
		k := keyOf(func(s uint16) bool { return s >= 100 })
		_, took, err := do(t, r, "GET", k)
		if !errors.Is(err, errs.ErrUnavailable) || took > DefaultTimeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestCloseEndsCalls(t *testing.T) {
	bubble(t, 1, func(o *RouterOptions) { o.Timeout = time.Hour }, func(t *testing.T, c *fakeCluster, r *Router) {
		c.nodes[0].set(func() { c.nodes[0].script = hangOn("GET") })
		time.AfterFunc(time.Millisecond, func() { r.Close() })
		if _, _, err := do(t, r, "GET", "k"); !errors.Is(err, errs.ErrClosed) {
			t.Errorf("pending at Close: %v", err)
		}
		if _, _, err := do(t, r, "GET", "k"); !errors.Is(err, errs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := r.Refresh(context.Background()); !errors.Is(err, errs.ErrClosed) {
			t.Errorf("refresh after Close: %v", err)
		}
	})
}
