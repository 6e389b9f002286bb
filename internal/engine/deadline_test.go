package engine

import (
	"bytes"
	"testing"
)

// The sweep may stand in the middle of a segment when eviction empties it, and
// what stays slides to its front: the walk must neither read from where no
// record begins nor pass over deadlines that slid behind it.
func TestSweepGoesOnInASegmentThatWasCleaned(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1, Seed: 1, Policy: "lru"})
	const keys = 400
	set := func(i int) {
		deadline := c.in(int64(10_000 - i)) // what the walk has not met passes first
		if i == 0 {
			deadline = c.in(1) // makes the segment one to walk
		}
		mustSet(t, e, 1, keyFor(i), bytes.Repeat([]byte{0x55}, 20+i%7), deadline)
	}
	for i := range keys {
		set(i)
	}
	for stop := range 12 {
		c.add(2)
		e.Sweep()
		s := &e.shards[0]
		if s.walkSeg == 0 {
			t.Fatal("the walk is not within a segment")
		}
		for i := range keys { // every third stays
			if i%3 == stop%3 {
				e.Get(1, keyFor(i), nil)
			}
		}
		s.mu.Lock()
		s.clean(s.walkSeg, e.policy.Load(), c.now(), 0)
		s.unlock()
		for range 30 {
			e.Sweep()
			if verifyAll(t, e); t.Failed() {
				return
			}
		}
		for i := range keys {
			set(i)
		}
	}
}
