package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/client"
	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/ring"
)

// settleLimit bounds how long a change of the fleet may take.
const settleLimit = 30 * time.Second

// ProcessOptions configures the servers that a replay starts.
type ProcessOptions struct {
	Binary  string        // the ringcache executable
	Nodes   int           // servers at the start
	Args    []string      // further arguments of `serve`, the same for all
	Timeout time.Duration // total deadline of one cache call; default 250 ms
}

// RingFleet is a ring-cache cluster of real processes and the SDK in front of
// it. It is a Cache and a Fleet.
type RingFleet struct {
	sdkCache
	o        ProcessOptions
	name     string
	children child.Group
}

// ModuloFleet is the same number of separate one-node caches, with the key's
// hash modulo the number of nodes as routing: what an application does that
// shards by hand. It is a Cache and a Fleet.
type ModuloFleet struct {
	o        ProcessOptions
	name     string
	children child.Group
	caches   []*sdkCache
}

// sdkCache is the public client as a Cache.
type sdkCache struct{ c *client.Client }

func (s *sdkCache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	v, err := s.c.Get(ctx, key)
	if errors.Is(err, client.ErrNotFound) {
		return nil, false, nil
	}
	return v, err == nil, err
}

func (s *sdkCache) Set(ctx context.Context, key string, value []byte) error {
	return s.c.Set(ctx, key, value, 0)
}

// NewSDKCache returns a Cache over a client.
func NewSDKCache(c *client.Client) Cache { return &sdkCache{c} }

func openSDK(ctx context.Context, o ProcessOptions, seeds ...string) (*client.Client, error) {
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = 250 * time.Millisecond
	}
	return client.Open(ctx, client.Options{Seeds: seeds, Timeout: timeout})
}

// StartRing starts a cluster of o.Nodes processes and returns when all slots
// are served.
func StartRing(ctx context.Context, o ProcessOptions) (*RingFleet, error) {
	f := &RingFleet{o: o, name: fmt.Sprintf("replay-%d", time.Now().UnixNano())}
	err := func() error {
		for range o.Nodes {
			if err := f.start(ctx); err != nil {
				return err
			}
		}
		c, err := openSDK(ctx, o, f.addrs()...)
		if err != nil {
			return err
		}
		f.c = c
		return f.settle(ctx)
	}()
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *RingFleet) addrs() []string {
	var out []string
	for _, p := range f.children.List() {
		out = append(out, p.Addr)
	}
	return out
}

func (f *RingFleet) start(ctx context.Context) error {
	args := []string{"--cluster-name", f.name}
	if seeds := f.addrs(); len(seeds) > 0 {
		args = append(args, "--seeds", strings.Join(seeds, ","))
	}
	_, err := serve(ctx, &f.children, f.o, args...)
	return err
}

// serve starts one server of a fleet and returns its address.
func serve(ctx context.Context, children *child.Group, o ProcessOptions, args ...string) (addr string, err error) {
	if addr, err = child.FreeAddr("127.0.0.1"); err != nil {
		return "", err
	}
	_, err = children.Start(ctx, child.Spec{Binary: o.Binary, Addr: addr, Args: slices.Concat([]string{"serve", "--addr", addr}, args, o.Args)})
	return addr, err
}

// settle waits until every node names the same owners, as many as there are
// processes, and every slot answers through the SDK.
func (f *RingFleet) settle(ctx context.Context) error {
	err := child.Poll(ctx, settleLimit, func(ctx context.Context) error {
		var first string
		addrs := f.addrs()
		for i, addr := range addrs {
			slots, owners, err := slotTable(ctx, f.o, addr)
			if err != nil {
				return err
			}
			if i == 0 {
				first = slots
			}
			if slots != first || owners != len(addrs) {
				return fmt.Errorf("node %s sees %d owners, %d nodes run", addr, owners, len(addrs))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the nodes do not agree: %w", err)
	}
	for keys := range slices.Chunk(keyPerSlot(), 512) {
		err := child.Poll(ctx, settleLimit, func(ctx context.Context) error {
			_, err := f.c.GetMany(ctx, keys)
			return err
		})
		if err != nil {
			return fmt.Errorf("slots do not answer: %w", err)
		}
	}
	return nil
}

// slotTable reads CLUSTER SLOTS of one node as a comparable text, and the
// number of its owners.
func slotTable(ctx context.Context, o ProcessOptions, addr string) (string, int, error) {
	c, err := openSDK(ctx, o, addr)
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	v, err := c.DoNode(ctx, addr, "CLUSTER", "SLOTS")
	if err != nil {
		return "", 0, err
	}
	var b strings.Builder
	owners := map[string]bool{}
	for _, r := range v.Array() {
		fields := r.Array()
		if len(fields) < 3 || len(fields[2].Array()) < 3 {
			return "", 0, fmt.Errorf("node %s: malformed CLUSTER SLOTS", addr)
		}
		id := fields[2].Array()[2].Text()
		owners[id] = true
		fmt.Fprintf(&b, "%s-%s %s\n", fields[0].Text(), fields[1].Text(), id)
	}
	return b.String(), len(owners), nil
}

// Join starts one more node.
func (f *RingFleet) Join(ctx context.Context) error {
	if err := f.start(ctx); err != nil {
		return err
	}
	return f.settle(ctx)
}

// Kill ends the first node's process with SIGKILL.
func (f *RingFleet) Kill(ctx context.Context) error {
	f.children.List()[0].Kill()
	return f.settle(ctx)
}

// Loads reads the nodes' own counters.
func (f *RingFleet) Loads(ctx context.Context) ([]NodeLoad, error) {
	var out []NodeLoad
	addrs := f.addrs()
	for _, addr := range addrs {
		n, err := reads(ctx, f.c, addr)
		if err != nil {
			return nil, err
		}
		out = append(out, NodeLoad{Node: addr, Reads: n, Ideal: 1 / float64(len(addrs))})
	}
	return out, nil
}

// Close ends all processes and the SDK.
func (f *RingFleet) Close() {
	if f.c != nil {
		_ = f.c.Close()
	}
	f.children.Close()
}

// reads returns keyspace_hits + keyspace_misses of one node.
func reads(ctx context.Context, c *client.Client, addr string) (uint64, error) {
	v, err := c.DoNode(ctx, addr, "INFO", "stats")
	if err != nil {
		return 0, fmt.Errorf("INFO of %s: %w", addr, err)
	}
	var sum uint64
	for line := range strings.SplitSeq(v.Text(), "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "keyspace_hits" || name == "keyspace_misses" {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("INFO of %s: %s is %q", addr, name, value)
			}
			sum += n
		}
	}
	return sum, nil
}

// keyPerSlot returns one key for each slot.
func keyPerSlot() []string {
	keys := make([]string, ring.Slots)
	for i, found := 0, 0; found < len(keys); i++ {
		k := "slot:" + strconv.Itoa(i)
		if s := ring.SlotString(k); keys[s] == "" {
			keys[s] = k
			found++
		}
	}
	return keys
}

// StartModulo starts o.Nodes separate caches.
func StartModulo(ctx context.Context, o ProcessOptions) (*ModuloFleet, error) {
	f := &ModuloFleet{o: o, name: fmt.Sprintf("modulo-%d", time.Now().UnixNano())}
	for range o.Nodes {
		if err := f.Join(ctx); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// Join starts one more cache and routes to it at once.
func (f *ModuloFleet) Join(ctx context.Context) error {
	addr, err := serve(ctx, &f.children, f.o, "--cluster-name", f.name+"-"+strconv.Itoa(len(f.caches)))
	if err != nil {
		return err
	}
	c, err := openSDK(ctx, f.o, addr)
	if err != nil {
		return err
	}
	f.caches = append(f.caches, &sdkCache{c})
	return nil
}

// Kill ends the first cache; the routing forgets it at once, which is kinder
// than what an application would see.
func (f *ModuloFleet) Kill(context.Context) error {
	f.children.List()[0].Kill()
	err := f.caches[0].c.Close()
	f.caches = f.caches[1:]
	return err
}

// Loads reads the caches' own counters.
func (f *ModuloFleet) Loads(ctx context.Context) ([]NodeLoad, error) {
	var out []NodeLoad
	for i, p := range f.children.List() {
		n, err := reads(ctx, f.caches[i].c, p.Addr)
		if err != nil {
			return nil, err
		}
		out = append(out, NodeLoad{Node: p.Addr, Reads: n, Ideal: 1 / float64(len(f.caches))})
	}
	return out, nil
}

// Get reads from the cache that the key's hash names.
func (f *ModuloFleet) Get(ctx context.Context, key string) ([]byte, bool, error) {
	return f.route(key).Get(ctx, key)
}

// Set writes to the cache that the key's hash names.
func (f *ModuloFleet) Set(ctx context.Context, key string, value []byte) error {
	return f.route(key).Set(ctx, key, value)
}

func (f *ModuloFleet) route(key string) *sdkCache {
	var h uint64 = 14695981039346656037 // FNV-1a
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return f.caches[mix(h)%uint64(len(f.caches))]
}

// Close ends all processes and clients.
func (f *ModuloFleet) Close() {
	for _, c := range f.caches {
		_ = c.c.Close()
	}
	f.children.Close()
}

// ItemBytes returns what one entry of a replay charges against max-memory: it
// starts a cache, stores one and asks.
func ItemBytes(ctx context.Context, o ProcessOptions, valueSize int) (int64, error) {
	o.Nodes, o.Args = 1, []string{"--max-memory", "64mb"}
	f, err := StartModulo(ctx, o)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	key := TraceKey(1)
	if err := f.Set(ctx, key, make([]byte, valueSize)); err != nil {
		return 0, err
	}
	v, err := f.caches[0].c.Do(ctx, "MEMORY", "USAGE", key)
	if err != nil {
		return 0, err
	}
	return v.Int()
}
