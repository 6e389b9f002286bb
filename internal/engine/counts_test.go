package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// walkCounts compares the counts of every slot with a walk of its keys, and the
// sums with Stats. Nothing else may run, and no key be expired and there.
func walkCounts(t *testing.T, e *Engine) {
	t.Helper()
	var keys, bytes, volatile int64
	for slot := range uint16(Slots) {
		var n, size int64
		if e.SlotStats(slot).Keys > 0 {
			e.HottestFirst(slot, func(_ []byte, it Item) bool {
				n, size = n+1, size+it.Bytes
				if it.Deadline != 0 {
					volatile++
				}
				return true
			})
		}
		if got := e.SlotStats(slot); got != (SlotStats{n, size}) {
			t.Fatalf("slot %d counts %+v, holds %d keys and %d bytes", slot, got, n, size)
		}
		keys, bytes = keys+n, bytes+size
	}
	if st := e.Stats(); st.Keys != keys || st.Bytes != bytes || st.Volatile != volatile {
		t.Fatalf("%+v, slots hold %d keys, %d volatile, %d bytes", st, keys, volatile, bytes)
	}
	verifyAll(t, e)
}

// The counts of each slot are exact after everything that can happen to a key.
func TestCountsAreExactAfterEverything(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 1 << 20, Shards: 8, Seed: 2})
	r := rand.New(rand.NewPCG(8, 8))
	value := make([]byte, 60_000)
	for round := range 12 {
		for i := range scale(6000) {
			k := r.IntN(4000)
			slot, key := slotFor(k%(1+k%300)), keyFor(k)
			n := r.IntN(120)
			if i%200 == 0 {
				n = r.IntN(len(value))
			}
			tx := e.LockAny(slot)
			switch op := r.IntN(20); {
			case op < 10:
				_ = tx.Set(key, value[:n], int64(r.IntN(2))*c.in(int64(r.IntN(500))))
			case op < 13:
				tx.SetDeadline(key, int64(r.IntN(2))*c.in(int64(r.IntN(500))))
			case op < 15:
				tx.Delete(key)
			case op < 16:
				tx.Invalidate(key)
			case op < 18:
				tx.Get(key)
			}
			tx.Unlock()
			if i%1000 == 0 {
				c.add(int64(r.IntN(100)))
			}
		}
		switch round % 6 {
		case 1:
			for slot := range uint16(200) {
				e.DropSlot(slot)
			}
		case 2:
			_ = e.SetMaxBytes(300 << 10)
			_ = e.SetMaxBytes(1 << 20)
		case 3:
			_ = e.SetPolicy(Policies()[r.IntN(len(Policies()))])
		case 4:
			e.OpenWindow(7, 1000)
			for i := range 50 {
				_, _ = e.AddIfUntouched(7, keyFor(90_000+i), value[:i], 0)
			}
		case 5:
			e.Flush()
		}
		expireAllNow(e)
		walkCounts(t, e)
	}
}

// expireAllNow removes what is expired, so that walks see all that is counted.
func expireAllNow(e *Engine) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.expireAll(e.now())
		s.unlock()
	}
}

// One slot with tens of thousands of keys beside slots with one each, in the same
// shard: each has its own, before and after it shrinks.
func TestHugeSlotBesideSmallOnes(t *testing.T) {
	for _, shards := range []int{1, 16} {
		e, _ := newTest(t, Options{MaxBytes: 256 << 20, Shards: shards})
		const huge = 4096
		keys := scale(40_000)
		small := func(i int) uint16 { return uint16(huge - 160 + 16*i) } // slots of the same shard around it
		for i := range 21 {
			mustSet(t, e, small(i), []byte("small"), []byte("before"), 0)
		}
		for i := range keys {
			mustSet(t, e, huge, keyFor(i), []byte("huge"), 0)
		}
		check := func(want int) {
			t.Helper()
			for i := range 21 {
				n := 0
				e.KeysInSlot(small(i), 1<<20, func(key []byte) {
					if string(key) == "small" {
						n++
					}
				})
				if n != 1 || small(i) != huge && e.SlotStats(small(i)).Keys != 1 {
					t.Fatalf("%d shards, slot %d: %d small keys, %+v", shards, small(i), n, e.SlotStats(small(i)))
				}
			}
			if got := e.SlotStats(huge).Keys; got != int64(want)+1 {
				t.Fatalf("the huge slot has %d keys, want %d", got, want+1)
			}
			walkCounts(t, e)
		}
		check(keys)
		for i := range keys {
			if i%50 > 0 {
				if ok, _ := e.Delete(huge, keyFor(i)); !ok {
					t.Fatalf("key %d is gone", i)
				}
			}
		}
		check((keys + 49) / 50)
		if most := int64(keys/50/4+64) * 64; e.Stats().IndexBytes > most+22*maxBlockBytes {
			t.Errorf("the index has %d bytes for %d keys", e.Stats().IndexBytes, e.Stats().Keys)
		}
		if n := e.DropSlot(huge); n != (keys+49)/50+1 {
			t.Fatalf("%d keys were dropped", n)
		}
		mustSet(t, e, huge, []byte("small"), nil, 0)
		check(0)
	}
}

// A key in each slot, at limits from ample to one that holds a part of them: the
// bound holds, no write fails, and at ample room nothing is lost.
func TestAKeyInEverySlot(t *testing.T) {
	oneGoroutine(t)
	for _, tc := range []struct {
		shards int
		limit  int64
	}{
		{1, 2 << 20}, {1, 64 << 10}, {16, 256 << 10}, {256, 4 << 20}, {256, 64 << 10}, {Slots, 32 << 20}, {Slots, 1 << 20},
	} {
		t.Run(fmt.Sprintf("%d shards %d bytes", tc.shards, tc.limit), func(t *testing.T) {
			e, _ := newTest(t, Options{MaxBytes: tc.limit, Shards: tc.shards, Seed: 5})
			for round := range 2 {
				for i := range Slots {
					slot := slotFor(i)
					key := fmt.Appendf(nil, "%d", slot)
					mustSet(t, e, slot, key, key, 0)
					if !has(e, slot, key) || e.used.Load() > tc.limit {
						t.Fatalf("slot %d: present %v, %d bytes used", slot, has(e, slot, key), e.used.Load())
					}
				}
				walkCounts(t, e)
				st := e.Stats()
				if st.Evicted == 0 && st.Keys != Slots {
					t.Fatalf("round %d: %d keys, none was evicted", round, st.Keys)
				}
				if int64(tc.shards) <= tc.limit>>12 && st.Keys < min(Slots, tc.limit/2/64) {
					t.Errorf("round %d: %d keys in %d bytes", round, st.Keys, tc.limit)
				}
			}
			seen := map[string]bool{}
			for cursor, first := uint64(0), true; first || cursor != 0; first = false {
				cursor = e.Scan(cursor, 1000, func(key []byte, _ Item) { seen[string(key)] = true })
			}
			if int64(len(seen)) != e.Stats().Keys {
				t.Errorf("a scan gives %d keys of %d", len(seen), e.Stats().Keys)
			}
		})
	}
}

// Keys and values of no bytes, and of the most that may be.
func TestExtremeSizes(t *testing.T) {
	oneGoroutine(t)
	const largest = 1 << 20
	e, c := newTest(t, Options{MaxBytes: 64 << 20, MaxValue: largest, MaxKey: maxKeyLimit, Shards: 2})
	for _, klen := range []int{0, 1, 2, 1 << 10, 1<<16 - 8, 1 << 16, maxKeyLimit} {
		for _, vlen := range []int{0, 1, vlenMask - 20, vlenMask - 8, vlenMask, vlenMask + 1, 1 << 18, largest} {
			for _, deadline := range []int64{0, c.in(1000), 1 << 60}[(klen+vlen)%2:] {
				key, value := make([]byte, klen), make([]byte, vlen)
				for i := range value {
					value[i] = byte(i*31 + klen)
				}
				mustSet(t, e, 3, key, value, deadline)
				got, d, err := e.Get(3, key, nil)
				if err != nil || d != deadline || string(got) != string(value) {
					t.Fatalf("key of %d, value of %d bytes: %d bytes until %d, %v", klen, vlen, len(got), d, err)
				}
			}
		}
	}
	if err := e.Set(3, make([]byte, maxKeyLimit+1), nil, 0); !errors.Is(err, errs.ErrTooLarge) {
		t.Errorf("a key of %d bytes: %v", maxKeyLimit+1, err)
	}
	walkCounts(t, e)
	for _, limit := range []int64{1, 511, 512, 1023, 1024, 1500, 4096} {
		e, _ := newTest(t, Options{MaxBytes: limit, Shards: 1})
		err := e.Set(1, nil, nil, 0)
		if fits := limit >= 1024; fits != (err == nil) || err != nil && !errors.Is(err, errs.ErrNoMemory) {
			t.Errorf("limit %d: %v", limit, err)
		}
		for i := range 500 {
			if err := e.Set(slotFor(i), keyFor(i), nil, 0); limit >= 1024 && err != nil {
				t.Fatalf("limit %d: %v", limit, err)
			}
			if used := e.used.Load(); used > limit {
				t.Fatalf("%d bytes used, limit %d", used, limit)
			}
		}
		walkCounts(t, e)
	}
}
