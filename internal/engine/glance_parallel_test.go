package engine

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// A signed value says whose it is, which write it was, and whether it is whole:
// key number 4 | version 4 | checksum 4 | filling that depends on both.
const signedHead = 12

func signedValue(b []byte, key, version uint32, n int) []byte {
	b = append(b[:0], make([]byte, signedHead)...)
	for i := range n {
		b = append(b, byte(key)^byte(version)^byte(i))
	}
	binary.LittleEndian.PutUint32(b, key)
	binary.LittleEndian.PutUint32(b[4:], version)
	binary.LittleEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[signedHead:])^key^version*0x9e3779b1)
	return b
}

func readSigned(b []byte) (key, version uint32, whole bool) {
	if len(b) < signedHead {
		return 0, 0, false
	}
	key, version = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	return key, version, binary.LittleEndian.Uint32(b[8:]) == crc32.ChecksumIEEE(b[signedHead:])^key^version*0x9e3779b1
}

// signedKeys is one writer's state of each of its keys.
type signedKeys struct {
	begun, done []atomic.Uint32 // version of the last write that began, and that returned
	clock       *clock
}

// check judges one read: begun and done were read before it and after it.
func (k *signedKeys) check(t *testing.T, i int, val []byte, deadline, before int64, oldest uint32) {
	key, version, whole := readSigned(val)
	switch {
	case !whole:
		t.Errorf("key %d: a value of %d bytes is not whole", i, len(val))
	case key != uint32(i):
		t.Errorf("key %d has the value of key %d", i, key)
	case version < oldest || version > k.begun[i].Load():
		t.Errorf("key %d: version %d, when %d was written and %d had begun", i, version, oldest, k.begun[i].Load())
	case deadline != 0 && deadline < before:
		t.Errorf("key %d: its deadline was %d, at %d", i, deadline, before)
	}
}

// TestReadersSeeOneState has readers of all kinds of keys beside everything that
// changes, moves or takes away what they read: no value is ever mixed, foreign or
// older than a write that had returned before, and none outlives its deadline. Last,
// the engine is closed under them.
func TestReadersSeeOneState(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limit  int64
		shards int
		keys   int
		n      int // bytes of the largest values
		slots  int // few have directories
	}{
		{"in place", 4 << 20, 1, 64, 60, 40},
		{"evicting", 256 << 10, 4, 3000, 300, 700},
		{"one slot", 1 << 20, 2, 4000, 100, 1},
		{"blocks of 512 bytes", 60 << 10, 2, 200, 900, 9},
		{"large", 2 << 20, 2, 100, 70_000, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, c := newTest(t, Options{MaxBytes: tc.limit, Shards: tc.shards})
			k := &signedKeys{begun: make([]atomic.Uint32, tc.keys), done: make([]atomic.Uint32, tc.keys), clock: c}
			slot := func(i int) uint16 { return slotFor(i % tc.slots) }
			var readers, writers sync.WaitGroup
			var stop atomic.Bool
			var closed, reads atomic.Int64
			for w := range 2 {
				readers.Go(func() {
					r := rand.New(rand.NewPCG(uint64(w), 1))
					dst := make([]byte, 0, tc.n/2)
					for closedHere := 0; closedHere < 100; {
						i := r.IntN(tc.keys)
						oldest, before := k.done[i].Load(), c.now()
						val, deadline, err := e.Get(slot(i), keyFor(i), dst)
						switch {
						case err == nil:
							k.check(t, i, val, deadline, before, oldest)
							reads.Add(1)
						case errors.Is(err, errs.ErrClosed):
							closedHere++
						case stop.Load():
							runtime.Gosched()
						}
						if t.Failed() {
							return
						}
					}
					closed.Add(1)
				})
			}
			for w := range 2 {
				writers.Go(func() { k.write(t, e, slot, tc.keys, tc.n, w) })
			}
			writers.Add(1)
			go func() {
				defer writers.Done()
				disturb(e, c, slot, tc.limit, scale(2000))
			}()
			writers.Wait()
			for reads.Load() == 0 && !t.Failed() { // on a busy machine the writers may be through before a reader begins
				k.write(t, e, slot, tc.keys, tc.n, 0)
				runtime.Gosched()
			}
			stop.Store(true)
			verifyAll(t, e)
			e.Close()
			readers.Wait()
			if closed.Load() != 2 || reads.Load() == 0 {
				t.Errorf("%d readers saw the end; %d reads found something", closed.Load(), reads.Load())
			}
		})
	}
}

// write changes every second key, from w on.
func (k *signedKeys) write(t *testing.T, e *Engine, slot func(int) uint16, keys, most, w int) {
	r := rand.New(rand.NewPCG(uint64(w), 2))
	var b []byte
	for n := range scale(2_000_000/(most+100) + 2000) {
		i := r.IntN(keys)/2*2 + w
		if i >= keys {
			continue
		}
		size, deadline := r.IntN(most), int64(0)
		if n%3 > 0 {
			size = most / 2 // mostly in place
		}
		if n%5 == 0 {
			deadline = k.clock.in(int64(r.IntN(20)))
		}
		version := k.begun[i].Add(1)
		b = signedValue(b, uint32(i), version, size)
		switch err := e.Set(slot(i), keyFor(i), b, deadline); {
		case err == nil:
			k.done[i].Store(version)
		case !errors.Is(err, errs.ErrNotServing):
			t.Errorf("set: %v", err)
		}
		if n%11 == 0 {
			_, _ = e.Delete(slot(i), keyFor(i))
		}
	}
}

// disturb takes away what readers look at.
func disturb(e *Engine, c *clock, slot func(int) uint16, limit int64, n int) {
	r := rand.New(rand.NewPCG(3, 3))
	for range n {
		switch s := slot(r.IntN(1 << 20)); r.IntN(12) {
		case 0:
			e.Flush()
		case 1, 2:
			e.DropSlot(s)
		case 3, 4:
			e.SetServing(s, false)
			e.SetServing(s, true)
		case 5, 6:
			_ = e.SetMaxBytes(limit / 2) // evicts, trims and dries
			_ = e.SetMaxBytes(limit)
		case 7, 8:
			c.add(1)
			e.Sweep()
		case 9:
			e.arena.trim(0)
			e.arena.widen()
		default:
			tx := e.LockAny(s)
			tx.Touch(keyFor(r.IntN(100)))
			tx.Unlock()
		}
	}
}
