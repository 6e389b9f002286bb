package engine

import (
	"testing"
	"unsafe"
)

// What every read of a shard needs lies on one cache line, and no two shards
// share one.
func TestShardLayout(t *testing.T) {
	var s shard
	if end := unsafe.Offsetof(s.slots); end > cacheLine {
		t.Errorf("lock, cells, era and sample take %d bytes, want at most %d", end, cacheLine)
	}
	if n := unsafe.Sizeof(s); n%cacheLine != 0 {
		t.Errorf("a shard has %d bytes, no multiple of %d", n, cacheLine)
	}
}

func TestDefaultShards(t *testing.T) {
	for _, tc := range []struct {
		limit      int64
		file       bool
		processors int
		want       int
	}{
		{0, false, 2, 256}, {0, true, 64, 256}, {60 << 10, false, 64, 1}, {2<<20 - 1, false, 64, 1},
		{4 << 20, false, 1, 4}, {4 << 20, true, 64, 1}, {16 << 20, false, 1, 8}, {16 << 20, false, 2, 16}, {16 << 20, false, 64, 16},
		{24 << 20, false, 3, 16}, {24 << 20, true, 2, 4}, {64 << 20, false, 2, 16}, {64 << 20, false, 4, 32}, {128 << 20, false, 2, 16}, {256 << 20, false, 2, 16},
		{256 << 20, false, 64, 256}, {1 << 30, false, 1, 64}, {1 << 30, true, 1, 256}, {4 << 30, false, 1, 256}, {1 << 40, false, 512, 256},
	} {
		if got := defaultShards(tc.limit, tc.file, tc.processors); got != tc.want {
			t.Errorf("%d bytes, file %v, %d processors: %d shards, want %d", tc.limit, tc.file, tc.processors, got, tc.want)
		}
	}
}
