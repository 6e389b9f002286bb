package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/register"
	"github.com/ringcache/ringcache/internal/workload"
)

const (
	// lateAfter is how far behind its times a worker may be; then it goes on with
	// the present, so that an outage does not end in a burst.
	lateAfter = time.Second
	// deadlineSlack is by how much a call may take longer than its deadline before it
	// counts: what a busy machine needs to wake a goroutine up.
	deadlineSlack = 20 * time.Millisecond
)

// request is one of a worker's sequence, which depends on the seed alone.
type request struct {
	key  int
	kind kind
}

type kind uint8

const (
	read kind = iota
	write
	del
	increment
)

// sequence makes the requests of one worker, the same for both sides.
type sequence struct {
	o    *Options
	rnd  *rand.Rand
	zipf *workload.Zipf
}

func newSequence(o *Options, zipf *workload.Zipf, worker int) *sequence {
	seed := o.Seed*1_000_003 + uint64(worker)
	return &sequence{o: o, rnd: rand.New(rand.NewPCG(seed, 2)), zipf: zipf.Fork(seed)}
}

// next draws a request: of the main load a read or a change, every fifth change a
// delete; of the probe keys reads, writes, deletes and increments.
func (q *sequence) next() request {
	probe, op, part := q.rnd.Float64() < probeShare, q.rnd.Float64(), q.rnd.Float64()
	if !probe {
		r := request{key: int(q.zipf.Next())}
		switch {
		case op < q.o.Reads:
		case part < 0.2:
			r.kind = del
		default:
			r.kind = write
		}
		return r
	}
	r := request{key: q.o.Keys + int(part*probeKeys)}
	switch {
	case op < 0.6:
	case op < 0.85:
		r.kind = write
	case op < 0.95:
		r.kind = del
	default:
		r.kind = increment
	}
	return r
}

// run sends the load until ctx ends: each worker has its own times, so that a call
// that takes long delays none but its own.
func (s *side) run(ctx context.Context, zipf *workload.Zipf) {
	period := time.Duration(float64(s.o.Workers) / s.o.Rate * float64(time.Second))
	var wg sync.WaitGroup
	for w := range s.o.Workers {
		q := newSequence(s.o, zipf, w)
		first := s.zero.Add(period * time.Duration(w) / time.Duration(s.o.Workers))
		wg.Go(func() { s.work(ctx, w, q, first, period) }) // ends with ctx
	}
	wg.Wait()
}

func (s *side) work(ctx context.Context, worker int, q *sequence, due time.Time, period time.Duration) {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for idle := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if idle && time.Since(due) > deadlineSlack {
			s.lateTimers.Add(1)
		}
		s.request(ctx, worker, q.next())
		due = due.Add(period)
		for time.Since(due) > lateAfter {
			due = due.Add(period)
			s.skipped.Add(1)
			q.next() // both sides keep the same sequence
		}
		left := time.Until(due)
		idle = left > 0
		timer.Reset(left)
	}
}

func (s *side) request(ctx context.Context, worker int, r request) {
	d, main := s.client(worker), r.key < s.o.Keys
	var err error
	switch r.kind {
	case read:
		s.read(ctx, d, worker, r.key, main)
		return
	case write:
		err = s.set(ctx, d, worker, r.key)
	case del:
		err = s.del(ctx, d, r.key)
	case increment:
		err = s.increment(ctx, d, worker)
	}
	if !main || ctx.Err() != nil || errors.Is(err, errBusy) {
		return
	}
	c := s.cell()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.writes++
	if err != nil {
		c.writeErrors++
	}
}

// read is cache-aside: what the cache does not answer comes from the origin, which
// is counted; what it has not is stored again.
func (s *side) read(ctx context.Context, d Driver, worker, key int, main bool) {
	began := time.Now()
	mark := s.check.Look(key, began.Sub(s.begin))
	value, found, err := d.Get(ctx, s.key(key))
	took := time.Since(began)
	if ctx.Err() != nil {
		return
	}
	s.called(took)
	if err == nil {
		s.check.Judge(mark, value, found)
	}
	if main {
		c := s.cell()
		c.mu.Lock()
		c.requests++
		c.reads++
		c.latency.Record(took)
		switch {
		case err != nil:
			c.readErrors++
			c.origin++
		case found:
			c.hits++
		default:
			c.origin++
		}
		c.mu.Unlock()
	}
	if err == nil && !found {
		_ = s.set(ctx, d, worker, key)
	}
}

// called notes how long a call took.
func (s *side) called(took time.Duration) {
	if took > s.o.Timeout+deadlineSlack {
		s.overdue.Add(1)
	}
	for {
		old := s.longest.Load()
		if int64(took) <= old || s.longest.CompareAndSwap(old, int64(took)) {
			return
		}
	}
}

// errBusy: another worker is writing the key, and this write is left out.
var errBusy = errors.New("another write of the key is under way")

func (s *side) set(ctx context.Context, d Driver, worker, key int) error {
	w, ok := s.check.Begin(key, false)
	if !ok {
		return errBusy
	}
	began := time.Now()
	value := register.AppendValue(make([]byte, 0, s.o.Value), register.Value{
		Key: uint64(key), Writer: uint32(worker), Version: w.Version, At: began.Sub(s.begin)}, s.o.Value)
	err := d.Set(ctx, s.key(key), value, s.ttl(key))
	s.check.End(w, err == nil, s.now())
	if ctx.Err() == nil {
		s.called(time.Since(began))
	}
	return err
}

func (s *side) del(ctx context.Context, d Driver, key int) error {
	w, ok := s.check.Begin(key, true)
	if !ok {
		return errBusy
	}
	began := time.Now()
	err := d.Del(ctx, s.key(key))
	s.check.End(w, err == nil, s.now())
	if ctx.Err() == nil {
		s.called(time.Since(began))
	}
	return err
}

// increment counts on the worker's own counter.
func (s *side) increment(ctx context.Context, d Driver, worker int) error {
	began := time.Now()
	n, err := d.Incr(ctx, counterKey(worker))
	if err != nil {
		s.check.CountUnknown(worker)
		return err
	}
	s.called(time.Since(began))
	s.check.Count(worker, n, began.Sub(s.begin), s.now())
	return nil
}
