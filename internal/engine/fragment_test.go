package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// fragment leaves the arena with single free blocks only: it takes every second
// block of all chunks that may be open, until mend, and returns how many blocks
// the limit still allows.
func fragment(e *Engine) (free int, mend func()) {
	a := &e.arena
	var all, kept []uint32
	for {
		block, n := a.takeRun(1, a.blockBytes)
		if n == 0 {
			break
		}
		all = append(all, block)
	}
	for _, block := range all {
		if block%2 == 0 {
			kept = append(kept, block)
		} else {
			a.put(block, 1)
		}
	}
	taken := int64(len(kept)) << a.blockShift
	e.used.Add(taken)
	return int((e.ceiling.Load() - taken) >> a.blockShift), func() {
		for _, block := range kept {
			a.put(block, 1)
		}
		e.used.Add(-taken)
	}
}

// runsOf counts the runs of a chain, and the longest.
func runsOf(t *testing.T, e *Engine, slot uint16, key []byte) (runs, longest int) {
	s, _ := e.at(slot)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, _ := s.find(slot, e.hash.sum(key), key)
	if l == 0 || !e.arena.record(l).large() {
		t.Fatalf("%q is no chain", key)
	}
	for block := e.arena.record(l).chain(); block != 0; runs++ {
		p := e.arena.blockAt(block)
		longest = max(longest, int(read32(unsafe.Add(p, 4))))
		block = read32(p)
	}
	return runs, longest
}

// A large value in an arena without two free blocks in a row: nothing is
// evicted for the sake of a gap, and every way to read it gives it whole.
func TestChainsNeedNoRunOfFreeBlocks(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 512 << 10, Shards: 1, Seed: 1, MaxKey: 32 << 10})
	const slot = 5
	free, mend := fragment(e)
	block := e.arena.blockBytes
	for _, tc := range []struct{ key, value int }{
		{10, (free - 3) * (block - headBytes) * 4 / 5}, {3 * block, free * block / 2}, {block - headBytes, free * block / 3}, {5, 17 * block},
	} {
		key := bytes.Repeat([]byte("k"), tc.key)
		value := make([]byte, tc.value)
		for i := range value {
			value[i] = byte(i * 7 >> 3)
		}
		mustSet(t, e, slot, key, value, c.in(1000))
		if runs, longest := runsOf(t, e, slot, key); longest != 1 || runs < tc.value/block {
			t.Fatalf("%d runs for %d bytes, the longest of %d blocks", runs, tc.value, longest)
		}
		readEveryWay(t, e, slot, key, value)
		part := value[:min(len(value), 2*block)/3]
		tx := e.LockAny(slot)
		it, _ := tx.Peek(key)
		if err := tx.Set([]byte("copy"), it.Value[:len(part)], 0); err != nil {
			t.Fatal(err)
		}
		tx.Unlock()
		readEveryWay(t, e, slot, []byte("copy"), part)
		for _, k := range [][]byte{key, []byte("copy")} {
			if ok, _ := e.Delete(slot, k); !ok {
				t.Fatal("the value is gone")
			}
		}
	}
	if n := e.Stats().Evicted; n != 0 {
		t.Errorf("%d entries were evicted although there was room", n)
	}
	mend()
	verifyAll(t, e)
}

// A record that would lie in a segment, where no run for one is left, becomes a
// chain too, and a record again when it shrinks.
func TestRecordsWithoutARunBecomeChains(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 512 << 10, Shards: 1, Seed: 1})
	const slot = 5
	_, mend := fragment(e)
	for i := range 12 {
		n := (2 + i%3) * e.arena.blockBytes
		key, value := fmt.Appendf(nil, "record %d", i%3), bytes.Repeat([]byte{byte('a' + i)}, n)
		mustSet(t, e, slot, key, value, 0)
		if runs, _ := runsOf(t, e, slot, key); runs < 2 {
			t.Fatalf("%d runs for %d bytes", runs, n)
		}
		readEveryWay(t, e, slot, key, value)
		mustSet(t, e, slot, key, value[:10], 0)
		readEveryWay(t, e, slot, key, value[:10])
	}
	if n := e.Stats().Evicted; n != 0 {
		t.Errorf("%d entries were evicted although there was room", n)
	}
	mend()
	verifyAll(t, e)
}

func readEveryWay(t *testing.T, e *Engine, slot uint16, key, want []byte) {
	t.Helper()
	got, _, err := e.Get(slot, key, []byte("+"))
	if err != nil || !bytes.Equal(got[1:], want) {
		t.Fatalf("get: %d bytes, %v, want %d", len(got)-1, err, len(want))
	}
	tx := e.LockAny(slot)
	it, ok := tx.Get(key)
	if !ok || !bytes.Equal(it.Value, want) || it.Size != len(want) {
		t.Fatalf("txn: %d bytes", len(it.Value))
	}
	tx.Unlock()
	found := 0
	e.HottestFirst(slot, func(k []byte, it Item) bool {
		if bytes.Equal(k, key) && bytes.Equal(it.Value, want) {
			found++
		}
		return true
	})
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		cursor = e.Scan(cursor, 100, func(k []byte, it Item) {
			if bytes.Equal(k, key) && it.Size == len(want) {
				found++
			}
		})
	}
	if found != 2 {
		t.Fatalf("iterations find it %d times", found)
	}
}

// Large values in a full cache lost a quarter of the memory to the ends of short segments:
// runs were halved until they fitted, whatever part of a record remained.
func TestLargeValuesLoseNoMemoryToGaps(t *testing.T) {
	oneGoroutine(t)
	for size, least := range map[int]float64{5000: 0.92, 8324: 0.85, 33_000: 0.88} {
		const limit = 20_000_000
		e, _ := newTest(t, Options{MaxBytes: limit, Shards: 16, Seed: 1})
		keys := limit / size
		r := rand.New(rand.NewPCG(1, 2))
		z := rand.NewZipf(r, 1.01, 10, uint64(10*keys))
		value := make([]byte, size)
		for range 25 * keys {
			k := int(z.Uint64())
			if _, _, err := e.Get(slotFor(k%3000), keyFor(k), nil); err != nil {
				mustSet(t, e, slotFor(k%3000), keyFor(k), value, 0)
			}
		}
		verifyAll(t, e)
		if st := e.Stats(); float64(st.LiveBytes+st.ChainBytes) < least*limit {
			t.Errorf("values of %d bytes: %.3f of the memory holds them, want %.2f; %.3f is at the ends of segments", size,
				float64(st.LiveBytes+st.ChainBytes)/limit, least, float64(st.FreeBytes)/limit)
		}
	}
}

// TestRunsLeaveLittleRest: a run is taken where it fits best, and a shorter one ends with
// a whole record.
func TestRunsLeaveLittleRest(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 8 << 20, Shards: 1})
	a := &e.arena
	size := a.blockBytes*2 + 150 // 1 in 3 blocks, 2 in 5, 3 in 7, 4 in 9
	first, _ := a.takeRun(chunkBlocks-1, size)
	start, _ := a.takeRun(chunkBlocks, size)
	a.put(start+10, 8)
	a.put(start+30, 5)
	a.most = a.open
	for i, tc := range []struct{ want, size, at, got int }{
		{5, size, 30, 5},  // not the beginning of the eight
		{20, size, 10, 7}, // three records, not a third of a fourth one
		{20, size, 0, 0},  // two blocks are left
		{1, a.blockBytes, 17, 1},
	} {
		block, got := a.takeRun(tc.want, tc.size)
		if got != tc.got || got > 0 && int(block-start) != tc.at {
			t.Errorf("%d: %d blocks at %d, want %d at %d", i, got, int(block)-int(start), tc.got, tc.at)
		}
	}
	a.most = len(a.free)
	a.put(first, chunkBlocks-1)
	a.put(start, chunkBlocks)
	if err := a.verify(0); err != nil {
		t.Error(err)
	}
}
