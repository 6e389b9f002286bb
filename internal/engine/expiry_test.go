package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// Keys with one deadline are gone by themselves after it, with 99 per cent of
// their bytes, and a read before the sweep comes by finds none of them.
func TestOneDeadlineForAllFreesTheirMemory(t *testing.T) {
	keys := scale(300_000)
	e, c := newTest(t, Options{MaxBytes: 1 << 30, Shards: 64})
	for i := range keys {
		mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 32), c.in(10_000))
	}
	full := e.Stats().ArenaBytes
	c.add(10_001)
	for i := 0; i < keys; i += 997 {
		if _, _, err := e.Get(slotFor(i), keyFor(i), nil); !errors.Is(err, errs.ErrNotFound) {
			t.Fatalf("key %d was read after its deadline: %v", i, err)
		}
	}
	rounds := 0
	for more := true; more; rounds++ {
		_, more = e.Sweep()
	}
	if st := e.Stats(); st.ArenaBytes*100 > full || st.Keys*100 > int64(keys) {
		t.Fatalf("%d of %d bytes and %d keys are left after %d rounds without a pause", st.ArenaBytes, full, st.Keys, rounds)
	}
	verifyAll(t, e)
}

// Where a shard has few segments, keys that expire lie beside others that do
// not: what they took is given back too, without a write.
func TestExpiredBytesAmongOthersAreFreed(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 64 << 20})
	const keys = 60_000
	value := make([]byte, 100)
	for i := range keys {
		deadline := int64(0)
		if i%4 > 0 {
			deadline = c.in(1000)
		}
		mustSet(t, e, slotFor(i), keyFor(i), value, deadline)
	}
	c.add(1001)
	for range 300 {
		e.Sweep()
	}
	st := e.Stats()
	if st.Keys > keys/4*5/4 {
		t.Fatalf("%d of %d keys are left, a quarter never expires", st.Keys, keys)
	}
	if st.DeadBytes*compactShare > st.LiveBytes*5/4 || st.Evicted > 0 {
		t.Fatalf("%d dead bytes are left beside %d live ones", st.DeadBytes, st.LiveBytes)
	}
	verifyAll(t, e)
}

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
// are taken away. x-p99.9 is the 99.9th percentile of the reads in that time over
// the median of that of windows of 200 ms before, and must stay below 2. A read
// after the deadline may not find a key that has expired.
func BenchmarkReadsBesideMillionDeadlines(b *testing.B) {
	const keys = 1_000_000
	value := []byte("0123456789abcdef0123456789abcdef")
	for b.Loop() {
		e := newBackground(b, Options{MaxBytes: 1 << 30})
		deadline := e.Now() + 9000
		for i := range keys {
			mustSet(b, e, slotFor(i), keyFor(i), value, 0)
			mustSet(b, e, slotFor(keys+i), keyFor(keys+i), value, deadline)
		}
		freed := make(chan struct{})
		reads := make(chan readTimes)
		go func() { reads <- readBeside(b, e, keys, deadline, freed) }()
		awaitTrue(func() bool { return e.Stats().Expired >= keys/100*99 })
		b.ReportMetric(float64(e.Now()-deadline), "ms-to-free")
		close(freed)
		r := <-reads
		b.ReportMetric(r.during/r.before, "x-p99.9")
		b.ReportMetric(r.before, "ns-p99.9-before")
		e.Close()
	}
}

// awaitTrue looks every millisecond.
func awaitTrue(done func() bool) {
	for !done() {
		<-time.After(time.Millisecond)
	}
}

// readTimes are 99.9th percentiles of reads, in ns, before and after a deadline.
type readTimes struct{ before, during float64 }

// readBeside reads keys of which the first half lives for ever and the second
// ends at the deadline, until freed is closed.
func readBeside(b *testing.B, e *Engine, keys int, deadline int64, freed chan struct{}) (r readTimes) {
	const window = 200 * time.Millisecond
	var quiet []float64
	var took []time.Duration
	var dst []byte
	rnd := rand.New(rand.NewPCG(1, 2))
	begin, late := time.Now(), false
	for {
		i := rnd.IntN(keys)
		if rnd.IntN(8) == 0 {
			i += keys
		}
		slot, key := slotFor(i), keyFor(i)
		now := e.Now()
		start := time.Now()
		var err error
		dst, _, err = e.Get(slot, key, dst[:0])
		took = append(took, time.Since(start))
		if i >= keys && now > deadline && err == nil {
			b.Errorf("key %d was read %d ms after its deadline", i, now-deadline)
		}
		if !late && now > deadline {
			late, took, begin = true, took[:0], start
		}
		select {
		case <-freed:
			slices.Sort(quiet)
			return readTimes{before: quiet[len(quiet)/2], during: percentile(took, 999)}
		default:
		}
		if !late && start.Sub(begin) > window {
			quiet = append(quiet, percentile(took, 999))
			took, begin = took[:0], time.Now()
		}
	}
}

// percentile returns what so many of a thousand do not exceed, in ns.
func percentile(took []time.Duration, of int) float64 {
	slices.Sort(took)
	return float64(took[len(took)*of/1000])
}
