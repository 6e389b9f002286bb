package engine

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// clock is an injected clock that only the test moves.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(1_000_000)
	return c
}

func (c *clock) now() int64        { return c.ms.Load() }
func (c *clock) add(ms int64)      { c.ms.Add(ms) }
func (c *clock) in(ms int64) int64 { return c.now() + ms }

// newTest returns an engine without background whose slots are all served.
func newTest(tb testing.TB, o Options) (*Engine, *clock) {
	tb.Helper()
	c := newClock()
	if o.Now == nil {
		o.Now = c.now
	}
	o.NoBackground = true
	e, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	for slot := range Slots {
		e.SetServing(uint16(slot), true)
	}
	return e, c
}

// verifyAll checks all shards, and the used bytes against them; nothing may run.
// After the limit sank, chunks that are used in part may stay open.
func verifyAll(tb testing.TB, e *Engine) {
	tb.Helper()
	var sum int64
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		if err := s.verify(); err != nil {
			tb.Error(err)
		}
		sum += e.arenaOf(s)
		s.mu.Unlock()
	}
	if used := e.used.Load(); used != sum {
		tb.Errorf("%d bytes are counted as used, shards have %d", used, sum)
	}
	if err := e.arena.verify(e.used.Load()); err != nil {
		tb.Error(err)
	}
	if open, most := e.arena.open, e.arena.most; open > most {
		tb.Errorf("%d chunks are open, want at most %d", open, most)
	}
	if debt := e.debt.Load(); debt != 0 {
		tb.Errorf("a debt of %d bytes is left", debt)
	}
}

// slotFor spreads keys over slots as a cluster does, without being CRC16.
func slotFor(i int) uint16 { return uint16(i * 40503 % Slots) }

func keyFor(i int) []byte { return fmt.Appendf(nil, "key-%08d", i) }

func mustSet(tb testing.TB, e *Engine, slot uint16, key, value []byte, deadline int64) {
	tb.Helper()
	if err := e.Set(slot, key, value, deadline); err != nil {
		tb.Fatalf("set %q: %v", key, err)
	}
}

func has(e *Engine, slot uint16, key []byte) bool {
	t := e.LockAny(slot)
	defer t.Unlock()
	return t.Has(key)
}

// oneGoroutine keeps a long test out of the short run with the race detector, which
// finds nothing where nothing runs beside. What a race build has besides, an arena on
// the heap and checks of pointers, is tried with the tag heaparena (make race).
func oneGoroutine(tb testing.TB) {
	tb.Helper()
	if raceEnabled && testing.Short() {
		tb.Skip("one goroutine, long")
	}
}

// scale makes the rounds of a test fewer where each of them costs more.
func scale(n int) int {
	if raceEnabled {
		return n / 10
	}
	return n
}
