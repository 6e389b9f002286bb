package engine

import (
	"testing"
	"time"
)

// newBackground is newTest with the sweep and the cleaner.
func newBackground(tb testing.TB, o Options) *Engine {
	tb.Helper()
	o.Now = func() int64 { return time.Now().UnixMilli() }
	e, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	for slot := range Slots {
		e.SetServing(uint16(slot), true)
	}
	return e
}

// Below the limit nothing that lives leaves, whatever the sizes and however the
// keys lie, with the cleaner and without it.
func TestNothingLeavesBelowTheLimit(t *testing.T) {
	const limit = 32 << 20
	for _, tc := range []struct {
		name        string
		keys, value int
		slots       int
		rounds      int
	}{
		{"20,000 small keys over all slots", 20_000, 32, Slots, 3},
		{"20,000 small keys in one slot", 20_000, 32, 1, 3},
		{"one key per slot", Slots, 100, Slots, 4},
		{"85 per cent of small keys", scale(345_000), 44, Slots, 2},
		{"80 per cent of values of 4 KiB", scale(6_400), 4096, Slots, 3},
		{"half of large values", scale(100), 160 << 10, Slots, 4},
	} {
		for _, background := range []bool{false, true} {
			e, _ := newTest(t, Options{MaxBytes: limit})
			name := tc.name
			if background {
				e = newBackground(t, Options{MaxBytes: limit})
				name += ", background"
			}
			t.Run(name, func(t *testing.T) {
				value := make([]byte, tc.value)
				for range tc.rounds { // those after the first overwrite
					for i := range tc.keys {
						mustSet(t, e, slotFor(i%tc.slots), keyFor(i), value[:tc.value-i%8], 0)
					}
				}
				if st := e.Stats(); st.Evicted != 0 || st.Keys != int64(tc.keys) {
					t.Fatalf("%d of %d keys are left, %d were evicted at %d of %d bytes", st.Keys, tc.keys, st.Evicted, st.ArenaBytes, limit)
				}
				e.Close()
			})
		}
	}
}

// The cleaner keeps memory free once the limit was met, no more than it should,
// and rests when there is room again.
func TestCleanerKeepsRoomAheadOfWriters(t *testing.T) {
	const limit = 16 << 20
	e, _ := newTest(t, Options{MaxBytes: limit, Shards: 16})
	e.jobs = make(chan *shard, aheadJobs) // the cleaner's work is done here, step by step
	value := make([]byte, 100)
	n := 0
	set := func() {
		mustSet(t, e, slotFor(n), keyFor(n), value, 0)
		n++
	}
	for !e.pressed.Load() {
		if set(); len(e.jobs) > 0 && !e.pressed.Load() {
			t.Fatalf("the cleaner was asked at %d of %d bytes, before the limit was met", e.used.Load(), limit)
		}
	}
	inline := 0
	segment := int64(e.shards[0].target(small, 0, 112)) << e.arena.blockShift
	evicted := func() (sum int64) {
		for i := range e.shards {
			sum += e.shards[i].evicted
		}
		return sum
	}
	for range 100_000 {
		before := evicted()
		set()
		if evicted() > before {
			inline++
		}
		for len(e.jobs) > 0 {
			e.cleanFor(<-e.jobs)
		}
		if free := limit - e.used.Load(); free > e.ahead()+aheadSteps*(segment+int64(chunkBlocks*e.arena.blockBytes)) {
			t.Fatalf("%d bytes are free, %d are wanted", free, e.ahead())
		}
	}
	if inline > 10 {
		t.Errorf("writers evicted %d times although the cleaner ran ahead", inline)
	}
	for i := range n * 9 / 10 {
		e.Delete(slotFor(i), keyFor(i))
	}
	e.relax()
	for e.used.Load() < limit-limit/20 {
		if set(); len(e.jobs) > 0 {
			t.Fatalf("the cleaner was asked at %d of %d bytes after there was room again", e.used.Load(), limit)
		}
	}
	verifyAll(t, e)
}

// From 80 and from 95 per cent on the sweep gives dead bytes back more eagerly.
func TestSweepCompactsByLevel(t *testing.T) {
	oneGoroutine(t)
	for _, tc := range []struct {
		fill, share int64 // per cent of the limit, most dead bytes as a divisor of the live ones
	}{{50, compactShare}, {85, tidyShare}, {96, fullShare}} {
		const limit = 16 << 20
		e, _ := newTest(t, Options{MaxBytes: limit, Shards: 4})
		value := make([]byte, 1000)
		n := 0
		for ; e.used.Load() < limit*tc.fill/100; n++ {
			mustSet(t, e, slotFor(n), keyFor(n), value, 0)
		}
		for i := range n { // in place: the rest of each record is dead
			mustSet(t, e, slotFor(i), keyFor(i), value[:690], 0)
		}
		level := e.used.Load()
		if tc.share > compactShare {
			e.limit.Store(level * 100 / tc.fill) // the use stays at the level while memory goes back
		}
		for range 200 {
			e.Sweep()
			if tc.share > compactShare {
				e.ceiling.Store(e.used.Load() * 100 / tc.fill)
			}
		}
		st := e.Stats()
		if st.DeadBytes > st.LiveBytes/tc.share+int64(4*chunkBlocks*e.arena.blockBytes) || st.Evicted > 0 {
			t.Errorf("at %d per cent: %d dead bytes beside %d live ones, %d evicted", tc.fill, st.DeadBytes, st.LiveBytes, st.Evicted)
		}
		if tc.fill == 50 && st.DeadBytes < st.LiveBytes/4 {
			t.Errorf("with much room %d dead bytes beside %d live ones were compacted", st.DeadBytes, st.LiveBytes)
		}
	}
}
