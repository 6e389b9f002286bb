package membership

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// cluster is N members on one faulty network, inside a synctest bubble.
type cluster struct {
	t     *testing.T
	net   *network
	start time.Time
	seeds staticSeeds
	tune  func(*Options)
	// lonely clusters start without their seeds
	lonely bool

	mu    sync.Mutex
	nodes map[string]*member // by IP, the latest process there
	log   []change
}

type member struct {
	*Membership
	self topology.Member
	ip   string
}

// change is one difference between two snapshots of one node.
type change struct {
	at     time.Duration
	node   string // IP of who saw it
	about  string // IP of the peer, or ""
	health string
}

type staticSeeds []string

func (s staticSeeds) Seeds(context.Context) ([]string, error) { return s, nil }

func ipOfNode(i int) string { return fmt.Sprintf("10.0.0.%d", i+1) }

func idOf(i int) topology.NodeID { return topology.NodeID{0: byte(i + 1), 19: 7} }

// newCluster starts n nodes and waits until all see all. Call it and
// everything else inside synctest.Test.
func newCluster(t *testing.T, n int, tune func(*Options)) *cluster {
	c := &cluster{t: t, net: newNetwork(), start: time.Now(), nodes: map[string]*member{}, tune: tune}
	c.seeds = staticSeeds{ipOfNode(0) + ":7001", ipOfNode(1) + ":7001"}
	for i := range n {
		c.boot(i, ipOfNode(i), 1)
	}
	whole := func() bool {
		for ip := range c.nodes {
			if c.alive(ip) != n {
				return false
			}
		}
		return true
	}
	c.wait(3 * time.Second)
	for !whole() { // a join that gossip missed comes with the next full sync
		if c.wait(time.Second); c.now() > 40*time.Second {
			t.Fatalf("the nodes have not found each other: %v", c.log)
		}
	}
	return c
}

// boot starts node i at ip with a boot number and joins.
func (c *cluster) boot(i int, ip string, boot uint64) *member {
	self := topology.Member{ID: idOf(i), Boot: boot << 16, Sequence: 1, State: topology.Active, Weight: 1, Host: ip, Port: 7001, Zone: "z"}
	h := c.net.add(ip, self)
	o := Options{Self: self, Cluster: "test", Secret: []byte("secret"), Discovery: c.seeds, Prober: h, Transport: h, Seed: uint64(i)*1000 + boot}
	if os.Getenv("RINGCACHE_TEST_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", ip)
	}
	last := map[topology.NodeID]Health{}
	flags := [2]bool{}
	o.OnChange = func(s Snapshot) { c.record(ip, s, last, &flags) }
	if c.tune != nil {
		c.tune(&o)
	}
	m, err := Start(o)
	if err != nil {
		c.t.Fatal(err)
	}
	mem := &member{Membership: m, self: self, ip: ip}
	c.mu.Lock()
	c.nodes[ip] = mem
	c.mu.Unlock()
	if _, err := m.Join(context.Background()); err != nil && len(c.nodes) > 1 && !c.lonely {
		c.t.Fatalf("%s: join: %v", ip, err)
	}
	return mem
}

// record notes what changed since the last snapshot.
func (c *cluster) record(ip string, s Snapshot, last map[topology.NodeID]Health, flags *[2]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Since(c.start)
	seen := map[topology.NodeID]bool{}
	for _, p := range s.Members {
		seen[p.ID] = true
		if h, ok := last[p.ID]; !ok || h != p.Health {
			c.log = append(c.log, change{at, ip, p.Host, p.Health.String()})
			last[p.ID] = p.Health
		}
	}
	for id := range last {
		if !seen[id] {
			c.log = append(c.log, change{at, ip, ipOfNode(int(id[0]) - 1), "absent"})
			delete(last, id)
		}
	}
	if s.SelfSuspect != flags[0] {
		c.log = append(c.log, change{at, ip, "", fmt.Sprintf("self-suspect %v", s.SelfSuspect)})
	}
	if s.Superseded != flags[1] {
		c.log = append(c.log, change{at, ip, "", fmt.Sprintf("superseded %v", s.Superseded)})
	}
	*flags = [2]bool{s.SelfSuspect, s.Superseded}
}

// wait lets virtual time pass.
func (c *cluster) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// now is the time since the start of the cluster.
func (c *cluster) now() time.Duration { return time.Since(c.start) }

// alive counts the members that ip sees, itself included.
func (c *cluster) alive(ip string) (n int) {
	for _, p := range c.nodes[ip].Snapshot().Members {
		if p.Health != Dead {
			n++
		}
	}
	return n
}

// find returns the changes since a time that match; an empty filter takes any.
func (c *cluster) find(since time.Duration, node, about, health string) (found []change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.log {
		if ch.at >= since && (node == "" || ch.node == node) && (about == "" || ch.about == about) && ch.health == health {
			found = append(found, ch)
		}
	}
	return found
}

// out says how long after since the last of the nodes saw about dead or
// absent, and which nodes did not.
func (c *cluster) out(since time.Duration, about string) (worst time.Duration, missing []string) {
	for ip := range c.nodes {
		if ip == about {
			continue
		}
		found := append(c.find(since, ip, about, "dead"), c.find(since, ip, about, "absent")...)
		if len(found) == 0 {
			missing = append(missing, ip)
			continue
		}
		worst = max(worst, found[0].at-since)
	}
	return worst, missing
}

// kill ends a process without a word.
func (c *cluster) kill(ip string) {
	c.net.kill(ip)
	m := c.nodes[ip]
	delete(c.nodes, ip)
	if err := m.Close(); err != nil {
		c.t.Error(err)
	}
}

// close ends the cluster. The bubble fails if a goroutine is left after it, so
// every test holds memberlist's leftovers to what Close promises.
func (c *cluster) close() {
	defer c.wait(3*time.Second + time.Millisecond)
	for _, m := range c.nodes {
		if err := m.Close(); err != nil {
			c.t.Error(err)
		}
	}
}
