package engine

import (
	"runtime"
	"time"
)

const (
	// sweepEvery is the pause between sweeps that found little.
	sweepEvery = 100 * time.Millisecond
	// sweepSample is how many entries with a deadline one hold examines, and
	// sweepWalk how many records it passes on the way.
	sweepSample = 20
	sweepWalk   = 256
	// sweepSteps is the most holds of one shard in one Sweep.
	sweepSteps = 16
	// eraMost is how old an era may become: a short deadline reaches 2^32 ms
	// from the era's beginning, so half of that is left for new ones.
	eraMost = 1 << 31
)

// sweep is where the search for expired records stands.
type sweep struct {
	walkSeg     uint32 // segment; 0 = choose one
	walkOff     uint32
	walkSoonest int64 // soonest deadline met in this walk of it
}

// sweeper removes expired entries that nobody reads and returns memory that is
// not used any more. It ends at Close.
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
		e.pace()
		for more := true; more && !e.closed.Load(); {
			if _, more = e.Sweep(); more {
				e.pace()
				runtime.Gosched()
			}
		}
		e.relax()
		e.arena.trim(e.used.Load())
		e.arena.widen()
		e.arena.dry()
		t.Reset(sweepEvery)
	}
}

// pace renews the time that accesses are noted with.
func (e *Engine) pace() {
	now := e.now()
	e.lately.Store(now)
	e.beat.Store(tickOf(now))
}

// Sweep removes expired entries, shard by shard, and gives back memory of dead
// ones. It looks only at segments in
// which a deadline has passed. As long as more than a quarter of a shard's
// sample is expired it goes on at once, up to a fixed number of steps; the shard
// is unlocked between steps. more says that it stopped at that number, so the
// caller should go on.
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
		s.mu.Lock()
		for i := 0; i < compactMost && s.tidy(); i++ {
		}
		s.unlock()
	}
	return removed, more
}

// sweepStep examines a sample; the shard lock is held.
func (s *shard) sweepStep(now int64) (examined, gone int) {
	for walked := 0; examined < sweepSample && walked < sweepWalk; {
		if s.walkSeg == 0 {
			if s.walkSeg = s.nextExpiring(now); s.walkSeg == 0 {
				break
			}
			s.walkOff, s.walkSoonest = 0, maxTime
		}
		id := s.walkSeg
		g := &s.segs[id]
		off := s.eachRecord(g, s.walkOff, func(l loc, r record) bool {
			walked++
			if r.form() != formNone {
				examined++
				gone += s.sweepRecord(l, r, now)
			}
			return examined < sweepSample && walked < sweepWalk
		})
		if s.walkSeg != id {
			continue // it went with its last record
		}
		if s.walkOff = off; off >= g.size {
			g.soonest = s.walkSoonest
			s.walkSeg = 0
		}
	}
	return examined, gone
}

func (s *shard) sweepRecord(l loc, r record, now int64) int {
	d := s.deadline(r)
	if !expired(d, now) {
		s.walkSoonest = min(s.walkSoonest, d)
		return 0
	}
	slot := r.slot()
	s.remove(s.slot(slot), slot, s.hashOf(r), l, byExpiry)
	return 1
}

// nextExpiring returns the segment whose first deadline passed the longest ago;
// 0 if there is none. A walk to its end brings that deadline up to date, so
// none is passed over for ever.
func (s *shard) nextExpiring(now int64) (best uint32) {
	if s.vols == 0 {
		return 0
	}
	for id := range s.segs {
		if g := &s.segs[id]; g.vols > 0 && g.soonest < now {
			best, now = uint32(id), g.soonest
		}
	}
	return best
}

// expireAll removes every expired entry of the shard. No other record moves:
// values that the hold has lent stay where they are.
func (s *shard) expireAll(now int64) {
	for id := range s.segs {
		if g := &s.segs[id]; g.vols > 0 && g.soonest < now {
			s.eachRecord(g, 0, func(l loc, r record) bool {
				if r.form() != formNone {
					s.sweepRecord(l, r, now)
				}
				return true
			})
		}
	}
}

// newEra moves the beginning of short deadlines up to now, behind which no live
// one may be.
func (s *shard) newEra(now int64) {
	s.expireAll(now)
	s.era = now
}
