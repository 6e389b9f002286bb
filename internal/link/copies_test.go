package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// next is who keeps the copies of a node's slots: the one after it.
func (c *fakeCluster) next(slot uint16) string {
	i := int(slot) * len(c.nodes) / ring.Slots
	return c.nodes[(i+1)%len(c.nodes)].addr
}

// withCopies is bubble for three nodes of which each keeps copies of the one
// before. k is a key of the third, of which the first has a copy.
func withCopies(t *testing.T, change func(*RouterOptions), run func(t *testing.T, c *fakeCluster, r *Router, k string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		defer c.close()
		k := c.on(2)
		for _, n := range c.nodes {
			n.set(func() { n.spares = c.next })
		}
		c.nodes[0].set(func() { c.nodes[0].copies = map[string]string{k: "copy"} })
		c.nodes[2].set(func() { c.nodes[2].data[k] = "own" })
		r := c.router(change)
		defer r.Close()
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, c, r, k)
	})
}

func hang([]string) *act { return &act{hang: true} }

// untilSilent reads until the owner of a key has said nothing for so long that the next
// read goes to a copy, and returns how long that one will wait for it.
func untilSilent(t *testing.T, r *Router, k string, silent bool) time.Duration {
	t.Helper()
	if !silent {
		return 0
	}
	start := time.Now()
	for time.Since(start) < silentAfter-DefaultTimeout/2 {
		if v, took, err := do(t, r, "GET", k); err == nil {
			t.Fatalf("%q after %v of silence, took %v", v.Text(), time.Since(start), took)
		}
	}
	return DefaultTimeout / 2
}

// TestReadsOfAnEndingProcess: for as long as a killed process takes to end, the kernel
// accepts connections for it and resets them. Reads that were on their way, and those that
// come meanwhile, are answered by the copy, however many they are.
func TestReadsOfAnEndingProcess(t *testing.T) {
	withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		wantOK(t, r, "own", "GET", k)
		n := c.nodes[2]
		n.set(func() { n.script = hang })
		var wg sync.WaitGroup
		read := func() {
			if v, took, err := do(t, r, "GET", k); err != nil || v.Text() != "copy" || took > DefaultTimeout/2 {
				t.Errorf("%q, %v after %v", v.Text(), err, took)
			}
		}
		for range 10 * retryBurst {
			wg.Go(read)
		}
		<-time.After(time.Millisecond)
		n.set(func() { n.script = func([]string) *act { return &act{close: true} } })
		n.cut()
		wg.Wait()
		for range 10 * retryBurst {
			read()
			<-time.After(time.Millisecond)
		}
	})
}

// TestReadsMoveToCopies: reads whose owner is silent or gone are answered by a copy
// within the deadline, once the owner has been silent for long, then at once; writes fail and
// name the owner. When the owner is back, it answers.
func TestReadsMoveToCopies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		trip   func(c *fakeCluster)
		silent bool
	}{
		{"silence", func(c *fakeCluster) { c.nodes[2].set(func() { c.nodes[2].script = hang }) }, true},
		{"gone", func(c *fakeCluster) { c.nodes[2].stop() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
				wantOK(t, r, "own", "GET", k)
				tt.trip(c)
				synctest.Wait()
				late := untilSilent(t, r, k, tt.silent)
				for i := range 300 { // far more than the budget of retries has
					v, took, err := do(t, r, "GET", k)
					if i > 0 {
						late = 0
					}
					if err != nil || v.Text() != "copy" || took < late || took > late+5*time.Millisecond {
						t.Fatalf("read %d: %q, %v after %v, want it after %v", i, v.Text(), err, took, late)
					}
				}
				_, took, err := do(t, r, "SET", k, "new")
				if !errors.Is(err, errs.ErrUnavailable) || !strings.Contains(err.Error(), "n3:1") || took > DefaultTimeout {
					t.Errorf("a write: %v after %v", err, took)
				}
				if s := r.Stats(); s.Copies < 300 || s.Retries > 5 {
					t.Errorf("%d reads went to copies, %d retries", s.Copies, s.Retries)
				}
				// The connection to the copy's node is as it was.
				if v, _, err := do(t, r, "GET", c.on(0)); err != nil || !v.IsNull() {
					t.Errorf("another key there: %q, %v", v.Text(), err)
				}
				c.nodes[0].set(func() {
					if len(c.nodes[0].takes) == 0 {
						t.Error("nobody said READONLY")
					}
					for _, on := range c.nodes[0].takes {
						if on {
							t.Error("a connection was left with READONLY")
						}
					}
				})
			})
		})
	}
}

// TestLateIsNotRefused: who asks whether a node is gone is not told so of one that was
// late, whoever's deadline it was.
func TestLateIsNotRefused(t *testing.T) {
	withCopies(t, func(o *RouterOptions) { o.OwnersOnly = true }, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		c.nodes[2].set(func() { c.nodes[2].script = hang })
		ctx, cancel := context.WithTimeout(t.Context(), DefaultTimeout/2)
		defer cancel()
		if _, err := r.Do(ctx, []byte("GET"), []byte(k)); err == nil || Refused(err) {
			t.Errorf("the caller's deadline: %v", err)
		}
		if _, _, err := do(t, r, "GET", k); err == nil || Refused(err) {
			t.Errorf("the router's deadline: %v", err)
		}
	})
	for _, cause := range []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, context.DeadlineExceeded} {
		if err := dialError("n3:1", cause); !Refused(err) {
			t.Errorf("a dial: %v", err)
		}
	}
}

// TestOwnerComesBack: the first word of an owner that was silent ends the reads of copies.
func TestOwnerComesBack(t *testing.T) {
	withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		start, first := time.Now(), true
		c.nodes[2].set(func() {
			c.nodes[2].script = replyTo("GET", func() *act {
				if first {
					first = false
					return &act{reply: "$3\r\nown\r\n", delay: 380 * time.Millisecond}
				}
				return nil
			})
		})
		untilSilent(t, r, k, true)
		wantOK(t, r, "copy", "GET", k)
		<-time.After(370*time.Millisecond - time.Since(start))
		wantOK(t, r, "copy", "GET", k)
		<-time.After(15 * time.Millisecond)
		wantOK(t, r, "own", "GET", k)
	})
}

// TestSlowOwnerAnswersItself: a copy may lack what the owner acknowledged a moment ago,
// so an owner that answers late, or closes a connection, is not passed by.
func TestSlowOwnerAnswersItself(t *testing.T) {
	for name, reply := range map[string]act{
		"late":     {reply: "$3\r\nown\r\n", delay: 40 * time.Millisecond},
		"too late": {reply: "$3\r\nown\r\n", delay: 60 * time.Millisecond},
		"closes":   {close: true},
	} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
				c.nodes[2].set(func() {
					n := 0
					c.nodes[2].script = replyTo("GET", func() *act {
						if n++; n%2 == 0 {
							return nil
						}
						a := reply
						return &a
					})
				})
				for range 40 {
					v, _, err := do(t, r, "GET", k)
					if err == nil && v.Text() != "own" {
						t.Fatalf("%q", v.Text())
					}
					all := r.CallAll(t.Context(), []Request{{Slot: int(ring.SlotString(k)), Read: true, Bytes: resp.AppendCommandStrings(nil, "GET", k)}})
					if all[0].Err == nil && all[0].Value.Text() != "own" {
						t.Fatalf("in a batch %q", all[0].Value.Text())
					}
				}
				if s := r.Stats(); s.Copies != 0 {
					t.Errorf("%d reads went to copies", s.Copies)
				}
			})
		})
	}
}

// TestCopiesSayNothingOfAbsence: a key that the copy lacks is not a miss.
func TestCopiesSayNothingOfAbsence(t *testing.T) {
	withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		c.nodes[2].set(func() { c.nodes[2].script = hang })
		untilSilent(t, r, k, true)
		for _, tt := range []struct{ name, reply string }{
			{"it answers MOVED to the owner", ""},
			{"it answers null", "$-1\r\n"},
			{"it is not ready", "-LOADING Redis is loading the dataset in memory\r\n"},
		} {
			c.nodes[0].set(func() {
				c.nodes[0].copies = nil
				c.nodes[0].script = nil
				if tt.reply != "" {
					c.nodes[0].script = replyTo("GET", func() *act { return &act{reply: tt.reply} })
				}
			})
			_, took, err := do(t, r, "GET", k)
			if !errors.Is(err, errs.ErrUnavailable) || !strings.Contains(err.Error(), "n3:1") || took > DefaultTimeout {
				t.Errorf("%s: %v after %v", tt.name, err, took)
			}
		}
		// It has become the owner.
		for _, n := range c.nodes[:2] {
			n.set(func() {
				n.owners = func(s uint16) string {
					if o := c.even(s); o != "n3:1" {
						return o
					}
					return "n2:1"
				}
				n.script = nil
			})
		}
		c.nodes[1].set(func() { c.nodes[1].data[k] = "taken over" })
		wantOK(t, r, "taken over", "GET", k)
	})
}

// TestNoCopies: without a retry, or with owners only, no copy is asked.
func TestNoCopies(t *testing.T) {
	for name, change := range map[string]func(o *RouterOptions){
		"no retry": func(o *RouterOptions) { o.NoRetry = true }, "owners only": func(o *RouterOptions) { o.OwnersOnly = true },
	} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, change, func(t *testing.T, c *fakeCluster, r *Router, k string) {
				c.nodes[2].set(func() { c.nodes[2].script = hang })
				if v, _, err := do(t, r, "GET", k); err == nil {
					t.Errorf("%q", v.Text())
				}
				if c.nodes[0].count("GET") != 0 {
					t.Error("the copy was asked")
				}
			})
		})
	}
}

// TestBatchesMoveToCopies: of many keys, those of a silent owner come from copies,
// in one go.
func TestBatchesMoveToCopies(t *testing.T) {
	withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		var reqs []Request
		var want []string
		c.nodes[0].set(func() {
			for i := 0; len(reqs) < 60; i++ {
				key := fmt.Sprintf("b%d", i)
				slot := ring.SlotString(key)
				reqs = append(reqs, Request{Slot: int(slot), Read: true, Bytes: resp.AppendCommandStrings(nil, "GET", key)})
				if c.even(slot) == "n3:1" {
					c.nodes[0].copies[key] = "c" + key
					want = append(want, "c"+key)
				} else {
					want = append(want, "")
				}
			}
		})
		c.nodes[2].set(func() { c.nodes[2].script = hang })
		untilSilent(t, r, k, true)
		for round := range 3 {
			start := time.Now()
			for i, res := range r.CallAll(t.Context(), reqs) {
				if res.Err != nil || res.Value.Text() != want[i] {
					t.Fatalf("round %d, key %d: %q, %v, want %q", round, i, res.Value.Text(), res.Err, want[i])
				}
			}
			if took := time.Since(start); round > 0 && took > 5*time.Millisecond || took > DefaultTimeout*3/4 {
				t.Errorf("round %d took %v", round, took)
			}
		}
		if n := c.nodes[0].count("READONLY"); n > 10 {
			t.Errorf("READONLY was said %d times", n)
		}
	})
}

// TestCopiesBesideOthers: reads of copies and of the node's own keys share a
// connection and do not change what each other get.
func TestCopiesBesideOthers(t *testing.T) {
	withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		c.nodes[2].set(func() { c.nodes[2].script = hang })
		untilSilent(t, r, k, true)
		own := c.on(0)
		wantOK(t, r, "OK", "SET", own, "v")
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				key, want := own, "v"
				if i%2 == 0 {
					key, want = k, "copy"
				}
				for range 20 {
					v, err := r.Do(context.Background(), []byte("GET"), []byte(key))
					if err != nil || v.Text() != want {
						t.Errorf("%q, %v, want %q", v.Text(), err, want)
					}
				}
			})
		}
		wg.Wait()
	})
}
