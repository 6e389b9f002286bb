package interop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const changeKeys = 20_000

// watch reads a set of keys in a loop through one client while the fleet
// changes, and remembers per key what went wrong. Misses are stored again, as
// a cache's user would.
type watch struct {
	s      store
	keys   []string
	misses []atomic.Int32
	errs   []atomic.Int32
	last   sync.Map // key index -> the last error
	reads  atomic.Int64
	stop   chan struct{}
	wg     sync.WaitGroup
}

func startWatch(t *testing.T, s store) *watch {
	t.Helper()
	w := &watch{s: s, misses: make([]atomic.Int32, changeKeys), errs: make([]atomic.Int32, changeKeys), stop: make(chan struct{})}
	for i := range changeKeys {
		w.keys = append(w.keys, "w:"+strconv.Itoa(i))
	}
	each(t, w.keys, func(k string) error { return s.set(t.Context(), k, k) })
	const workers = 8
	for n := range workers {
		w.wg.Go(func() { // ends when stop is closed
			for i := n; ; i = (i + workers) % changeKeys {
				select {
				case <-w.stop:
					return
				default:
				}
				w.read(t, i)
			}
		})
	}
	return w
}

func (w *watch) read(t *testing.T, i int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	v, found, err := w.s.get(ctx, w.keys[i])
	w.reads.Add(1)
	switch {
	case err != nil:
		w.errs[i].Add(1)
		w.last.Store(i, err)
	case !found:
		w.misses[i].Add(1)
		_ = w.s.set(ctx, w.keys[i], w.keys[i])
	case v != w.keys[i]:
		t.Errorf("%s: key %s has the value %q", w.s.name, w.keys[i], v)
	}
}

func (w *watch) end() {
	close(w.stop)
	w.wg.Wait()
}

// check fails for every key that kept its owner and yet missed or erred, and when
// more than mayMiss of those that moved missed.
func (w *watch) check(t *testing.T, before, after map[int]string, mayMiss float64) {
	t.Helper()
	var moved, movedMissed, missed, erred, wrong int
	for i, k := range w.keys {
		stayed := before[slotOf(k)] == after[slotOf(k)]
		if !stayed {
			moved++
		}
		m, e := w.misses[i].Load(), w.errs[i].Load()
		if m > 0 {
			missed++
			if !stayed {
				movedMissed++
			}
		}
		if e > 0 {
			erred++
		}
		if stayed && (m > 0 || e > 0) {
			if wrong++; wrong <= 5 {
				err, _ := w.last.Load(i)
				t.Errorf("%s: key %s kept its owner %s, yet missed %d times and erred %d times (%v)", w.s.name, k, after[slotOf(k)], m, e, err)
			}
		}
	}
	t.Logf("%s: %d reads, %d of %d keys moved, %d missed, %d erred", w.s.name, w.reads.Load(), moved, changeKeys, missed, erred)
	if moved == 0 {
		t.Errorf("%s: no key moved, the test shows nothing", w.s.name)
	}
	if float64(movedMissed) > mayMiss*float64(moved) {
		t.Errorf("%s: %d of %d keys that moved missed", w.s.name, movedMissed, moved)
	}
}

func owners(t *testing.T, f *fleet) map[int]string {
	t.Helper()
	o, err := slotOwners(f.procs[0].addr)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestJoinDisturbsOnlyTheMovedShare(t *testing.T) {
	for i, name := range []string{"go-redis", "rueidis"} {
		t.Run(name, func(t *testing.T) {
			f := startFleet(t, 3)
			w := startWatch(t, stores(t, f)[i])
			before := owners(t, f)
			f.add()
			took := f.settled(4, patience)
			w.untilQuiet(t, f)
			after := owners(t, f)
			w.end()
			t.Logf("the new node was an owner after %v", took.Round(10*time.Millisecond))
			// All keys move with their slot. Where a node stands still for more than
			// 10 ms, as on a busy machine, a request goes on without its key.
			w.check(t, before, after, 0.01)
			movedAtMost(t, before, after, 0.25*1.25)
		})
	}
}

// untilQuiet lets the readers see every key some more times after a change.
func (w *watch) untilQuiet(t *testing.T, f *fleet) {
	t.Helper()
	start := w.reads.Load()
	f.await(2*patience, "the readers to go round", func() error {
		if w.reads.Load()-start < 3*changeKeys {
			return errors.New("still reading")
		}
		return nil
	})
}

func movedAtMost(t *testing.T, before, after map[int]string, share float64) {
	t.Helper()
	n := 0
	for s := range slots {
		if before[s] != after[s] {
			n++
		}
	}
	if got := float64(n) / slots; got > share {
		t.Errorf("%.3f of the slots changed their owner, want at most %.3f", got, share)
	}
}

// slotsBack is how long after a kill -9 every slot must answer a client again.
const slotsBack = 6 * time.Second

func TestKillDisturbsOnlyTheLostShareAndSlotsReturnWithin6Seconds(t *testing.T) {
	for i, name := range []string{"go-redis", "rueidis"} {
		t.Run(name, func(t *testing.T) {
			f := startFleet(t, 4)
			s := stores(t, f)[i]
			w := startWatch(t, s)
			before := owners(t, f)
			victim := f.procs[3]
			var lost []string
			for slot, k := range keyPerSlot() {
				if before[slot] == victim.addr {
					lost = append(lost, k)
				}
			}
			f.kill(victim)
			back := f.outage(slotsBack, s, lost)
			f.settled(3, patience)
			w.untilQuiet(t, f)
			after := owners(t, f)
			w.end()
			t.Logf("%d lost slots answered after %v", len(lost), back.Round(10*time.Millisecond))
			w.check(t, before, after, 1) // they are lost
			movedAtMost(t, before, after, 0.25*1.35)
		})
	}
}

// outage writes one key of each lost slot until every slot has answered once,
// and returns how long that took.
func (f *fleet) outage(limit time.Duration, s store, keys []string) time.Duration {
	f.t.Helper()
	return f.untilAll(limit, keys, func(ctx context.Context, k string) error { return s.set(ctx, k, "back") })
}

// outageByGet is outage by reads.
func (f *fleet) outageByGet(limit time.Duration, s store, keys []string) time.Duration {
	f.t.Helper()
	return f.untilAll(limit, keys, func(ctx context.Context, k string) error {
		_, _, err := s.get(ctx, k)
		return err
	})
}

func (f *fleet) untilAll(limit time.Duration, keys []string, call func(ctx context.Context, key string) error) time.Duration {
	f.t.Helper()
	left := keys
	return f.await(limit, "every lost slot to answer", func() error {
		var (
			mu     sync.Mutex
			failed []string
			last   error
			wg     sync.WaitGroup
			next   atomic.Int64
		)
		// Together with the readers of a watch these are fewer than go-redis has
		// connections to a node (10 per processor): it learns the slots through
		// the same pool, and would wait for a turn at the dead node.
		for range 8 {
			wg.Go(func() { // ends when all keys were tried once
				for i := next.Add(1) - 1; i < int64(len(left)); i = next.Add(1) - 1 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					err := call(ctx, left[i])
					cancel()
					if err != nil {
						mu.Lock()
						failed, last = append(failed, left[i]), fmt.Errorf("slot %d: %w", slotOf(left[i]), err)
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		left = failed
		return last
	})
}

// One survivor of three keeps serving every slot: no quorum, no CLUSTERDOWN.
func TestLastNodeServesAllSlots(t *testing.T) {
	f := startFleet(t, 3)
	f.kill(f.procs[2])
	f.kill(f.procs[1])
	f.settled(1, patience)
	f.outage(slotsBack, stores(t, f)[0], keyPerSlot())
}

// A process that is killed and restarted before anybody noticed is a new
// incarnation with an empty cache: it serves nothing old, takes its slots back
// and disturbs no other.
func TestRestartFasterThanDetection(t *testing.T) {
	f := startFleet(t, 3)
	s := stores(t, f)[0]
	before := owners(t, f)
	victim := f.procs[1]
	keys := keyPerSlot()
	each(t, keys, func(k string) error { return s.set(t.Context(), k, "old") })
	f.kill(victim)
	f.addAt(victim.addr)
	var lost []string
	for slot, k := range keys {
		if before[slot] == victim.addr {
			lost = append(lost, k)
		}
	}
	back := f.outageByGet(slotsBack, s, lost)
	f.settled(3, patience)
	after := owners(t, f)
	t.Logf("%d slots of the restarted node answered after %v", len(lost), back.Round(10*time.Millisecond))
	for _, p := range f.procs {
		if strings.Contains(p.log.String(), "peer is dead") {
			t.Skipf("the restart was not faster than detection: %s took the node for dead", p.addr)
		}
	}
	each(t, keys, func(k string) error {
		v, found, err := s.get(t.Context(), k)
		switch {
		case err != nil:
			return err
		case before[slotOf(k)] == victim.addr && found:
			return fmt.Errorf("the new incarnation knows %q, which only the dead one held", v)
		case before[slotOf(k)] != victim.addr && after[slotOf(k)] == before[slotOf(k)] && (!found || v != "old"):
			return fmt.Errorf("got %q, %v from an owner that never changed", v, found)
		}
		return nil
	})
}
