package engine

import (
	"fmt"
	"testing"
)

// evicting are the policies that evict, with options for each.
func evicting() map[string]Options {
	all := map[string]Options{PolicyCustom: {Custom: verdicts{verdict: Drop}}}
	for _, name := range Policies() {
		if policyNamed(name).evicts {
			all[name] = Options{Policy: name, Classes: []Class{{Prefix: "key-00000", Rank: 1, Quota: 50 << 10}}}
		}
	}
	return all
}

// Eviction takes no more than writes need and one segment per shard: a write
// needs room for a segment at most, and gives what it does not use to the next.
func TestEvictionTakesNoMoreThanNeeded(t *testing.T) {
	oneGoroutine(t)
	for name, o := range evicting() {
		t.Run(name, func(t *testing.T) {
			o.MaxBytes, o.Shards, o.Seed = 4<<20, 1, 1
			e, c := newTest(t, o)
			n := 0
			s := &e.shards[0] // its sums: Stats looks at every slot
			for ; s.evicted == 0; n++ {
				mustSet(t, e, slotFor(n), keyFor(n), make([]byte, n*131%1200), c.in(int64(1000+n)))
			}
			segment := int64(chunkBlocks * e.arena.blockBytes)
			// Evicted <= written + a segment: what is held shrinks by a segment at most.
			held, worst := s.live, int64(0)
			for i := range 12_000 {
				n++
				mustSet(t, e, slotFor(n), keyFor(n), make([]byte, n*131%1200), c.in(int64(1000+n)))
				if i%3 == 0 {
					_, _, _ = e.Get(slotFor(n-i%2000), keyFor(n-i%2000), nil)
				}
				worst = max(worst, held-s.live)
			}
			st := e.Stats()
			if st.Expired != 0 || st.Evicted < 1000 {
				t.Fatalf("%+v", st)
			}
			if worst > segment {
				t.Errorf("%d bytes more than written were evicted, a segment has %d", worst, segment)
			}
			if st.ArenaBytes < 4<<20-segment {
				t.Errorf("%d of %d bytes are used", st.ArenaBytes, 4<<20)
			}
		})
	}
}

func TestTTLEvictsTheSoonestFirst(t *testing.T) {
	for _, shards := range []int{1, 4} {
		e, c := newTest(t, Options{MaxBytes: 1 << 20, Shards: shards, Policy: "ttl", Seed: 1})
		times := []int64{5_000, 100_000, 3_000_000, 9_000_000, 0}
		for i := range 5000 { // 600 KB, times mixed
			deadline := times[i%5]
			if deadline > 0 {
				deadline = c.in(deadline)
			}
			mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 90), deadline)
		}
		lost := func() (n [5]int) {
			for i := range 5000 {
				if !has(e, slotFor(i), keyFor(i)) {
					n[i%5]++
				}
			}
			return n
		}
		for i := 5000; i%64 != 0 || e.Stats().Evicted < 2500; i++ { // forever: they go last
			mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 90), 0)
		}
		n := lost()
		if n[0] < 990 || n[1] < 900 || n[3] > 100 || n[4] > 0 {
			t.Errorf("%d shards: lost %v of 1000 each, soonest first", shards, n)
		}
	}
}

// lfu keeps what is read often through a scan, and lets go of what was.
func TestLFUResistsScansAndForgets(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1, Policy: "lfu", Seed: 1})
	count := func(from int) (n int) {
		for i := range 500 {
			if has(e, slotFor(from+i), keyFor(from+i)) {
				n++
			}
		}
		return n
	}
	read := func(from int) {
		for i := range 500 {
			_, _, _ = e.Get(slotFor(from+i), keyFor(from+i), nil)
		}
	}
	next := 10_000
	scan := func(n int) {
		for range n {
			next++
			mustSet(t, e, slotFor(next), keyFor(next), make([]byte, 100), 0)
		}
	}
	scan(9000) // full, with segments of full size
	for i := range 500 {
		mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 100), 0)
	}
	for range 4 { // twice what fits, in all
		read(0)
		scan(4000)
	}
	if n := count(0); n < 495 {
		t.Errorf("a scan left %d of 500 keys that are read often", n)
	}
	scan(60_000)
	if n := count(0); n > 5 {
		t.Errorf("%d of 500 keys that nobody reads any more are a sediment", n)
	}
}

// The small queue's share follows the load, and a policy without shadows costs
// none.
func TestSmallShareAdapts(t *testing.T) {
	oneGoroutine(t)
	share := func(policy string, far int) int {
		e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1, Policy: policy, Seed: 1})
		dst := make([]byte, 0, 64)
		get := func(i int) {
			if _, _, err := e.Get(slotFor(i), keyFor(i), dst); err != nil {
				mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 60), 0)
			}
		}
		n := 200_000
		if raceEnabled {
			n = 80_000 // enough for a choice
		}
		for i := range n { // every key twice, so many keys apart
			get(i)
			if i >= far {
				get(i - far)
			}
		}
		if got := e.shards[0].shadow != nil; got != policyNamed(policy).probes {
			t.Errorf("%s: shadow is there: %v", policy, got)
		}
		return e.Stats().SmallShare
	}
	near, far := share("s3fifo", 100), share("s3fifo", 2000)
	if near > 10 || far != 30 {
		t.Errorf("keys that return soon have %d %%, those that return late %d %%", near, far)
	}
	if got := share("lru", 2000); got != 10 {
		t.Errorf("lru: %d %%", got)
	}
}

func TestShadowsAllocateNothing(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 256 << 10, Shards: 1, Seed: 1})
	dst, n := make([]byte, 0, 128), 0
	value := make([]byte, 60)
	var key [32]byte
	step := func() {
		n++
		k := fmt.Appendf(key[:0], "%d", n%5000)
		if _, _, err := e.Get(1, k, dst); err != nil {
			mustSet(t, e, 1, k, value, 0)
		}
	}
	for range 20_000 {
		step()
	}
	if a := testing.AllocsPerRun(20_000, step); a > 0.01 && !raceEnabled {
		t.Errorf("%v allocations per request", a)
	}
}
