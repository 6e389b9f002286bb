package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/ring"
)

const (
	// loadRetry is the pause before a connection or a refresh is tried again.
	loadRetry = 100 * time.Millisecond
	// loadBacklog bounds the requests without a reply; while it is reached, no more
	// are made. They stay due when they were.
	loadBacklog = 1 << 18
	// loadBurst is how many requests are made before those are sent.
	loadBurst    = 64
	loadProgress = 100 * time.Millisecond
	preloadDepth = 16
	preloadAhead = 64 // requests for each connection
)

// loadEngine is a load under way.
type loadEngine struct {
	o       *LoadOptions
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
	cluster bool
	value   []byte
	ttl     string
	start   time.Time
	from    time.Duration // since start: what is due from here on is counted
	until   atomic.Int64  // and until here, a Duration
	slots   [ring.Slots]atomic.Pointer[loadNode]
	open    atomic.Int64 // requests that were made and have come to no end
	depth   atomic.Int64 // requests on a connection at most
	busy    atomic.Bool  // a load without a rate is on
	ended   atomic.Bool
	moved   atomic.Uint64
	late    Histogram
	work    sync.WaitGroup // readers, writers and a refresh

	mu        sync.Mutex
	nodes     []*loadNode // guarded by mu, as what follows
	first     error
	refreshed time.Time
}

func openLoad(ctx context.Context, o *LoadOptions) (*loadEngine, error) {
	e := &loadEngine{o: o, value: pattern(o.MaxValue), start: time.Now()}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.depth.Store(int64(o.Pipeline))
	if o.TTL > 0 {
		ms := fmt.Sprint(o.TTL.Milliseconds())
		e.ttl = fmt.Sprintf("$2\r\nPX\r\n$%d\r\n%s\r\n", len(ms), ms)
	}
	seed, slots, err := e.discover(ctx)
	if err != nil {
		e.cancel()
		return nil, err
	}
	if e.cluster = slots != nil; !e.cluster {
		slots = []slotRange{{0, ring.Slots - 1, seed}}
	}
	var addrs []string
	for _, r := range slots {
		if !slices.Contains(addrs, r.addr) {
			addrs = append(addrs, r.addr)
		}
	}
	if len(addrs) > maxLoadNodes {
		e.cancel()
		return nil, fmt.Errorf("the cluster has %d nodes, at most %d are possible", len(addrs), maxLoadNodes)
	}
	for i, addr := range addrs {
		conns := o.Conns*(i+1)/len(addrs) - o.Conns*i/len(addrs)
		if err := e.connect(ctx, e.newNode(addr, max(conns, 1))); err != nil {
			e.close()
			return nil, err
		}
	}
	e.adoptSlots(slots)
	return e, nil
}

// newNode adds a server. e.mu need not be held: nobody else adds yet, or it is.
func (e *loadEngine) newNode(addr string, conns int) *loadNode {
	i := uint64(len(e.nodes))
	n := &loadNode{e: e, addr: addr, rng: rand.New(rand.NewPCG(e.o.Seed, i+1))}
	n.zipf = e.newZipf(i + 1)
	for range conns {
		n.conns = append(n.conns, &loadConn{n: n})
	}
	e.nodes = append(e.nodes, n)
	return n
}

// newZipf is the generator of keys number i, nil if all keys are equally likely.
func (e *loadEngine) newZipf(i uint64) *Zipf {
	if e.o.Theta == 0 {
		return nil
	}
	z, err := NewZipf(e.o.Seed+i, e.o.Keys, e.o.Theta)
	if err != nil {
		panic(err) // the options were checked
	}
	return z
}

// connect opens the connections of a server, which their goroutines then serve.
func (e *loadEngine) connect(ctx context.Context, n *loadNode) error {
	for _, c := range n.conns {
		nc, err := e.dial(ctx, n.addr)
		if err != nil {
			return fmt.Errorf("%s: %w", n.addr, err)
		}
		c.adopt(nc)
		e.work.Go(c.serve)
	}
	return nil
}

// adoptSlots takes over who owns what. Requests that wait for a server which has lost
// its slots go to the new owners. Nodes that are new are connected to as if
// their connections had broken.
func (e *loadEngine) adoptSlots(slots []slotRange) {
	e.mu.Lock()
	for _, r := range slots {
		n := e.find(r.addr)
		for s := r.first; n != nil && s <= r.last; s++ {
			e.slots[s].Store(n)
		}
	}
	nodes := slices.Clone(e.nodes)
	e.mu.Unlock()
	for _, n := range nodes {
		n.mu.Lock()
		var left []loadRequest
		for n.queue.len() > 0 {
			left = append(left, n.queue.pop())
		}
		n.mu.Unlock()
		for _, r := range left {
			e.route(r).offer(r)
		}
	}
	for _, n := range nodes {
		n.pump()
	}
}

// find returns the server at addr, a new one if need be; nil if there are too many.
// e.mu is held.
func (e *loadEngine) find(addr string) *loadNode {
	for _, n := range e.nodes {
		if n.addr == addr {
			return n
		}
	}
	if len(e.nodes) >= maxLoadNodes || e.ended.Load() {
		return nil
	}
	n := e.newNode(addr, max(e.o.Conns/(len(e.nodes)+1), 1))
	for _, c := range n.conns {
		e.work.Go(c.serve)
	}
	return n
}

// refresh asks for the slots again, at most every few hundred milliseconds.
func (e *loadEngine) refresh() {
	e.mu.Lock()
	soon := time.Since(e.refreshed) < 3*loadRetry
	if !soon {
		e.refreshed = time.Now()
	}
	nodes := slices.Clone(e.nodes)
	e.mu.Unlock()
	if soon || !e.cluster {
		return
	}
	for _, n := range nodes {
		v, err := e.ask(e.ctx, n.addr, "CLUSTER", "SLOTS")
		if err != nil || v.Err() != nil {
			continue
		}
		if slots, err := parseSlots(v, n.addr); err == nil {
			e.adoptSlots(slots)
			return
		}
	}
}

// all are the servers known so far.
func (e *loadEngine) all() []*loadNode {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.nodes)
}

func (e *loadEngine) route(r loadRequest) *loadNode {
	var key [loadKey]byte
	return e.slots[ring.Slot(appendKey(key[:0], r.key))].Load()
}

// refused deals with an error reply: MOVED sends the request elsewhere.
func (e *loadEngine) refused(n *loadNode, r loadRequest, line []byte) {
	if slot, addr, ok := moved(line, n.addr); ok && r.hops < maxHops {
		e.moved.Add(1)
		e.mu.Lock()
		to := e.find(addr)
		e.mu.Unlock()
		if to != nil {
			e.slots[slot].Store(to)
			r.hops++
			to.offer(r)
			to.pump()
			return
		}
	}
	n.mu.Lock()
	n.errors++
	n.mu.Unlock()
	e.open.Add(-1)
	e.note(fmt.Errorf("%s: %.200s", n.addr, line[1:len(line)-2]))
}

// note keeps the first error.
func (e *loadEngine) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first == nil {
		e.first = err
	}
}

func (e *loadEngine) since() time.Duration { return time.Since(e.start) }

// counts tells whether a request that was due then is counted.
func (e *loadEngine) counts(due time.Duration) bool {
	return due >= e.from && int64(due) < e.until.Load()
}

// saturates tells whether connections make requests for themselves.
func (e *loadEngine) saturates() bool {
	return e.busy.Load() && int64(e.since()) < e.until.Load()
}

// pause waits, and reports false if the load has ended.
func (e *loadEngine) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-e.ctx.Done():
	case <-t.C:
	}
	return !e.ended.Load()
}

// close ends all connections and waits for what runs. Requests without a reply stay
// where they are.
func (e *loadEngine) close() {
	e.ended.Store(true)
	e.cancel()
	for _, n := range e.all() {
		n.mu.Lock()
		for _, c := range n.conns {
			if c.nc != nil {
				c.nc.Close()
			}
		}
		n.mu.Unlock()
	}
	e.work.Wait()
}
