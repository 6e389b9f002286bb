package engine

import (
	"runtime/debug"
	"testing"

	"github.com/ringcache/ringcache/internal/invariant"
)

// After the limit was lowered the process is that small too, although what is
// left lies scattered over the chunks of the old limit.
func TestShrinkingGivesMemoryBack(t *testing.T) {
	if raceEnabled || invariant.Enabled || rss() == 0 {
		t.Skip("the build changes memory, or it cannot be measured")
	}
	const large, less = 64 << 20, 8 << 20
	e, _ := newTest(t, Options{MaxBytes: large, Seed: 1})
	debug.FreeOSMemory()
	before := rss()
	value := make([]byte, 100)
	for i := range 500_000 {
		mustSet(t, e, slotFor(i), keyFor(i), value, 0)
	}
	if grown := rss() - before; grown < large*9/10 {
		t.Skipf("%d bytes are resident for %d used", grown, e.used.Load())
	}
	if err := e.SetMaxBytes(less); err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	if grown := rss() - before; grown > less+4<<20 {
		t.Errorf("%d bytes are resident under a limit of %d", grown, less)
	}
	kept := 0
	for i := range 500_000 {
		if got, _, err := e.Get(slotFor(i), keyFor(i), nil); err == nil {
			if kept++; string(got) != string(value) {
				t.Fatalf("key %d holds %q", i, got)
			}
		}
	}
	if st := e.Stats(); int64(kept) != st.Keys || kept < 40_000 {
		t.Errorf("%d keys are found, %+v", kept, st)
	}
}
