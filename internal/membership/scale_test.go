package membership

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// fleet is a large cluster on the in-memory network: the real membership of every
// node, of which only the number of members is watched.
type fleet struct {
	t       *testing.T
	net     *network
	nodes   []*Membership
	self    []topology.Member
	hosts   []*host
	counts  []atomic.Int64 // members that a node sees
	reached []atomic.Int64 // when it first saw the number that is waited for, ns since the bubble began; 0: not yet
	goal    atomic.Int64
	gone    []bool
	begun   time.Time
}

func fleetIP(i int) string { return fmt.Sprintf("10.1.%d.%d", i/250, i%250+1) }

func fleetID(i int) topology.NodeID {
	// Spread, so that neighbours by number are none by ID.
	h := uint64(i+1) * 0x9E3779B97F4A7C15
	id := topology.NodeID{18: byte(i >> 8), 19: byte(i)}
	for k := range 8 {
		id[k] = byte(h >> (8 * k))
	}
	return id
}

func (f *fleet) boot(i int) {
	self := topology.Member{ID: fleetID(i), Boot: 1 << 16, Sequence: 1, State: topology.Active, Weight: 1, Host: fleetIP(i), Port: 7001, Zone: "zone-a"}
	f.hosts[i] = f.net.add(fleetIP(i), self)
	m, err := Start(Options{Self: self, Cluster: "fleet", Secret: []byte("secret"), Discovery: staticSeeds{fleetIP(0) + ":7001", fleetIP(1) + ":7001"},
		Prober: f.hosts[i], Transport: f.hosts[i], Seed: uint64(i + 1), OnChange: func(s Snapshot) { f.seen(i, s) }})
	if err != nil {
		f.t.Fatal(err)
	}
	f.nodes[i], f.self[i] = m, self
	if _, err := m.Join(context.Background()); err != nil && i > 0 {
		f.t.Fatalf("node %d: %v", i, err)
	}
}

func (f *fleet) seen(i int, s Snapshot) {
	n := int64(0)
	for _, p := range s.Members {
		if p.Health != Dead {
			n++
		}
	}
	f.counts[i].Store(n)
	if n == f.goal.Load() && f.reached[i].Load() == 0 {
		f.reached[i].Store(int64(time.Since(f.begun)))
	}
}

func (f *fleet) pause(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// converge runs change and waits until every node that is left sees want members.
// It returns the times from the change on, sorted, and how many never got there.
func (f *fleet) converge(want int, limit time.Duration, change func()) (took []time.Duration, late int) {
	for i := range f.reached {
		f.reached[i].Store(0)
	}
	f.goal.Store(int64(want))
	at := time.Since(f.begun)
	change()
	for time.Since(f.begun)-at < limit {
		f.pause(250 * time.Millisecond)
		done := true
		for i := range f.nodes {
			done = done && (f.nodes[i] == nil || f.gone[i] || f.counts[i].Load() == int64(want))
		}
		if done {
			break
		}
	}
	for i := range f.nodes {
		switch {
		case f.nodes[i] == nil || f.gone[i]:
		case f.counts[i].Load() != int64(want):
			late++
		case f.reached[i].Load() == 0: // it saw the number before, and again
			took = append(took, 0)
		default:
			took = append(took, time.Duration(f.reached[i].Load())-at)
		}
	}
	slices.Sort(took)
	return took, late
}

// kill ends processes without a word, all at one moment.
func (f *fleet) kill(from, to int) {
	for i := from; i < to; i++ {
		f.net.kill(fleetIP(i))
		f.gone[i] = true
	}
	var wg sync.WaitGroup
	for i := from; i < to; i++ {
		wg.Go(func() { _ = f.nodes[i].Close() }) // of a dead process nobody hears
	}
	wg.Wait()
}

// traffic measures what a node sends in d without any change.
func (f *fleet) traffic(d time.Duration, alive int) (packets, packetBytes, streamBytes float64) {
	p, b, s := f.net.packets.Load(), f.net.packetBytes.Load(), f.net.streamBytes.Load()
	f.pause(d)
	per := float64(alive) * d.Seconds()
	return float64(f.net.packets.Load()-p) / per, float64(f.net.packetBytes.Load()-b) / per, float64(f.net.streamBytes.Load()-s) / per
}

// TestSimScale gives the figures of docs/scale.md.
func TestSimScale(t *testing.T) {
	if os.Getenv("RINGCACHE_SIM_SCALE") == "" {
		t.Skip("a long simulation: make sim-scale")
	}
	for _, n := range simSizes(10, 30, 100, 300) {
		began := time.Now()
		synctest.Test(t, func(t *testing.T) { simulateFleet(t, n) })
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		t.Logf("N = %d: simulated in %s, heap %d MiB", n, time.Since(began).Round(time.Second), mem.HeapSys>>20)
		debug.FreeOSMemory()
	}
}

// newFleet has room for n nodes and one more; close ends them.
func newFleet(t *testing.T, n int) (f *fleet, end func()) {
	f = &fleet{t: t, net: newNetwork(), begun: time.Now(), nodes: make([]*Membership, n+1), self: make([]topology.Member, n+1),
		hosts: make([]*host, n+1), counts: make([]atomic.Int64, n+1), reached: make([]atomic.Int64, n+1), gone: make([]bool, n+1)}
	return f, func() {
		var wg sync.WaitGroup
		for i, m := range f.nodes {
			if m != nil && !f.gone[i] {
				wg.Go(func() { _ = m.Close() }) // the end of the test
			}
		}
		wg.Wait()
		f.pause(4 * time.Second)
	}
}

// TestLeaveOfLargeCluster: a node that has just joined still passes on all that it has
// heard of the others. That it leaves goes first, and Leave does not wait for the rest.
func TestLeaveOfLargeCluster(t *testing.T) {
	if testing.Short() && !raceEnabled {
		t.Skip("a large cluster")
	}
	n := 100 // from there on news are repeated 24 times
	if raceEnabled {
		n = 30 // with as many goroutines as 100 have, the detector itself has failed now and then
	}
	synctest.Test(t, func(t *testing.T) {
		f, end := newFleet(t, n)
		defer end()
		if _, late := f.converge(n, time.Minute, func() {
			for i := range n {
				f.boot(i)
			}
		}); late > 0 {
			t.Fatalf("%d nodes do not see all", late)
		}
		f.pause(20 * time.Second)
		f.converge(n+1, time.Minute, func() { f.boot(n) })
		began := time.Now()
		took, late := f.converge(n, time.Minute, func() {
			if err := f.nodes[n].Leave(context.Background()); err != nil {
				t.Error(err)
			}
			f.gone[n] = true
		})
		if spent := time.Since(began); late > 0 || spent > entryTold+leaveTold+time.Second {
			t.Errorf("after %v %d nodes have not heard of it", spent, late)
		}
		if worst := took[len(took)-1]; worst > 2*time.Second {
			t.Errorf("the last one heard of it after %v", worst)
		}
		if err := f.nodes[n].Close(); err != nil {
			t.Error(err)
		}
	})
}

func simulateFleet(t *testing.T, n int) {
	f, end := newFleet(t, n)
	defer end()
	report := func(what string, took []time.Duration, late int) {
		if len(took) == 0 {
			t.Errorf("N = %d: %s: nobody got there", n, what)
			return
		}
		t.Logf("| %d | %s | %s | %s | %s | %d |", n, what, short(took[len(took)/2]), short(took[len(took)*99/100]), short(took[len(took)-1]), late)
		if late > 0 {
			t.Errorf("N = %d: %s: %d nodes did not get there", n, what, late)
		}
	}
	took, late := f.converge(n, 3*time.Minute, func() {
		for i := range n {
			f.boot(i)
		}
	})
	report("start of all", took, late)
	f.pause(30 * time.Second) // until the news of the start are told
	packets, packetBytes, streamBytes := f.traffic(40*time.Second, n)
	t.Logf("N = %d at rest: per node and second %.1f packets with %.0f bytes, %.0f bytes of full exchanges", n, packets, packetBytes, streamBytes)
	took, late = f.converge(n+1, time.Minute, func() { f.boot(n) })
	report("join", took, late)
	f.pause(10 * time.Second)
	took, late = f.converge(n, time.Minute, func() {
		if err := f.nodes[n].Leave(context.Background()); err != nil {
			t.Errorf("N = %d: leave: %v", n, err)
		}
		f.gone[n] = true
	})
	report("leave", took, late)
	if err := f.nodes[n].Close(); err != nil {
		t.Error(err)
	}
	f.pause(20 * time.Second)
	tenth, third := max(n/10, 1), n/3
	took, late = f.converge(n-tenth, 2*time.Minute, func() { f.kill(n-tenth, n) })
	report(fmt.Sprintf("crash of %d", tenth), took, late)
	f.pause(40 * time.Second)
	left := n - tenth
	took, late = f.converge(left-third, 3*time.Minute, func() { f.kill(left-third, left) })
	report(fmt.Sprintf("crash of %d of %d", third, left), took, late)
}
