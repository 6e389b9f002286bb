package engine

import (
	"errors"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// What the process holds beside the engine takes memory from the entries, and
// gives it back.
func TestOutsideCountsAgainstTheLimit(t *testing.T) {
	oneGoroutine(t)
	const limit = 8 << 20
	e, _ := newTest(t, Options{MaxBytes: limit})
	value := make([]byte, 200)
	n := 0
	fill := func() {
		for range 40_000 {
			mustSet(t, e, slotFor(n), keyFor(n), value, 0)
			n++
		}
	}
	fill()
	for _, outside := range []int64{1 << 20, 3 << 20, 0, 64 << 20} {
		if err := e.SetOutside(outside); err != nil {
			t.Fatal(err)
		}
		want := limit - min(outside, limit/outsideMost)
		if used := e.used.Load(); used > want {
			t.Fatalf("%d bytes are used at once with %d outside, want at most %d", used, outside, want)
		}
		fill()
		st := e.Stats()
		if st.ArenaBytes > want || st.ArenaBytes < want-want/10 || st.MaxBytes != limit || st.OutsideBytes != outside {
			t.Fatalf("%d outside: %+v", outside, st)
		}
		if sum := st.IndexBytes + st.GhostBytes + st.ChainBytes + st.LiveBytes + st.DeadBytes + st.FreeBytes; sum != st.ArenaBytes {
			t.Fatalf("the parts are %d bytes, all are %d: %+v", sum, st.ArenaBytes, st)
		}
		if most := e.arena.touched(); st.ArenaBytes+st.SlackBytes != most {
			t.Fatalf("%d bytes of chunks, %d and %d are told", most, st.ArenaBytes, st.SlackBytes)
		}
	}
	if err := e.SetMaxBytes(2 * limit); err != nil { // half of it may be outside
		t.Fatal(err)
	}
	if got := e.ceiling.Load(); got != limit {
		t.Fatalf("a limit of %d with much outside leaves %d", 2*limit, got)
	}
	if err := e.SetOutside(-1); !errors.Is(err, errs.ErrConfig) {
		t.Fatalf("a negative size: %v", err)
	}
	verifyAll(t, e)
}

// Under noeviction nothing leaves for it; writes fail until it is gone.
func TestOutsideUnderNoeviction(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 4 << 20, Policy: "noeviction"})
	value := make([]byte, 1000)
	for i := range 3000 {
		mustSet(t, e, slotFor(i), keyFor(i), value, 0)
	}
	if err := e.SetOutside(2 << 20); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 3000; i < 3600 && err == nil; i++ {
		err = e.Set(slotFor(i), keyFor(i), value, 0)
	}
	if st := e.Stats(); !errors.Is(err, errs.ErrNoMemory) || st.Evicted > 0 || st.Keys < 3000 {
		t.Fatalf("%v, %+v", err, st)
	}
	if err := e.SetOutside(0); err != nil {
		t.Fatal(err)
	}
	mustSet(t, e, slotFor(4000), keyFor(4000), value, 0)
}
