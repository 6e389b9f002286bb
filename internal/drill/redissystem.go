package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// Programs of a Redis Cluster, as Debian installs them.
const (
	redisServer  = "redis-server"
	redisCLI     = "redis-cli"
	redisCommand = 5 * time.Minute // how long one `redis-cli --cluster` may take
	redisSpawns  = 20              // ports tried until a server has both of its own
)

// redisSystem is a Redis Cluster: owners and, with replicas, one or two copies of
// each. Slots are moved as its manual says, by redis-cli --cluster rebalance.
type redisSystem struct{ *fleet }

func newRedis(o *Options) (*redisSystem, error) {
	for _, program := range []string{redisServer, redisCLI} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("target %s needs %s (Debian: apt-get install redis-server redis-tools): %w", TargetRedis, program, err)
		}
	}
	f, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	return &redisSystem{fleet: f}, nil
}

func (s *redisSystem) start(ctx context.Context, n int) error {
	total := n * (1 + s.o.Replicas)
	for range total {
		if _, err := s.spawn(ctx, ""); err != nil {
			return err
		}
	}
	args := append([]string{"--cluster", "create"}, s.addrs()...)
	if err := s.cli(ctx, append(args, "--cluster-replicas", strconv.Itoa(s.o.Replicas), "--cluster-yes")...); err != nil {
		return err
	}
	return child.PollEach(ctx, askEvery, settleLimit, s.settled)
}

// spawn starts a server, at addr or wherever there is room; its bus listens on port + 10000.
func (s *redisSystem) spawn(ctx context.Context, addr string) (*node, error) {
	var err error
	for range redisSpawns {
		at := addr
		if at == "" {
			if at, err = child.FreeAddr("127.0.0.1"); err != nil {
				return nil, err
			}
		}
		var n *node
		if n, err = s.spawnAt(ctx, at); err == nil {
			return n, nil
		}
		if ctx.Err() != nil || addr != "" {
			break
		}
	}
	return nil, err
}

func (s *redisSystem) spawnAt(ctx context.Context, addr string) (*node, error) {
	_, port, _ := net.SplitHostPort(addr)
	dir, err := s.directory("redis-" + port)
	if err != nil {
		return nil, err
	}
	p, err := s.run(ctx, addr, dir, nil, redisServer, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "5000",
		"--cluster-require-full-coverage", "no", "--save", "", "--appendonly", "no", "--daemonize", "no",
		"--maxmemory", s.o.MaxMemory, "--maxmemory-policy", "allkeys-lru")
	if err != nil {
		return nil, err
	}
	n := &node{addr: addr, dir: dir, proc: p}
	v, err := s.command(ctx, n, "CLUSTER", "MYID")
	if err != nil {
		p.Kill()
		return nil, err
	}
	n.id = v.Text()
	s.add(n)
	return n, nil
}

// cli runs redis-cli; what it prints is the error when it fails.
func (s *redisSystem) cli(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, redisCommand)
	defer cancel()
	out, err := child.Output(ctx, redisCLI, args...)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", redisCLI, strings.Join(args, " "), err, out[max(0, len(out)-2000):])
	}
	return nil
}

// join adds an owner and moves its share of the slots to it.
func (s *redisSystem) join(ctx context.Context) (*node, error) {
	old := s.nodes()[0].addr
	n, err := s.spawn(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := s.cli(ctx, "--cluster", "add-node", n.addr, old); err != nil {
		return nil, err
	}
	if err := child.PollEach(ctx, askEvery, settleLimit, func(ctx context.Context) error { return s.known(ctx, n) }); err != nil {
		return nil, err
	}
	return n, s.cli(ctx, "--cluster", "rebalance", old, "--cluster-use-empty-masters", "--cluster-pipeline", "100")
}

// known says whether every node has met n and is well: a rebalance before fails.
func (s *redisSystem) known(ctx context.Context, n *node) error {
	for _, other := range s.nodes() {
		if err := s.well(ctx, other); err != nil {
			return err
		}
		v, err := s.command(ctx, other, "CLUSTER", "NODES")
		if err != nil {
			return err
		}
		if text := v.Text(); !strings.Contains(text, n.id) || strings.Contains(text, "handshake") {
			return fmt.Errorf("%s does not know %s yet", other.addr, n.addr)
		}
	}
	return nil
}

// leave moves the slots of a node to the others and stops it.
func (s *redisSystem) leave(ctx context.Context, n *node) error {
	other := without(s.nodes(), n)[0].addr
	err := s.cli(ctx, "--cluster", "rebalance", other, "--cluster-weight", n.id+"=0", "--cluster-pipeline", "100")
	if err == nil {
		err = s.cli(ctx, "--cluster", "del-node", other, n.id)
	}
	err = errors.Join(err, n.proc.Term(ctx, leaveLimit))
	s.ended(n)
	return err
}

// restart brings a killed node back under its ID, at its address.
func (s *redisSystem) restart(ctx context.Context, n *node, elsewhere bool) (*node, error) {
	if elsewhere {
		return nil, errors.New("this drill restarts Redis at its address")
	}
	return s.spawn(ctx, n.addr)
}

// settled: every node that runs says that all is well and that all slots have owners.
// A cluster that lost an owner without a replica never settles again.
func (s *redisSystem) settled(ctx context.Context) error {
	nodes := s.nodes()
	for _, n := range nodes {
		if err := s.well(ctx, n); err != nil {
			return err
		}
	}
	return s.agree(ctx, nodes, s.ownersCount(ctx, nodes))
}

// well says what a node misses.
func (s *redisSystem) well(ctx context.Context, n *node) error {
	v, err := s.command(ctx, n, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	info := fields(v.Text())
	if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(slots) {
		return fmt.Errorf("%s: cluster_state %s, cluster_slots_ok %s", n.addr, info["cluster_state"], info["cluster_slots_ok"])
	}
	return nil
}

// ownersCount is how many owners the first node shows.
func (s *redisSystem) ownersCount(ctx context.Context, nodes []*node) int {
	_, count, err := s.slotTable(ctx, nodes[0])
	if err != nil {
		return 0
	}
	return count
}

func (s *redisSystem) owners(ctx context.Context) ([]owned, error) {
	nodes := s.nodes()
	if len(nodes) == 0 {
		return nil, errors.New("no node runs")
	}
	table, _, err := s.slotTable(ctx, nodes[0])
	return table, err
}

func (s *redisSystem) open(ctx context.Context) (Driver, error) { return s.o.Open(ctx, s.addrs()) }
