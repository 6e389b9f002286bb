package link

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/ring"
)

// TestDirectWriteKeepsOrder: what was queued during a direct write that the
// socket took only in part comes after the rest of it.
func TestDirectWriteKeepsOrder(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := make(chan []byte)
	go func() { // ends when the client closes its connection
		defer close(got)
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.Read(make([]byte, 64))
		nc.Write([]byte("+PONG\r\n"))
		<-got
		all, _ := io.ReadAll(nc)
		got <- all
	}()
	c, err := Dial(t.Context(), ln.Addr().String(), Options{Proto: 2})
	if err != nil {
		t.Fatal(err)
	}
	if c.direct == nil {
		c.Close()
		t.Skip("no direct writes on this system")
	}
	first, second := bytes.Repeat([]byte("1"), 16<<20), bytes.Repeat([]byte("2"), 1000)
	c.mu.Lock()
	c.busy = true
	c.out = append(c.out, second...)
	c.mu.Unlock()
	c.writeDirect(first) // the other side does not read yet: it cannot take all
	got <- nil
	idle := func() bool { c.mu.Lock(); defer c.mu.Unlock(); return !c.busy }
	if !await(t, idle) {
		t.Fatal("the writer never finished")
	}
	c.Close()
	if all := <-got; !bytes.Equal(all, append(first, second...)) {
		t.Errorf("%d bytes came, %d expected, or their order is wrong", len(all), len(first)+len(second))
	}
}

// TestRefreshDoesNotUndoAdoptions: a table that was on its way when a redirect
// was adopted may be older than the redirect.
func TestRefreshDoesNotUndoAdoptions(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		<-time.After(time.Second)
		for _, n := range c.nodes {
			n.set(func() {
				n.script = func(args []string) *act {
					if args[0] == "CLUSTER" {
						return &act{reply: oneOwner("n1:1"), delay: 20 * time.Millisecond}
					}
					return nil
				}
			})
		}
		const slot = 5
		e, err := r.pool.endpoint("n2:1")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Millisecond, func() { r.adopt(slot, e) })
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		tab := r.Table()
		if tab.Addr(slot) != "n2:1" || tab.Addr(slot+1) != "n1:1" || tab.Addr(ring.Slots-1) != "n1:1" {
			t.Errorf("slot %d at %s, its neighbour at %s, the last at %s", slot, tab.Addr(slot), tab.Addr(slot+1), tab.Addr(ring.Slots-1))
		}
	})
}

// TestSlowNodeCausesFewRefreshes: slow replies ask for a refresh, but a node
// that is merely busy must not be made busier.
func TestSlowNodeCausesFewRefreshes(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		n := c.nodes[0]
		n.set(func() {
			n.script = replyTo("GET", func() *act { return &act{reply: "$1\r\nv\r\n", delay: 40 * time.Millisecond} })
		})
		before, start := n.count("CLUSTER"), time.Now()
		for time.Since(start) < 5*time.Second {
			wantOK(t, r, "v", "GET", "k")
		}
		if got := n.count("CLUSTER") - before; got < 1 || got > 6 {
			t.Errorf("%d refreshes in 5s of slow replies, want about one a second", got)
		}
	})
}

// TestBatchNeverFillsALink: a batch larger than the in-flight limit goes out in
// parts.
func TestBatchNeverFillsALink(t *testing.T) {
	bubble(t, 1, func(o *RouterOptions) { o.Link.MaxInFlight = batchRequests }, func(t *testing.T, c *fakeCluster, r *Router) {
		reqs := make([]Request, 3*batchRequests+7)
		for i := range reqs {
			k := fmt.Sprint("k", i)
			reqs[i] = Request{Slot: int(ring.SlotString(k)), Bytes: encode("SET", k, "v")}
		}
		for i, res := range r.CallAll(t.Context(), reqs) {
			if res.Err != nil {
				t.Fatalf("part %d: %v", i, res.Err)
			}
		}
	})
}

// TestRetiredLinkFinishes: a link that is given up delivers what is due, then
// goes.
func TestRetiredLinkFinishes(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, c *fakeCluster, r *Router) {
		n := c.nodes[1]
		n.set(func() {
			n.script = replyTo("GET", func() *act { return &act{reply: "$1\r\nv\r\n", delay: 10 * time.Millisecond} })
		})
		time.AfterFunc(5*time.Millisecond, func() { r.pool.forget("n2:1") })
		wantOK(t, r, "v", "GET", c.on(1))
		synctest.Wait()
		if s := r.Stats(); s.Links != 1 {
			t.Errorf("%d links, want the retired one gone", s.Links)
		}
	})
}
