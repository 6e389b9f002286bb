package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"
)

// preload stores every key once.
func (e *loadEngine) preload(ctx context.Context) error {
	e.depth.Store(max(preloadDepth, int64(e.o.Pipeline)))
	defer e.depth.Store(int64(e.o.Pipeline))
	e.reopen()
	ahead := int64(e.o.Conns * preloadAhead)
	touched := map[*loadNode]bool{}
	for key := 0; key < e.o.Keys; {
		for ; key < e.o.Keys && e.open.Load() < ahead; key++ {
			r := loadRequest{due: -1, key: key, set: true}
			n := e.route(r)
			e.open.Add(1)
			n.offer(r)
			touched[n] = true
			if key%loadBurst == 0 {
				pumpAll(touched)
			}
		}
		pumpAll(touched)
		if err := e.check(ctx); err != nil {
			return err
		}
		e.o.Progress("storing", key, e.o.Keys)
		e.pause(time.Millisecond)
	}
	for e.open.Load() > 0 {
		if err := e.check(ctx); err != nil {
			return err
		}
		e.pause(time.Millisecond)
	}
	return e.check(ctx)
}

// check returns why a preload cannot go on.
func (e *loadEngine) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("storing the keys: %w", context.Cause(ctx))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first != nil {
		return fmt.Errorf("storing the keys: %w", e.first)
	}
	return nil
}

// reopen lets connections take as many requests as they may now.
func (e *loadEngine) reopen() {
	for _, n := range e.all() {
		n.mu.Lock()
		for _, c := range n.conns {
			c.room()
		}
		n.mu.Unlock()
	}
}

func pumpAll(touched map[*loadNode]bool) {
	for n := range touched {
		n.pump()
	}
	clear(touched)
}

// run measures.
func (e *loadEngine) run(ctx context.Context) (*LoadReport, error) {
	o := e.o
	e.trimReady()
	e.from = e.since() + o.Warmup
	e.until.Store(int64(e.from + o.Duration))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // ends with the load
		defer close(done)
		e.watch(ctx, stop)
	}()
	if o.Rate > 0 {
		e.schedule(ctx)
	} else {
		e.busy.Store(true)
		for _, n := range e.all() {
			n.pump()
		}
		e.waitUntil(ctx)
	}
	interrupted := e.since() < time.Duration(e.until.Load()) && ctx.Err() != nil
	if interrupted {
		e.until.Store(int64(e.since()))
	}
	e.busy.Store(false)
	close(stop)
	<-done
	for limit := time.Now().Add(loadDrain); e.open.Load() > 0 && time.Now().Before(limit); {
		e.pause(time.Millisecond)
	}
	end := e.since()
	e.close()
	return e.report(end, interrupted), nil
}

// trimReady forgets that connections had room for more before.
func (e *loadEngine) trimReady() {
	for _, n := range e.all() {
		n.mu.Lock()
		kept := n.ready[:0]
		for _, c := range n.ready {
			if c.pending.len() < e.o.Pipeline {
				kept = append(kept, c)
			} else {
				c.isReady = false
			}
		}
		n.ready = kept
		n.mu.Unlock()
	}
}

// watch shows progress until stop.
func (e *loadEngine) watch(ctx context.Context, stop <-chan struct{}) {
	begin, tick := e.from-e.o.Warmup, time.NewTicker(loadProgress)
	defer tick.Stop()
	total := int((e.o.Warmup + e.o.Duration) / time.Millisecond)
	for {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
			e.o.Progress("measuring", min(int((e.since()-begin)/time.Millisecond), total), total)
		}
	}
}

func (e *loadEngine) waitUntil(ctx context.Context) {
	t := time.NewTimer(time.Duration(e.until.Load()) - e.since())
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// schedule makes the requests of a load with a rate when they are due. It keeps its
// thread: the timers of the runtime are too coarse for high rates.
func (e *loadEngine) schedule(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore := fineSleep()
	defer restore()
	o := e.o
	begin, end := e.from-o.Warmup, time.Duration(e.until.Load())
	rng, zipf := rand.New(rand.NewPCG(o.Seed, 0)), e.newZipf(0)
	touched := map[*loadNode]bool{}
	due := func(i int64) time.Duration { return begin + time.Duration(float64(i)/o.Rate*1e9) }
	for i := int64(0); ctx.Err() == nil; {
		now := e.since()
		for burst := 0; due(i) <= now && due(i) < end && burst < loadBurst && e.open.Load() < loadBacklog; burst++ {
			r := loadRequest{due: due(i), key: drawKey(rng, zipf, o.Keys), set: rng.Float64() >= o.Reads}
			if e.counts(r.due) {
				e.late.Record(now - r.due)
			}
			n := e.route(r)
			e.open.Add(1)
			n.offer(r)
			touched[n] = true
			i++
		}
		pumpAll(touched)
		next := due(i)
		switch now = e.since(); {
		case next >= end:
			return
		case e.open.Load() >= loadBacklog:
			if now >= end {
				return
			}
			shortSleep(time.Millisecond)
		case next > now:
			shortSleep(min(next-now, 50*time.Millisecond))
		}
	}
}

// report sums up; everything has ended.
func (e *loadEngine) report(end time.Duration, interrupted bool) *LoadReport {
	span := max(time.Duration(e.until.Load())-e.from, 0)
	r := &LoadReport{Cluster: e.cluster, Target: e.o.Rate, Seconds: span.Seconds(), Interrupted: interrupted, Moved: e.moved.Load(),
		LateP99: float64(e.late.Quantile(0.99)) / 1e3}
	if e.first != nil {
		r.FirstError = e.first.Error()
	}
	var get, set Histogram
	for _, n := range e.nodes {
		var nodeGet, nodeSet Histogram
		unanswered := func(q *loadFIFO) {
			for q.len() > 0 {
				x := q.pop()
				if !e.counts(x.due) {
					continue
				}
				r.Unanswered++
				if x.set {
					nodeSet.Record(end - x.due)
				} else {
					nodeGet.Record(end - x.due)
				}
			}
		}
		unanswered(&n.queue)
		for _, c := range n.conns {
			nodeGet.Merge(&c.get)
			nodeSet.Merge(&c.set)
			unanswered(&c.pending)
			r.Hits += c.hits
			r.Misses += c.misses
		}
		get.Merge(&nodeGet)
		set.Merge(&nodeSet)
		nodeGet.Merge(&nodeSet)
		r.Errors += n.errors
		r.Nodes = append(r.Nodes, NodeLatencies{Addr: n.addr, Latencies: latencies(&nodeGet, span), Errors: n.errors})
	}
	r.Get, r.Set = latencies(&get, span), latencies(&set, span)
	get.Merge(&set)
	r.All = latencies(&get, span)
	return r
}
