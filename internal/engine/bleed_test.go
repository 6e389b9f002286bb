package engine

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/invariant"
)

// Each test here is a way in which another cache broke.

// redis#2716: growing the table at the limit evicted millions of keys.
func TestIndexGrowthAtTheLimitEvictsOnlyWhatTheWriteNeeds(t *testing.T) {
	oneGoroutine(t)
	limit := int64(scale(8 << 20))
	e, _ := newTest(t, Options{MaxBytes: limit})
	value := make([]byte, 100)
	segment := int64(chunkBlocks * e.arena.blockBytes)
	for i := range scale(200_000) {
		before := e.used.Load()
		mustSet(t, e, slotFor(i%7), keyFor(i), value, 0)
		if after := e.used.Load(); after < before-segment || after > limit {
			t.Fatalf("write %d: %d bytes before, %d after", i, before, after)
		}
	}
	if st := e.Stats(); st.ArenaBytes > limit || st.ArenaBytes < limit-segment || st.Evicted == 0 {
		t.Fatalf("%d bytes are used, want within one segment of the limit %d", st.ArenaBytes, limit)
	}
	verifyAll(t, e)
}

// groupcache#64: 2 GB configured, 4 to 6 used. What entries are charged must be
// what they really take of the arena, and the heap must not grow beside it.
func TestChargeIsWhatTheArenaTakes(t *testing.T) {
	if raceEnabled || invariant.Enabled {
		t.Skip("the build changes allocations")
	}
	for _, tc := range []struct {
		name         string
		items, value int
		ttl          bool
		slots        int
		most         float64 // taken by what is charged
	}{
		{"small values", 200_000, 16, false, Slots, 1.10},
		{"small values with a deadline", 200_000, 16, true, Slots, 1.10},
		{"values of 270 bytes", 100_000, 270, false, Slots, 1.05},
		{"values of 4 KiB", 5_000, 4096, false, Slots, 1.15}, // of the last block of a segment a part is left
		{"one huge slot", 200_000, 16, true, 1, 1.09},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, c := newTest(t, Options{MaxBytes: 64 << 20, Shards: 4})
			value := make([]byte, tc.value)
			before := heap()
			for i := range tc.items {
				deadline := int64(0)
				if tc.ttl {
					deadline = c.in(1000)
				}
				mustSet(t, e, uint16(i%tc.slots), keyFor(i), value, deadline)
			}
			grown, st := heap()-before, e.Stats()
			each := func(n int64) float64 { return float64(n) / float64(tc.items) }
			t.Logf("%.1f bytes each beside key and value, charged %.1f, heap %.2f", each(st.ArenaBytes)-float64(12+tc.value), each(st.Bytes)-float64(12+tc.value), each(grown))
			if ratio := float64(st.ArenaBytes) / float64(st.Bytes); ratio > tc.most || ratio < 0.97 {
				t.Errorf("%d items take %d bytes and are charged %d", tc.items, st.ArenaBytes, st.Bytes)
			}
			if grown > 1<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			runtime.KeepAlive(e)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// garnet#1265: write-only churn of short-lived keys grew without end.
func TestWriteOnlyShortTTLChurnStaysBounded(t *testing.T) {
	e, c := newTest(t, Options{Shards: 8})
	const perMs, ttl = 20, 50
	for i := range scale(100_000) {
		mustSet(t, e, slotFor(i), keyFor(i), []byte("v"), c.in(ttl))
		if i%perMs == 0 {
			c.add(1)
		}
		if i%(100*perMs) == 0 { // the sweep goroutine's pause
			for more := true; more; {
				_, more = e.Sweep()
			}
		}
	}
	// 100 ms between sweeps, the keys alive, and a third of those may be expired.
	if st, most := e.Stats(), int64((100+ttl)*perMs*4/3); st.Keys > most {
		t.Fatalf("%d keys are left, want at most %d; %d expired", st.Keys, most, st.Expired)
	}
	c.add(ttl + 1)
	for range 100_000 { // the samples that go in turn leave nothing behind
		if e.Sweep(); e.Stats().Keys == 0 {
			return
		}
	}
	t.Fatalf("%d expired keys are never found", e.Stats().Keys)
}

// Above a quarter of a sample expired: go on at once, but not for ever.
func TestSweepGoesOnWhileAQuarterOfASampleIsExpired(t *testing.T) {
	e, c := newTest(t, Options{Shards: 1, Seed: 1})
	for i := range 10_000 {
		deadline := c.in(10)
		if i%10 == 0 {
			deadline = c.in(1_000_000)
		}
		mustSet(t, e, slotFor(i), keyFor(i), nil, deadline)
	}
	c.add(11)
	removed, more := e.Sweep()
	if removed < sweepSteps*sweepSample/2 || removed > sweepSteps*sweepSample || !more {
		t.Fatalf("the first sweep removed %d, more is %v; want about %d, the most, and more", removed, more, sweepSteps*sweepSample)
	}
	for more {
		_, more = e.Sweep()
	}
	st := e.Stats()
	if left := st.Keys - 1000; left > 1000 { // some sample had at most 25 % expired
		t.Fatalf("it stopped with %d expired keys among %d", left, st.Keys)
	}
	if st.Expired != 10_000-st.Keys {
		t.Fatalf("%d counted as expired, %d are gone", st.Expired, 10_000-st.Keys)
	}
}

// The part of the sample that goes in turn: no expired key is missed for ever,
// however few there are.
func TestSweepFindsEveryExpiredKeyInOneRound(t *testing.T) {
	e, c := newTest(t, Options{Shards: 1, Seed: 1})
	const keys, gone = 4000, 200
	for i := range keys {
		deadline := c.in(1_000_000)
		if i%(keys/gone) == 0 {
			deadline = c.in(1)
		}
		mustSet(t, e, slotFor(i), keyFor(i), nil, deadline)
	}
	c.add(2)
	for range keys * 2 / sweepSample {
		if n, more := e.Sweep(); n > 12 || more { // a twentieth is no reason to go on
			t.Fatalf("one sweep removed %d, more is %v", n, more)
		}
	}
	if st := e.Stats(); st.Expired != gone {
		t.Fatalf("%d of %d expired keys were found", st.Expired, gone)
	}
}

// bigcache#109: overwriting the same keys grew.
func TestOverwritingTheSameKeysDoesNotGrow(t *testing.T) {
	for _, limit := range []int64{0, 1 << 20} {
		e, _ := newTest(t, Options{MaxBytes: limit, Shards: 4})
		value := make([]byte, 2000)
		var most int64
		for i := range scale(100_000) {
			mustSet(t, e, slotFor(i%100), keyFor(i%100), value[:i*7919%2000], 0)
			most = max(most, e.used.Load())
		}
		if st := e.Stats(); st.Keys != 100 || st.Evicted != 0 || most > 700<<10 {
			t.Fatalf("limit %d: %d keys, %d evicted, %d bytes at most", limit, st.Keys, st.Evicted, most)
		}
		for range 3 {
			for i := range 100 {
				mustSet(t, e, slotFor(i), keyFor(i), []byte("small"), 0)
			}
		}
		if st := e.Stats(); st.Bytes > 100*(Overhead+20) {
			t.Fatalf("keys that once were large are charged %d bytes", st.Bytes)
		}
		verifyAll(t, e)
	}
}

// The same with ten thousand keys of changing size at the limit.
func TestOverwritingTenThousandKeysStaysWithinTheLimit(t *testing.T) {
	oneGoroutine(t)
	const limit = 4 << 20
	e, _ := newTest(t, Options{MaxBytes: limit})
	r := rand.New(rand.NewPCG(1, 3))
	value := make([]byte, 200)
	for range scale(2_000_000) {
		k := r.IntN(10_000)
		mustSet(t, e, slotFor(k), keyFor(k), value[:r.IntN(200)], 0)
		if used := e.used.Load(); used > limit {
			t.Fatalf("%d bytes used, limit %d", used, limit)
		}
	}
	if st := e.Stats(); st.Evicted != 0 || st.Keys < int64(scale(10_000)) {
		t.Fatalf("%d keys are left, %d were evicted although all fit: %+v", st.Keys, st.Evicted, st)
	}
	verifyAll(t, e)
}

// memcached#689: one large item among a million small ones: out of memory.
func TestOneLargeItemAmongManySmallOnes(t *testing.T) {
	oneGoroutine(t)
	limit := int64(max(4<<20, scale(32<<20)))
	e, c := newTest(t, Options{MaxBytes: limit})
	for i := 0; i%1000 != 0 || e.Stats().Evicted == 0; i++ {
		mustSet(t, e, slotFor(i), keyFor(i), []byte("small"), 0)
		c.add(int64(i % 2))
	}
	large := make([]byte, DefaultMaxValue)
	segment := int64(chunkBlocks * e.arena.blockBytes)
	for n := range 16 {
		before := e.Stats()
		mustSet(t, e, slotFor(n*31), keyFor(-n-1), large, 0)
		after := e.Stats()
		if after.ArenaBytes > limit || !has(e, slotFor(n*31), keyFor(-n-1)) {
			t.Fatalf("%d bytes of %d after a large item", after.ArenaBytes, limit)
		}
		if freed := before.ArenaBytes + int64(len(large)) - after.ArenaBytes; freed > int64(len(large))+2*segment {
			t.Fatalf("%d bytes were evicted for an item of %d", freed, len(large))
		}
	}
	verifyAll(t, e)
}

// cachegrand#439: key bytes were not counted.
func TestKeyBytesAreCounted(t *testing.T) {
	e, _ := newTest(t, Options{Shards: 1})
	key := bytes.Repeat([]byte("k"), 10_000)
	mustSet(t, e, 1, key, nil, 0)
	if got := e.Stats().Bytes; got < Overhead+10_000 {
		t.Fatalf("a key of 10000 bytes is charged %d", got)
	}
}

// dragonfly#1936: bimodal sizes broke the bound.
func TestBimodalSizesKeepTheBound(t *testing.T) {
	const limit = 4 << 20
	e, _ := newTest(t, Options{MaxBytes: limit, Shards: 16})
	r := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 200_000)
	for range scale(30_000) {
		n := 8
		if r.IntN(50) == 0 {
			n = 100_000 + r.IntN(100_000)
		}
		k := r.IntN(20_000)
		mustSet(t, e, slotFor(k), keyFor(k), value[:n], 0)
		if used := e.used.Load(); used > limit {
			t.Fatalf("%d bytes used, limit %d", used, limit)
		}
	}
	verifyAll(t, e)
}

// otter#171: parallel writers overshot the limit.
func TestParallelWritersNeverOvershoot(t *testing.T) {
	const limit = 1 << 20
	e, _ := newTest(t, Options{MaxBytes: limit, Shards: 16})
	var writers, watcher sync.WaitGroup
	stop := make(chan struct{})
	watcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if used := e.used.Load(); used > limit {
				t.Errorf("%d bytes used, limit %d", used, limit)
				return
			}
			runtime.Gosched()
		}
	})
	for w := range 16 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			value := make([]byte, 20_000)
			for range scale(4000) {
				k := r.IntN(5000)
				n := r.IntN(300)
				if r.IntN(40) == 0 {
					n = r.IntN(len(value))
				}
				if err := e.Set(slotFor(k), keyFor(k), value[:n], 0); err != nil {
					t.Errorf("set: %v", err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	watcher.Wait()
	verifyAll(t, e)
}

// The same where it is decided: whoever was given memory never sees more in use than the limit.
func TestReservationsNeverOvershoot(t *testing.T) {
	const limit, part = 1 << 20, 300 << 10 // three parts fit
	e, _ := newTest(t, Options{MaxBytes: limit, NoBackground: true})
	base := e.used.Load()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range scale(2_000_000) {
				if !e.tryReserve(part) {
					continue
				}
				used := e.used.Load()
				e.used.Add(-part)
				if used > limit {
					t.Errorf("%d bytes used, limit %d", used, limit)
					return
				}
			}
		})
	}
	wg.Wait()
	if used := e.used.Load(); used != base {
		t.Errorf("%d bytes used at the end, %d before", used, base)
	}
}

// ristretto#52: a delete lost to an earlier set that was still buffered.
func TestDeleteNeverLosesToAnEarlierSet(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: 4})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				k := keyFor(w*1_000_000 + i%50)
				if err := e.Set(7, k, []byte("v"), 0); err != nil {
					t.Error(err)
				}
				if ok, err := e.Delete(7, k); !ok || err != nil {
					t.Errorf("delete after set: %v %v", ok, err)
				}
				if _, _, err := e.Get(7, k, nil); !errors.Is(err, errs.ErrNotFound) {
					t.Errorf("get after delete: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// redis#15410: a client that scans all the time kept expiry from running.
func TestScanDoesNotStarveExpiry(t *testing.T) {
	e, c := newTest(t, Options{Shards: 4})
	for i := range 20_000 {
		mustSet(t, e, slotFor(i%3), keyFor(i), nil, c.in(10))
	}
	c.add(11)
	cursor := uint64(0)
	for range 200 {
		cursor = e.Scan(cursor, 100, func(key []byte, _ Item) { t.Errorf("an expired key %q was returned", key) })
		e.Sweep()
	}
	if st := e.Stats(); st.Keys > 1000 {
		t.Fatalf("%d expired keys are left of 20000", st.Keys)
	}
}

// valkey#3588: SCAN skipped keys. Keys come and go around those that stay, so
// that the index of the slot grows and shrinks at every depth meanwhile.
func TestScanSkipsNoKeyWhileTheIndexGrowsAndShrinks(t *testing.T) {
	oneGoroutine(t)
	e, _ := newTest(t, Options{Shards: 2})
	const stay, most = 300, 8_000
	for i := range stay {
		mustSet(t, e, 5, keyFor(i), nil, 0)
	}
	r := rand.New(rand.NewPCG(5, 6))
	n := 0
	for round := range 12 {
		seen := map[string]int{}
		target := []int{most, 0}[round%2]
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			cursor = e.Scan(cursor, 1+r.IntN(20), func(key []byte, _ Item) { seen[string(key)]++ })
			for range r.IntN(200) {
				k := keyFor(1000 + n)
				switch {
				case n < target:
					mustSet(t, e, 5, k, nil, 0)
					n++
				case n > target:
					n--
					e.Delete(5, keyFor(1000+n))
				}
			}
		}
		for i := range stay {
			if n := seen[string(keyFor(i))]; n != 1 {
				t.Fatalf("round %d: key %d was returned %d times", round, i, n)
			}
		}
		verifyAll(t, e)
	}
}

// A slot of one hash tag that holds everything: each call costs about its
// count, and a full scan returns every key once.
func TestScanOfAHugeSlotIsLinear(t *testing.T) {
	e, _ := newTest(t, Options{Seed: 1})
	const keys, count = 50_000, 10
	for i := range keys {
		mustSet(t, e, 9999, keyFor(i), nil, 0)
	}
	calls, most := 0, 0
	seen := map[string]bool{}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		n := 0
		cursor = e.Scan(cursor, count, func(key []byte, _ Item) { n++; seen[string(key)] = true })
		most, calls = max(most, n), calls+1
	}
	if len(seen) != keys || most >= count+2*ways || calls > keys/count+1 {
		t.Fatalf("%d keys of %d in %d calls, %d at most in one", len(seen), keys, calls, most)
	}
}
