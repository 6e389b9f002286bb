package clustertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/link"
)

// A node was cut off for so long that the others did without it, and the network is
// back. Callers with a deadline of 50 ms see no error from then on, and hardly miss a
// key: the others serve its slots until it has all that it needs to take them, and it
// keeps what it had.

func TestNoErrorsAfterABlackHole(t *testing.T) { healed(t, 20*time.Second, "a", "b", "client") }

// Clients have reached both sides, which had one owner each for the slots of c.
func TestNothingIsLostAfterAShortPartition(t *testing.T) { healed(t, 15*time.Second, "a", "b") }

// healed cuts c off from others for a time, under load, and looks at what follows.
func healed(t *testing.T, cut time.Duration, from ...string) {
	const keys, callers = 2000, 40
	simulate(t, func(t *testing.T, s *Sim) {
		s.Gossip = NewGossipNet(s.Net)
		for _, name := range []string{"a", "b", "c"} {
			s.Add(name, "a")
		}
		pass(30 * time.Second) // as a member for longer than it will be away
		r, err := link.NewRouter(link.RouterOptions{Link: link.Options{Dialer: s.Net.Dialer("client")},
			Seeds: []string{"a:7001", "b:7001", "c:7001"}, Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i := range keys {
			call(t, r, "SET", fmt.Sprint("key:", i), "v")
		}
		var mu sync.Mutex
		var healed time.Time
		calls, misses, errors := 0, 0, 0
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for w := range callers {
			wg.Go(func() {
				<-time.After(time.Duration(w) * time.Millisecond / 2)
				tick := time.NewTicker(callers * time.Millisecond / 2)
				defer tick.Stop()
				for i := w; ; i += callers {
					select {
					case <-stop:
						return
					case <-tick.C:
					}
					key, began := fmt.Sprint("key:", i%keys), time.Now()
					v, err := r.Do(t.Context(), []byte("GET"), []byte(key))
					if err == nil {
						err = v.Err()
					}
					mu.Lock()
					if !healed.IsZero() && !began.Before(healed) {
						calls++
						if err != nil {
							errors++
							t.Logf("%v after the heal: %v", began.Sub(healed), err)
						} else if v.IsNull() {
							misses++
						}
					}
					mu.Unlock()
					if err == nil && v.IsNull() { // loaded from its origin
						_, _ = r.Do(t.Context(), []byte("SET"), []byte(key), []byte("v"))
					}
				}
			})
		}
		block := func(on bool) {
			for _, other := range from {
				s.Net.Block("c", other, on)
			}
		}
		block(true)
		pass(cut)
		if n := s.Get("a").Node.View().Len(); n != 2 {
			t.Fatalf("a has %d members in its View, want 2 without c", n)
		}
		mu.Lock()
		healed = time.Now()
		mu.Unlock()
		block(false)
		pass(10 * time.Second)
		close(stop)
		wg.Wait()
		s.Settled(watched()...)
		if calls < 10_000 || errors > 0 || misses > calls/200 {
			t.Errorf("%d calls, %d misses, %d errors after the heal", calls, misses, errors)
		}
		if _, kept, lost := s.Get("c").Node.Returned(); kept == 0 || lost > 0 {
			t.Errorf("c has kept %d slots, and lost %d", kept, lost)
		}
	})
}
