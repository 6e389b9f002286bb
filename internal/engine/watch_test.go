package engine

import (
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	const slot = 77
	a, b := []byte("a"), []byte("b")
	cases := []struct {
		name string
		do   func(e *Engine, c *clock)
		want bool
	}{
		{"nothing", func(*Engine, *clock) {}, false},
		{"read", func(e *Engine, _ *clock) { _, _, _ = e.Get(slot, a, nil) }, false},
		{"write", func(e *Engine, _ *clock) { _ = e.Set(slot, a, []byte("2"), 0) }, true},
		{"write of the same value", func(e *Engine, _ *clock) { _ = e.Set(slot, a, []byte("1"), 0) }, true},
		{"write of another key", func(e *Engine, _ *clock) { _ = e.Set(slot, []byte("c"), a, 0) }, false},
		{"write in another slot", func(e *Engine, _ *clock) { _ = e.Set(slot+256, a, a, 0) }, false},
		{"creation", func(e *Engine, _ *clock) { _ = e.Set(slot, b, a, 0) }, true},
		{"creation that is over at once", func(e *Engine, c *clock) { _ = e.Set(slot, b, a, c.in(-1)) }, true},
		{"deletion", func(e *Engine, _ *clock) { _, _ = e.Delete(slot, a) }, true},
		{"deletion of nothing", func(e *Engine, _ *clock) { _, _ = e.Delete(slot, b) }, false},
		{"deadline", func(e *Engine, c *clock) { tx := e.LockAny(slot); tx.SetDeadline(a, c.in(5)); tx.Unlock() }, true},
		{"expiry that nobody met", func(_ *Engine, c *clock) { c.add(100_001) }, true},
		{"sweep", func(e *Engine, c *clock) { c.add(100_001); e.Sweep() }, true},
		{"flush", func(e *Engine, _ *clock) { e.Flush() }, true},
		{"drop of the slot", func(e *Engine, _ *clock) { e.DropSlot(slot) }, true},
		{"loss and return", func(e *Engine, _ *clock) { e.SetServing(slot, false); e.SetServing(slot, true) }, true},
		{"loss of another slot", func(e *Engine, _ *clock) { e.SetServing(slot+256, false) }, false},
		{"eviction", func(e *Engine, _ *clock) {
			for i := range 3000 {
				_ = e.Set(slot, []byte("k"+strings.Repeat("x", i%50)+string(rune(i))), make([]byte, 2000), 0)
			}
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e, clock := newTest(t, Options{MaxBytes: 2 << 20, Policy: "lru"})
			var w, other Watch
			tx := e.LockAny(slot)
			if err := tx.Set(a, []byte("1"), clock.in(100_000)); err != nil {
				t.Fatal(err)
			}
			tx.Watch(&w, a)
			tx.Watch(&w, a) // once
			tx.Watch(&w, b)
			tx.Watch(&other, a)
			tx.Unwatch(&other)
			tx.Unlock()
			if w.Keys() != 2 || w.Slot() != slot || other.Keys() != 0 {
				t.Errorf("%d keys of slot %d, %d keys", w.Keys(), w.Slot(), other.Keys())
			}
			c.do(e, clock)
			tx = e.LockAny(slot)
			defer tx.Unlock()
			if got := tx.Changed(&w); got != c.want {
				t.Errorf("changed is %v", got)
			}
			tx.Unwatch(&w)
			if tx.Changed(&w) || tx.s.watched != nil {
				t.Error("something is left of the watch")
			}
		})
	}
}

// A flush does not change what was not there.
func TestWatchOfAbsentKeyAndFlush(t *testing.T) {
	e, _ := newTest(t, Options{})
	var w Watch
	tx := e.LockAny(1)
	tx.Watch(&w, []byte("a"))
	tx.Unlock()
	e.Flush()
	tx = e.LockAny(1)
	defer tx.Unlock()
	if tx.Changed(&w) {
		t.Error("changed")
	}
}
