package membership

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/topology"
)

// rawCluster is memberlist alone on the faulty network, with its settings for a
// local network: what a node would believe without the policy.
type rawCluster struct {
	net   *network
	lists []*memberlist.Memberlist

	mu     sync.Mutex
	leaves int
}

// rawEvents counts the members that a node takes for dead.
type rawEvents struct{ c *rawCluster }

func (rawEvents) NotifyJoin(*memberlist.Node)   {}
func (rawEvents) NotifyUpdate(*memberlist.Node) {}
func (e rawEvents) NotifyLeave(*memberlist.Node) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.c.leaves++
}

func newRawCluster(t *testing.T, n int) *rawCluster {
	c := &rawCluster{net: newNetwork()}
	for i := range n {
		conf := memberlist.DefaultLANConfig()
		conf.Name, conf.BindPort = fmt.Sprint("node", i), 0
		conf.Transport = c.net.add(ipOfNode(i), topology.Member{ID: idOf(i)})
		conf.Events, conf.Logger = rawEvents{c}, log.New(io.Discard, "", 0)
		list, err := memberlist.Create(conf)
		if err != nil {
			t.Fatal(err)
		}
		c.lists = append(c.lists, list)
		if _, err := list.Join([]string{ipOfNode(0) + ":17001"}); err != nil && i > 0 {
			t.Fatal(err)
		}
	}
	for range 60 {
		whole := true
		for _, l := range c.lists {
			whole = whole && l.NumMembers() == n
		}
		if whole {
			return c
		}
		<-time.After(time.Second)
	}
	t.Fatal("memberlist alone has not found its members")
	return nil
}

func (c *rawCluster) close() {
	for _, l := range c.lists {
		_ = l.Shutdown() // nothing is left to tell
	}
	<-time.After(3*time.Second + time.Millisecond)
}

// strikeRaw is strike for memberlist alone. It returns how often somebody took a
// living node for dead, and whether some node does not see all 15 s later.
func strikeRaw(t *testing.T, n int, seed uint64, tr trouble) (leaves int, broken bool) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		raw := newRawCluster(t, n)
		defer raw.close()
		c := &cluster{net: raw.net}
		ip := ipOfNode(rng.IntN(n))
		pause := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		pause(3*time.Second + time.Duration(rng.Float64()*float64(time.Second)))
		raw.mu.Lock()
		raw.leaves = 0
		raw.mu.Unlock()
		tr.begin(c, ip)
		pause(tr.least + time.Duration(rng.Float64()*float64(tr.most-tr.least)))
		tr.end(c, ip)
		pause(15 * time.Second)
		for _, l := range raw.lists {
			broken = broken || l.NumMembers() != n
		}
		raw.mu.Lock()
		leaves = raw.leaves
		raw.mu.Unlock()
	})
	return leaves, broken
}

// The same outages that the policy sits out make memberlist alone evict: without
// that, the table of TestSimEvictions would compare nothing.
func TestMemberlistAloneEvicts(t *testing.T) {
	evictions := 0
	for seed := range uint64(12) {
		n, _ := strikeRaw(t, 5, seed, trouble{troubles[1].name, 4 * time.Second, 5 * time.Second, troubles[1].begin, troubles[1].end})
		evictions += n
	}
	if evictions == 0 {
		t.Error("memberlist alone evicts nobody in outages of 4 to 5 s: is the network faulty at all?")
	}
}

// simSeed is where the seeds of the long simulations begin, so that a later call
// adds runs instead of repeating some.
func simSeed() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("RINGCACHE_SIM_SEED"), 10, 64)
	return n
}

// simRuns is the number of runs for the published figures, 0 if they are not asked
// for. Pieces (RINGCACHE_SIM_SIZES) keep one call short.
func simRuns(t *testing.T, variable string) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		t.Skip("a long simulation: make sim-evictions, make sim-scale")
	}
	return n
}

func simSizes(normal ...int) (sizes []int) {
	for word := range strings.FieldsSeq(strings.ReplaceAll(os.Getenv("RINGCACHE_SIM_SIZES"), ",", " ")) {
		if n, err := strconv.Atoi(word); err == nil {
			sizes = append(sizes, n)
		}
	}
	if sizes == nil {
		return normal
	}
	return sizes
}

// TestSimEvictions gives the figures of DESIGN.md: so many pauses and outages over
// each cluster size, beside memberlist alone, then deaths and partitions.
func TestSimEvictions(t *testing.T) {
	total := simRuns(t, "RINGCACHE_SIM_EVICTIONS")
	sizes := simSizes(3, 5, 10, 20)
	each := (total + len(sizes) - 1) / len(sizes)
	var table strings.Builder
	fmt.Fprintf(&table, "| fault | N | runs | ring-cache: runs with a false eviction | memberlist alone: the same | and not whole 15 s later |\n|---|---|---|---|---|---|\n")
	for _, tr := range troubles[:2] {
		for _, n := range sizes {
			ours, raw, broken := 0, 0, 0
			for seed := simSeed(); seed < simSeed()+uint64(each); seed++ {
				if got := strike(t, n, seed, tr); len(got) > 0 {
					ours++
					t.Errorf("%s, N = %d, seed %d: %v", tr.name, n, seed, got)
				}
				leaves, split := strikeRaw(t, n, seed, tr)
				if leaves > 0 {
					raw++
				}
				if split {
					broken++
				}
			}
			fmt.Fprintf(&table, "| %s %s-%s | %d | %d | %d | %d | %d |\n", tr.name, tr.least, tr.most, n, each, ours, raw, broken)
		}
	}
	fmt.Fprintf(&table, "\n| what | N | runs | p50 | p99 | worst | limit |\n|---|---|---|---|---|---|---|\n")
	for _, n := range sizes {
		for _, what := range []struct {
			name  string
			limit time.Duration
			run   func(t *testing.T, n int) time.Duration
		}{
			{"killed process out everywhere", 3 * time.Second, timeToForget(true)},
			{"black hole out everywhere", 15 * time.Second, timeToForget(false)},
			{"half and half whole again", 12 * time.Second, timeToHeal},
		} {
			var took []time.Duration
			for range max(each/5, 1) {
				took = append(took, what.run(t, n))
			}
			slices.Sort(took)
			worst := took[len(took)-1]
			limit := what.limit.String()
			if n > 10 && what.limit == 15*time.Second {
				limit = "none above 10"
			} else if worst > what.limit {
				t.Errorf("%s, N = %d: %s", what.name, n, worst)
			}
			fmt.Fprintf(&table, "| %s | %d | %d | %s | %s | %s | %s |\n", what.name, n, len(took), short(took[len(took)/2]),
				short(took[len(took)*99/100]), short(worst), limit)
		}
	}
	t.Log("\n" + table.String())
}

func short(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s" }

// timeToForget kills a process, or cuts its host off, and returns after what time
// nobody had it among the members.
func timeToForget(kill bool) func(t *testing.T, n int) time.Duration {
	return func(t *testing.T, n int) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, n, nil)
			defer c.close()
			c.wait(time.Duration(rand.Int64N(int64(3 * time.Second))))
			at, ip := c.now(), ipOfNode(n-1)
			lost := c.nodes[ip]
			if kill {
				c.kill(ip)
			} else {
				c.net.isolate(ip, true)
				delete(c.nodes, ip)
				defer func() { c.nodes[ip] = lost }()
			}
			c.wait(30 * time.Second)
			var missing []string
			if took, missing = c.out(at, ip); len(missing) > 0 {
				t.Errorf("N = %d: still a member for %v", n, missing)
				took = time.Minute
			}
		})
		return took
	}
}

// timeToHeal splits a cluster into halves until each has given the other up, and
// returns how long after the network's return all see all.
func timeToHeal(t *testing.T, n int) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, n, nil)
		defer c.close()
		c.split(n, n/2, true)
		c.wait(time.Minute + time.Duration(rand.Int64N(int64(5*time.Second))))
		for ip := range c.nodes {
			if got := c.alive(ip); got == n {
				t.Errorf("N = %d: %s has not noticed the split", n, ip)
			}
		}
		c.split(n, n/2, false)
		for at := c.now(); took < 30*time.Second; took = c.now() - at {
			whole := true
			for ip := range c.nodes {
				whole = whole && c.alive(ip) == n
			}
			if whole {
				return
			}
			c.wait(50 * time.Millisecond)
		}
	})
	return took
}
