package workload

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DemoOptions configures Demo.
type DemoOptions struct {
	Cache   Cache
	Items   int           // distinct keys; default 100,000
	Theta   float64       // Zipf exponent; default 0.99
	Workers int           // concurrent callers; default 8
	Rate    float64       // requests per second over all workers; default 5,000
	Value   int           // bytes per value; default 100
	Every   time.Duration // period of Report; default 1 s
	Seed    uint64
	Report  func(DemoStats) // called from one goroutine
}

// DemoStats describes the period since the last report.
type DemoStats struct {
	Rate     float64 // requests per second
	HitRatio float64
	Errors   int64
	P50, P99 time.Duration
	Total    int64 // requests since the start
}

// String is the one-line summary of the period.
func (s DemoStats) String() string {
	return fmt.Sprintf("%6.0f requests/s  hit ratio %5.1f%%  p50 %s  p99 %s  errors %d",
		s.Rate, 100*s.HitRatio, s.P50.Round(time.Microsecond), s.P99.Round(time.Microsecond), s.Errors)
}

// demoPeriod is what one worker measured since the last report.
type demoPeriod struct {
	mu                     sync.Mutex
	hist                   Histogram
	requests, hits, errors int64
}

// Demo sends cache-aside Zipf traffic at a steady rate until the context ends
// and reports once a period. It returns after its workers have ended.
func Demo(ctx context.Context, o DemoOptions) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	periods := make([]demoPeriod, o.Workers)
	body := pattern(o.Value)
	var wg sync.WaitGroup
	for w := range o.Workers {
		z, err := NewZipf(o.Seed+uint64(w), o.Items, o.Theta)
		if err != nil {
			return err
		}
		wg.Go(func() { o.work(ctx, z, &periods[w], body) }) // ends with ctx
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	var total int64
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			wg.Wait()
			return nil
		case <-tick.C:
			now := time.Now()
			s := collect(periods, now.Sub(last))
			last = now
			total += s.Total
			s.Total = total
			o.Report(s)
		}
	}
}

func (o *DemoOptions) setDefaults() error {
	if o.Items == 0 {
		o.Items = 100_000
	}
	if o.Theta == 0 {
		o.Theta = 0.99
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.Rate <= 0 {
		o.Rate = 5000
	}
	if o.Value <= 0 {
		o.Value = 100
	}
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Report == nil {
		o.Report = func(DemoStats) {}
	}
	_, err := NewZipf(0, min(o.Items, 2), o.Theta) // the same faults, without the cost
	return err
}

// work sends one worker's share of the rate, without catching up after a stall:
// a demonstration must not turn into a load test.
func (o *DemoOptions) work(ctx context.Context, z *Zipf, p *demoPeriod, body []byte) {
	gap := time.Duration(float64(o.Workers) / o.Rate * float64(time.Second))
	tick := time.NewTicker(max(gap, time.Microsecond))
	defer tick.Stop()
	value := append([]byte(nil), body...)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		object := z.Next()
		key := TraceKey(object)
		begin := time.Now()
		_, found, err := o.Cache.Get(ctx, key)
		took := time.Since(begin)
		if err == nil && !found {
			if len(value) >= 8 {
				stamp(value, object)
			}
			err = o.Cache.Set(ctx, key, value)
		}
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.hist.Record(took)
		p.requests++
		if found {
			p.hits++
		}
		if err != nil {
			p.errors++
		}
		p.mu.Unlock()
	}
}

// collect sums the periods up and starts new ones.
func collect(periods []demoPeriod, took time.Duration) DemoStats {
	var h Histogram
	var s DemoStats
	var hits int64
	for i := range periods {
		p := &periods[i]
		p.mu.Lock()
		h.Merge(&p.hist)
		s.Total += p.requests
		hits += p.hits
		s.Errors += p.errors
		p.hist, p.requests, p.hits, p.errors = Histogram{}, 0, 0, 0
		p.mu.Unlock()
	}
	s.HitRatio = ratio(hits, s.Total)
	s.Rate = float64(s.Total) / took.Seconds()
	s.P50, s.P99 = h.Quantile(0.5), h.Quantile(0.99)
	return s
}
