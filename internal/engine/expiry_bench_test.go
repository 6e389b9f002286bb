package engine

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// The time from a deadline of a million keys until 99 per cent of their bytes
// are free, with the background at work: must stay below a second.
func BenchmarkMillionDeadlines(b *testing.B) {
	for b.Loop() {
		e := newBackground(b, Options{MaxBytes: 1 << 30})
		deadline := e.Now() + 8000
		for i := range 1_000_000 {
			mustSet(b, e, slotFor(i), keyFor(i), []byte("0123456789abcdef0123456789abcdef"), deadline)
		}
		full := e.used.Load()
		awaitTrue(func() bool { return e.Now() > deadline && e.used.Load()*100 <= full })
		b.ReportMetric(float64(e.Now()-deadline), "ms-to-free")
		e.Close()
	}
}

// What reads of a million keys feel while as many others, all with one deadline,
// are taken away. One goroutine reads, so that it and the sweep have a processor
// each where there are two. It turns between the engine in which the keys expire
// and another one like it in which nothing does, so that what comes from the
// machine, and from the sweep as a load of it, shows in both.
//
// x-p99 and x-p99.9 are percentiles of the reads from the deadline to the end over
// those of the two seconds before; other-x-p99.9 is the same of the other
// engine. x-p99.9 must stay below 2 where the other one is near 1. A read after the
// deadline may not find a key that has expired.
func BenchmarkReadsBesideMillionDeadlines(b *testing.B) {
	const keys = 1_000_000
	var h [2]readTimes
	free := 0.0
	for b.Loop() {
		var engines [2]*Engine
		for i := range engines {
			engines[i] = newBackground(b, Options{MaxBytes: 1 << 30})
		}
		e := engines[0]
		deadline := e.Now() + 12_000
		for i, e := range engines {
			fillBeside(b, e, keys, deadline+int64(i)*3_600_000)
		}
		if e.Now() > deadline-2000 {
			b.Fatal("the machine is too slow: the deadline is over before the reads can begin")
		}
		var freed atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			readBeside(b, engines, keys, deadline, &h, &freed)
		}()
		<-time.After(time.Duration(deadline-e.Now()) * time.Millisecond)
		for goneOf(e) < keys/100*99 {
			<-time.After(10 * time.Millisecond)
		}
		free += float64(e.Now() - deadline)
		freed.Store(true)
		<-done
		for _, e := range engines {
			e.Close()
		}
	}
	b.ReportMetric(free/float64(b.N), "ms-to-free")
	b.ReportMetric(h[0].before.at(0.999), "ns-p99.9-before")
	b.ReportMetric(h[0].during.at(0.999), "ns-p99.9")
	b.ReportMetric(h[0].during.at(0.99)/h[0].before.at(0.99), "x-p99")
	b.ReportMetric(h[0].during.at(0.999)/h[0].before.at(0.999), "x-p99.9")
	b.ReportMetric(h[1].during.at(0.999)/h[1].before.at(0.999), "other-x-p99.9")
	b.ReportMetric(h[1].during.at(0.999), "other-ns-p99.9")
	b.ReportMetric(h[0].during.at(0.9999)/h[0].before.at(0.9999), "x-p99.99")
}

// fillBeside stores keys that live for ever, and as many between them that end at
// the deadline.
func fillBeside(b *testing.B, e *Engine, keys int, deadline int64) {
	value := []byte("0123456789abcdef0123456789abcdef")
	for i := range keys {
		mustSet(b, e, slotFor(i), keyFor(i), value, 0)
		mustSet(b, e, slotFor(keys+i), keyFor(keys+i), value, deadline)
	}
}

// goneOf counts what has expired without disturbing reads, as Stats would.
func goneOf(e *Engine) (n int64) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.mu.Lock()
		n += s.expired
		s.mu.mu.Unlock()
	}
	return n
}

// awaitTrue looks every millisecond.
func awaitTrue(done func() bool) {
	for !done() {
		<-time.After(time.Millisecond)
	}
}

// readTimes are how long reads took before and after a deadline.
type readTimes struct{ before, during times }

// readBeside reads from the engines in turn until freed; an eighth of the reads
// are of keys that end at the deadline of the first.
func readBeside(b *testing.B, engines [2]*Engine, keys int, deadline int64, h *[2]readTimes, freed *atomic.Bool) {
	var dst []byte
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := 0; !freed.Load(); n++ {
		e := engines[n&1]
		i := rnd.IntN(keys)
		if rnd.IntN(8) == 0 {
			i += keys
		}
		slot, key := slotFor(i), keyFor(i)
		now := e.Now()
		start := time.Now()
		var err error
		dst, _, err = e.Get(slot, key, dst[:0])
		took := time.Since(start)
		switch {
		case now > deadline:
			if h[n&1].during.add(took); i >= keys && n&1 == 0 && err == nil {
				b.Errorf("key %d was read %d ms after its deadline", i, now-deadline)
			}
		case now > deadline-2000:
			h[n&1].before.add(took)
		}
	}
}

// times counts durations by their logarithm, 32 steps for each factor of two.
type times struct {
	n  int
	of [64 * 32]int
}

func (t *times) add(d time.Duration) {
	v := max(uint64(d), 32)
	e := bits.Len64(v) - 6
	t.of[e*32+int(v>>e)-32]++
	t.n++
}

// at returns what so large a part of the durations does not exceed, in ns.
func (t *times) at(part float64) float64 {
	left := int(part * float64(t.n))
	for i, n := range t.of {
		if left -= n; left < 0 {
			return float64(uint64(i%32+32) << (i / 32))
		}
	}
	return 0
}
