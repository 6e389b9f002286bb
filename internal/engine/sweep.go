package engine

import "time"

const (
	// sweepEvery is the pause between sweeps that found little.
	sweepEvery = 100 * time.Millisecond
	// sweepSample is how many entries with a deadline are a sample, and sweepWalk
	// how many records it passes on the way. A sample takes several holds.
	sweepSample = 4 * holdRecords
	sweepWalk   = 4 * holdLooks
	// sweepSteps is the most samples of one shard in one Sweep.
	sweepSteps = 16
	// metMost is how many expired entries reads remove on sight between two sweeps;
	// where more are met, the sweep will not be long in coming by, and reads leave
	// the work to it.
	metMost = 64
	// eraMost is how old an era may become: a short deadline reaches 2^32 ms
	// from the era's beginning, so half of that is left for new ones.
	eraMost = 1 << 31
)

// sweep is where the search for expired records stands.
type sweep struct {
	walkSeg     uint32 // segment; 0 = choose one
	walkOff     uint32
	walkSoonest int64 // soonest deadline met in this walk of it

	cur, last  sample // the running one and the one before it, of one Sweep
	samples    int    // that this Sweep has taken
	compacting compaction
	compacted  int // segments in this Sweep
	thinning   thinning
}

// sample is how many entries with a deadline were seen, of those how many had
// expired, and how many records were passed.
type sample struct{ seen, gone, passed int }

// sweeper removes expired entries that nobody reads and returns memory that is
// not used any more. It ends at Close.
func (e *Engine) sweeper() {
	defer close(e.swept)
	t := time.NewTimer(sweepEvery)
	defer t.Stop()
	start := time.Now()
	b := &breath{e: e, timer: time.NewTimer(sweepEvery), duty: duty{now: func() time.Duration { return time.Since(start) }, rest: sweepEvery}}
	defer b.timer.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-t.C:
		}
		e.met.Store(0)
		e.pace()
		b.duty.begin()
		for more := true; more && !e.closed.Load(); {
			_, more = e.sweepAll(b)
		}
		b.duty.end()
		b.duty.rest = sweepEvery // the pause is no delay of the next turn
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

// leaves says whether reads leave expired entries that they meet to the sweep.
func (e *Engine) leaves() bool { return e.paced && e.met.Load() >= metMost }

// Sweep removes expired entries, and gives back memory of dead ones. It looks only
// at segments in which a deadline has passed. As long as more than a quarter of a
// shard's sample is expired it goes on at once, up to a fixed number of samples.
// Shards take turns, and each is held for a few records at a time. more says that
// it stopped at that number, so the caller should go on.
func (e *Engine) Sweep() (removed int, more bool) { return e.sweepAll(nil) }

func (e *Engine) sweepAll(b *breath) (removed int, more bool) {
	var set shardSet
	set.fill(len(e.shards))
	for set.n > 0 && !e.closed.Load() {
		now := e.now()
		e.visit(&set, b, func(s *shard, first bool) bool {
			gone, on := s.sweepHold(now, first)
			removed += gone
			if on && s.samples == sweepSteps {
				more, on = true, false
			}
			return on
		})
	}
	set.fill(len(e.shards))
	for set.n > 0 && !e.closed.Load() {
		e.visit(&set, b, (*shard).tidyHold)
	}
	return removed, more
}

// sweepHold is one hold of a sweep, and says whether it goes on; first is the
// first one of the shard.
func (s *shard) sweepHold(now int64, first bool) (gone int, on bool) {
	if first {
		s.cur, s.last, s.samples = sample{}, sample{}, 0
	}
	gone, end := s.sweepSome(now)
	if !end && s.cur.seen < sweepSample && s.cur.passed < sweepWalk {
		return gone, true
	}
	// Two samples together: the share in one alone is off too often.
	on = (s.last.gone+s.cur.gone)*4 > s.last.seen+s.cur.seen
	s.last, s.cur = s.cur, sample{}
	s.samples++
	return gone, on
}

// sweepSome examines a part of the running sample; end says that nothing is left
// to examine. The shard lock is held.
func (s *shard) sweepSome(now int64) (gone int, end bool) {
	for seen, looks := 0, 0; seen < holdRecords && looks < holdLooks; {
		if s.walkSeg == 0 {
			if s.walkSeg = s.nextExpiring(now); s.walkSeg == 0 {
				return gone, true
			}
			s.walkOff, s.walkSoonest = 0, maxTime
		}
		id := s.walkSeg
		g := &s.segs[id]
		off, n := s.someRecords(g, s.walkOff, holdLooks-looks, func(l loc, r record) bool {
			s.cur.passed++
			if r.form() != formNone {
				seen++
				s.cur.seen++
				n := s.sweepRecord(l, r, now)
				s.cur.gone += n
				gone += n
			}
			return seen < holdRecords
		})
		looks += n
		if s.walkSeg != id {
			continue // it went with its last record
		}
		if s.walkOff = off; off >= g.size {
			g.soonest = s.walkSoonest
			s.walkSeg = 0
		}
	}
	return gone, false
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
