package engine

import (
	"encoding/binary"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/invariant"
)

// rss returns the resident bytes of the process, 0 where that is not known.
func rss() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// Resident memory per item beside key and value, the worst of several counts,
// since pages of the index are emptiest just after they split. Each engine is
// empty at first, so what stays the same does not count.
func TestResidentBytesPerItem(t *testing.T) {
	if raceEnabled || invariant.Enabled || rss() == 0 {
		t.Skip("the build changes memory, or it cannot be measured")
	}
	counts, shards := []int{200_000}, 16
	if long() {
		shards = DefaultShards
		counts = []int{1_000_000, 1_125_000, 1_250_000, 1_375_000, 1_500_000, 1_625_000, 1_750_000, 2_000_000}
	}
	for _, tc := range []struct {
		name       string
		key, value int
		ttl        bool
		most       float64
	}{
		{"16+16", 16, 16, false, 24},
		{"24+64", 24, 64, false, 24},
		{"40+270", 40, 270, false, 28},
		{"16+16 with a deadline", 16, 16, true, 29},
		{"24+64 with a deadline", 24, 64, true, 29},
		{"40+270 with a deadline", 40, 270, true, 33},
	} {
		t.Run(tc.name, func(t *testing.T) {
			worst := 0.0
			for _, n := range counts {
				worst = max(worst, residentPerItem(t, n, shards, tc.key, tc.value, tc.ttl))
			}
			t.Logf("%.1f bytes per item", worst)
			if worst > tc.most+1 { // what the test itself and the collector add
				t.Errorf("%.1f bytes per item beside key and value, want at most %.0f", worst, tc.most)
			}
		})
	}
}

func residentPerItem(t *testing.T, items, shards, klen, vlen int, ttl bool) float64 {
	e, c := newTest(t, Options{MaxBytes: 1 << 30, Shards: shards})
	defer e.Close()
	key, value := make([]byte, klen), make([]byte, vlen)
	debug.FreeOSMemory()
	before := rss()
	for i := range items {
		binary.LittleEndian.PutUint64(key, uint64(i)*0x9e3779b97f4a7c15)
		deadline := int64(0)
		if ttl {
			deadline = c.in(1000 + int64(i%1000))
		}
		mustSet(t, e, slotFor(i), key, value, deadline)
	}
	debug.FreeOSMemory()
	grown := rss() - before
	if n := e.Stats().Keys; n != int64(items) {
		t.Fatalf("%d of %d items are there", n, items)
	}
	return float64(grown)/float64(items) - float64(klen+vlen)
}
