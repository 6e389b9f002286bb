package engine

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// The sweep may stand in the middle of a segment when eviction empties it, and
// what stays slides to its front: the walk must neither read from where no
// record begins nor pass over deadlines that slid behind it.
func TestSweepGoesOnInASegmentThatWasCleaned(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1, Seed: 1, Policy: "lru"})
	const keys = 400
	set := func(i int) {
		deadline := c.in(int64(10_000 - i)) // what the walk has not met passes first
		if i == 0 {
			deadline = c.in(1) // makes the segment one to walk
		}
		mustSet(t, e, 1, keyFor(i), bytes.Repeat([]byte{0x55}, 20+i%7), deadline)
	}
	for i := range keys {
		set(i)
	}
	for stop := range 12 {
		c.add(2)
		e.Sweep()
		s := &e.shards[0]
		if s.walkSeg == 0 {
			t.Fatal("the walk is not within a segment")
		}
		for i := range keys { // every third stays
			if i%3 == stop%3 {
				e.Get(1, keyFor(i), nil)
			}
		}
		s.mu.Lock()
		s.clean(s.walkSeg, e.policy.Load(), c.now(), 0)
		s.unlock()
		for range 30 {
			e.Sweep()
			if verifyAll(t, e); t.Failed() {
				return
			}
		}
		for i := range keys {
			set(i)
		}
	}
}

// borders are TTLs around those at which something changes: an era's age, the
// reach of a short deadline, the buckets, the end of time.
func borders(now int64) (ttls []int64) {
	for _, at := range []int64{1, 8_000, 120_000, 3_600_000, eraMost / 2, eraMost, eraMost + 1000, math.MaxUint32, math.MaxUint32 + 1, 2 * eraMost,
		3 * eraMost, 5 * eraMost, 365 * 24 * 3_600_000, math.MaxInt64 - now - 2} {
		ttls = append(ttls, max(at-1, 0), at, at+1)
	}
	return ttls
}

// Every deadline is exact, however far, and stays so when the shard's era moves:
// after 24 days, after 49, after a year in which nobody looked.
func TestDeadlinesAreExactAcrossEras(t *testing.T) {
	for name, between := range map[string]func(e *Engine, r *rand.Rand){
		"nobody looks": func(*Engine, *rand.Rand) {},
		"sweeps":       func(e *Engine, _ *rand.Rand) { e.Sweep() },
		"writes": func(e *Engine, r *rand.Rand) {
			tx := e.LockAny(uint16(r.IntN(4)))
			_ = tx.Set([]byte("other"), nil, tx.Now()+int64(r.IntN(1<<20)))
			tx.Unlock()
		},
		"everything moves": func(e *Engine, r *rand.Rand) {
			for i := range e.shards {
				s := &e.shards[i]
				s.mu.Lock()
				if id := oldestSegment(s); id != 0 {
					s.clean(id, policyNamed("noeviction"), e.now(), 0)
				}
				s.unlock()
			}
		},
	} {
		t.Run(name, func(t *testing.T) { testDeadlines(t, between) })
	}
}

func testDeadlines(t *testing.T, between func(e *Engine, r *rand.Rand)) {
	e, c := newTest(t, Options{Shards: 2})
	r := rand.New(rand.NewPCG(1, 4))
	type timed struct {
		slot     uint16
		key      []byte
		deadline int64
	}
	var all []timed
	var times []int64
	for round := range 3 {
		for i, ttl := range borders(c.now()) {
			k := timed{uint16(i % 4), keyFor(round*1000 + i), c.in(ttl)}
			mustSet(t, e, k.slot, k.key, k.key, k.deadline)
			all = append(all, k)
			if k.deadline < math.MaxInt64-10 {
				times = append(times, k.deadline-1, k.deadline, k.deadline+1, k.deadline+2)
			}
		}
		c.add(eraMost/3 + 7)
	}
	slices.Sort(times)
	for _, now := range times {
		if now < c.now() {
			continue
		}
		c.ms.Store(now)
		between(e, r)
		for _, k := range all {
			if r.IntN(3) > 0 && now-k.deadline > 2 {
				continue
			}
			tx := e.LockAny(k.slot)
			it, ok := tx.Peek(k.key)
			value := bytes.Clone(it.Value)
			tx.Unlock()
			if ok != (now <= k.deadline) || ok && (it.Deadline != k.deadline || !bytes.Equal(value, k.key)) {
				t.Fatalf("at %d: %s is present: %v, with deadline %d and value %q; want %d, %d ms left", now, k.key, ok, it.Deadline, value, k.deadline, k.deadline-now)
			}
		}
	}
	for range 200 {
		e.Sweep()
	}
	for slot := range uint16(4) {
		_, _ = e.Delete(slot, []byte("other"))
	}
	n, last := int64(0), times[len(times)-1]
	for _, k := range all {
		if k.deadline >= last {
			n++
		}
	}
	if got := e.Stats(); got.Volatile != n || n == 0 {
		t.Errorf("%d keys with a deadline are left, want %d", got.Volatile, n)
	}
	verifyAll(t, e)
}

// A shard in which nobody looked for 60 days: what expired meanwhile stays gone,
// though its lower 32 bits name a time to come by then.
func TestExpiredKeysDoNotComeBackWithANewEra(t *testing.T) {
	for _, sleep := range []int64{eraMost - 1, eraMost + 1, math.MaxUint32, math.MaxUint32 + 500, 2*math.MaxUint32 + 500} {
		e, c := newTest(t, Options{Shards: 1})
		for i := range 3000 {
			mustSet(t, e, uint16(i%5), keyFor(i), nil, c.in(int64(1000+i)))
		}
		c.add(sleep)
		mustSet(t, e, 9, []byte("new"), nil, c.in(1)) // moves the era if it is old
		for i := range 3000 {
			if _, _, err := e.Get(uint16(i%5), keyFor(i), nil); !errors.Is(err, errs.ErrNotFound) {
				t.Fatalf("after %d ms key %d is back: %v", sleep, i, err)
			}
		}
		if n := e.Stats().Keys; n != 1 {
			t.Fatalf("after %d ms %d keys are left", sleep, n)
		}
		verifyAll(t, e)
	}
}

// In the millisecond of its deadline a key is there for every way to look, and
// one later for none.
func TestEveryWayToLookAgreesOnTheMillisecondOfExpiry(t *testing.T) {
	looks := map[string]func(e *Engine, key []byte) bool{
		"get": func(e *Engine, key []byte) bool { _, _, err := e.Get(1, key, nil); return err == nil },
		"has": func(e *Engine, key []byte) bool { return has(e, 1, key) },
		"txn": func(e *Engine, key []byte) bool {
			tx := e.LockAny(1)
			defer tx.Unlock()
			_, ok := tx.Get(key)
			return ok
		},
		"peek": func(e *Engine, key []byte) bool {
			tx := e.LockAny(1)
			defer tx.Unlock()
			_, ok := tx.Peek(key)
			return ok
		},
		"touch": func(e *Engine, key []byte) bool {
			tx := e.LockAny(1)
			defer tx.Unlock()
			return tx.Touch(key)
		},
		"delete":     func(e *Engine, key []byte) bool { ok, _ := e.Delete(1, key); return ok },
		"invalidate": func(e *Engine, key []byte) bool { tx := e.LockAny(1); defer tx.Unlock(); return tx.Invalidate(key) },
		"deadline": func(e *Engine, key []byte) bool {
			tx := e.LockAny(1)
			defer tx.Unlock()
			return tx.SetDeadline(key, 0)
		},
		"scan": func(e *Engine, _ []byte) (ok bool) { e.Scan(0, 100, func([]byte, Item) { ok = true }); return ok },
		"slot": func(e *Engine, _ []byte) (ok bool) { e.KeysInSlot(1, 100, func([]byte) { ok = true }); return ok },
		"hottest": func(e *Engine, _ []byte) (ok bool) {
			e.HottestFirst(1, func([]byte, Item) bool { ok = true; return true })
			return ok
		},
		"random": func(e *Engine, _ []byte) bool { _, ok := e.RandomKey(nil); return ok },
		"drop":   func(e *Engine, _ []byte) bool { return e.DropSlot(1) == 1 },
		"sweep":  func(e *Engine, _ []byte) bool { n, _ := e.Sweep(); return n == 0 },
		"pull": func(e *Engine, key []byte) bool {
			got, _ := e.AddIfUntouched(2, key, nil, 1_000_010)
			return got == Added
		},
	}
	for name, look := range looks {
		for late := range int64(2) {
			e, c := newTest(t, Options{Shards: 1})
			e.OpenWindow(2, 10)
			mustSet(t, e, 1, []byte("k"), []byte("v"), c.in(10))
			c.add(10 + late)
			if got := look(e, []byte("k")); got != (late == 0) {
				t.Errorf("%s, %d ms after the deadline: present is %v", name, late, got)
			}
		}
	}
}

// garnet#1265 with a TTL of a second: what lives at a time bounds what is used,
// and a limit that has room for it evicts nothing.
func TestChurnWithASecondToLiveIsBoundedByWhatLives(t *testing.T) {
	oneGoroutine(t)
	const perMs = 20
	live := int64(1100 * perMs) // a second, and the pause between sweeps
	limit := int64(4 << 20)
	e, c := newTest(t, Options{MaxBytes: limit, Shards: 4})
	var most int64
	for i := range scale(400_000) {
		mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 32), c.in(1000))
		if i%perMs == 0 {
			c.add(1)
		}
		if i%(100*perMs) == 0 {
			for more := true; more; {
				_, more = e.Sweep()
			}
		}
		most = max(most, e.used.Load())
	}
	st := e.Stats()
	if each := int64(12 + 32 + 24 + 5); st.Evicted != 0 || most > 2*live*each {
		t.Fatalf("%d evicted, %d bytes at most, %d keys live take %d", st.Evicted, most, live, live*each)
	}
	if st.Keys > live*4/3 {
		t.Fatalf("%d keys are left, %d live at a time", st.Keys, live)
	}
	verifyAll(t, e)
}
