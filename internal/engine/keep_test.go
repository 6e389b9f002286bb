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
