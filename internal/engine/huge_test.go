package engine

import "testing"

// Whole stretches of open chunks are found once each, holes are left alone, and
// a stretch is found again after a chunk of it went back to the system.
func TestWide(t *testing.T) {
	var a arena
	if err := a.init(64<<20, 1); err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.huge.done = make([]bool, len(a.free)/hugeChunks)
	if i := a.wide(true); i >= 0 {
		t.Fatalf("stretch %d of an arena with one open chunk", i)
	}
	for range 2*hugeChunks - 1 { // chunk 0 was open
		if _, got := a.takeRun(chunkBlocks, chunkBlocks*a.blockBytes); got != chunkBlocks {
			t.Fatal("no chunk")
		}
	}
	for want := range 2 {
		if i := a.wide(want == 0); i != want {
			t.Fatalf("stretch %d, want %d", i, want)
		}
		a.huge.done[want] = true
	}
	if i := a.wide(true); i >= 0 {
		t.Fatalf("stretch %d is found twice", i)
	}
	for c := hugeChunks; c < 2*hugeChunks; c++ {
		a.put(uint32(c*chunkBlocks), chunkBlocks)
	}
	a.trim(0)
	if i := a.wide(true); i >= 0 {
		t.Fatalf("stretch %d has chunks that were given back", i)
	}
	for range hugeChunks {
		a.takeRun(chunkBlocks, chunkBlocks*a.blockBytes)
	}
	if i := a.wide(true); i != 1 {
		t.Fatalf("stretch %d is open again, want 1", i)
	}
}
