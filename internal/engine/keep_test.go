package engine

import (
	"testing"
)

// The record that a write replaces leaves only when nothing else of its shard
// is left, also where the policy would take it first: alone in its segment,
// with the soonest deadline of all.
func TestTheReplacedRecordLeavesLast(t *testing.T) {
	for _, policy := range Policies() {
		if !policyNamed(policy).evicts {
			continue
		}
		t.Run(policy, func(t *testing.T) {
			e, c := newTest(t, Options{MaxBytes: 64 << 10, Shards: 1, Policy: policy, Seed: 1})
			mustSet(t, e, 1, []byte("replaced"), make([]byte, 900), c.in(10)) // a segment of its own
			for i := range 600 {
				mustSet(t, e, 1, keyFor(i), make([]byte, 100), c.in(int64(1000+i)))
				tx := e.LockAny(1)
				tx.Touch([]byte("replaced"))
				tx.Unlock()
			}
			f := subscribe(t, e, 1, nil, 1<<12)
			for n := 1000; n < 16_000; n += 1000 {
				mustSet(t, e, 1, []byte("replaced"), make([]byte, n), c.in(10))
			}
			events, _ := f.Read(nil, 1<<12)
			evicted := 0
			for _, ev := range events {
				if ev.Kind == EventEvict {
					evicted++
					if string(ev.Key) == "replaced" {
						t.Fatal("the record being replaced was evicted")
					}
				}
			}
			if evicted == 0 || e.Stats().Keys < 50 {
				t.Fatalf("%d were evicted, %d are left", evicted, e.Stats().Keys)
			}
			verifyAll(t, e)
		})
	}
}

// The same where the replaced record is all that the main queue has, and the
// small queue has less than its share, so that the policy names no other victim;
// and a long segment that only this record is left of gives back its end first.
func TestEvictionPassesOverTheReplacedRecord(t *testing.T) {
	for _, size := range []int{20, 6000, 20_000} { // in a short segment, a long one, a chain
		e, _ := newTest(t, Options{MaxBytes: 64 << 10, Shards: 1, Seed: 1, Policy: "lru"})
		key := []byte("replaced")
		mustSet(t, e, 1, key, make([]byte, size), 0) // in the main queue, as all keys of lru
		mustSet(t, e, 1, []byte("beside"), make([]byte, 12_000-min(size, 12_000)), 0)
		if ok, _ := e.Delete(1, []byte("beside")); !ok {
			t.Fatal("no key")
		}
		if err := e.SetPolicy("s3fifo"); err != nil {
			t.Fatal(err)
		}
		s := &e.shards[0]
		s.mu.Lock()
		if s.queues[small].bytes != 0 {
			t.Error("the small queue is not empty")
		}
		h := e.hash.sum([]byte("other"))
		w := write{slot: 1, h: h, key: []byte("other"), queue: small, now: e.now(), kind: EventWrite}
		s.shape(&w, false)
		w.queue = small
		if err := s.prepare(&w); err != nil {
			t.Fatal(err)
		}
		s.append(&w, 0)
		s.freeScratch()
		s.keep, _ = s.find(1, e.hash.sum(key), key)
		for range 3 {
			s.evictSegment(e.policy.Load(), e.now())
			if s.keys.Load() == 1 {
				break
			}
		}
		kept, keys := s.keep != 0, s.keys.Load()
		s.keep = 0
		s.unlock()
		if !kept || keys != 1 {
			t.Errorf("%d bytes: the replaced record stays: %v, with %d keys", size, kept, keys)
		}
		verifyAll(t, e)
	}
}
