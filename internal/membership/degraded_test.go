package membership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// peerOf finds how a node sees another.
func (c *cluster) peerOf(at, about string) (Peer, bool) {
	for _, p := range c.nodes[at].Snapshot().Members {
		if p.Host == about {
			return p, true
		}
	}
	return Peer{}, false
}

// A node that says it is degraded is shown so everywhere, and stays a member.
func TestDegradedIsToldAndKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, nil)
		defer c.close()
		at, ip := c.now(), ipOfNode(3)
		for _, on := range []bool{true, false, true} {
			c.nodes[ip].SetDegraded(on)
			c.nodes[ip].SetDegraded(on)
			c.wait(2 * time.Second)
			for other := range c.nodes {
				if p, ok := c.peerOf(other, ip); !ok || p.Degraded != on || p.Health != Alive || p.Failing {
					t.Errorf("%s sees %+v, want degraded %v", other, p, on)
				}
			}
		}
		// A change of its own entry does not make it forget.
		m := c.nodes[ip]
		self := m.self
		self.Sequence, self.State = 2, topology.Draining
		if err := m.Update(self); err != nil {
			t.Error(err)
		}
		c.wait(2 * time.Second)
		if p, _ := c.peerOf(ipOfNode(0), ip); !p.Degraded || p.State != topology.Draining {
			t.Errorf("%+v", p)
		}
		if got := append(c.find(at, "", "", "dead"), c.find(at, "", "", "suspect")...); len(got) > 0 {
			t.Error(got)
		}
	})
}

// Heartbeats are fine and requests fail (redis#10979): the peer is shown as failing,
// dialled, and stays; ten seconds without a failure end it.
func TestFailingRequestsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 8, nil)
		defer c.close()
		at, here, ip := c.now(), ipOfNode(0), ipOfNode(6)
		state := func(want bool) {
			t.Helper()
			if p, ok := c.peerOf(here, ip); !ok || p.Failing != want || p.Health != Alive {
				t.Errorf("%+v, want failing %v", p, want)
			}
		}
		for range 5 { // one burst is one trouble
			c.nodes[here].Failed(idOf(6))
			c.wait(100 * time.Millisecond)
		}
		state(false)
		c.wait(11 * time.Second)
		for range 3 {
			c.nodes[here].Failed(idOf(6))
			c.wait(700 * time.Millisecond)
		}
		state(true)
		c.wait(9 * time.Second)
		state(true)
		c.wait(2 * time.Second)
		state(false)
		if got := append(c.find(at, "", "", "dead"), c.find(at, "", "", "suspect")...); len(got) > 0 {
			t.Errorf("failing requests alone brought about %v", got)
		}
	})
}

// Gossip is fine, and neither requests nor dials get at the data: the dials decide,
// and the peer is out although its heartbeats go on.
func TestGreyFailureIsOutByTheDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, nil)
		defer c.close()
		at, ip := c.now(), ipOfNode(4)
		c.net.mu.Lock()
		c.net.hosts[ip].dataPort = dataSilent
		c.net.mu.Unlock()
		for range 4 {
			for i := range 4 {
				c.nodes[ipOfNode(i)].Failed(idOf(4))
			}
			c.wait(time.Second)
		}
		if got := c.find(at, "", ip, "dead"); len(got) > 0 {
			t.Errorf("out after four seconds: %v", got)
		}
		c.wait(16 * time.Second)
		m := c.nodes[ip]
		delete(c.nodes, ip) // what it thinks itself does not count here
		took, missing := c.out(at, ip)
		c.nodes[ip] = m
		if len(missing) > 0 || took > 15*time.Second {
			t.Errorf("out after %s, still a member for %v", took, missing)
		}
	})
}

// Round trips are smoothed, apart for gossip and for dials.
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		defer c.close()
		c.net.mu.Lock()
		c.net.delay = 3 * time.Millisecond
		c.net.mu.Unlock()
		c.wait(40 * time.Second)
		p, _ := c.peerOf(ipOfNode(0), ipOfNode(1))
		if p.RTT < 5*time.Millisecond || p.RTT > 8*time.Millisecond {
			t.Errorf("gossip takes 6 ms there and back, measured %s", p.RTT)
		}
	})
}
