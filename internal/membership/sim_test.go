package membership

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestKilledProcessIsOutWithinThreeSeconds(t *testing.T) {
	for _, n := range []int{2, 3, 5, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var worst time.Duration
			for range runs(2) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, n, nil)
					defer c.close()
					c.wait(time.Duration(rand.Int64N(int64(3 * time.Second))))
					at := c.now()
					c.kill(ipOfNode(n - 1))
					c.wait(5 * time.Second)
					took, missing := c.out(at, ipOfNode(n-1))
					if len(missing) > 0 || took > 3*time.Second {
						t.Errorf("out after %s, not out at %v", took, missing)
					}
					worst = max(worst, took)
				})
			}
			t.Logf("worst of %d: %s", runs(2), worst)
		})
	}
}

func TestBlackHoleIsOutWithinFifteenSeconds(t *testing.T) {
	for _, n := range []int{2, 3, 5, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var worst time.Duration
			for range runs(2) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, n, nil)
					defer c.close()
					c.wait(time.Duration(rand.Int64N(int64(3 * time.Second))))
					at := c.now()
					c.net.isolate(ipOfNode(n-1), true)
					c.wait(20 * time.Second)
					lost := c.nodes[ipOfNode(n-1)]
					delete(c.nodes, ipOfNode(n-1))
					took, missing := c.out(at, ipOfNode(n-1))
					c.nodes[ipOfNode(n-1)] = lost
					if len(missing) > 0 || took > 15*time.Second || took < 5*time.Second {
						t.Errorf("out after %s, not out at %v", took, missing)
					}
					worst = max(worst, took)
				})
			}
			t.Logf("worst of %d: %s", runs(2), worst)
		})
	}
}

// runs is how often a simulation is repeated; RINGCACHE_SIM_RUNS raises it for
// the figures in DESIGN.md.
func runs(normal int) int {
	if n, err := strconv.Atoi(os.Getenv("RINGCACHE_SIM_RUNS")); err == nil {
		return n
	}
	return normal
}

// trouble is a fault that must evict nobody.
type trouble struct {
	name        string
	least, most time.Duration
	begin, end  func(c *cluster, ip string)
}

var troubles = []trouble{
	{"pause", 200 * time.Millisecond, 2 * time.Second,
		func(c *cluster, ip string) { c.net.pause(ip) },
		func(c *cluster, ip string) { c.net.resume(ip) }},
	{"outage", 2 * time.Second, 5 * time.Second,
		func(c *cluster, ip string) { c.net.isolate(ip, true) },
		func(c *cluster, ip string) { c.net.isolate(ip, false) }},
	{"loss", 10 * time.Second, 30 * time.Second,
		func(c *cluster, _ string) { c.net.setLoss(0.25) },
		func(c *cluster, _ string) { c.net.setLoss(0) }},
}

func (n *network) setLoss(share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = share
}

// strike runs one trouble of random length against one random node and returns
// the evictions that anybody saw.
func strike(t *testing.T, n int, seed uint64, tr trouble) (evictions []change) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		c := newCluster(t, n, nil)
		defer c.close()
		at := c.now()
		ip := ipOfNode(rng.IntN(n))
		c.wait(time.Duration(rng.Float64() * float64(time.Second)))
		tr.begin(c, ip)
		c.wait(tr.least + time.Duration(rng.Float64()*float64(tr.most-tr.least)))
		tr.end(c, ip)
		c.wait(15 * time.Second)
		evictions = append(c.find(at, "", "", "dead"), c.find(at, "", "", "absent")...)
		for ip := range c.nodes {
			if got := c.alive(ip); got != n {
				t.Errorf("seed %d: %s sees %d of %d nodes afterwards", seed, ip, got, n)
			}
		}
	})
	return evictions
}

func TestTroubleEvictsNobody(t *testing.T) {
	for _, tr := range troubles {
		for _, n := range []int{3, 5, 10} {
			t.Run(fmt.Sprintf("%s-%d", tr.name, n), func(t *testing.T) {
				for seed := range uint64(runs(3)) {
					if got := strike(t, n, seed, tr); len(got) > 0 {
						t.Errorf("seed %d: %v", seed, got)
					}
				}
			})
		}
	}
}
