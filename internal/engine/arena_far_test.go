package engine

import (
	"bytes"
	"testing"
)

// TestLimitsAboveSixteenGiB: the arena reaches as far as the limit, and what lies at its
// far end, where a location counts in larger units, is found.
func TestLimitsAboveSixteenGiB(t *testing.T) {
	limits := []int64{15 << 30, 64 << 30, 14 << 30, 16 << 30, 17 << 30, MaxBytesLimit}
	if raceEnabled {
		limits = limits[:2] // the tables of chunks are on the heap there
	}
	for _, limit := range limits {
		e, c := newTest(t, Options{MaxBytes: limit, Shards: 4})
		a := &e.arena
		if a.reach() < limit || e.ceiling.Load() != limit || e.Stats().MaxBytes != limit {
			t.Fatalf("a limit of %d: the arena reaches %d, writers hold to %d", limit, a.reach(), e.ceiling.Load())
		}
		a.mu.Lock()
		for i := 1; i < len(a.free)-64; i++ { // as if all chunks but the last ones were full
			a.free[i] = 0
			a.file(i)
		}
		a.free[0] = 0
		a.file(0)
		a.mu.Unlock()
		const keys = 5000
		value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i%700) }
		for i := range keys {
			deadline := int64(0)
			if i%3 == 0 {
				deadline = c.in(int64(1000 + i))
			}
			mustSet(t, e, slotFor(i%3000), keyFor(i), value(i), deadline)
		}
		mustSet(t, e, 7, []byte("large"), make([]byte, 200_000), 0)
		first := uint32(len(a.free)-64) * chunkBlocks
		for i := range e.shards {
			s := &e.shards[i]
			for id := range s.segs {
				if g := &s.segs[id]; g.blocks > 0 && g.start < first {
					t.Fatalf("a limit of %d: a segment lies at block %d, want them from %d on", limit, g.start, first)
				}
			}
		}
		for i := range keys {
			if got, _, err := e.Get(slotFor(i%3000), keyFor(i), nil); err != nil || !bytes.Equal(got, value(i)) {
				t.Fatalf("a limit of %d: key %d has %d bytes, %v", limit, i, len(got), err)
			}
		}
		for i := 0; i < keys; i += 2 {
			if ok, err := e.Delete(slotFor(i%3000), keyFor(i)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		e.Sweep()
		if got, _, err := e.Get(7, []byte("large"), nil); err != nil || len(got) != 200_000 {
			t.Errorf("a limit of %d: %d bytes, %v", limit, len(got), err)
		}
		if st := e.Stats(); st.Keys != keys/2+1 {
			t.Errorf("a limit of %d: %d keys", limit, st.Keys)
		}
		for i := range e.shards {
			s := &e.shards[i]
			s.mu.Lock()
			err := s.verify()
			s.unlock()
			if err != nil {
				t.Errorf("a limit of %d: shard %d: %v", limit, i, err)
			}
		}
	}
}
