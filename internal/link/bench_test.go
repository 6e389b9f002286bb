package link

import (
	"context"
	"net"
	"testing"
	"time"
)

// BenchmarkGet measures one link against a fake node in this process: direct
// writes when idle, batches under concurrency.
func BenchmarkGet(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	n := startFake(ln.Addr().String(), ln)
	defer n.stop()
	r, err := NewRouter(RouterOptions{Seeds: []string{n.addr}, Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ctx := context.Background()
	if err := r.Refresh(ctx); err != nil {
		b.Fatal(err)
	}
	req := encode("GET", "key")
	b.Run("one caller", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.DoSlot(ctx, 1, true, req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("64 callers", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := r.DoSlot(ctx, 1, true, req); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
