package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// Keys with one deadline are gone by themselves after it, with 99 per cent of
// their bytes, and a read before the sweep comes by finds none of them.
func TestOneDeadlineForAllFreesTheirMemory(t *testing.T) {
	oneGoroutine(t)
	keys := scale(300_000)
	e, c := newTest(t, Options{MaxBytes: 1 << 30, Shards: 64})
	for i := range keys {
		mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 32), c.in(10_000))
	}
	full := e.Stats().ArenaBytes
	c.add(10_001)
	for i := 0; i < keys; i += 997 {
		if _, _, err := e.Get(slotFor(i), keyFor(i), nil); !errors.Is(err, errs.ErrNotFound) {
			t.Fatalf("key %d was read after its deadline: %v", i, err)
		}
	}
	rounds := 0
	for more := true; more; rounds++ {
		_, more = e.Sweep()
	}
	if st := e.Stats(); st.ArenaBytes*100 > full || st.Keys*100 > int64(keys) {
		t.Fatalf("%d of %d bytes and %d keys are left after %d rounds without a pause", st.ArenaBytes, full, st.Keys, rounds)
	}
	verifyAll(t, e)
}

// Where a shard has few segments, keys that expire lie beside others that do
// not: what they took is given back too, without a write.
func TestExpiredBytesAmongOthersAreFreed(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 64 << 20})
	const keys = 60_000
	value := make([]byte, 100)
	for i := range keys {
		deadline := int64(0)
		if i%4 > 0 {
			deadline = c.in(1000)
		}
		mustSet(t, e, slotFor(i), keyFor(i), value, deadline)
	}
	c.add(1001)
	for range 300 {
		e.Sweep()
	}
	st := e.Stats()
	if st.Keys > keys/4*5/4 {
		t.Fatalf("%d of %d keys are left, a quarter never expires", st.Keys, keys)
	}
	if st.DeadBytes*compactShare > st.LiveBytes*5/4 || st.Evicted > 0 {
		t.Fatalf("%d dead bytes are left beside %d live ones", st.DeadBytes, st.LiveBytes)
	}
	verifyAll(t, e)
}

// A read removes what it finds expired, as long as that is rare: where many keys
// expire at once, reads leave the work to the sweep, and find nothing all the same.
func TestReadsLeaveManyExpiredKeysToTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 3 * metMost
		e := newBackground(t, Options{MaxBytes: 8 << 20, Shards: 4})
		defer e.Close()
		for round := range 2 {
			for i := range keys {
				mustSet(t, e, slotFor(i), keyFor(i), nil, e.Now()+sweepEvery.Milliseconds()/2)
			}
			<-time.After(sweepEvery * 3 / 4) // virtual time; the sweep comes later
			was := e.Stats().Expired
			for i := range keys {
				if _, _, err := e.Get(slotFor(i), keyFor(i), nil); !errors.Is(err, errs.ErrNotFound) {
					t.Fatalf("key %d was read after its deadline: %v", i, err)
				}
			}
			if st := e.Stats(); st.Expired-was != metMost || st.Misses != int64(keys*(round+1)) {
				t.Errorf("reads removed %d expired keys, want %d; %d misses of %d", st.Expired-was, metMost, st.Misses, keys*(round+1))
			}
			<-time.After(2*sweepEvery - sweepEvery*3/4) // virtual time
			synctest.Wait()
			if n := e.Stats().Keys; n > keys/100 {
				t.Errorf("%d expired keys are left after the sweep", n)
			}
		}
	})
}
