package engine

import (
	"runtime"
	"time"
)

const (
	// sweepEvery is the pause between sweeps that found little.
	sweepEvery = 100 * time.Millisecond
	// sweepSample is how many entries with a deadline one hold examines:
	// sweepRandom at random, which tells how many are expired, the others in
	// turn, so that no expired entry is missed for ever.
	sweepSample = 20
	sweepRandom = 16
	// sweepSteps is the most holds of one shard in one Sweep.
	sweepSteps = 16
)

// sweeper removes expired entries that nobody reads. It ends at Close.
func (e *Engine) sweeper() {
	defer close(e.swept)
	t := time.NewTimer(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-t.C:
		}
		for more := true; more && !e.closed.Load(); {
			if _, more = e.Sweep(); more {
				runtime.Gosched()
			}
		}
		t.Reset(sweepEvery)
	}
}

// Sweep removes expired entries by sampling every shard. As long as more than a
// quarter of a shard's sample is expired it goes on at once, up to a fixed
// number of steps; the shard is unlocked between steps. more says that it
// stopped at that number, so the caller should go on.
func (e *Engine) Sweep() (removed int, more bool) {
	for i := range e.shards {
		s := &e.shards[i]
		lastSeen, lastGone := 0, 0
		for step := 0; ; step++ {
			if step == sweepSteps {
				more = true
				break
			}
			s.mu.Lock()
			seen, gone := s.sweepStep(e.now())
			s.unlock()
			removed += gone
			// Two steps together: the share in one alone is off too often.
			if (lastGone+gone)*4 <= lastSeen+seen {
				break
			}
			lastSeen, lastGone = seen, gone
		}
	}
	return removed, more
}

// sweepStep examines a sample; the shard lock is held.
func (s *shard) sweepStep(now int64) (examined, gone int) {
	try := func(i int) {
		examined++
		if ent := s.vol.at(i); expired(ent.deadline, now) {
			s.remove(s.state(ent), ent, byExpiry)
			gone++
		}
	}
	if s.vol.n <= sweepSample {
		for i := s.vol.n - 1; i >= 0; i-- { // a removal moves the last one, already seen, to i
			try(i)
		}
		return examined, gone
	}
	for range sweepRandom {
		try(s.rand.below(s.vol.n))
	}
	for range sweepSample - sweepRandom {
		if s.sweepAt--; s.sweepAt < 0 || s.sweepAt >= s.vol.n {
			s.sweepAt = s.vol.n - 1
		}
		if s.sweepAt < 0 {
			break
		}
		try(s.sweepAt)
	}
	return examined, gone
}
