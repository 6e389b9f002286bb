package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/ring"
)

const (
	slots       = ring.Slots
	settleLimit = 3 * time.Minute
	leaveLimit  = 90 * time.Second // a drain has a bound of its own below this
)

// ringSystem is a cluster of `ringcache serve`.
type ringSystem struct {
	*fleet
	name    string
	net     *network // nil: nodes reach each other directly
	started int
}

// newRing prepares a cluster; faulty puts a faulty network between its nodes, and
// between them and their clients.
func newRing(o *Options, faulty bool) (*ringSystem, error) {
	f, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	s := &ringSystem{fleet: f, name: fmt.Sprintf("drill-%d", rand.Uint64())}
	if faulty {
		prefix := fmt.Sprintf("127.%d.", 1+rand.IntN(250))
		if err := checkHost(prefix + "0.1"); err != nil {
			s.close()
			return nil, err
		}
		s.net = newNetwork(prefix)
	}
	return s, nil
}

func (s *ringSystem) start(ctx context.Context, n int) error {
	for range n {
		if _, err := s.join(ctx); err != nil {
			return err
		}
	}
	return child.PollEach(ctx, askEvery, settleLimit, s.settled)
}

func (s *ringSystem) join(ctx context.Context) (*node, error) {
	s.started++
	dir, err := s.directory("node-" + strconv.Itoa(s.started))
	if err != nil {
		return nil, err
	}
	p, err := s.newPlace()
	if err != nil {
		return nil, err
	}
	return s.launch(ctx, dir, p, s.addrs())
}

// place is where a node listens and what others see of it.
type place struct {
	listen, addr string
	front        *front
}

func (s *ringSystem) newPlace() (p place, err error) {
	if p.listen, err = child.FreeAddr("127.0.0.1"); err != nil {
		return p, err
	}
	p.addr = p.listen
	if s.net != nil {
		p.front = s.net.add(p.listen)
		p.addr = p.front.addr
	}
	return p, nil
}

// launch starts a node whose ID is kept in dir.
func (s *ringSystem) launch(ctx context.Context, dir string, at place, seeds []string) (*node, error) {
	args := []string{"serve", "--addr", at.listen, "--cluster-name", s.name, "--data-dir", dir, "--warm-dir", "off",
		"--max-memory", s.o.MaxMemory, "--log-level", "warn"}
	if len(seeds) > 0 {
		args = append(args, "--seeds", strings.Join(seeds, ","))
	}
	if s.o.Replicas > 0 {
		args = append(args, "--replicas", strconv.Itoa(s.o.Replicas))
	}
	var raise func(pid int) error
	if s.o.Lazy {
		args = append(args, "--warm-rate", "1", "--join-time", max(time.Second, s.o.Duration*2/3).String())
	}
	if at.front != nil {
		args = append(args, "--advertise", at.addr, "--source-addr", at.front.source)
		raise = func(int) error { return at.front.raise() }
	}
	p, err := s.run(ctx, at.listen, dir, raise, s.o.Binary, append(args, s.o.Args...)...)
	if err != nil {
		if at.front != nil {
			at.front.lower()
		}
		return nil, err
	}
	n := &node{addr: at.addr, dir: dir, proc: p, front: at.front}
	s.add(n)
	return n, nil
}

func (s *ringSystem) open(ctx context.Context) (Driver, error) { return s.o.Open(ctx, s.addrs()) }

func (s *ringSystem) leave(ctx context.Context, n *node) error {
	err := n.proc.Term(ctx, leaveLimit)
	s.ended(n)
	return err
}

func (s *ringSystem) restart(ctx context.Context, n *node, elsewhere bool) (*node, error) {
	at := place{n.proc.Addr, n.addr, n.front}
	if elsewhere {
		var err error
		if at, err = s.newPlace(); err != nil {
			return nil, err
		}
	}
	return s.launch(ctx, n.dir, at, s.addrs())
}

// restartAll starts nodes that have ended again, at new addresses and with the IDs
// that their directories keep; each has all of them as seeds.
func (s *ringSystem) restartAll(ctx context.Context, nodes []*node) error {
	places, seeds := make([]place, len(nodes)), make([]string, len(nodes))
	for i := range nodes {
		var err error
		if places[i], err = s.newPlace(); err != nil {
			return err
		}
		seeds[i] = places[i].addr
	}
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { _, errs[i] = s.launch(ctx, n.dir, places[i], seeds) }) // ends when the port answers
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *ringSystem) settled(ctx context.Context) error {
	nodes := s.nodes()
	for _, n := range nodes { // first, as it costs a node less than its table
		v, err := s.command(ctx, n, "INFO", "cluster", "replication")
		if err != nil {
			return err
		}
		if why := restless(fields(v.Text()), s.o.Lazy); why != "" {
			return fmt.Errorf("%s: %s", n.addr, why)
		}
	}
	return s.agree(ctx, nodes, len(nodes))
}

// restless says by a node's INFO why it is not at rest: slots change hands, content is
// on its way (unless it waits for requests, lazily), a copy is not complete. What a node
// does not tell does not count.
func restless(info map[string]string, lazy bool) string {
	for _, name := range []string{"ringcache_slots_opening", "ringcache_slots_releasing", "ringcache_handoff_windows"} {
		if value, told := info[name]; told && value != "0" && !(lazy && name == "ringcache_handoff_windows") {
			return name + " is " + value
		}
	}
	if presence, told := info["ringcache_presence"]; told {
		if p, err := strconv.ParseFloat(presence, 64); err != nil || p < 1 {
			return "it owns " + presence + " of its slots"
		}
	}
	if wanted, full := info["ringcache_replica_slots"], info["ringcache_replica_slots_complete"]; wanted != full {
		return full + " of " + wanted + " copies of slots are complete"
	}
	return ""
}

func (s *ringSystem) owners(ctx context.Context) ([]owned, error) {
	nodes := s.nodes()
	if len(nodes) == 0 {
		return nil, errors.New("no node runs")
	}
	table, _, err := s.slotTable(ctx, nodes[0])
	return table, err
}

// shows tells whether a node of a cluster still has another one as an owner.
func (s *ringSystem) shows(ctx context.Context, by []*node, addr string) (bool, error) {
	for _, n := range by {
		table, _, err := s.slotTable(ctx, n)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(table, func(o owned) bool { return o.owner == addr }) {
			return true, nil
		}
	}
	return false, nil
}

func (s *ringSystem) close() {
	s.fleet.close()
	if s.net != nil {
		s.net.close()
	}
}

// without returns the nodes but one.
func without(nodes []*node, n *node) []*node {
	return slices.DeleteFunc(slices.Clone(nodes), func(o *node) bool { return o == n })
}
