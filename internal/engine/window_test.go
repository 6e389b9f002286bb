package engine

import (
	"fmt"
	"testing"
)

// Each way of touching a key keeps a late pull out.
func TestTouchedKeysAreNeverAdded(t *testing.T) {
	for _, tc := range []struct {
		name  string
		touch func(e *Engine, c *clock, k []byte)
		want  AddResult
	}{
		{"nothing", func(*Engine, *clock, []byte) {}, Added},
		{"read of an absent key", func(e *Engine, _ *clock, k []byte) { e.Get(1, k, nil) }, Added},
		{"write of another key", func(e *Engine, _ *clock, k []byte) { e.Set(1, []byte("other"), nil, 0) }, Added},
		{"write in another slot", func(e *Engine, _ *clock, k []byte) { e.Set(2, k, nil, 0) }, Added},
		{"write", func(e *Engine, _ *clock, k []byte) { e.Set(1, k, nil, 0) }, Touched},
		{"delete of an absent key", func(e *Engine, _ *clock, k []byte) { e.Delete(1, k) }, Touched},
		{"write and delete", func(e *Engine, _ *clock, k []byte) { e.Set(1, k, nil, 0); e.Delete(1, k) }, Touched},
		{"write with a passed deadline", func(e *Engine, c *clock, k []byte) { e.Set(1, k, nil, c.in(-1)) }, Touched},
		{"expiry on read", func(e *Engine, c *clock, k []byte) {
			e.Set(1, k, nil, c.in(5))
			e.OpenWindow(1, 100)
			c.add(6)
			e.Get(1, k, nil)
		}, Touched},
		{"expiry that the pull meets", func(e *Engine, c *clock, k []byte) {
			e.Set(1, k, nil, c.in(5))
			e.OpenWindow(1, 100)
			c.add(6)
		}, Touched},
		{"expiry by sweep", func(e *Engine, c *clock, k []byte) {
			e.Set(1, k, nil, c.in(5))
			e.OpenWindow(1, 100)
			c.add(6)
			e.Sweep()
		}, Touched},
		{"eviction", func(e *Engine, _ *clock, k []byte) {
			e.Set(1, k, nil, 0)
			e.OpenWindow(1, 100)
			e.SetMaxBytes(1)
			e.SetMaxBytes(0)
		}, Touched},
		{"TTL change and invalidation", func(e *Engine, c *clock, k []byte) {
			e.Set(1, k, nil, 0)
			e.OpenWindow(1, 100)
			tx := e.LockAny(1)
			tx.SetDeadline(k, c.in(5))
			tx.Invalidate(k)
			tx.Unlock()
		}, Touched},
		{"an earlier pull that was evicted", func(e *Engine, _ *clock, k []byte) {
			e.AddIfUntouched(1, k, nil, 0)
			e.SetMaxBytes(1)
			e.SetMaxBytes(0)
		}, Touched},
		{"a pull that came expired", func(e *Engine, c *clock, k []byte) { e.AddIfUntouched(1, k, nil, c.in(-1)) }, Touched},
		{"mark", func(e *Engine, _ *clock, k []byte) { tx := e.LockAny(1); tx.MarkTouched(k); tx.Unlock() }, Touched},
		{"flush", func(e *Engine, _ *clock, k []byte) { e.Flush() }, WindowClosed},
		{"drop", func(e *Engine, _ *clock, k []byte) { e.DropSlot(1) }, WindowClosed},
		{"close", func(e *Engine, _ *clock, k []byte) { e.CloseWindow(1) }, WindowClosed},
		{"a full filter", func(e *Engine, _ *clock, k []byte) {
			for i := range 101 {
				e.Delete(1, fmt.Append(nil, i))
			}
		}, WindowFull},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, c := newTest(t, Options{})
			k := []byte("key")
			e.OpenWindow(1, 100)
			tc.touch(e, c, k)
			tx := e.LockAny(1)
			pullable := tx.Untouched(k)
			tx.Unlock()
			got, err := e.AddIfUntouched(1, k, []byte("pulled"), c.in(50))
			if got != tc.want || err != nil || pullable != (tc.want == Added) {
				t.Fatalf("%v %v, untouched %v; want %v", got, err, pullable, tc.want)
			}
			v, deadline, err := e.Get(1, k, nil)
			if added := err == nil && string(v) == "pulled" && deadline == c.in(50); added != (tc.want == Added) {
				t.Fatalf("afterwards %q until %d, %v", v, deadline, err)
			}
		})
	}
}

// The filter keeps every key up to its bound, exactly.
func TestWindowFilterHasNoFalseNegatives(t *testing.T) {
	e, _ := newTest(t, Options{Seed: 1})
	const keys = 5000
	e.OpenWindow(3, keys)
	for i := range keys {
		e.Delete(3, keyFor(i))
		e.Delete(3, keyFor(i/2))
	}
	if got := e.Window(3); got != (WindowState{Open: true, Keys: keys}) {
		t.Fatalf("%+v", got)
	}
	if b := e.Stats().WindowBytes; b < 4*keys || b > 11*keys {
		t.Errorf("%d keys take %d bytes", keys, b)
	}
	tx := e.LockAny(3)
	for i := range keys {
		if tx.Untouched(keyFor(i)) {
			t.Fatalf("key %d is forgotten", i)
		}
	}
	untouched := 0
	for i := range keys {
		if tx.Untouched(keyFor(keys + i)) {
			untouched++
		}
	}
	tx.Unlock()
	if untouched < keys-5 {
		t.Errorf("only %d of %d other keys are untouched", untouched, keys)
	}
	e.Delete(3, []byte("one more"))
	if got := e.Window(3); got != (WindowState{Full: true}) {
		t.Fatalf("%+v", got)
	}
	if b := e.Stats().WindowBytes; b != 0 {
		t.Errorf("a window that ended takes %d bytes", b)
	}
}

// What was asked for in one window is not added to the next.
func TestAddToWindowKnowsWindowsApart(t *testing.T) {
	e, _ := newTest(t, Options{})
	first := e.OpenWindow(1, 10)
	second := e.OpenWindow(1, 10)
	if first == 0 || second == first {
		t.Fatalf("windows %d and %d", first, second)
	}
	tx := e.LockAny(1)
	if got := tx.Window(); got != second || tx.Serving() != e.Serving(1) {
		t.Errorf("window %d, want %d", got, second)
	}
	tx.Unlock()
	for _, tc := range []struct {
		gen  uint64
		want AddResult
	}{{first, WindowClosed}, {second + 1, WindowClosed}, {second, Added}, {second, Touched}} {
		if got, err := e.AddToWindow(1, tc.gen, []byte("k"), []byte("v"), 0); got != tc.want || err != nil {
			t.Errorf("window %d: %v %v, want %v", tc.gen, got, err, tc.want)
		}
	}
	e.CloseWindow(1)
	tx = e.LockAny(1)
	defer tx.Unlock()
	if got := tx.Window(); got != 0 {
		t.Errorf("window %d after its end", got)
	}
}

// The filters of all windows together are bounded, whatever each may have.
func TestWindowsTogetherAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	e, _ := newTest(t, Options{MaxBytes: 32 << 20})
	const slots = 5
	for slot := range uint16(slots) {
		e.OpenWindow(slot, MaxWindowKeys)
	}
	var most int64
	for i := range 800_000 {
		k := keyFor(i)
		for slot := range uint16(slots) {
			_, _ = e.Delete(slot, k)
		}
		most = max(most, e.windows.Load())
	}
	full := 0
	for slot := range uint16(slots) {
		if w := e.Window(slot); w.Full && !w.Open {
			full++
		}
	}
	if full == 0 || full == slots || most > windowBytes {
		t.Errorf("%d of %d windows ended, the filters took up to %d bytes, limit %d", full, slots, most, windowBytes)
	}
}
