package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func BenchmarkLookAhead(b *testing.B) {
	for _, keys := range []int{100_000, 2_000_000} {
		for _, ahead := range []int{0, 8, 16, 32} {
			b.Run(fmt.Sprintf("keys=%d/ahead=%d", keys, ahead), func(b *testing.B) {
				e, err := New(Options{MaxBytes: 512 << 20, Now: func() int64 { return 1 }, NoBackground: true})
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				for s := range Slots {
					e.SetServing(uint16(s), true)
				}
				all := make([][]byte, keys)
				slots := make([]uint16, keys)
				value := make([]byte, 64)
				for i := range all {
					all[i] = fmt.Appendf(nil, "key:%010d", i)
					slots[i] = uint16(e.hash.sum(all[i]) >> 7 & (Slots - 1))
					if err := e.Set(slots[i], all[i], value, 0); err != nil {
						b.Fatal(err)
					}
				}
				rand.Shuffle(keys, func(i, j int) { all[i], all[j] = all[j], all[i]; slots[i], slots[j] = slots[j], slots[i] })
				flat := make([]byte, 0, 14*keys) // the keys lie in the order of use, as in a read buffer
				for i, k := range all {
					flat = append(flat, k...)
					all[i] = flat[len(flat)-len(k):]
				}
				dst := make([]byte, 0, 100)
				i := 0
				for b.Loop() {
					if i+max(ahead, 1) > keys {
						i = 0
					}
					n := max(ahead, 1)
					if ahead > 0 {
						e.LookAhead(slots[i:i+n], all[i:i+n])
					}
					for k := range n {
						tx, err := e.Lock(slots[i+k])
						if err != nil {
							b.Fatal(err)
						}
						if it, ok := tx.Get(all[i+k]); ok {
							dst = append(dst[:0], it.Value...)
						}
						tx.Unlock()
					}
					i += n
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(max(ahead, 1)), "ns/get")
			})
		}
	}
}

// Where the hint leads elsewhere it is worth nothing, and nothing else would tell.
func TestLookAheadFindsTheRecords(t *testing.T) {
	needGlances(t)
	for _, keys := range []int{1, 100, 3000, 100_000, 300_000} {
		e, _ := newTest(t, Options{MaxBytes: 256 << 20})
		key := func(i int) []byte { return fmt.Appendf(nil, "key:%010d", i) }
		for i := range keys {
			if err := e.SetKey(key(i), key(i), 0); err != nil {
				t.Fatal(err)
			}
		}
		found := 0
		for i := range keys {
			h := e.hash.sum(key(i))
			slot := keySlot(h)
			var at [MaxAhead]unsafe.Pointer
			e.foresee(&at, []uint16{slot}, [][]byte{key(i)})
			if _, r := e.shards[slot&e.mask].find(slot, h, key(i)); r.p == at[0] {
				found++
			}
		}
		if found*100 < keys*88 {
			t.Errorf("%d of %d records foreseen, want at least 88 %%", found, keys)
		}
	}
}

// A hint may be given for anything at any time.
func TestLookAheadIsOnlyAHint(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 1 << 20})
	many := make([][]byte, 2*MaxAhead)
	slots := make([]uint16, 2*MaxAhead)
	for i := range many {
		many[i], slots[i] = keyFor(i), uint16(i*1000)
	}
	e.LookAhead(nil, nil)
	e.LookAhead(slots, nil)
	e.LookAhead(slots, many) // an empty cache; too many keys; slots above the last
	mustSet(t, e, 1, many[0], []byte("v"), 0)
	before := e.Stats()
	if n := testing.AllocsPerRun(100, func() { e.LookAhead(slots, many) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if after := e.Stats(); after.Hits != before.Hits || after.Misses != before.Misses {
		t.Errorf("a hint was counted: %+v, before %+v", after, before)
	}
	e.SetServing(1, false)
	e.Flush()
	e.LookAhead(slots, many)
	e.Close()
	e.LookAhead(slots, many)
}
