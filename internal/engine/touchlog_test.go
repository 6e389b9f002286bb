package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// Whatever a client may know of a key, or has done to it, is in the log: another
// engine, of another seed, that has a value of before removes it.
func TestTouchLogNamesKeys(t *testing.T) {
	for _, tc := range []struct {
		name  string
		touch func(e *Engine, c *clock, k []byte)
		named bool
	}{
		{"nothing", func(*Engine, *clock, []byte) {}, false},
		{"write of another key", func(e *Engine, _ *clock, _ []byte) { e.Set(1, []byte("other"), nil, 0) }, false},
		{"write in another slot", func(e *Engine, _ *clock, k []byte) { e.Set(2, k, nil, 0) }, false},
		{"write", func(e *Engine, _ *clock, k []byte) { e.Set(1, k, nil, 0) }, true},
		{"write and delete", func(e *Engine, _ *clock, k []byte) { e.Set(1, k, nil, 0); e.Delete(1, k) }, true},
		{"write with a passed deadline", func(e *Engine, c *clock, k []byte) { e.Set(1, k, nil, c.in(-1)) }, true},
		{"write and expiry by sweep", func(e *Engine, c *clock, k []byte) {
			e.Set(1, k, nil, c.in(5))
			c.add(6)
			e.Sweep()
		}, true},
		{"write and eviction", func(e *Engine, _ *clock, k []byte) {
			e.Set(1, k, nil, 0)
			e.SetMaxBytes(1)
			e.SetMaxBytes(0)
		}, true},
		{"delete of an absent key", func(e *Engine, _ *clock, k []byte) { e.Delete(1, k) }, true},
		{"deadline of an absent key", func(e *Engine, c *clock, k []byte) {
			tx := e.LockAny(1)
			tx.SetDeadline(k, c.in(5))
			tx.Unlock()
		}, true},
		{"read of an absent key", func(e *Engine, _ *clock, k []byte) { e.Get(1, k, nil) }, true},
		{"read of an absent key in a hold", func(e *Engine, _ *clock, k []byte) { tx := e.LockAny(1); tx.Get(k); tx.Unlock() }, true},
		{"look at an absent key", func(e *Engine, _ *clock, k []byte) { tx := e.LockAny(1); tx.Has(k); tx.Unlock() }, true},
		{"touch of an absent key", func(e *Engine, _ *clock, k []byte) { tx := e.LockAny(1); tx.Touch(k); tx.Unlock() }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			heir, c := newTest(t, Options{Seed: 1})
			before, _ := newTest(t, Options{Seed: 2})
			k := []byte("key")
			for _, key := range [][]byte{k, []byte("untouched")} {
				if err := before.Set(1, key, []byte("old"), 0); err != nil {
					t.Fatal(err)
				}
			}
			heir.OpenLog(1)
			tc.touch(heir, c, k)
			l, ok := heir.TakeLog(1)
			if !ok || !before.RemoveLogged(1, l) {
				t.Fatal("no log, or one that cannot be read")
			}
			_, _, err := before.Get(1, k, nil)
			if removed := errors.Is(err, errs.ErrNotFound); removed != tc.named {
				t.Errorf("removed: %v, want %v; the log has %d keys", removed, tc.named, len(l.Prints))
			}
			if _, _, err := before.Get(1, []byte("untouched"), nil); err != nil {
				t.Errorf("another key: %v", err)
			}
		})
	}
}

// A log that is not complete is none.
func TestTouchLogEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(e *Engine)
		ok   bool
	}{
		{"nothing", func(*Engine) {}, true},
		{"drop of another slot", func(e *Engine) { e.DropSlot(2) }, true},
		{"close of a window that is none", func(e *Engine) { e.AddIfUntouched(1, []byte("k"), nil, 0) }, true},
		{"flush", func(e *Engine) { e.Flush() }, false},
		{"drop", func(e *Engine) { e.DropSlot(1) }, false},
		{"a window", func(e *Engine) { e.OpenWindow(1, 10) }, false},
		{"taken before", func(e *Engine) { e.TakeLog(1) }, false},
		{"full", func(e *Engine) {
			for i := range MaxLogKeys + 100 {
				e.Delete(1, keyFor(i))
			}
		}, false},
		{"just not full", func(e *Engine) {
			for i := range MaxLogKeys {
				e.Delete(1, keyFor(i))
			}
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, _ := newTest(t, Options{Seed: 1})
			e.OpenLog(1)
			e.Set(1, []byte("k"), nil, 0)
			e.Delete(1, []byte("k"))
			tc.end(e)
			if _, ok := e.TakeLog(1); ok != tc.ok {
				t.Errorf("complete: %v, want %v", ok, tc.ok)
			}
			e.CloseWindow(1)
			if b := e.Stats().WindowBytes; b != 0 {
				t.Errorf("%d bytes are left", b)
			}
		})
	}
}

// A slot with a log takes nothing from anybody: it is no pull window.
func TestTouchLogIsNoWindow(t *testing.T) {
	e, _ := newTest(t, Options{})
	e.OpenWindow(1, 1)
	e.Delete(1, []byte("a"))
	e.Delete(1, []byte("b")) // one too many
	e.OpenLog(1)
	if w := e.Window(1); w != (WindowState{}) {
		t.Errorf("%+v", w)
	}
	if r, err := e.AddIfUntouched(1, []byte("k"), nil, 0); r != WindowClosed || err != nil {
		t.Errorf("%v %v", r, err)
	}
	tx := e.LockAny(1)
	defer tx.Unlock()
	if tx.Window() != 0 || tx.Untouched([]byte("other")) {
		t.Error("the hold sees a window")
	}
}

// Logs leave windows a half of the memory for filters.
func TestTouchLogsTogetherAreBounded(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 32 << 20})
	const slots = 40
	for slot := range uint16(slots) {
		e.OpenLog(slot)
	}
	var most int64
	for i := range MaxLogKeys {
		k := keyFor(i)
		for slot := range uint16(slots) {
			_, _ = e.Delete(slot, k)
		}
		if i%1000 == 0 {
			most = max(most, e.windows.Load())
		}
	}
	full := 0
	for slot := range uint16(slots) {
		if _, ok := e.TakeLog(slot); !ok {
			full++
		}
	}
	if full == 0 || full == slots || most > windowBytes/logsShare {
		t.Errorf("%d of %d logs ended, they took up to %d bytes, limit %d", full, slots, most, windowBytes/logsShare)
	}
}

// All keys that a log names go, however many there are, large ones too, and no other.
func TestRemoveLogged(t *testing.T) {
	heir, _ := newTest(t, Options{Seed: 1})
	before, _ := newTest(t, Options{Seed: 2, MaxBytes: 64 << 20})
	heir.OpenLog(1)
	const keys = 20_000
	large := make([]byte, 100_000)
	for i := range keys {
		value := []byte("old")
		if i%1000 == 0 {
			value = large
		}
		if err := before.Set(1, keyFor(i), value, 0); err != nil {
			t.Fatal(err)
		}
		if i%4 == 0 {
			heir.Set(1, keyFor(i), []byte("new"), 0)
		}
	}
	l, ok := heir.TakeLog(1)
	if !ok || len(l.Prints) < keys/4-2 || !before.RemoveLogged(1, l) {
		t.Fatalf("%d keys", len(l.Prints))
	}
	lost := 0
	for i := range keys {
		_, _, err := before.Get(1, keyFor(i), nil)
		switch {
		case i%4 == 0 && err == nil:
			t.Fatalf("key %d is still there", i)
		case i%4 != 0 && err != nil:
			lost++
		}
	}
	if lost > 2 { // fingerprints may be equal
		t.Errorf("%d keys are lost that nobody has touched", lost)
	}
	if n := before.Stats().Invalidated; n < keys/4 || n > keys/4+2 {
		t.Errorf("%d count as invalidated", n)
	}
}

// Who hashes in another way than the log says removes nothing, and says so.
func TestRemoveLoggedOfAnotherHash(t *testing.T) {
	e, _ := newTest(t, Options{})
	e.Set(1, []byte("k"), nil, 0)
	l := e.NoTouches()
	if !e.RemoveLogged(1, l) {
		t.Error("an empty log cannot be read")
	}
	l.Prints = []uint32{fingerprint(e.hash.sum([]byte("k")))}
	l.Check++
	if e.RemoveLogged(1, l) || e.Stats().Keys != 1 {
		t.Error("a log of another hash was read")
	}
	if l.Check--; !e.RemoveLogged(1, l) || e.Stats().Keys != 0 {
		t.Error("the key is still there")
	}
}

// Whoever reads an absent key beside a log, without the lock or with it, is noted;
// keys that are there are read without it as ever.
func TestGlanceAndTouchLog(t *testing.T) {
	e, _ := newTest(t, Options{})
	s, _ := e.at(1)
	e.Set(1, []byte("there"), []byte("v"), 0)
	look := func(key string) sight {
		_, _, saw := e.glance(s, 1, e.hash.sum([]byte(key)), []byte(key), nil)
		return saw
	}
	if unlocked && (look("there") != sawValue || look("absent") != sawNothing) {
		t.Error("without a log")
	}
	e.OpenLog(1)
	if unlocked && (look("there") != sawValue || look("absent") != sawOther) {
		t.Error("with a log")
	}
	for i := range 100 {
		e.Get(1, fmt.Append(nil, i), nil)
		e.Get(1, []byte("there"), nil)
	}
	if l, ok := e.TakeLog(1); !ok || len(l.Prints) != 100 {
		t.Errorf("%d keys", len(l.Prints))
	}
}
