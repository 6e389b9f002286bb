package engine

import (
	"testing"
	"unsafe"
)

// What every read of a shard needs lies on one cache line, and no two shards
// share one.
func TestShardLayout(t *testing.T) {
	var s shard
	if end := unsafe.Offsetof(s.sets); end > cacheLine {
		t.Errorf("lock, cells, era, hits and misses take %d bytes, want at most %d", end, cacheLine)
	}
	if n := unsafe.Sizeof(s); n%cacheLine != 0 {
		t.Errorf("a shard has %d bytes, no multiple of %d", n, cacheLine)
	}
}
