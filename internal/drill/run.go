package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/workload"
)

const (
	mostCell      = time.Second // resolution of the curves
	leastCell     = 100 * time.Millisecond
	cellsPerBin   = 10
	progressEvery = 200 * time.Millisecond
	askLimit      = 20 * time.Second // for an answer of a node that was just frozen
	calmAfter     = time.Second      // of settling, until an old value has no excuse any more
	// spareTime is what start, filling and a script that takes longer than planned may
	// need beside twice the planned time.
	spareTime = 10 * time.Minute
)

var errTooLong = errors.New("the drill took far longer than planned")

// run is one drill under way.
type run struct {
	o             *Options
	main, control *side
	rnd           *rand.Rand
	faulty        bool     // the network can be cut
	flapping      *node    // the node that flap always takes
	probes        []string // a key of every slot that nobody changes

	mu     sync.Mutex
	events []Event
	faults int
	times  map[string][]time.Duration // how long something took, by what it was
	owners []owned                    // of slots, before the latest fault
	slots  slotTimes

	until time.Duration // how long the load has lasted, from its first request on
}

// Run starts two clusters, puts the load on both, runs the scenario on one and
// reports. Errors: every invalid option at once, a process that does not start, a
// cluster that does not settle, the context's. A violation or a missed limit is no
// error but part of the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Before+2*o.Duration+spareTime, errTooLong)
	defer cancel()
	width := min(mostCell, max(leastCell, (o.bin()/cellsPerBin).Truncate(leastCell)))
	o.Before = (o.Before + width - 1).Truncate(width)
	r := &run{o: &o, rnd: rand.New(rand.NewPCG(o.Seed, 1)), faulty: scenarios[o.Scenario].faulty, times: map[string][]time.Duration{}}
	begin := time.Now()
	for _, s := range []**side{&r.main, &r.control} {
		sys, err := newSystem(&o)
		if err != nil {
			return nil, err
		}
		defer sys.close()
		*s = newSide(&o, sys, begin, width)
	}
	defer r.main.disconnect()
	defer r.control.disconnect()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	zipf, err := workload.NewZipf(o.Seed, o.Keys, o.Theta)
	if err != nil {
		return nil, err
	}
	if err := r.load(ctx, zipf); err != nil {
		return nil, err
	}
	r.sweep(ctx)
	return r.report(), ctx.Err()
}

func newSystem(o *Options) (system, error) {
	switch o.Target {
	case TargetModulo, TargetKetama:
		return newSharded(o)
	case TargetRedis:
		return newRedis(o)
	}
	return newRing(o, scenarios[o.Scenario].faulty)
}

// both does something to the two sides at the same time.
func (r *run) both(do func(s *side) error) error {
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, s := range []*side{r.main, r.control} {
		wg.Go(func() { errs[i] = do(s) }) // ends with do
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prepare starts the clusters and fills them.
func (r *run) prepare(ctx context.Context) error {
	r.o.Progress("starting", 0, 2*r.o.Nodes)
	err := r.both(func(s *side) error {
		if err := s.sys.start(ctx, r.o.Nodes); err != nil {
			return err
		}
		return s.connect(ctx)
	})
	if err != nil {
		return err
	}
	r.probes = slotKeys()
	var stored atomic.Int64
	stop := r.watch("storing keys", 2*(r.o.Keys+len(r.probes)), func() int { return int(stored.Load()) })
	err = r.both(func(s *side) error {
		done := func() { stored.Add(1) }
		if err := s.preload(ctx, r.o.Keys, done, s.set); err != nil {
			return err
		}
		return s.preload(ctx, len(r.probes), done, func(ctx context.Context, d Driver, _, n int) error {
			return d.Set(ctx, r.probes[n], []byte("probe"), 0)
		})
	})
	stop()
	if err != nil {
		return err
	}
	// A fault that comes before the copies are complete would say nothing about copies.
	r.o.Progress("waiting for the clusters to settle", 0, 1)
	return r.both(func(s *side) error { return child.PollEach(ctx, askEvery, settleLimit, s.sys.settled) })
}

// watch reports progress until stop, which waits for the last report.
func (r *run) watch(phase string, total int, done func() int) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				r.o.Progress(phase, min(done(), total), total)
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// load runs the requests of both sides and the script of the scenario.
func (r *run) load(ctx context.Context, zipf *workload.Zipf) error {
	running, end := context.WithCancel(ctx)
	zero := time.Now().Add(50 * time.Millisecond)
	var wg sync.WaitGroup
	for _, s := range []*side{r.main, r.control} {
		s.zero = zero
		s.check.From(zero.Sub(s.begin))        // as events do
		wg.Go(func() { s.run(running, zipf) }) // ends with running
	}
	total := r.o.Before + r.o.Duration
	stop := r.watch("measuring "+r.o.Scenario, int(total.Milliseconds()), func() int { return int(time.Since(zero).Milliseconds()) })
	err := child.Pause(ctx, time.Until(zero.Add(r.o.Before)))
	if err == nil {
		err = scenarios[r.o.Scenario].run(r, ctx)
	}
	if err == nil {
		r.until = r.lasts(time.Since(zero))
		err = child.Pause(ctx, time.Until(zero.Add(r.until)))
	}
	stop()
	end()
	wg.Wait()
	return err
}

// lasts says how long the load goes on, from its first request on, where the script has
// ended after done: what has taken longer than planned is followed by two bins.
func (r *run) lasts(done time.Duration) time.Duration {
	width := r.main.width
	return max(r.o.Before+r.o.Duration, (done + 2*r.o.bin() + width - 1).Truncate(width))
}

// sweep reads every probe key once more, through every client.
func (r *run) sweep(ctx context.Context) {
	_ = r.both(func(s *side) error {
		for i := range *s.clients.Load() {
			for key := r.o.Keys; key < r.o.Keys+probeKeys && ctx.Err() == nil; key++ {
				mark := s.check.Look(key, s.now())
				if value, found, err := s.client(i).Get(ctx, s.key(key)); err == nil {
					s.check.Judge(mark, value, found)
				}
			}
		}
		return nil
	})
}

// Event is something that happened on the side with the faults.
type Event struct {
	At   float64 `json:"at_s"` // seconds after the first request
	What string  `json:"what"`
}

func (r *run) event(format string, args ...any) {
	r.mu.Lock()
	e := Event{time.Since(r.main.zero).Seconds(), fmt.Sprintf(format, args...)}
	r.events = append(r.events, e)
	r.mu.Unlock()
	r.o.Note(fmt.Sprintf("%7.2f s  %s", e.At, e.What))
}

// fault is an event that counts.
func (r *run) fault(format string, args ...any) {
	r.mu.Lock()
	r.faults++
	r.mu.Unlock()
	r.event(format, args...)
}

// took notes how long something took.
func (r *run) took(what string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[what] = append(r.times[what], d)
}

// unclean opens a window in which old values are counted instead of condemned.
func (r *run) unclean() (end func()) {
	closed := r.main.check.Unclean(r.main.now())
	return func() { closed(r.main.now() + calmAfter) }
}

// silent says that a node does not answer; with replicas, reads go to copies then,
// which may lack its last changes. end allows for calls that began before.
func (r *run) silent() (end func()) {
	if r.o.Replicas == 0 {
		return func() {}
	}
	closed := r.main.check.Silent(r.main.now())
	return func() { closed(r.main.now() + r.o.Timeout) }
}

// settle waits until all nodes that run agree and serve what they own, and notes how
// long that took from the fault on. A cluster of ours must; that another one does not
// is a result.
func (r *run) settle(ctx context.Context, what string, begun time.Time) error {
	err := child.PollEach(ctx, askEvery, settleLimit, r.main.sys.settled)
	switch {
	case err == nil:
		took := time.Since(begun)
		r.event("all nodes agree %v after the %s", took.Round(10*time.Millisecond), what)
		r.took(what, took)
	case ctx.Err() != nil:
		return ctx.Err()
	case r.o.Target == TargetRing:
		return fmt.Errorf("after the %s: %w", what, err)
	default:
		r.event("not settled: %v", err)
	}
	return nil
}

// lookAtOwners notes who owns what now.
func (r *run) lookAtOwners(ctx context.Context) error {
	var table []owned
	err := child.PollEach(ctx, askEvery, askLimit, func(ctx context.Context) (err error) {
		table, err = r.main.sys.owners(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners = table
	return nil
}

// pick chooses one of the nodes that own slots; where there are no slots, any.
func (r *run) pick(ctx context.Context) (*node, error) {
	if err := r.lookAtOwners(ctx); err != nil {
		return nil, err
	}
	owners := map[string]bool{}
	for _, o := range r.owners {
		owners[o.owner] = true
	}
	list := r.main.sys.nodes()
	if len(owners) > 0 {
		list = slices.DeleteFunc(list, func(n *node) bool { return !owners[n.addr] })
	}
	if len(list) == 0 {
		return nil, errors.New("no node owns slots")
	}
	return list[r.rnd.IntN(len(list))], nil
}
