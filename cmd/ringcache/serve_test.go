package main

import (
	"testing"

	"github.com/ringcache/ringcache"
)

// serve limits the Go runtime to its base and the session buffers, unless the
// user did; the arena is not part of it.
func TestServeLimitsTheRuntime(t *testing.T) {
	for _, tc := range []struct {
		environ string
		o       ringcache.Options
		want    int64 // 0 = not set
	}{
		{"", ringcache.Options{MaxMemory: 1 << 30}, runtimeBase + 256<<20},
		{"", ringcache.Options{MaxMemory: 64 << 20}, runtimeBase + 64<<20},
		{"", ringcache.Options{MaxMemory: 1 << 30, BufferLimit: 100 << 20}, runtimeBase + 100<<20},
		{"2GiB", ringcache.Options{MaxMemory: 1 << 30}, 0},
		{"off", ringcache.Options{}, 0},
	} {
		var got int64
		limitRuntime(tc.o, tc.environ, func(n int64) int64 { got = n; return 0 })
		if got != tc.want {
			t.Errorf("GOMEMLIMIT %q, %d of max-memory: limit %d, want %d", tc.environ, tc.o.MaxMemory, got, tc.want)
		}
	}
}
