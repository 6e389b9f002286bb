package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// checkedValue is a value that tells its key and whether it is whole.
func checkedValue(key []byte, n int) []byte {
	return append(bytes.Repeat([]byte{byte(n)}, n), key...)
}

func isWhole(key, value []byte) bool {
	n := len(value) - len(key)
	return n >= 0 && bytes.Equal(value, checkedValue(key, n))
}

// TestParallelOperations runs everything against everything at a small limit:
// no value is ever mixed, nothing deadlocks, and all counters are right after.
func TestParallelOperations(t *testing.T) {
	const limit = 256 << 10
	e, c := newTest(t, Options{MaxBytes: limit, Shards: 8})
	var wg sync.WaitGroup
	var expiredSeen atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 9))
			for range scale(6000) {
				k := r.IntN(600)
				parallelStep(t, e, c, r, slotFor(k%40), keyFor(k), limit)
				expiredSeen.Add(1)
			}
		})
	}
	wg.Wait()
	e.SetMaxBytes(limit)
	if used := e.used.Load(); used > limit {
		t.Errorf("%d bytes used, limit %d", used, limit)
	}
	verifyAll(t, e)
}

func parallelStep(t *testing.T, e *Engine, c *clock, r *rand.Rand, slot uint16, key []byte, limit int64) {
	switch op := r.IntN(1000); {
	case op < 350:
		val, _, err := e.Get(slot, key, nil)
		if err == nil && !isWhole(key, val) {
			t.Errorf("key %q has value %q", key, val)
		}
	case op < 700:
		deadline := int64(0)
		if op%3 == 0 {
			deadline = c.in(int64(r.IntN(20)))
		}
		if err := e.Set(slot, key, checkedValue(key, r.IntN(2000)), deadline); err != nil && !errors.Is(err, errs.ErrNotServing) {
			t.Errorf("set: %v", err)
		}
	case op < 800:
		tx := e.LockAny(slot)
		if it, ok := tx.Get(key); ok && !isWhole(key, it.Value) {
			t.Errorf("key %q has value %q", key, it.Value)
		} else if ok {
			_ = tx.Set(key, it.Value, it.Deadline)
		}
		tx.Unlock()
	case op < 850:
		_, _ = e.Delete(slot, key)
	case op < 900:
		c.add(1)
		e.Sweep()
	case op < 940:
		e.Scan(r.Uint64N(Slots)<<32, 50, func(key []byte, _ Item) {})
		_, _ = e.RandomKey(nil)
	case op < 960:
		e.HottestFirst(slot, func(key []byte, it Item) bool {
			if !isWhole(key, it.Value) {
				t.Errorf("key %q has value %q", key, it.Value)
			}
			return true
		})
	case op < 980:
		e.OpenWindow(slot, 100)
		_, _ = e.AddIfUntouched(slot, key, checkedValue(key, 5), 0)
	case op < 990:
		e.SetServing(slot, op%2 == 0)
	case op < 996:
		e.DropSlot(slot)
	case op < 997:
		e.Flush()
	case op < 999:
		_ = e.SetMaxBytes(limit / 2)
		_ = e.SetMaxBytes(limit)
	default:
		e.Stats()
	}
}

// A writer whose own shard is empty takes the room from the others.
func TestWriterWithAnEmptyShardTakesRoomFromOthers(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 64 << 10, Shards: 64})
	for i := range 1000 {
		mustSet(t, e, 3, keyFor(i), []byte("hot slot"), 0)
	}
	mustSet(t, e, 4, []byte("k"), make([]byte, 50<<10), 0)
	if !has(e, 4, []byte("k")) || e.Stats().Evicted == 0 {
		t.Fatal("the write was lost")
	}
	verifyAll(t, e)
}

// Two writers that each grow the last entry of their shard: neither may wait
// for the room that the other one guards.
func TestTwoGrowingWritersDoNotWaitForEachOther(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 12_000, Shards: 2})
	for range 200 {
		mustSet(t, e, 0, []byte("k"), make([]byte, 1000), 0)
		mustSet(t, e, 1, []byte("k"), make([]byte, 1000), 0)
		var held, done sync.WaitGroup
		held.Add(2)
		for slot := range uint16(2) {
			done.Go(func() {
				tx := e.LockAny(slot)
				defer tx.Unlock()
				held.Done()
				held.Wait() // both hold their shard now
				if err := tx.Set([]byte("k"), make([]byte, 9000), 0); err != nil {
					t.Errorf("set: %v", err)
				}
			})
		}
		done.Wait()
		if n := e.Stats().Keys; n != 1 { // both fit only one after the other
			t.Fatalf("%d keys are left", n)
		}
	}
	verifyAll(t, e)
}

// All memory is in a shard that somebody holds: the writer of another shard
// waits, and the holder pays when it unlocks.
func TestHolderPaysWaitingWritersAtUnlock(t *testing.T) {
	const limit = 20_000
	e, _ := newTest(t, Options{MaxBytes: limit, Shards: 4})
	fill := func() {
		for i := range 300 {
			mustSet(t, e, 1, keyFor(i), make([]byte, 100), 0)
		}
	}
	fill()

	e.debt.Store(6000) // as if somebody waited who finds no lock free
	e.LockAny(1).Unlock()
	if used := e.used.Load(); used > limit-6000 || used < limit-6000-2048 {
		t.Fatalf("%d bytes are used after an unlock with a debt of 6000", used)
	}
	e.debt.Store(0)
	fill()
	holder := e.LockAny(1)
	done := make(chan error, 1)
	go func() { done <- e.Set(2, []byte("k"), make([]byte, 10_000), 0) }() // ends after holder unlocks
	for e.debt.Load() == 0 {
		runtime.Gosched()
	}
	evicted := e.shards[1].evicted
	holder.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	e.shards[1].mu.Lock()
	evicted = e.shards[1].evicted - evicted
	e.shards[1].mu.Unlock()
	if evicted == 0 || !has(e, 2, []byte("k")) {
		t.Fatalf("%d entries were evicted for the waiting writer", evicted)
	}
	verifyAll(t, e)
}

// A waiting writer must also end when the limit sinks below what it needs, or
// the policy changes.
func TestWaitingWriterEndsWhenItCanNeverBeServed(t *testing.T) {
	for name, change := range map[string]func(e *Engine){
		"limit":  func(e *Engine) { e.limit.Store(1000); e.ceiling.Store(1000) },
		"policy": func(e *Engine) { e.policy.Store(policyNamed("noeviction")) },
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := newTest(t, Options{MaxBytes: 10_000, Shards: 4})
			for i := range 300 {
				mustSet(t, e, 1, keyFor(i), make([]byte, 20), 0)
			}
			holder := e.LockAny(1)
			done := make(chan error, 1)
			go func() { done <- e.Set(2, []byte("k"), make([]byte, 5000), 0) }() // ends after the change
			for e.debt.Load() == 0 {
				runtime.Gosched()
			}
			change(e)
			if err := <-done; !errors.Is(err, errs.ErrNoMemory) {
				t.Errorf("got %v", err)
			}
			holder.Unlock()
		})
	}
}

// Shrinking evicts a segment or so per hold, while others go on.
func TestShrinkingEvictsInSteps(t *testing.T) {
	var e *Engine
	var last, most, over int64
	e, _ = newTest(t, Options{MaxBytes: 8 << 20, Shards: 4, Now: func() int64 {
		if e == nil {
			return 1
		}
		var n int64 // the clock is read once per hold of the shrinking
		for i := range e.shards {
			n += e.shards[i].keys.Load()
		}
		most, last = max(most, last-n), n
		over = max(over, e.used.Load()-e.ceiling.Load())
		return 1
	}})
	for i := range 150_000 {
		mustSet(t, e, slotFor(i), keyFor(i), nil, 0)
	}
	most, over = 0, 0
	if err := e.SetMaxBytes(1 << 20); err != nil {
		t.Fatal(err)
	}
	if st := e.Stats(); st.ArenaBytes > 1<<20 || st.ArenaBytes < 1<<20-128<<10 || st.MaxBytes != 1<<20 {
		t.Fatalf("%d bytes are used after shrinking to %d", st.ArenaBytes, st.MaxBytes)
	}
	if records := int64(chunkBlocks*e.arena.blockBytes) / 20; most == 0 || most > records {
		t.Fatalf("%d entries left in one hold, want at most %d", most, records)
	}
	if over == 0 || over > 8<<20/shrinkParts { // what a writer would have had to evict
		t.Fatalf("the ceiling was %d bytes below use, want at most %d", over, 8<<20/shrinkParts)
	}
	if err := e.SetMaxBytes(-1); !errors.Is(err, errs.ErrConfig) {
		t.Fatalf("a negative limit: %v", err)
	}
}

// After SetServing(off) returned, no request that saw the bit on still runs.
func TestServingBitIsTestedUnderTheLock(t *testing.T) {
	e, _ := newTest(t, Options{Shards: 2})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 3000 {
				tx, err := e.Lock(9)
				if err != nil {
					if !errors.Is(err, errs.ErrNotServing) {
						t.Error(err)
					}
					continue
				}
				runtime.Gosched()
				if !e.Serving(9) {
					t.Error("executing in a slot that is not served")
				}
				_ = tx.Set([]byte("k"), []byte("v"), 0)
				tx.Unlock()
			}
		})
	}
	for i := range 1500 {
		e.SetServing(9, true)
		runtime.Gosched()
		e.SetServing(9, false)
		if i%2 == 0 {
			e.DropSlot(9)
			if n := e.SlotStats(9).Keys; n != 0 {
				t.Fatalf("%d keys after the slot was switched off and dropped", n)
			}
		}
	}
	wg.Wait()
}

// The sweep goroutine removes what nobody reads, and ends at Close.
func TestBackgroundSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Options{Now: func() int64 { return time.Now().UnixMilli() }, Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		e.SetServing(1, true)
		for i := range 5000 {
			mustSet(t, e, 1, fmt.Append(nil, i), nil, e.Now()+50)
		}
		<-time.After(50 * time.Millisecond) // virtual time
		synctest.Wait()
		if n := e.SlotStats(1).Keys; n != 5000 {
			t.Errorf("%d keys are left at their deadline", n)
		}
		<-time.After(3 * sweepEvery) // virtual time
		synctest.Wait()
		if n := e.SlotStats(1).Keys; n > 100 {
			t.Errorf("%d expired keys are left after three pauses", n)
		}
		e.Close()
		e.Close()
	})
}
