package drill

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// What a client that shards by itself does about a node that fails: after so many
// failures in a row it is left out for a while, as twemproxy's server_failure_limit
// and server_retry_timeout advise.
const (
	ejectAfter    = 3
	ejectFor      = 30 * time.Second
	ketamaHashes  = 40 // MD5 sums per node, each gives four points
	pointsPerHash = 4
)

// sharded is a number of nodes that do not know each other: the client chooses the node
// of a key. All clients learn of a join and of a leave at once; that a node was
// killed they find out.
type sharded struct {
	*fleet
	name    string
	choose  func(addrs []string) func(key string) int
	started int
	view    atomic.Pointer[[]string] // the nodes that clients are told of
	filled  atomic.Bool              // all keys are stored
}

func newSharded(o *Options) (*sharded, error) {
	f, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	s := &sharded{fleet: f, name: fmt.Sprintf("drill-%d", rand.Uint64()), choose: modulo}
	if o.Target == TargetKetama {
		s.choose = ketama
	}
	s.view.Store(&[]string{})
	return s, nil
}

func (s *sharded) start(ctx context.Context, n int) error {
	for range n {
		if _, err := s.join(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *sharded) join(ctx context.Context) (*node, error) {
	addr, err := child.FreeAddr("127.0.0.1")
	if err != nil {
		return nil, err
	}
	s.started++
	return s.launch(ctx, addr, s.name+"-"+strconv.Itoa(s.started))
}

func (s *sharded) launch(ctx context.Context, addr, cluster string) (*node, error) {
	args := []string{"serve", "--addr", addr, "--cluster-name", cluster, "--max-memory", s.o.MaxMemory, "--log-level", "warn"}
	p, err := s.run(ctx, addr, s.root, nil, s.o.Binary, append(args, s.o.Args...)...)
	if err != nil {
		return nil, err
	}
	n := &node{addr: addr, proc: p, id: cluster}
	s.add(n)
	view := *s.view.Load()
	if !slices.Contains(view, addr) {
		view = append(slices.Clone(view), addr)
		s.view.Store(&view)
	}
	return n, nil
}

func (s *sharded) leave(ctx context.Context, n *node) error {
	view := slices.DeleteFunc(slices.Clone(*s.view.Load()), func(a string) bool { return a == n.addr })
	s.view.Store(&view)
	err := n.proc.Term(ctx, leaveLimit)
	s.ended(n)
	return err
}

func (s *sharded) restart(ctx context.Context, n *node, elsewhere bool) (*node, error) {
	if elsewhere {
		return nil, errors.New("nodes of a sharding client keep their addresses")
	}
	return s.launch(ctx, n.addr, n.id)
}

// settled is asked when all keys are stored: from then on clients leave nodes out that
// fail. Before, a busy machine would only store keys where nobody looks for them.
func (s *sharded) settled(context.Context) error {
	s.filled.Store(true)
	return nil
}

func (s *sharded) owners(context.Context) ([]owned, error) { return nil, nil }

func (s *sharded) open(ctx context.Context) (Driver, error) {
	d := &shardDriver{s: s, clients: map[string]*shard{}}
	d.rebuild(ctx, s.view.Load(), time.Now())
	if len(d.live) == 0 {
		return nil, errNoShard
	}
	return d, nil
}

// modulo is hash modulo N.
func modulo(addrs []string) func(string) int {
	return func(key string) int {
		var h uint64 = 14695981039346656037 // FNV-1a
		for i := range len(key) {
			h = (h ^ uint64(key[i])) * 1099511628211
		}
		return int(h % uint64(len(addrs)))
	}
}

// ketama is the continuum of libketama (R. Jones, 2007): 160 points per node, from
// the MD5 sums of "address-0" to "address-39"; a key belongs to the next point
// after the first four bytes of its own sum.
func ketama(addrs []string) func(string) int {
	type point struct {
		at   uint32
		node int
	}
	var circle []point
	for n, addr := range addrs {
		for i := range ketamaHashes {
			sum := md5.Sum([]byte(addr + "-" + strconv.Itoa(i)))
			for p := range pointsPerHash {
				circle = append(circle, point{binary.LittleEndian.Uint32(sum[4*p:]), n})
			}
		}
	}
	slices.SortFunc(circle, func(a, b point) int {
		if a.at != b.at {
			return int(int64(a.at) - int64(b.at))
		}
		return strings.Compare(addrs[a.node], addrs[b.node])
	})
	return func(key string) int {
		sum := md5.Sum([]byte(key))
		at := binary.LittleEndian.Uint32(sum[:])
		i, _ := slices.BinarySearchFunc(circle, at, func(p point, at uint32) int { return int(int64(p.at) - int64(at)) })
		return circle[i%len(circle)].node
	}
}

// shardDriver is one client that shards by itself.
type shardDriver struct {
	s *sharded

	mu      sync.Mutex
	clients map[string]*shard
	view    *[]string        // of which live was made
	live    []string         // nodes that are not left out
	choose  func(string) int // index in live
	until   time.Time        // when the first of those left out is tried again
}

// shard is a client of one node. Its fields are guarded by shardDriver.mu.
type shard struct {
	Driver
	failures int
	out      time.Time // left out until
}

var errNoShard = errors.New("no node is left to ask")

// client finds the client for a key.
func (d *shardDriver) client(ctx context.Context, key string) (*shard, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if view := d.s.view.Load(); view != d.view || !d.until.IsZero() && now.After(d.until) {
		d.rebuild(ctx, view, now)
	}
	if len(d.live) == 0 {
		return nil, errNoShard
	}
	return d.clients[d.live[d.choose(key)]], nil
}

// rebuild chooses the nodes to ask: those of the view that are not left out.
func (d *shardDriver) rebuild(ctx context.Context, view *[]string, now time.Time) {
	d.view, d.live, d.until = view, nil, time.Time{}
	for _, addr := range *view {
		c := d.clients[addr]
		if c == nil {
			c = &shard{}
			d.clients[addr] = c
		}
		if c.Driver == nil && !c.out.After(now) {
			var err error
			if c.Driver, err = d.s.o.Open(ctx, []string{addr}); err != nil {
				c.Driver, c.out = nil, now.Add(ejectFor)
			}
		}
		if !c.out.After(now) {
			d.live = append(d.live, addr)
		} else if d.until.IsZero() || c.out.Before(d.until) {
			d.until = c.out
		}
	}
	if len(d.live) > 0 {
		d.choose = d.s.choose(d.live)
	}
}

// done notes how a call went, and leaves a node out that failed too often.
func (d *shardDriver) done(c *shard, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		c.failures = 0
		return
	}
	if c.failures++; c.failures >= ejectAfter && d.s.filled.Load() {
		c.failures, c.out = 0, time.Now().Add(ejectFor)
		d.view = nil // chooses anew
	}
}

func (d *shardDriver) Get(ctx context.Context, key string) ([]byte, bool, error) {
	c, err := d.client(ctx, key)
	if err != nil {
		return nil, false, err
	}
	v, found, err := c.Driver.Get(ctx, key)
	d.done(c, err)
	return v, found, err
}

func (d *shardDriver) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	c, err := d.client(ctx, key)
	if err != nil {
		return err
	}
	err = c.Driver.Set(ctx, key, value, ttl)
	d.done(c, err)
	return err
}

func (d *shardDriver) Del(ctx context.Context, key string) error {
	c, err := d.client(ctx, key)
	if err != nil {
		return err
	}
	err = c.Driver.Del(ctx, key)
	d.done(c, err)
	return err
}

func (d *shardDriver) Incr(ctx context.Context, key string) (int64, error) {
	c, err := d.client(ctx, key)
	if err != nil {
		return 0, err
	}
	n, err := c.Driver.Incr(ctx, key)
	d.done(c, err)
	return n, err
}

func (d *shardDriver) Stats() (sum DriverStats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.clients {
		if c.Driver != nil {
			sum.add(c.Driver.Stats())
		}
	}
	return sum
}

func (d *shardDriver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, c := range d.clients {
		if c.Driver != nil {
			errs = append(errs, c.Driver.Close())
		}
	}
	return errors.Join(errs...)
}
