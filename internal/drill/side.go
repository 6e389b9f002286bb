package drill

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/register"
	"github.com/ringcache/ringcache/internal/workload"
)

// Keys that are there for the checker: few, short-lived, and written as often as
// read, so that a wrong owner or a late copy shows at once.
const (
	probeKeys    = 2000
	probeTTL     = 3 * time.Second
	probeShare   = 0.1 // of the requests; they are not part of the bins
	expirySlack  = 100 * time.Millisecond
	longestWrite = time.Second // an acknowledged write takes at most so long, see client.Options.Timeout
)

// side is one of the two clusters under the load: the one with the faults or the
// control. Both get the same requests at the same times.
type side struct {
	o     *Options
	sys   system
	check *register.Checker
	begin time.Time // of the run: instants are counted from it
	zero  time.Time // of the load
	cells []atomic.Pointer[cell]
	width time.Duration // of a cell

	clients atomic.Pointer[[]Driver]
	mu      sync.Mutex // guards past
	past    DriverStats

	overdue atomic.Int64 // calls that took longer than their deadline allows
	longest atomic.Int64 // nanoseconds of the longest call
	// lateTimers counts how often a worker that had nothing to do was woken more than
	// deadlineSlack too late: so often the machine, not the cache, made a call late.
	lateTimers atomic.Int64
	skipped    atomic.Int64 // requests that were left out because their worker was a second behind
}

// cell is what happened to the main load in a short time.
type cell struct {
	mu                              sync.Mutex
	requests, reads, hits, origin   int64
	readErrors, writes, writeErrors int64
	latency                         workload.Histogram // of reads
}

func newSide(o *Options, sys system, begin time.Time, width time.Duration) *side {
	n := int((o.Before+o.Duration)/width) + 64 // the script may take a little longer
	s := &side{o: o, sys: sys, begin: begin, width: width, cells: make([]atomic.Pointer[cell], n)}
	s.check = register.New(register.Options{
		Keys: o.Keys + probeKeys, Counters: o.Workers, Slack: expirySlack, Call: max(longestWrite, 2*o.Timeout),
		TTL: func(key int) time.Duration { return s.ttl(key) }, Name: s.key,
	})
	return s
}

func (s *side) now() time.Duration { return time.Since(s.begin) }

func (s *side) ttl(key int) time.Duration {
	if key >= s.o.Keys {
		return probeTTL
	}
	half := s.o.TTL / 2
	// Not all end together.
	return (half + time.Duration(uint64(key)*0x9e3779b97f4a7c15%uint64(half))).Truncate(time.Millisecond)
}

func (s *side) key(n int) string { return workload.TraceKey(uint64(n)) }

func counterKey(n int) string { return "n:" + strconv.Itoa(n) }

// connect opens the clients anew: at the start, and when all addresses are others.
func (s *side) connect(ctx context.Context) error {
	list := make([]Driver, 0, s.o.Clients)
	for range s.o.Clients {
		d, err := s.sys.open(ctx)
		if err != nil {
			closeAll(list)
			return fmt.Errorf("opening a client: %w", err)
		}
		list = append(list, d)
	}
	if old := s.clients.Swap(&list); old != nil {
		s.retire(*old)
	}
	return nil
}

func (s *side) retire(list []Driver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range list {
		s.past.add(d.Stats())
	}
	closeAll(list)
}

func closeAll(list []Driver) {
	for _, d := range list {
		_ = d.Close()
	}
}

// disconnect closes the clients; no call may be under way.
func (s *side) disconnect() {
	if old := s.clients.Swap(&[]Driver{}); old != nil {
		s.retire(*old)
	}
}

func (s *side) client(n int) Driver {
	list := *s.clients.Load()
	return list[n%len(list)]
}

func (s *side) stats() DriverStats {
	s.mu.Lock()
	sum := s.past
	s.mu.Unlock()
	for _, d := range *s.clients.Load() {
		sum.add(d.Stats())
	}
	return sum
}

// cell returns the present one; a load that goes on too long fills the last.
func (s *side) cell() *cell {
	i := min(int(time.Since(s.zero)/s.width), len(s.cells)-1)
	for {
		if c := s.cells[max(i, 0)].Load(); c != nil {
			return c
		}
		s.cells[max(i, 0)].CompareAndSwap(nil, &cell{})
	}
}

// How keys are stored before the load. The deadline of a call is that of the load, short,
// and all callers together may be more than a busy machine answers within it: whoever
// fails waits, longer each time, so that fewer call at once.
const (
	preloadCallers  = 64
	preloadPatience = 10 * time.Second // for one key; a cluster that answers none for so long is broken
	preloadPause    = 10 * time.Millisecond
	preloadMaxPause = 500 * time.Millisecond
)

// preload calls store for n keys before the load begins.
func (s *side) preload(ctx context.Context, n int, done func(), store func(ctx context.Context, d Driver, worker, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range preloadCallers {
		wg.Go(func() { // ends when all keys are stored, or at the first fault
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := patiently(ctx, func() error { return store(ctx, s.client(w), w, i) }); err != nil {
					cancel(fmt.Errorf("storing the keys: %w", err))
				}
				done()
			}
		})
	}
	wg.Wait()
	// What was late here is not what the load is judged by.
	s.overdue.Store(0)
	s.longest.Store(0)
	return context.Cause(ctx)
}

// patiently repeats call until it succeeds or preloadPatience is over.
func patiently(ctx context.Context, call func() error) error {
	end := time.Now().Add(preloadPatience)
	for pause := preloadPause; ; pause = min(2*pause, preloadMaxPause) {
		err := call()
		if err == nil || !time.Now().Before(end) || child.Pause(ctx, pause) != nil {
			return err
		}
	}
}
