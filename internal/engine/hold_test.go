package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// places is where every key of a test lies.
func places(e *Engine, keys int) []loc {
	all := make([]loc, keys)
	for i := range all {
		slot := slotFor(i)
		all[i], _ = e.shards[e.ShardOf(slot)].find(slot, e.hash.sum(keyFor(i)), keyFor(i))
	}
	return all
}

// A hold of background work removes and moves no more records than it may,
// however large the segments are.
func TestHoldsOfBackgroundWorkAreBounded(t *testing.T) {
	oneGoroutine(t)
	const keys = 1500
	value := make([]byte, 100)
	for _, tc := range []struct {
		name string
		fill func(e *Engine, c *clock) // afterwards there is something to do
		hold func(s *shard, first bool) (on bool)
	}{
		{"sweep", func(e *Engine, c *clock) {
			for i := range keys {
				mustSet(t, e, slotFor(i), keyFor(i), value, []int64{c.in(1), c.in(2000)}[i%20/19])
			}
			c.add(1500)
		}, func(s *shard, first bool) bool {
			_, on := s.sweepHold(s.e.now(), first)
			return on
		}},
		{"compaction", func(e *Engine, c *clock) {
			for i := range keys {
				mustSet(t, e, slotFor(i), keyFor(i), value, 0)
			}
			for i := range keys {
				if i%3 > 0 {
					_, _ = e.Delete(slotFor(i), keyFor(i))
				}
			}
		}, (*shard).tidyHold},
		{"eviction", func(e *Engine, c *clock) {
			for i := range keys {
				mustSet(t, e, slotFor(i), keyFor(i), value, 0)
			}
			for i := range keys / 2 {
				_, _, _ = e.Get(slotFor(2*i), keyFor(2*i), nil)
			}
		}, func(s *shard, _ bool) bool {
			found, _ := s.thinHold(s.e.policy.Load(), s.e.now())
			return found
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, c := newTest(t, Options{MaxBytes: 16 << 20, Shards: 1, Seed: 1})
			tc.fill(e, c)
			s := &e.shards[0]
			before, holds, most := places(e, keys), 0, 0
			for first, on := true, true; on; first, holds = false, holds+1 {
				s.mu.Lock()
				on = tc.hold(s, first)
				s.unlock()
				after, changed := places(e, keys), 0
				for i := range after {
					if after[i] != before[i] {
						changed++
					}
				}
				if before, most = after, max(most, changed); changed > holdRecords {
					t.Fatalf("hold %d removed or moved %d records, may %d", holds, changed, holdRecords)
				}
				if holds > 10*keys {
					t.Fatal("it does not end")
				}
			}
			if most < holdRecords || holds < 10 {
				t.Errorf("%d holds of up to %d records: nothing was to be done", holds, most)
			}
			verifyAll(t, e)
		})
	}
}

// holdCount counts the changes of each hold, which has a version of its own.
type holdCount struct {
	e       *Engine
	shard   int
	version uint64
	n, most int
	total   int
}

func (h *holdCount) Changed(shard int, _ EventKind, _ uint16, _ []byte, _ uint64) {
	if v := h.e.shards[shard].mu.seen(); v != h.version || shard != h.shard {
		h.shard, h.version, h.n = shard, v, 0
	}
	h.total++
	h.n++
	h.most = max(h.most, h.n)
}
func (h *holdCount) Lost(int, uint16) {}
func (h *holdCount) Flushed()         {}

// The same through the methods that others call.
func TestLongWorkHoldsShardsForFewRecords(t *testing.T) {
	if !unlocked {
		t.Skip("holds have no version in this build")
	}
	const keys = 20_000
	homeMost := int(2+stashOf(maxBlockBytes/bucketBytes)) * ways // what one home can lead to
	for _, tc := range []struct {
		name string
		most int // changes in a hold
		work func(e *Engine, c *clock)
		all  int // changes that it must make at least
	}{
		{"Sweep", holdRecords, func(e *Engine, c *clock) {
			c.add(1001)
			for more := true; more; {
				_, more = e.Sweep()
			}
		}, keys/2 - 1},
		{"SetMaxBytes", holdRecords, func(e *Engine, _ *clock) {
			if err := e.SetMaxBytes(1 << 20); err != nil {
				t.Fatal(err)
			}
		}, keys / 3},
		{"SetOutside", holdRecords, func(e *Engine, _ *clock) {
			if err := e.SetMaxBytes(4 << 20); err != nil {
				t.Fatal(err)
			}
			if err := e.SetOutside(2 << 20); err != nil {
				t.Fatal(err)
			}
		}, keys / 20},
		{"DropSlot", holdRecords - 1 + homeMost, func(e *Engine, _ *clock) {
			for slot := range 3 {
				e.DropSlot(uint16(slot))
			}
		}, keys},
		{"Flush", 1, func(e *Engine, _ *clock) { e.Flush() }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, c := newTest(t, Options{MaxBytes: 64 << 20, Shards: 2, Seed: 1})
			for i := range keys { // in three slots, so that each has many pages
				mustSet(t, e, uint16(i%3), keyFor(i), make([]byte, 100), []int64{0, c.in(1000)}[i/3%2])
			}
			h := &holdCount{e: e}
			e.Observe(h)
			tc.work(e, c)
			if h.most > tc.most || h.total < tc.all {
				t.Errorf("%d changes, up to %d of them in a hold; want %d at least, and %d at most", h.total, h.most, tc.all, tc.most)
			}
			if err := e.SetMaxBytes(64 << 20); err != nil { // chunks used in part may be open beyond a lower limit
				t.Fatal(err)
			}
			verifyAll(t, e)
		})
	}
}

// Flush gives nothing back during its hold, which so takes what the slots of the
// shard cost, and everything after it.
func TestFlushHoldsAShardForItsSlotsOnly(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1, Seed: 1})
	for i := range 15_000 { // ghosts, directories and chains too
		mustSet(t, e, uint16(i%7), keyFor(i), make([]byte, i%200), 0)
	}
	mustSet(t, e, 1, []byte("large"), make([]byte, 40<<10), 0)
	if err := e.SetMaxBytes(2 << 20); err != nil { // what is detached counts as used
		t.Fatal(err)
	}
	s := &e.shards[0]
	used := e.used.Load()
	s.mu.Lock()
	keys, rest := s.detach()
	left := e.used.Load()
	s.unlock()
	if keys < 4000 || left != used || s.count() != 0 || len(rest.ghosts) == 0 {
		t.Fatalf("%d keys were detached, %d remain; of %d bytes %d are left; %d blocks of ghosts", keys, s.count(), used, left, len(rest.ghosts))
	}
	mustSet(t, e, 1, []byte("written since"), nil, 0)
	s.discard(rest)
	if !has(e, 1, []byte("written since")) || has(e, 1, []byte("large")) {
		t.Error("what was given back is not what was there before")
	}
	verifyAll(t, e)
}

// Work of every kind may stop between any two holds, and any other may go on.
func TestWorkInHoldsMayBeInterruptedAnywhere(t *testing.T) {
	oneGoroutine(t)
	for _, evicts := range []bool{false, true} {
		for seed := range uint64(4) {
			e, c := newTest(t, Options{MaxBytes: 1 << 20, Shards: 1, Seed: 1, Policy: []string{"s3fifo", "lru"}[seed%2]})
			r := rand.New(rand.NewPCG(seed, 9))
			type entry struct {
				value    []byte
				deadline int64
			}
			want := map[int]entry{}
			s := &e.shards[0]
			holds := []func(first bool){
				func(first bool) { s.sweepHold(c.now(), first) },
				func(first bool) { s.tidyHold(first) },
				func(first bool) { s.tidyHold(first) },
				func(bool) {
					if evicts {
						s.thinHold(e.policy.Load(), c.now())
					}
				},
				func(bool) {
					if id := oldestSegment(s); evicts && id != 0 && r.IntN(8) == 0 {
						s.clean(id, e.policy.Load(), c.now(), 0)
					}
				},
				func(bool) {
					if r.IntN(16) == 0 {
						s.reclaim(fullShare)
					}
				},
			}
			for n := range scale(20_000) {
				i := r.IntN(800)
				slot := uint16(i % 5)
				switch r.IntN(10) {
				case 0, 1, 2:
					k := entry{value: bytes.Repeat([]byte{byte(n)}, r.IntN(150))}
					if r.IntN(2) == 0 {
						k.deadline = c.in(int64(r.IntN(300)))
					}
					mustSet(t, e, slot, keyFor(i), k.value, k.deadline)
					want[i] = k
				case 3, 4:
					_, _ = e.Delete(slot, keyFor(i))
					delete(want, i)
				case 5:
					c.add(int64(r.IntN(3)))
				case 6:
					got, _, err := e.Get(slot, keyFor(i), nil)
					k, there := want[i]
					there = there && !(k.deadline != 0 && c.now() > k.deadline)
					if err == nil && (!there || !bytes.Equal(got, k.value)) || err != nil && there && !evicts {
						t.Fatalf("seed %d, step %d: key %d is %q, %v; want %q, there: %v", seed, n, i, got, err, k.value, there)
					}
				default:
					s.mu.Lock()
					holds[r.IntN(len(holds))](r.IntN(50) == 0)
					s.unlock()
				}
				if n%128 == 0 {
					if verifyAll(t, e); t.Failed() {
						t.Fatalf("seed %d, step %d", seed, n)
					}
				}
			}
		}
	}
}

// Whoever waits for the lock is seen by who lets it go.
func TestLockCountsWhoWaits(t *testing.T) {
	var l lock
	l.Lock()
	done := make(chan struct{})
	go func() {
		l.Lock()
		close(done)
		l.Unlock()
	}()
	awaitTrue(func() bool { return l.waiting.Load() == 1 })
	l.Unlock()
	l.letIn()
	<-done
	if n := l.waiting.Load(); n != 0 {
		t.Errorf("%d wait for a lock that is free", n)
	}
}

// The sweep rests a third of the time that it works, whatever a turn takes, and makes
// up for time in which it had no processor.
func TestDutyIsAShareOfAProcessor(t *testing.T) {
	now := time.Second
	d := duty{now: func() time.Duration { return now }, ended: now}
	r := rand.New(rand.NewPCG(1, 5))
	for _, most := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		var worked time.Duration
		start, rests := now, 0
		for range 10_000 {
			d.begin()
			turn := 1 + time.Duration(r.Int64N(int64(most)))
			now += turn
			worked += turn
			if !d.over() {
				t.Fatalf("a turn of %v that came in time is not over", turn)
			}
			rest := d.end()
			if rest != 0 && (rest < dutyRest || rest > dutyMost) {
				t.Fatalf("a rest of %v, want %v to %v", rest, dutyRest, dutyMost)
			}
			if now += rest; rest > 0 {
				rests++
			}
		}
		const want = float64(dutyShare) / (dutyShare + 1)
		if share := float64(worked) / float64(now-start); most <= dutyMost && (share > want+0.02 || share < want-0.05) {
			t.Errorf("turns up to %v: it works %.2f of the time, want %.2f", most, share, want)
		}
		if rests == 0 {
			t.Errorf("turns up to %v: it never rests", most)
		}
	}
	for _, tc := range []struct{ away, turn time.Duration }{ // others had the processor
		{100 * time.Microsecond, 100 * time.Microsecond}, {time.Millisecond, time.Millisecond}, {time.Second, dutyMost},
	} {
		d = duty{now: d.now, ended: now, credit: dutyMost}
		now += tc.away
		d.begin()
		start := now
		for now += 50 * time.Microsecond; !d.over(); now += 50 * time.Microsecond {
		}
		if now-start != tc.turn {
			t.Errorf("a turn that came %v late lasts %v, want %v", tc.away, now-start, tc.turn)
		}
	}
}
