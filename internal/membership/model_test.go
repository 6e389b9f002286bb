package membership

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// A model of how news spread, for clusters that are too large to be simulated with
// their real code in minutes. TestSimScale runs the same cases with that code; where
// both were run, docs/scale.md has both.

// modelDelay is one way through the network, as in the simulation.
const modelDelay = 200 * time.Microsecond

// spread is gossip of one piece of news, known to the first of n nodes: each node
// that has it tells three others every gossipEvery, until it has told it
// RetransmitMult x ceil(log10(n+1)) times. It returns when each node has it, sorted;
// those that gossip misses wait for the next full exchange.
func spread(rng *rand.Rand, n, first int) []time.Duration {
	const mult, fan = 8, 3
	limit := mult * int(math.Ceil(math.Log10(float64(n+1))))
	has, left, phase := make([]time.Duration, n), make([]int, n), make([]time.Duration, n)
	for i := range has {
		has[i], phase[i] = time.Hour, time.Duration(rng.Int64N(int64(gossipEvery)))
		if i < first {
			has[i], left[i] = 0, limit
		}
	}
	for turn := time.Duration(0); turn < 20*time.Second; turn += gossipEvery {
		busy := false
		for i := range has {
			at := turn + phase[i]
			for k := 0; k < fan && left[i] > 0 && has[i] <= at; k++ {
				to := rng.IntN(n)
				if left[i]--; at+modelDelay < has[to] {
					if has[to] == time.Hour {
						left[to] = limit
					}
					has[to] = at + modelDelay
				}
			}
			busy = busy || left[i] > 0
		}
		if !busy {
			break
		}
	}
	for i := range has {
		if has[i] == time.Hour {
			has[i] = time.Duration(rng.Int64N(int64(pushPullEvery)))
		}
	}
	slices.Sort(has)
	return has
}

// crash is what the policy does when the processes of some nodes are killed at one
// moment: watchers dial, refusals are hinted to eight others, who dial and hint in
// turn, the third refusal is proof, and a verdict is hinted once more.
type crash struct {
	rng   *rand.Rand
	n     int
	dead  []bool
	dials [][]uint8 // by who and whom: refusals so far, or verdict
	queue dialQueue
	told  []time.Duration
}

const verdictReached = 3

type plannedDial struct {
	at       time.Duration
	who, the int
	first    bool // begins a series, unless one is under way
}

type dialQueue []plannedDial

func (q dialQueue) Len() int           { return len(q) }
func (q dialQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q dialQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *dialQueue) Push(x any)        { *q = append(*q, x.(plannedDial)) }
func (q *dialQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// watch plans dials of the next members in the ring that who still counts on.
func (c *crash) watch(who int, now time.Duration) {
	for k, found := 1, 0; k < c.n && found < watchedPeers; k++ {
		the := (who + k) % c.n
		if c.dials[who][the] == verdictReached {
			continue
		}
		if found++; c.dead[the] && c.dials[who][the] == 0 {
			heap.Push(&c.queue, plannedDial{now + time.Duration(c.rng.Float64()*float64(watchEvery)), who, the, true})
		}
	}
}

func (c *crash) hint(who, the int, now time.Duration) {
	for range maxHintTargets {
		to := c.rng.IntN(c.n)
		if to != who && !c.dead[to] && c.dials[to][the] == 0 {
			heap.Push(&c.queue, plannedDial{now + modelDelay, to, the, true})
		}
	}
}

// crashed returns when each of the nodes that are left has given up all of the dead,
// sorted.
func crashed(rng *rand.Rand, n, dead int) []time.Duration {
	c := &crash{rng: rng, n: n, dead: make([]bool, n), dials: make([][]uint8, n), told: make([]time.Duration, n)}
	for _, i := range rng.Perm(n)[:dead] {
		c.dead[i] = true
	}
	for i := range n {
		c.dials[i] = make([]uint8, n)
		if !c.dead[i] {
			c.watch(i, 0)
		}
	}
	c.run()
	// Whoever was missed by all hints hears of it from gossip: a probe, the
	// suspicion, then the series of dials.
	suspicion := time.Duration(4*math.Log10(float64(n))*float64(time.Second)) + 2*time.Second
	for i := range n {
		for the := 0; the < n && !c.dead[i]; the++ {
			if c.dead[the] && c.dials[i][the] == 0 {
				heap.Push(&c.queue, plannedDial{suspicion + time.Duration(rng.Float64()*float64(time.Second)), i, the, true})
			}
		}
	}
	c.run()
	var took []time.Duration
	for i := range n {
		if !c.dead[i] {
			took = append(took, c.told[i])
		}
	}
	slices.Sort(took)
	return took
}

func (c *crash) run() {
	for c.queue.Len() > 0 {
		d := heap.Pop(&c.queue).(plannedDial)
		seen := &c.dials[d.who][d.the]
		if *seen == verdictReached || d.first && *seen > 0 {
			continue
		}
		*seen++
		if *seen == 1 || *seen == verdictReached {
			c.hint(d.who, d.the, d.at)
		}
		if *seen < verdictReached {
			heap.Push(&c.queue, plannedDial{d.at + dialGap, d.who, d.the, false})
			continue
		}
		c.told[d.who] = max(c.told[d.who], d.at)
		c.watch(d.who, d.at)
	}
}

func quantiles(took []time.Duration) (p50, p99, worst time.Duration) {
	return took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
}

// The model's figures for one node that joins, leaves or dies keep to what the real
// code does in TestKilledProcessIsOutWithinThreeSeconds and in TestSimScale.
func TestModelOfNews(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{10, 100, 1000} {
		var joins, deaths []time.Duration
		for range 5 {
			joins = append(joins, spread(rng, n, 3)...)
			deaths = append(deaths, crashed(rng, n, 1)...)
		}
		slices.Sort(joins)
		slices.Sort(deaths)
		if p50, _, worst := quantiles(joins); p50 > time.Second || worst > pushPullEvery {
			t.Errorf("N = %d: a join is known after %s, %s at worst", n, p50, worst)
		}
		if p50, p99, _ := quantiles(deaths); p50 < 2*dialGap || p99 > 3*time.Second {
			t.Errorf("N = %d: a death is known after %s, p99 %s", n, p50, p99)
		}
	}
}

// TestSimScaleModel gives the rows of docs/scale.md for the model.
func TestSimScaleModel(t *testing.T) {
	if os.Getenv("RINGCACHE_SIM_SCALE") == "" {
		t.Skip("a long simulation: make sim-scale")
	}
	rng := rand.New(rand.NewPCG(1, 3))
	t.Log("| N | model | p50 | p99 | worst |")
	for _, n := range []int{10, 30, 100, 300, 1000} {
		for _, what := range []struct {
			name string
			run  func() []time.Duration
		}{
			{"join", func() []time.Duration { return spread(rng, n, 3) }},
			{"leave", func() []time.Duration { return spread(rng, n, 1) }},
			{"crash of a tenth", func() []time.Duration { return crashed(rng, n, max(n/10, 1)) }},
			{"crash of a third", func() []time.Duration { return crashed(rng, n, n/3) }},
		} {
			var all []time.Duration
			for range 5 {
				all = append(all, what.run()...)
			}
			slices.Sort(all)
			p50, p99, worst := quantiles(all)
			t.Logf("| %d | %s | %s | %s | %s |", n, what.name, short(p50), short(p99), short(worst))
		}
	}
}
