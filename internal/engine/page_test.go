package engine

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

func testPage(bytes int) page {
	buckets := uint32(bytes / bucketBytes)
	mem := make([]uint64, bytes/8)
	return page{unsafe.Pointer(unsafe.SliceData(mem)), buckets - stashOf(buckets), stashOf(buckets)}
}

// A page takes nine tenths of its places before it must split, finds what it
// took, and is empty after everything was taken out.
func TestPageFillsAndFinds(t *testing.T) {
	for _, bytes := range []int{minBlockBytes, 1024, 2048, maxBlockBytes} {
		sum := 0.0
		const rounds = 50
		for round := range uint64(rounds) {
			g := testPage(bytes)
			r := rand.New(rand.NewPCG(round, 1))
			var in []found
			for {
				f := found{loc(len(in) + 1), r.Uint64()}
				if !g.room(g.home(f.h, 3)) {
					break
				}
				if !g.insert(g.home(f.h, 3), tagOf(f.h), f.l) {
					t.Fatal("a page had room and did not take a key")
				}
				in = append(in, f)
			}
			sum += float64(len(in)) / float64(g.capacity())
			for _, f := range in {
				at, ok := g.locate(g.home(f.h, 3), tagOf(f.h), f.l)
				if !ok {
					t.Fatalf("%d bytes: a key is not found", bytes)
				}
				g.take(g.home(f.h, 3), at)
			}
			if g.count() != 0 {
				t.Fatalf("%d keys are left", g.count())
			}
			for b := range g.homes {
				if *g.displaced(b) != 0 || *g.stashed(b) != 0 {
					t.Fatalf("an empty page counts keys away from bucket %d", b)
				}
			}
		}
		if fill := sum / rounds; fill < 0.80 {
			t.Errorf("%d bytes: %.2f full at the split", bytes, fill)
		} else {
			t.Logf("%d bytes: %.2f full at the split", bytes, fill)
		}
	}
}

// The home of a hash grows with the hash, and start is its inverse at every
// depth: that makes a hash position a cursor.
func TestPageIsOrderedByHash(t *testing.T) {
	for _, bytes := range []int{minBlockBytes, maxBlockBytes} {
		g := testPage(bytes)
		for prefix := uint8(0); prefix < 20; prefix++ {
			for b := range g.homes {
				at := g.start(b, prefix)
				if g.home(at<<32, prefix) != b || at > 0 && g.home((at-1)<<32, prefix) != b-1 && b > 0 {
					t.Fatalf("prefix %d: bucket %d does not start at %d", prefix, b, at)
				}
			}
			if end := g.start(g.homes, prefix); end != 1<<(32-prefix) {
				t.Fatalf("prefix %d: the page ends at %d", prefix, end)
			}
		}
	}
}

func TestRunsInMasks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		mask, n := r.Uint64()|r.Uint64(), 1+r.IntN(64)
		want := uint64(0)
		for at := 0; at+n <= 64; at++ {
			if m := maskOf(at, n); mask&m == m {
				want |= 1 << at
			}
		}
		if got := runOf(mask, n); got != want {
			t.Fatalf("runs of %d in %x: %x, want %x", n, mask, got, want)
		}
	}
}
