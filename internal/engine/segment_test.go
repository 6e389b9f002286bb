package engine

import (
	"fmt"
	"testing"
)

// unfilled returns the bytes that the open segments of a shard have left, per
// bucket.
func (s *shard) unfilled() (per [buckets]int64, total int64) {
	for q := range s.open {
		for b, id := range s.open[q] {
			if id != 0 {
				n := int64(s.segs[id].blocks)<<s.e.arena.blockShift - int64(s.segs[id].size)
				per[b] += n
				total += n
			}
		}
	}
	return per, total
}

// Where deadlines change their kind, the segments that the former kind left
// open are filled by the new one: they would stay half empty for ever.
func TestSegmentsLeftOpenAreFilled(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 8 << 20, Shards: 1})
	s := &e.shards[0]
	value := make([]byte, 40)
	n := 0
	set := func(deadline int64) {
		mustSet(t, e, slotFor(n), keyFor(n), value, deadline)
		n++
	}
	for s.full < bucketsFrom {
		set(0)
	}
	set(0) // in the middle of a segment
	for from := s.begun; s.begun-from < 2*leftAfter; {
		set(c.in(3_600_000))
	}
	per, _ := s.unfilled()
	if record := int64(e.arena.pad(headBytes + 12 + 40)); per[0] > 2*record {
		t.Fatalf("%d bytes are left in the segments that were open first", per[0])
	}
	verifyAll(t, e)
}

// With deadlines of every kind at once, many segments are open: small ones where
// there is little of a kind.
func TestOpenSegmentsOfManyDeadlinesWasteLittle(t *testing.T) {
	oneGoroutine(t)
	e, c := newTest(t, Options{MaxBytes: 64 << 20, Shards: 1})
	s := &e.shards[0]
	value := make([]byte, 40)
	ttls := []int64{0, 3000, 60_000, 1_800_000, 86_400_000}
	for i := range 100_000 {
		deadline := int64(0)
		if ttl := ttls[i%len(ttls)]; ttl > 0 && i%100 < 10 { // few have one
			deadline = c.in(ttl)
		}
		mustSet(t, e, slotFor(i), keyFor(i), value, deadline)
		if _, open := s.unfilled(); i > 50_000 && open*16 > s.live {
			t.Fatalf("after %d keys %d bytes of open segments are unused, %d are live", i, open, s.live)
		}
	}
	verifyAll(t, e)
}

// Segments of records of one size end with them.
func TestEndsOfSegmentsWasteLittle(t *testing.T) {
	for _, size := range []int{300, 320, 324, 400, 500, 700, 1000, 1500} {
		e, _ := newTest(t, Options{MaxBytes: 64 << 20, Shards: 1, MaxValue: 64 << 10})
		value := make([]byte, size-headBytes-12)
		for i := range 2 << 20 / size {
			mustSet(t, e, slotFor(i), keyFor(i), value, 0)
		}
		s := &e.shards[0]
		_, open := s.unfilled()
		ends := s.queues[small].bytes + s.queues[main].bytes - s.live - s.dead - open
		if most := s.live * int64(300+size) / 1e5; ends > most {
			t.Errorf("records of %d bytes: %d bytes at the ends of segments for %d live ones, want at most %d", size, ends, s.live, most)
		}
	}
}

// The last record of a chunk may have an empty value, which then begins where the chunk's
// memory ends. With the race detector the runtime checks pointers, and ended the process.
func TestEmptyValueAtTheEndOfAChunk(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1})
	key := func(i int) []byte { return fmt.Appendf(nil, "%024d", i) } // records of 32 bytes fill every block
	const n = 10_000
	for range 2 {
		for i := range n {
			mustSet(t, e, slotFor(i), key(i), nil, 0)
		}
	}
	found := 0
	for i := range n {
		if got, _, err := e.Get(slotFor(i), key(i), nil); err == nil && len(got) == 0 {
			found++
		}
	}
	if found < n/2 {
		t.Errorf("%d of %d keys are found", found, n)
	}
}
