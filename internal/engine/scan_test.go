package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// scanWorld drives an engine around scans: stable keys stay from begin to end,
// others come and go so that pages split, join, are dropped with their slot, and
// records move.
type scanWorld struct {
	t     *testing.T
	e     *Engine
	r     *rand.Rand
	slots []uint16
	rest  map[string]uint16 // keys that may leave, with their slot
	goal  int               // how many of them to have
	n     int
}

func (w *scanWorld) mutate(steps int) {
	for range steps {
		slot := w.slots[min(w.r.IntN(len(w.slots)), w.r.IntN(len(w.slots)))]
		switch op := w.r.IntN(100); {
		case op < 90 && len(w.rest) < w.goal:
			w.n++
			key := fmt.Sprintf("rest-%d", w.n)
			mustSet(w.t, w.e, slot, []byte(key), make([]byte, w.r.IntN(30)), 0)
			w.rest[key] = slot
		case op < 90:
			for key, slot := range w.rest {
				if ok, _ := w.e.Delete(slot, []byte(key)); !ok {
					w.t.Fatalf("%s is gone", key)
				}
				delete(w.rest, key)
				break
			}
		case op < 91:
			if w.r.IntN(30) == 0 {
				w.goal = w.r.IntN(6000)
			}
		case op < 92: // of slots without stable keys
			if w.r.IntN(20) == 0 {
				odd := slot | 1
				w.e.DropSlot(odd)
				for key, s := range w.rest {
					if s == odd {
						delete(w.rest, key)
					}
				}
			}
		default: // records move, in the middle of a bucket's life
			s := &w.e.shards[w.e.ShardOf(slot)]
			s.mu.Lock()
			if id := oldestSegment(s); id != 0 && w.r.IntN(8) == 0 {
				s.clean(id, policyNamed("noeviction"), w.e.now(), 0)
			} else {
				s.reclaim(8)
			}
			s.unlock()
		}
	}
}

// Redis's guarantee as a property: a key that is there from the first to the
// last call of a scan is returned, here exactly once, whatever happens between
// the calls and within them.
func TestScanReturnsWhatStays(t *testing.T) {
	oneGoroutine(t)
	seeds := uint64(6)
	if long() {
		seeds = 500
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 77))
		shards := []int{1, 2, 16, Slots}[seed%4]
		e, _ := newTest(t, Options{Shards: shards, Seed: r.Uint64(), MaxBytes: []int64{1 << 20, 64 << 20}[seed%2], Policy: "noeviction"})
		w := &scanWorld{t: t, e: e, r: r, rest: map[string]uint16{}, goal: 3000}
		for i := range 40 {
			w.slots = append(w.slots, uint16(8000+i*(1+int(seed)%3)))
		}
		stable := map[string]bool{}
		for i := range 900 {
			slot := w.slots[min(r.IntN(40), r.IntN(40), r.IntN(40))] &^ 1
			key := fmt.Sprintf("stay-%d", i)
			mustSet(t, e, slot, []byte(key), nil, 0)
			stable[key] = true
		}
		for range 6 {
			scanOnce(w, stable)
		}
		verifyAll(t, e)
	}
}

func scanOnce(w *scanWorld, stable map[string]bool) {
	w.t.Helper()
	seen := map[string]int{}
	inside := 1 + w.r.IntN(40)
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		w.mutate(w.r.IntN(60))
		next := w.e.Scan(cursor, 1+w.r.IntN(30), func(key []byte, _ Item) {
			seen[string(key)]++
			if w.r.IntN(inside) == 0 {
				w.mutate(3)
			}
		})
		if next != 0 && next <= cursor {
			w.t.Fatalf("the cursor goes from %d to %d", cursor, next)
		}
		cursor = next
	}
	for key := range stable {
		if seen[key] != 1 {
			w.t.Fatalf("%s was returned %d times", key, seen[key])
		}
	}
}

// The same while goroutines write, and under eviction: what was not evicted, as
// the feeds tell, was returned.
func TestScanReturnsWhatStaysBesideWriters(t *testing.T) {
	e, c := newTest(t, Options{Shards: 4, MaxBytes: 512 << 10, Seed: 3})
	const stay = 1500
	slotOf := func(i int) uint16 { return uint16(i * i % 97) }
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for g := range 3 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := r.IntN(3000)
				slot, key := slotOf(k), fmt.Appendf(nil, "rest-%d-%d", g, k)
				switch {
				case r.IntN(3) == 0:
					_, _ = e.Delete(slot, key)
				default:
					_ = e.Set(slot, key, make([]byte, r.IntN(100)), int64(r.IntN(2))*c.in(20))
				}
				if i%50 == 0 {
					c.add(1)
				}
				if i%5000 == 0 {
					e.DropSlot(uint16(98 + r.IntN(5)))
					e.Sweep()
				}
			}
		})
	}
	whole := 0
	for range 8 {
		var feeds []*Feed
		for shard := range e.Shards() {
			f, err := e.Subscribe(shard, nil, 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			feeds = append(feeds, f)
		}
		for i := range stay {
			mustSet(t, e, slotOf(i), keyFor(i), nil, 0)
		}
		seen := map[string]int{}
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			cursor = e.Scan(cursor, 50, func(key []byte, _ Item) { seen[string(key)]++ })
		}
		gone, lost := map[string]bool{}, uint64(0)
		for _, f := range feeds {
			events, n := f.Read(nil, 1<<16)
			lost += n
			for _, ev := range events {
				if ev.Kind == EventEvict {
					gone[string(ev.Key)] = true
				}
			}
			f.Close()
		}
		missed := 0
		for i := range stay {
			if k := keyFor(i); seen[string(k)] > 1 || seen[string(k)] == 0 && !gone[string(k)] {
				missed++
			}
		}
		if lost > 0 {
			continue
		}
		if whole++; missed > 0 {
			t.Errorf("%d of %d keys were missed or returned twice, %d were evicted", missed, stay, len(gone))
		}
	}
	close(stop)
	writers.Wait()
	if whole == 0 {
		t.Error("every round lost events")
	}
	verifyAll(t, e)
}
