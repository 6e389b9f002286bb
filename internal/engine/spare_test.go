package engine

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// setSpare stores an entry in a spare slot.
func setSpare(e *Engine, slot uint16, key, value []byte, deadline int64) error {
	tx := e.LockAny(slot)
	defer tx.Unlock()
	return tx.SetSpare(key, value, deadline)
}

// newHalves returns an engine that serves the lower slots; the upper are spare.
func newHalves(tb testing.TB, o Options) (*Engine, *clock) {
	e, c := newTest(tb, o)
	for slot := uint16(Slots / 2); slot < Slots; slot++ {
		e.SetServing(slot, false)
		e.SetSpare(slot, true)
	}
	return e, c
}

const (
	half        = Slots / 2
	lastSegment = 200 // entries of these tests in a segment at most
)

func lower(i int) uint16 { return slotFor(i) % half }
func upper(i int) uint16 { return slotFor(i)%half + half }

// Spare entries leave before any other, under every policy; when they are gone,
// the policy decides as ever. noeviction refuses nothing as long as there are any.
func TestSpareEntriesLeaveFirst(t *testing.T) {
	oneGoroutine(t)
	const limit = 8 << 20
	for _, policy := range Policies() {
		t.Run(policy, func(t *testing.T) {
			e, _ := newHalves(t, Options{MaxBytes: limit, Policy: policy})
			value := make([]byte, 200)
			const spares = 12_000 // 3 MB or so
			for i := range spares {
				if err := setSpare(e, upper(i), keyFor(i), value, 0); err != nil {
					t.Fatal(err)
				}
			}
			if st := e.Stats(); st.SpareKeys != spares || st.ServedKeys != 0 {
				t.Fatalf("%d spare keys, %d served, of %d", st.SpareKeys, st.ServedKeys, spares)
			}
			stored := 0
			for ; e.stocked.Load() > 0 && stored < 60_000; stored++ {
				err := e.Set(lower(stored), keyFor(stored), value, 0)
				if errors.Is(err, errs.ErrNoMemory) && policy == "noeviction" && e.stocked.Load() == 0 {
					break // now there is nothing left to take
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			st := e.Stats()
			// The write that found nothing more to take may have evicted a segment.
			if lost := int64(stored) - st.ServedKeys; lost > lastSegment || st.SpareKeys != 0 || st.Evicted != spares+lost {
				t.Fatalf("%d of %d served keys are left beside %d spare ones, %d evicted", st.ServedKeys, stored, st.SpareKeys, st.Evicted)
			}
			if least := int64(limit * 9 / 10); st.LiveBytes < least*9/10 {
				t.Errorf("the last spare entry left at %d live bytes of %d", st.LiveBytes, limit)
			}
			verifyAll(t, e)
		})
	}
}

// A spare entry is stored only where that takes memory from spare entries: a cache
// that is full of others takes none, and loses nothing.
func TestSpareEntriesTakeNothing(t *testing.T) {
	oneGoroutine(t)
	for _, policy := range Policies() {
		t.Run(policy, func(t *testing.T) {
			e, _ := newHalves(t, Options{MaxBytes: 4 << 20, Policy: policy})
			value := make([]byte, 200)
			if err := setSpare(e, upper(0), []byte("k"), []byte("old"), 0); err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; e.used.Load() < e.ceiling.Load()-e.ahead(); n++ {
				mustSet(t, e, lower(n), keyFor(n), value, 0)
			}
			before := e.Stats()
			refused := 0
			for i := range 1000 {
				switch err := setSpare(e, upper(i), keyFor(i), value, 0); {
				case errors.Is(err, errs.ErrNoMemory):
					refused++
				case err != nil:
					t.Fatal(err)
				}
			}
			if refused < 500 {
				t.Errorf("%d of 1000 were refused", refused)
			}
			if st := e.Stats(); st.ServedKeys != before.ServedKeys {
				t.Errorf("%d of %d served keys are left", st.ServedKeys, before.ServedKeys)
			}
			if err := setSpare(e, lower(1), []byte("k"), nil, 0); !errors.Is(err, errs.ErrNotServing) {
				t.Errorf("in a slot that is not spare: %v", err)
			}
			verifyAll(t, e)
		})
	}
}

// Entries of a spare slot that becomes served stay when memory is needed, as any
// others do.
func TestSpareSlotBecomesServed(t *testing.T) {
	oneGoroutine(t)
	e, c := newHalves(t, Options{MaxBytes: 8 << 20})
	value := make([]byte, 200)
	for i := range 4000 {
		if err := setSpare(e, upper(i), keyFor(i), value, c.in(1_000_000)); err != nil {
			t.Fatal(err)
		}
	}
	for slot := uint16(half); slot < half+half/2; slot++ {
		e.SetServing(slot, true)
	}
	taken := e.Stats().ServedKeys
	if st := e.Stats(); taken < 1500 || st.SpareKeys != 4000-taken || st.SpareVolatile != st.SpareKeys || st.Volatile != 4000 {
		t.Fatalf("%d served, %d spare, of which %d of %d have a deadline", taken, st.SpareKeys, st.SpareVolatile, st.Volatile)
	}
	n := 0
	for ; e.stocked.Load() > 0; n++ {
		mustSet(t, e, lower(n), keyFor(n), value, 0)
	}
	if st := e.Stats(); st.ServedKeys < taken+int64(n)-lastSegment {
		t.Fatalf("%d of %d served keys are left when the last spare entry has gone", st.ServedKeys, taken+int64(n))
	}
	verifyAll(t, e)
}

// What spare slots hold is counted right through overwrites, deadlines, expiry,
// removal, eviction and flush, and slots may change their kind at any time.
func TestSpareCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e, c := newHalves(t, Options{MaxBytes: 2 << 20, Shards: 16})
	value := make([]byte, 3000)
	for i := range scale(40_000) {
		slot := uint16(half + r.IntN(40))
		key := keyFor(r.IntN(60))
		size := r.IntN(200)
		if r.IntN(20) == 0 {
			size = r.IntN(len(value))
		}
		deadline := int64(0)
		if r.IntN(2) == 0 {
			deadline = c.in(int64(r.IntN(3000)) - 10)
		}
		switch n := r.IntN(100); {
		case n < 60:
			if err := setSpare(e, slot, key, value[:size], deadline); err != nil && !errors.Is(err, errs.ErrNoMemory) && !errors.Is(err, errs.ErrNotServing) {
				t.Fatal(err)
			}
		case n < 75:
			mustSet(t, e, lower(r.IntN(20_000)), keyFor(i), value[:size], deadline)
		case n < 90:
			tx := e.LockAny(slot)
			tx.Invalidate(key)
			tx.Unlock()
		case n < 93:
			e.SetServing(slot, r.IntN(2) == 0)
			e.SetSpare(slot, r.IntN(3) > 0)
		case n < 95:
			e.DropSlot(slot)
		case n == 95 && r.IntN(50) == 0:
			e.Flush()
		default:
			c.add(int64(r.IntN(20)))
			e.Sweep()
		}
		if i%1000 == 0 {
			verifyAll(t, e)
			checkSpare(t, e)
		}
	}
}

// checkSpare compares the figures with what the slots hold.
func checkSpare(t *testing.T, e *Engine) {
	t.Helper()
	var keys, volatile int64
	stocked := map[int]bool{}
	for slot := range uint16(Slots) {
		tx := e.LockAny(slot)
		s, st := e.at(slot)
		if st.spare {
			keys += st.keys.Load()
			volatile += int64(st.spareVols)
			stocked[s.id] = stocked[s.id] || st.keys.Load() > 0
		}
		tx.Unlock()
	}
	st := e.Stats()
	if st.SpareKeys != keys || st.SpareVolatile != volatile || st.SpareVolatile > st.SpareKeys || st.SpareBytes > st.Bytes {
		t.Fatalf("%d spare keys, %d with a deadline; counted %d, %d", keys, volatile, st.SpareKeys, st.SpareVolatile)
	}
	n := int32(0)
	for i := range e.shards {
		if e.shards[i].stocked.Load() {
			n++
		} else if stocked[i] {
			t.Fatalf("shard %d has spare entries and does not know", i)
		}
	}
	if n != e.stocked.Load() {
		t.Fatalf("%d shards are stocked, counted %d", n, e.stocked.Load())
	}
}
