package engine

import "runtime"

// Memory levels. What has expired and what is dead is given back in the
// background, more eagerly the less is free; what lives leaves only when the
// limit was reached, and then ahead of the writers, so that they seldom evict
// while a caller waits.
const (
	// tidyFrom and tightFrom are, in per cent of the limit, from which use on the
	// sweep compacts at tidyShare and at fullShare instead of compactShare.
	tidyFrom  = 80
	tightFrom = 95
	tidyShare = 4
	// aheadPart is the part of the limit that the cleaner keeps free once the
	// limit was reached, as a divisor, and aheadMost its most bytes.
	aheadPart = 256
	aheadMost = 8 << 20
	// aheadJobs is how many shards may wait for the cleaner; a writer that finds
	// the queue full evicts by itself when it must.
	aheadJobs = 256
	// aheadSteps is how many segments one job evicts at most: more than the one
	// that was taken, so that room grows until it is enough.
	aheadSteps = 2
)

// ahead is how many bytes the cleaner keeps free.
func (e *Engine) ahead() int64 { return min(e.ceiling.Load()/aheadPart, aheadMost) }

// askAhead tells the cleaner that s reserved memory, for which room is to be made
// on its behalf, and wakes it when half of what it keeps free is gone: waking
// costs a writer more than the rest of its work. It never blocks, and does nothing
// before a writer met the limit or in an engine without background.
func (s *shard) askAhead() {
	e := s.e
	if !e.pressed.Load() {
		return
	}
	free, ahead := e.ceiling.Load()-e.used.Load(), e.ahead()
	if free >= ahead {
		return
	}
	select {
	case e.jobs <- s:
	default:
	}
	if free < ahead/2 {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// press notes that a writer met the limit.
func (e *Engine) press() {
	if e.jobs != nil && !e.pressed.Load() {
		e.pressed.Store(true)
	}
}

// cleaner evicts ahead of the writers. It ends at Close.
func (e *Engine) cleaner() {
	defer close(e.cleaned)
	for {
		select {
		case <-e.stop:
			return
		case <-e.wake:
		}
		for more := true; more; {
			select {
			case s := <-e.jobs:
				e.cleanFor(s)
				runtime.Gosched() // where all processors are busy, a writer waits for one segment only
			default:
				more = false
			}
		}
	}
}

// cleanFor evicts what the write of s would have evicted itself: from its own
// shard, or from one that is clearly older. So the choice is that of a writer,
// and only the moment is another.
func (e *Engine) cleanFor(s *shard) {
	for range aheadSteps {
		p := e.policy.Load()
		if !p.evicts || e.closed.Load() || e.used.Load() <= e.ceiling.Load()-e.ahead() {
			return
		}
		s.mu.Lock()
		now := e.now()
		done := s.takeSpare(now) || s.makeRoom(p, now)
		s.unlock()
		if !done {
			return
		}
	}
}

// relax ends the work of the cleaner when there is room again: what lives stays
// until the limit is reached anew.
func (e *Engine) relax() {
	if e.pressed.Load() && e.used.Load() < e.ceiling.Load()-2*e.ahead() {
		e.pressed.Store(false)
	}
}

// tidyHold goes on giving back blocks that dead records take, if the level of memory
// is worth the work, and says whether there is more of it; first is the first hold
// of the shard in this sweep. The shard lock is held.
func (s *shard) tidyHold(first bool) (on bool) {
	if first {
		s.compacted = 0
	}
	if s.compacting.seg == 0 {
		id := s.wasteful(s.bearable())
		if id == 0 {
			return false
		}
		s.startCompaction(id)
	}
	done, gained := s.compactSome(holdRecords, holdLooks)
	if !done {
		return true
	}
	s.compacted++
	return gained && s.compacted < compactMost
}

// bearable is the part of what lives that may be dead at this level, as a divisor.
func (s *shard) bearable() int64 {
	switch used, limit := s.e.used.Load(), s.e.ceiling.Load(); {
	case used > limit/100*tightFrom:
		return fullShare
	case used > limit/100*tidyFrom:
		return tidyShare
	}
	return compactShare
}
