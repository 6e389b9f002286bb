package clustertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringcache/ringcache/client"
)

// TestReadsWhileSurvivorsDisagree: b dies, and c, its successor, hears of it a second
// before a does. Until a agrees c may not serve what b had, and writes of it fail. Reads
// of it are answered by the copy, and those of the slots of c and a as ever, though they
// share the client's only link to c with the writes.
func TestReadsWhileSurvivorsDisagree(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		const (
			behind   = time.Second
			deadline = 50 * time.Millisecond
			readers  = 8
		)
		replicaCluster(t, s, 1, "a", "b", "c")
		v := s.Get("b").Node.View()
		next := func(slot uint16) bool { return v.Member(v.Successor(slot)).Host == "c" }
		lost := keyOf(ownedBy(t, s.Get("b"), "b", next))
		keys := []string{lost, keyOf(ownedBy(t, s.Get("b"), "c", nil)), keyOf(ownedBy(t, s.Get("b"), "a", nil))}
		c, err := client.Open(t.Context(), client.Options{Seeds: []string{"a:7001", "c:7001"}, Timeout: deadline, Dialer: s.Net.Dialer("client")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, key := range keys {
			if err := c.Set(t.Context(), key, []byte("v"), 0); err != nil {
				t.Fatal(err)
			}
		}
		copied(t, s, 1, "a", "b", "c")

		s.Kill("b")
		s.Rumours.Bury(s.ID("c"), s.ID("b"))
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var wg sync.WaitGroup
		var reads, failed, refused, written atomic.Int64
		for i := range readers { // end with ctx
			wg.Go(func() {
				for n := i; ctx.Err() == nil; n++ {
					start, key := time.Now(), keys[n%len(keys)]
					got, err := c.Get(t.Context(), key)
					if took := time.Since(start); err != nil || string(got) != "v" || took > deadline+time.Millisecond {
						failed.Add(1)
						t.Logf("%s after %v: %q, %v", key, took, got, err)
					}
					reads.Add(1)
					pass(5 * time.Millisecond)
				}
			})
			wg.Go(func() {
				for ctx.Err() == nil {
					switch err := c.Set(t.Context(), lost, []byte("v"), 0); {
					case err == nil:
						written.Add(1)
					case errors.Is(err, client.ErrUnavailable):
						refused.Add(1)
					default:
						t.Errorf("a write: %v", err)
					}
					pass(5 * time.Millisecond)
				}
			})
		}
		pass(behind)
		if written.Load() > 0 || refused.Load() == 0 {
			t.Errorf("%d writes were done before all had agreed, %d refused", written.Load(), refused.Load())
		}
		if failed.Load() > 0 || reads.Load() < 1000 {
			t.Errorf("%d of %d reads failed", failed.Load(), reads.Load())
		}
		s.Rumours.Bury(s.ID("a"), s.ID("b"))
		pass(deadline + 200*time.Millisecond)
		if written.Load() == 0 {
			t.Error("no write is done after all have agreed")
		}
		end()
		wg.Wait()
		if failed.Load() > 0 {
			t.Errorf("%d of %d reads failed in the end", failed.Load(), reads.Load())
		}
	})
}
