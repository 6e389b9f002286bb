package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// ErrWrongValue says that the cache answered with another value than the one
// that was stored under the key; a replay stops at the first.
var ErrWrongValue = errors.New("the cache returned a wrong value")

// binCell counts one bin; its requests are spread over all workers.
type binCell struct{ requests, hits atomic.Int64 }

// phaseRun is the state of the running phase, shared by the workers.
type phaseRun struct {
	name                        string
	start, end                  int64
	requests, hits, loads, errs atomic.Int64
	bins                        []binCell
	before                      []NodeLoad
	settle                      time.Duration
}

type job struct {
	index int64
	Access
}

const (
	jobBatch  = 32 // accesses handed to a worker at once
	jobQueues = 4  // batches waiting per worker
)

type replayer struct {
	o      ReplayOptions
	value  []byte
	mu     sync.Mutex
	err    error // first fatal error
	cancel context.CancelFunc
}

// Replay runs a trace as cache-aside traffic: read; on a miss load the object
// from a counted origin and store it. The trace pauses while the fleet changes,
// so that each phase's figures show the effect of the change on the hit ratio
// and not the speed of the machine; Phase.Settle tells how long it took.
func Replay(ctx context.Context, o ReplayOptions) ([]Phase, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	src, err := o.Open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &replayer{o: o, value: pattern(o.MaxValue), cancel: cancel}
	var phases []Phase
	for _, p := range o.plan() {
		if err := r.change(ctx, p); err != nil {
			return phases, err
		}
		done, err := r.run(ctx, src, p)
		if err != nil {
			return phases, err
		}
		phases = append(phases, done)
	}
	return phases, nil
}

// change applies the change that opens a phase and reads the loads before it.
func (r *replayer) change(ctx context.Context, p *phaseRun) error {
	begin := time.Now()
	var err error
	switch p.name {
	case "after join":
		err = r.o.Fleet.Join(ctx)
	case "after kill":
		err = r.o.Fleet.Kill(ctx)
	}
	if err != nil {
		return fmt.Errorf("replay: %s: %w", p.name, err)
	}
	if p.name != "start" {
		p.settle = time.Since(begin)
	}
	if r.o.Fleet != nil {
		if p.before, err = r.o.Fleet.Loads(ctx); err != nil {
			return fmt.Errorf("replay: reading the nodes' loads: %w", err)
		}
	}
	return nil
}

// run replays one phase: this goroutine reads the trace, the workers, which
// end with the phase, do the requests.
func (r *replayer) run(ctx context.Context, src Source, p *phaseRun) (Phase, error) {
	queues := make([]chan []job, r.o.Workers)
	hists := make([]Histogram, r.o.Workers)
	var wg sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan []job, jobQueues)
		wg.Go(func() {
			for batch := range queues[i] {
				for _, j := range batch {
					r.request(ctx, p, j, &hists[i])
				}
			}
		})
	}
	err := r.feed(ctx, src, p, queues)
	for _, q := range queues {
		close(q)
	}
	wg.Wait()
	r.mu.Lock()
	err = errors.Join(r.err, err)
	r.mu.Unlock()
	if err != nil {
		return Phase{}, err
	}
	return r.summarise(ctx, p, hists)
}

func (r *replayer) feed(ctx context.Context, src Source, p *phaseRun, queues []chan []job) error {
	batches := make([][]job, len(queues))
	begin := time.Now()
	for i := p.start; i < p.end; i++ {
		a, err := src.Next()
		if err != nil {
			if err == io.EOF {
				return fmt.Errorf("replay: the trace ends after %d requests, %d were asked for", i, r.o.Requests)
			}
			return err
		}
		w := int(mix(a.Key) % uint64(len(queues)))
		batches[w] = append(batches[w], job{index: i, Access: a})
		full := len(batches[w]) >= jobBatch
		if r.o.Rate > 0 {
			full = true
			if err := pace(ctx, begin, i-p.start, r.o.Rate); err != nil {
				return err
			}
		}
		if full {
			if err := send(ctx, queues[w], batches[w]); err != nil {
				return err
			}
			batches[w] = make([]job, 0, jobBatch)
		}
		if i%1024 == 0 {
			n := p.requests.Load()
			r.o.Progress(p.start+n, r.o.Requests, p.name, ratio(p.hits.Load(), n))
		}
	}
	for w, b := range batches {
		if err := send(ctx, queues[w], b); err != nil {
			return err
		}
	}
	return nil
}

func send(ctx context.Context, q chan<- []job, batch []job) error {
	if len(batch) == 0 {
		return nil
	}
	select {
	case q <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pace waits until request number n of a phase is due.
func pace(ctx context.Context, begin time.Time, n int64, rate float64) error {
	due := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	wait := time.Until(due)
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *replayer) request(ctx context.Context, p *phaseRun, j job, h *Histogram) {
	if ctx.Err() != nil {
		return
	}
	key := TraceKey(j.Key)
	bin := &p.bins[(j.index-p.start)/r.o.Bin]
	begin := time.Now()
	value, found, err := r.o.Cache.Get(ctx, key)
	h.Record(time.Since(begin))
	p.requests.Add(1)
	bin.requests.Add(1)
	want := r.valueOf(j.Access)
	switch {
	case err != nil:
		p.errs.Add(1)
	case found:
		if !sameValue(value, want, j.Key) {
			r.fail(fmt.Errorf("%w: key %s, request %d, %d bytes instead of %d", ErrWrongValue, key, j.index, len(value), len(want)))
			return
		}
		p.hits.Add(1)
		bin.hits.Add(1)
		return
	}
	p.loads.Add(1)
	stamped := append(make([]byte, 0, len(want)), want...)
	stamp(stamped, j.Key)
	if err := r.o.Cache.Set(ctx, key, stamped); err != nil && ctx.Err() == nil {
		p.errs.Add(1)
	}
}

func (r *replayer) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.cancel()
}

func (r *replayer) valueOf(a Access) []byte {
	n := r.o.ValueSize
	if a.Size > 0 {
		n = int(a.Size)
	}
	return r.value[:min(max(n, 8), len(r.value))]
}
