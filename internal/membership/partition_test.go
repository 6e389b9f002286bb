package membership

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// split cuts or mends the network between the first k of n nodes and the rest.
func (c *cluster) split(n, k int, cut bool) {
	for i := range k {
		for j := k; j < n; j++ {
			c.net.sever(ipOfNode(i), ipOfNode(j), cut)
		}
	}
}

func TestPartitionHeals(t *testing.T) {
	for _, tc := range []struct {
		n, k   int
		length time.Duration
	}{
		{2, 1, 20 * time.Second}, {3, 1, 45 * time.Second}, {4, 2, time.Minute},
		{10, 5, 3 * time.Minute},
	} {
		t.Run(fmt.Sprintf("%d-%d-%s", tc.n, tc.k, tc.length), func(t *testing.T) {
			for range runs(1) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, tc.n, nil)
					defer c.close()
					c.split(tc.n, tc.k, true)
					c.wait(tc.length + time.Duration(rand.Int64N(int64(5*time.Second))))
					for i := range tc.n {
						want := tc.k
						if i >= tc.k {
							want = tc.n - tc.k
						}
						if got := c.alive(ipOfNode(i)); got != want {
							t.Errorf("in the partition node %d sees %d nodes, want its own half of %d", i, got, want)
						}
					}
					c.split(tc.n, tc.k, false)
					at := c.now()
					whole := func() bool {
						for ip := range c.nodes {
							if c.alive(ip) != tc.n {
								return false
							}
						}
						return true
					}
					for !whole() && c.now()-at < 30*time.Second {
						c.wait(100 * time.Millisecond)
					}
					if took := c.now() - at; took > 12*time.Second {
						t.Errorf("healed after %s", took)
					} else {
						t.Logf("healed after %s", took)
					}
				})
			}
		})
	}
}

// In a split where a node loses a third of its peers it suspects itself first,
// and believes after 15 to 30 s.
func TestMassGuardHoldsThenPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10, nil)
		defer c.close()
		at := c.now()
		c.split(10, 5, true)
		c.wait(20 * time.Second)
		if got := c.find(at, "", "", "dead"); len(got) > 0 {
			t.Errorf("declared dead while self-suspicion must hold: %v", got)
		}
		if got := c.find(at, "", "", "self-suspect true"); len(got) != 10 {
			t.Errorf("%d of 10 nodes suspect themselves", len(got))
		}
		c.wait(25 * time.Second)
		if got := c.find(at, "", "", "dead"); len(got) != 50 {
			t.Errorf("%d deaths seen after the hold, want 5 by each of 10", len(got))
		}
		if got := c.find(at, "", "", "self-suspect false"); len(got) != 10 {
			t.Errorf("%d of 10 nodes trust themselves again", len(got))
		}
	})
}

// A node cut off from everybody blames itself, and all is well when the
// network is back before the hold is over.
func TestIsolatedNodeKeepsItsPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, nil)
		defer c.close()
		at, ip := c.now(), ipOfNode(2)
		c.net.isolate(ip, true)
		c.wait(20 * time.Second)
		if got := c.find(at, ip, "", "dead"); len(got) > 0 {
			t.Errorf("the isolated node declared its peers dead: %v", got)
		}
		if _, missing := c.out(at, ip); len(missing) > 0 {
			t.Errorf("still a member for %v", missing)
		}
		c.net.isolate(ip, false)
		c.wait(12 * time.Second)
		for ip := range c.nodes {
			if got := c.alive(ip); got != 5 {
				t.Errorf("%s sees %d of 5", ip, got)
			}
		}
	})
}

func TestRestartIsNotBeatenByItsOldDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		ip := ipOfNode(2)
		c.kill(ip)
		c.boot(2, ip, 2) // faster than any detection
		at := c.now()
		c.wait(20 * time.Second)
		if got := append(c.find(at, "", ip, "dead"), c.find(at, "", ip, "absent")...); len(got) > 0 {
			t.Errorf("the old incarnation took the new one along: %v", got)
		}
		for who, m := range c.nodes {
			for _, p := range m.Snapshot().Members {
				if p.ID == idOf(2) && (p.Boot != 2<<16 || p.Health != Alive) {
					t.Errorf("%s: %+v", who, p)
				}
			}
		}
	})
}

// The node moves to another address while its old process says goodbye late.
func TestOldIncarnationLeavesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		old := c.nodes[ipOfNode(2)]
		c.boot(2, "10.0.0.9", 2)
		c.wait(3 * time.Second)
		if s := old.Snapshot(); !s.Superseded || s.By.Boot != 2<<16 {
			t.Errorf("the earlier of two twins was not told: %+v", s)
		}
		at := c.now()
		if err := old.Leave(context.Background()); err != nil {
			t.Error(err)
		}
		c.wait(15 * time.Second)
		for i := range 2 {
			s := c.nodes[ipOfNode(i)].Snapshot()
			j := slices.IndexFunc(s.Members, func(p Peer) bool { return p.ID == idOf(2) })
			if j < 0 || s.Members[j].Host != "10.0.0.9" || s.Members[j].Health != Alive {
				t.Errorf("node %d: %+v", i, s.Members)
			}
		}
		if got := c.find(at, "", "", "dead"); len(got) > 0 {
			t.Error(got)
		}
		if s := c.nodes["10.0.0.9"].Snapshot(); s.Superseded {
			t.Error("the later twin thinks it is superseded")
		}
	})
}

// A clock set back gives the new process the earlier boot: peers end up with
// the one that answers, and it does not mistake its predecessor for a rival.
func TestRestartAfterClockStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		ip := ipOfNode(2)
		c.kill(ip)
		c.boot(2, ip, 0)
		c.wait(20 * time.Second)
		for who, m := range c.nodes {
			s := m.Snapshot()
			if s.Superseded {
				t.Errorf("%s is superseded", who)
			}
			for _, p := range s.Members {
				if p.ID == idOf(2) && (p.Boot != 0 || p.Health != Alive) {
					t.Errorf("%s: %+v", who, p)
				}
			}
		}
	})
}

func TestLeaveIsSeenAtOnce(t *testing.T) {
	for _, n := range []int{2, 5, 10} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, n, nil)
			defer c.close()
			at, ip := c.now(), ipOfNode(n-1)
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			if err := c.nodes[ip].Leave(ctx); err != nil {
				t.Error(err)
			}
			if err := c.nodes[ip].Update(c.nodes[ip].self); err == nil {
				t.Error("an update after Leave was taken")
			}
			c.wait(time.Second)
			took, missing := c.out(at, ip)
			if len(missing) > 0 || took > 3*time.Second {
				t.Errorf("n=%d: gone after %s, still there for %v", n, took, missing)
			}
			if got := c.find(at, "", ip, "dead"); len(got) > 0 {
				t.Errorf("n=%d: a node that left was called dead: %v", n, got)
			}
		})
	}
}

func TestUpdateSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, nil)
		defer c.close()
		self := c.nodes[ipOfNode(0)].self
		self.State, self.Progress, self.Sequence = topology.Warming, 0.371, 9
		if err := c.nodes[ipOfNode(0)].Update(self); err != nil {
			t.Fatal(err)
		}
		c.wait(1500 * time.Millisecond)
		self.Gossip = ipOfNode(0) + ":17001"
		for ip, m := range c.nodes {
			if got := m.Snapshot().Members[0].Member; got != self {
				t.Errorf("%s: %+v", ip, got)
			}
		}
	})
}

// A data port that dies while gossip goes on: refused is out in 3 s, silent is
// out when the others agree, and both come back when it answers again.
func TestGreyFailure(t *testing.T) {
	for _, tc := range []struct {
		name        string
		port        dataPort
		least, most time.Duration
	}{
		{"refuses", dataRefuses, 0, 3 * time.Second},
		{"silent", dataSilent, 10 * time.Second, 16 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 5, nil)
				defer c.close()
				at, ip := c.now(), ipOfNode(2)
				c.setData(ip, tc.port)
				c.wait(18 * time.Second)
				if took, missing := c.out(at, ip); len(missing) > 0 || took < tc.least || took > tc.most {
					t.Errorf("out after %s, not for %v", took, missing)
				}
				c.setData(ip, dataUp)
				c.wait(4 * time.Second)
				if got := c.alive(ipOfNode(0)); got != 5 {
					t.Errorf("it did not come back: %d of 5", got)
				}
			})
		})
	}
}

// One node alone cannot reach another: nobody else agrees, so it only suspects.
// Node 3 is watched by node 0; that node 5 is not reached it learns from
// memberlist's failed direct probe alone, since indirect ones succeed.
func TestOneBrokenPathEvictsNobody(t *testing.T) {
	for _, other := range []string{ipOfNode(3), ipOfNode(5)} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 8, nil)
			defer c.close()
			at := c.now()
			c.net.sever(ipOfNode(0), other, true)
			c.wait(40 * time.Second)
			if got := c.find(at, "", "", "dead"); len(got) > 0 {
				t.Error(got)
			}
			if got := c.find(at, ipOfNode(0), other, "suspect"); len(got) == 0 {
				t.Errorf("%s is not even suspected", other)
			}
		})
	}
}

func (c *cluster) setData(ip string, p dataPort) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.net.hosts[ip].dataPort = p
}

// Above N-2 memberlist drops its wait for confirmations; it must still detect.
func TestSuspicionMultiplierAboveClusterSize(t *testing.T) {
	for _, mult := range []int{1, 4, 6} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3, func(o *Options) { o.SuspicionMult = mult })
			defer c.close()
			at, ip := c.now(), ipOfNode(2)
			c.net.isolate(ip, true)
			c.wait(25 * time.Second)
			for i := range 2 {
				got := c.find(at, ipOfNode(i), ip, "dead")
				if len(got) != 1 || got[0].at-at > time.Duration(mult+8)*time.Second+4*time.Second {
					t.Errorf("multiplier %d: node %d saw %v since %s", mult, i, got, at)
				}
			}
		})
	}
}

// Dead peers stay listed for a minute.
func TestDeadAreListedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		c.kill(ipOfNode(2))
		c.wait(5 * time.Second)
		if got := len(c.nodes[ipOfNode(0)].Snapshot().Members); got != 3 {
			t.Errorf("%d listed soon after the death, want 3", got)
		}
		c.wait(DeadListed)
		if got := len(c.nodes[ipOfNode(0)].Snapshot().Members); got != 2 {
			t.Errorf("%d listed a minute later, want 2", got)
		}
	})
}
