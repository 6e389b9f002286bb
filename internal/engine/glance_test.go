package engine

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/ringcache/ringcache/internal/errs"
)

// needGlances skips a test of what is not compiled here.
func needGlances(t *testing.T) {
	t.Helper()
	if !unlocked {
		t.Skip("reads take the lock in this build")
	}
}

// What happens between the look at a record and the look at the version must be
// seen: Get answers for the state after it. The engine asks the clock in between, for
// a record with a deadline, so that is where the change comes from.
func TestGlanceDiscardsWhatChangedMeanwhile(t *testing.T) {
	needGlances(t)
	const slot = 7
	key := []byte("key")
	old, other := bytes.Repeat([]byte("old"), 40), bytes.Repeat([]byte("new"), 40)
	for _, tc := range []struct {
		name   string
		change func(e *Engine, in int64)
		want   []byte
		err    error
	}{
		{"nothing", func(*Engine, int64) {}, old, nil},
		{"overwritten in place", func(e *Engine, in int64) { _ = e.Set(slot, key, other, in) }, other, nil},
		{"overwritten by less", func(e *Engine, in int64) { _ = e.Set(slot, key, other[:50], in) }, other[:50], nil},
		{"overwritten by more", func(e *Engine, in int64) { _ = e.Set(slot, key, append(other, other...), in) }, append(other, other...), nil},
		{"made large", func(e *Engine, in int64) { _ = e.Set(slot, key, make([]byte, 100<<10), in) }, make([]byte, 100<<10), nil},
		{"deleted", func(e *Engine, _ int64) { _, _ = e.Delete(slot, key) }, nil, errs.ErrNotFound},
		{"place reused", func(e *Engine, _ int64) {
			_, _ = e.Delete(slot, key)
			for i := range 100 {
				_ = e.Set(slot, keyFor(i), other, 0)
			}
		}, nil, errs.ErrNotFound},
		{"moved", func(e *Engine, _ int64) {
			for i := range 2000 {
				_ = e.Set(slot, keyFor(i), other, 0)
			}
			for i := range 2000 {
				_, _ = e.Delete(slot, keyFor(i))
			}
			e.Sweep()
		}, old, nil},
		{"another deadline", func(e *Engine, in int64) {
			tx := e.LockAny(slot)
			tx.SetDeadline(key, in+(1<<40))
			tx.Unlock()
		}, old, nil},
		{"dropped", func(e *Engine, _ int64) { e.DropSlot(slot) }, nil, errs.ErrNotFound},
		{"flushed", func(e *Engine, _ int64) { e.Flush() }, nil, errs.ErrNotFound},
		{"not served", func(e *Engine, _ int64) { e.SetServing(slot, false) }, nil, errs.ErrNotServing},
		{"evicted", func(e *Engine, _ int64) { _ = e.SetMaxBytes(1 << 10) }, nil, errs.ErrNotFound},
		{"closed", func(e *Engine, _ int64) { e.Close() }, nil, errs.ErrClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var change func()
			e, c := newTest(t, Options{MaxBytes: 8 << 20, Shards: 2, Now: func() int64 {
				if f := change; f != nil {
					change = nil
					f()
				}
				return 2_000_000
			}})
			_ = c
			mustSet(t, e, slot, key, old, 3_000_000)
			for _, dst := range [][]byte{nil, make([]byte, 0, 1000)} {
				change = func() { tc.change(e, 3_000_000) }
				val, _, err := e.Get(slot, key, append(dst, "dst"...))
				if change != nil {
					t.Fatal("the clock was not asked")
				}
				if !errors.Is(err, tc.err) || string(val) != "dst"+string(tc.want) {
					t.Fatalf("got %.20q (%d bytes), %v; want %.20q (%d bytes), %v", val, len(val), err, tc.want, len(tc.want)+3, tc.err)
				}
				if err != nil {
					break
				}
				mustSet(t, e, slot, key, old, 3_000_000)
			}
		})
	}
}

// Whatever stands in pages and records, a glance ends and leads to no place outside
// of the arena.
func TestGlanceOfGarbage(t *testing.T) {
	needGlances(t)
	for _, limit := range []int64{64 << 10, 8 << 20, 0} {
		e, _ := newTest(t, Options{MaxBytes: limit, Shards: 1, Seed: 1})
		const keys = 300
		for i := range keys {
			mustSet(t, e, uint16(i%3), keyFor(i), make([]byte, 40), 0)
		}
		s := &e.shards[0]
		r := rand.New(rand.NewPCG(3, uint64(limit)))
		base, size := e.arena.mem.span()
		in := func(p unsafe.Pointer, n int) bool {
			off := uint64(uintptr(p) - uintptr(base))
			return off+uint64(n) <= size
		}
		blocks := s.pageBlocks()
		found := 0
		for range 3000 {
			page := e.arena.blockBytesAt(blocks[r.IntN(len(blocks))], 1)
			kept := append([]byte(nil), page...)
			for range 1 + r.IntN(64) {
				page[r.IntN(len(page))] = byte(r.Uint32())
			}
			if r.IntN(2) == 0 { // every location is out of reach, or nearly
				for i := locsAt; i < len(page); i += 4 {
					if i%bucketBytes >= locsAt {
						write32(unsafe.Pointer(&page[i]), uint32(size>>e.arena.unit)-uint32(r.IntN(4)))
					}
				}
			}
			i := r.IntN(keys)
			key := keyFor(i)
			h := e.hash.sum(key)
			got, saw := e.spot(s, s.cells[i%3].Load(), uint16(i%3), h, key)
			if saw == sawValue {
				found++
				if !in(got.p, got.body()+got.klen()+int(got.lo&vlenMask)) {
					t.Fatalf("a record of %d bytes at %x is not in the arena", got.lo&vlenMask, got.p)
				}
			}
			var at [MaxAhead]unsafe.Pointer
			e.foresee(&at, []uint16{uint16(i % 3)}, [][]byte{key})
			if !in(at[0], 2*cacheLine) {
				t.Fatalf("foreseen at %x, out of the arena", at[0])
			}
			copy(page, kept)
		}
		if found == 0 {
			t.Error("no key was ever found: this tests nothing")
		}
		// A cell that names a block outside of the arena.
		if _, saw := e.spot(s, cellBlock|cellServing, 0, 1, nil); size < cellBlock<<e.arena.blockShift && saw != sawChange {
			t.Errorf("saw %d in a block that is not there", saw)
		}
		if _, saw := e.spot(s, cellDir|cellServing, 16, 1, nil); saw != sawChange {
			t.Errorf("saw %d in a directory that is not there", saw)
		}
	}
}

func (s *shard) pageBlocks() (blocks []uint32) {
	s.eachPage(func(b uint32) { blocks = append(blocks, b) })
	return blocks
}

// A reader that is late finds nothing after Close, and the addresses go with the
// engine.
func TestGlanceAfterClose(t *testing.T) {
	needGlances(t)
	e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1})
	mustSet(t, e, 1, []byte("key"), []byte("value"), 0)
	s := &e.shards[0]
	c := s.cells[1].Load()
	if _, saw := e.spot(s, c, 1, e.hash.sum([]byte("key")), []byte("key")); saw != sawValue {
		t.Fatal("the key is not there")
	}
	e.Close()
	if _, saw := e.spot(s, c, 1, e.hash.sum([]byte("key")), []byte("key")); saw != sawNothing {
		t.Errorf("saw %d", saw)
	}
	if _, _, err := e.Get(1, []byte("key"), nil); !errors.Is(err, errs.ErrClosed) {
		t.Error(err)
	}
}

// An access is noted in the header without disturbing other readers, once; the
// first one of a key even if somebody held the lock meanwhile.
func TestGlanceNotesAccesses(t *testing.T) {
	needGlances(t)
	e, c := newTest(t, Options{Shards: 1})
	key := []byte("key")
	mustSet(t, e, 1, key, []byte("value"), 0)
	s := &e.shards[0]
	h := e.hash.sum(key)
	version := s.mu.seen()
	now := func() record { _, r := s.find(1, h, key); return r }
	for want := 1; want < 6; want++ {
		if _, _, err := e.Get(1, key, nil); err != nil {
			t.Fatal(err)
		}
		if got := now().freq(); got != min(want, maxFreq) {
			t.Fatalf("frequency %d after %d reads", got, want)
		}
	}
	c.add(5000)
	_, _, _ = e.Get(1, key, nil)
	if at := lastAccess(now(), c.now()); at/1000 != c.now()/1000 {
		t.Errorf("the last access was at %d, now is %d", at, c.now())
	}
	if s.mu.seen() != version {
		t.Error("reads have changed the version")
	}
	for before, after := range map[int]int{0: 1, 1: 1} {
		now().setFreq(before)
		r := now()
		mustSet(t, e, 2, []byte("other"), nil, 0)
		e.note(s, version, 1, h, key, r, e.tick())
		if got := now().freq(); got != after {
			t.Errorf("frequency %d became %d by an access that was noted late, want %d", before, got, after)
		}
	}
}

// Reads are counted one by one, by whichever way.
func TestReadsAreCounted(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 8 << 20})
	for i := range 100 {
		deadline := int64(0)
		if i%10 == 0 {
			deadline = c.in(10)
		}
		mustSet(t, e, slotFor(i), keyFor(i), bytes.Repeat([]byte("v"), 1+i%7*15_000), deadline)
	}
	c.add(20)
	const workers, rounds = 4, 50
	done := make(chan struct{})
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for range rounds {
				for i := range 120 {
					_, _, _ = e.Get(slotFor(i), keyFor(i), nil)
				}
			}
		}()
	}
	for range workers {
		<-done
	}
	if st := e.Stats(); st.Hits != workers*rounds*90 || st.Misses != workers*rounds*30 {
		t.Errorf("%d hits, %d misses; want %d and %d", st.Hits, st.Misses, workers*rounds*90, workers*rounds*30)
	}
	e.ResetStats()
	if st := e.Stats(); st.Hits+st.Misses != 0 {
		t.Errorf("%d hits, %d misses after the reset", st.Hits, st.Misses)
	}
}

// A read into a buffer with room allocates nothing, whether there is a key or not.
func TestGetAllocatesNothing(t *testing.T) {
	e, c := newTest(t, Options{})
	key, dst := []byte("key"), make([]byte, 0, 200_000)
	for _, tc := range []struct {
		value    string
		deadline int64
	}{{"short", 0}, {"with a deadline", c.in(1000)}, {strings.Repeat("large", 30_000), 0}} {
		mustSet(t, e, 1, key, []byte(tc.value), tc.deadline)
		if n := testing.AllocsPerRun(200, func() {
			_, _, _ = e.Get(1, key, dst)
			_, _, _ = e.Get(1, key[:1], dst)
			_, _, _ = e.GetKey(key, dst)
		}); n != 0 {
			t.Errorf("%d bytes: %v allocations", len(tc.value), n)
		}
	}
}
