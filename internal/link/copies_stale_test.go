package link

import (
	"sync"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// TestOldSilenceProvesNothing: a node was gone, came back, and nobody asked it for a
// while. When many do at once, all of them get its own word; after minutes even if it
// needs more than half of their time for it.
func TestOldSilenceProvesNothing(t *testing.T) {
	for name, idle := range map[string]time.Duration{"seconds": 3 * time.Second, "minutes": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
				c.nodes[2].stop()
				wantOK(t, r, "copy", "GET", k)
				n := startFake("n3:1", c.net.listen("n3:1"))
				n.set(func() { n.owners, n.spares, n.data[k] = c.even, c.next, "own" })
				defer n.stop()
				<-time.After(idle)
				takes := DefaultTimeout / 20
				if idle >= awayRecalled {
					takes = DefaultTimeout * 3 / 5
				}
				first := true
				n.set(func() {
					n.script = replyTo("GET", func() *act {
						if !first {
							return nil
						}
						first = false
						return &act{reply: "$3\r\nown\r\n", delay: takes}
					})
				})
				burst(t, r, k)
			})
		})
	}
}

// burst reads a key at the same moment many times; each must come from its owner.
func burst(t *testing.T, r *Router, k string) {
	t.Helper()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			v, err := r.Do(t.Context(), []byte("GET"), []byte(k))
			if err == nil && v.Text() != "own" {
				t.Errorf("%q, want the owner's word", v.Text())
			}
			all := r.CallAll(t.Context(), []Request{{Slot: int(ring.SlotString(k)), Read: true, Bytes: resp.AppendCommandStrings(nil, "GET", k)}})
			if all[0].Err == nil && all[0].Value.Text() != "own" {
				t.Errorf("in a batch %q, want the owner's word", all[0].Value.Text())
			}
		})
	}
	wg.Wait()
}

// TestHeardMeanwhile: somebody comes to think that a node is silent, and before that is
// noted the node has answered. Its slots are not read from copies then.
func TestHeardMeanwhile(t *testing.T) {
	withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		wantOK(t, r, "own", "GET", k)
		r.Table().owner(ring.SlotString(k)).isGone() // by what was true a moment ago
		wantOK(t, r, "own", "GET", k)
	})
}

// TestReadsOfANodeThatLeft: a node has left in good order, and its slots went to another
// one than by the client's table. The port that refuses is no reason to read what a
// third node keeps as a copy: the new owner has acknowledged newer values.
func TestReadsOfANodeThatLeft(t *testing.T) {
	for i := range 4 {
		batch, closes := i%2 == 1, i > 1 // it closes the connection when the read is there
		withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
			wantOK(t, r, "own", "GET", k)
			<-time.After(time.Second)
			if closes {
				c.nodes[2].ln.Close()
				c.nodes[2].set(func() { c.nodes[2].script = replyTo("GET", func() *act { return &act{close: true} }) })
			} else {
				c.nodes[2].stop()
			}
			for _, n := range c.nodes[:2] {
				n.set(func() {
					n.owners = func(s uint16) string {
						if o := c.even(s); o != "n3:1" {
							return o
						}
						return "n2:1"
					}
				})
			}
			c.nodes[1].set(func() { c.nodes[1].data[k] = "newer" })
			if !batch {
				wantOK(t, r, "newer", "GET", k)
				return
			}
			all := r.CallAll(t.Context(), []Request{{Slot: int(ring.SlotString(k)), Read: true, Bytes: resp.AppendCommandStrings(nil, "GET", k)}})
			if all[0].Err != nil || all[0].Value.Text() != "newer" {
				t.Errorf("in a batch %q, %v", all[0].Value.Text(), all[0].Err)
			}
		})
	}
}

// TestNoTableNoCopyIsLate: where nobody gives a table, a read of a node that is gone does
// not wait for it for more than half of its time.
func TestNoTableNoCopyIsLate(t *testing.T) {
	withCopies(t, nil, func(t *testing.T, c *fakeCluster, r *Router, k string) {
		<-time.After(time.Second)
		c.nodes[2].stop()
		silent := replyTo("CLUSTER", func() *act { return &act{reply: "-LOADING\r\n", delay: 3 * DefaultTimeout} })
		c.nodes[1].set(func() { c.nodes[1].script = silent })
		first := true
		c.nodes[0].set(func() {
			c.nodes[0].script = func(args []string) *act {
				if args[0] == "CLUSTER" && first {
					first = false
					return &act{delay: 0, reply: "-LOADING\r\n"}
				}
				return nil
			}
		})
		v, took, err := do(t, r, "GET", k)
		if err != nil || v.Text() != "copy" || took > DefaultTimeout*3/4 {
			t.Errorf("%q, %v after %v", v.Text(), err, took)
		}
	})
}
