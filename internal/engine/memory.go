package engine

import (
	"fmt"
	"math"
	"runtime"

	"github.com/ringcache/ringcache/internal/errs"
)

const (
	unlimited = math.MaxInt64 / 2 // no sum with it overflows; far above MaxBytesLimit
	// shrinkParts is how many steps of the ceiling a limit is worth when
	// SetMaxBytes lowers it; a step is the most that one writer evicts on its
	// behalf.
	shrinkParts = 64
	minShrink   = 64 << 10
	// olderSamples is how many other shards a writer compares its own oldest
	// segment with.
	olderSamples = 4
)

func limitOf(n int64) int64 {
	if n == 0 || n > unlimited {
		return unlimited
	}
	return n
}

// SetMaxBytes changes the memory limit; 0 means none, which is the reach of the
// arena, and is an error with Options.File. A limit above that is an error: the arena is laid out by New for twice
// its MaxBytes or 16 GiB. When less is allowed than is used, SetMaxBytes
// returns after as much was evicted, in steps that hold one shard lock for a
// few records each; meanwhile writers hold to a ceiling that sinks from step to
// step. Under noeviction nothing leaves, and writes fail instead. After Close it
// reports errs.ErrClosed.
func (e *Engine) SetMaxBytes(n int64) error {
	if n < 0 {
		return fmt.Errorf("engine: memory limit is %d, must not be negative: %w", n, errs.ErrConfig)
	}
	if n == 0 && e.file != nil {
		return fmt.Errorf("engine: an arena in a file needs a memory limit: %w", errs.ErrConfig)
	}
	if n > e.arena.reach() {
		return fmt.Errorf("engine: memory limit is %d, the arena reaches %d; start with a larger limit: %w",
			n, e.arena.reach(), errs.ErrConfig)
	}
	e.limitMu.Lock()
	defer e.limitMu.Unlock()
	if e.closed.Load() {
		return errs.ErrClosed
	}
	if err := e.arena.provide(e.arena.chunksFor(min(limitOf(n), e.arena.reach()))); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	e.limit.Store(limitOf(n))
	e.settle(e.policy.Load())
	if e.used.Load() <= e.ceiling.Load() { // else the policy let it stand, and may be changed
		e.arena.shrink(e.arena.chunksFor(min(limitOf(n), e.arena.reach())))
	}
	return nil
}

// settle brings ceiling and use to the limit. limitMu is held.
func (e *Engine) settle(p *policy) {
	limit := e.allowed()
	e.arena.bound(max(limit, e.ceiling.Load())) // before anybody may use more
	at := min(e.ceiling.Load(), max(limit, e.used.Load()))
	if !p.evicts {
		at = limit
	}
	step := max(minShrink, (at-limit)/shrinkParts)
	for at > limit {
		at = max(limit, at-step)
		e.ceiling.Store(at)
		for e.used.Load() > at && !e.closed.Load() { // Close may leave what is used to a file
			if !e.evictStep(p) {
				runtime.Gosched() // what is used is just being stored or removed
			}
		}
	}
	e.ceiling.Store(limit)
	e.arena.bound(limit)
	e.arena.trim(e.used.Load())
	e.arena.dry()
}

// evictStep evicts a segment from the shard with the oldest one of a few, and
// says whether there was any. No shard lock may be held.
func (e *Engine) evictStep(p *policy) (found bool) {
	if e.stocked.Load() > 0 {
		s := &e.shards[e.pick(len(e.shards))]
		s.mu.Lock()
		done := s.takeSpare(e.now())
		s.unlock()
		if done {
			return true
		}
	}
	var s *shard
	first := e.pick(len(e.shards))
	if p.classed && e.classes != nil {
		s = e.lowestShard(e.classes, first, math.MaxInt)
	}
	for i := range e.shards {
		if s != nil && p.classed {
			break
		}
		o := &e.shards[(first+i*7919)&int(e.mask)] // 7919 is odd: all shards come by
		if o.oldest.Load() != emptyStamp && (s == nil || o.oldest.Load() < s.oldest.Load()) {
			s = o
		}
		if i >= 8 && s != nil {
			break
		}
	}
	if s == nil {
		return false
	}
	for more := true; more; {
		s.mu.Lock()
		found, more = s.thinHold(p, e.now())
		s.unlock()
		s.mu.letIn()
	}
	return found
}

// tryReserve takes n bytes if that keeps within the ceiling. The second look at
// the ceiling closes the race with settle: either settle sees these bytes, or
// they are given back here.
func (e *Engine) tryReserve(n int64) bool {
	for {
		used := e.used.Load()
		if used+n > e.ceiling.Load() {
			return false
		}
		if e.used.CompareAndSwap(used, used+n) {
			break
		}
	}
	if e.used.Load() > e.ceiling.Load() {
		e.used.Add(-n)
		return false
	}
	return true
}

func (e *Engine) checkPolicy() (*policy, error) {
	p := e.policy.Load()
	if !p.evicts {
		return nil, fmt.Errorf("%d of %d bytes are used and the policy is %s: %w",
			e.used.Load(), e.limit.Load(), p.name, errs.ErrNoMemory)
	}
	return p, nil
}

// reserve takes n bytes of blocks and evicts what is needed, segment by
// segment. least is what the entry needs at all. The shard lock is held;
// DESIGN.md says why this ends.
func (s *shard) reserve(n, least int64) error {
	e := s.e
	if s.sparing {
		return s.reserveSpare(n)
	}
	if e.tryReserve(n) {
		s.askAhead()
		return nil
	}
	e.press()
	now := e.now()
	if !e.policy.Load().evicts {
		s.expireAll(now) // room that only expired entries take is no reason to refuse
		s.reclaim(fullShare)
	}
	for !e.tryReserve(n) {
		if err := e.checkNeed(int(least >> e.arena.blockShift)); err != nil {
			return err
		}
		if s.takeSpare(now) {
			continue
		}
		p, err := e.checkPolicy()
		if err != nil {
			return err
		}
		if !s.makeRoom(p, now) {
			return s.await(n, least)
		}
	}
	s.askAhead()
	return nil
}

// makeRoom evicts one segment: the oldest of this shard, or of another one whose
// oldest is clearly older and whose lock is free.
func (s *shard) makeRoom(p *policy, now int64) bool {
	switch {
	case p.cost != nil:
		if o := s.cheaper(p); o != nil && o.mu.TryLock() {
			done := o.evictSegment(p, now)
			o.unlock()
			if done {
				return true
			}
		}
		return s.evictSegment(p, now) || s.evictElsewhere(p, now)
	case p.classed && s.lower(p, now):
		return true
	}
	if o := s.older(); o != nil && o.mu.TryLock() {
		done := o.evictSegment(p, now)
		o.unlock()
		if done {
			return true
		}
	}
	return s.evictSegment(p, now) || s.evictElsewhere(p, now)
}

// older returns a sampled shard whose oldest segment was begun clearly before
// this one's, by the count of segments begun since. So one busy shard does not
// lose its warm entries while the others keep cold ones, and equal shards leave
// each other alone.
func (s *shard) older() *shard {
	bar := s.oldest.Load()
	if bar != emptyStamp {
		bar -= max(0, int64(s.e.births.Load())-bar) / 8
	}
	var best *shard
	for range olderSamples {
		o := &s.e.shards[s.rand.below(len(s.e.shards))]
		if stamp := o.oldest.Load(); o != s && stamp < bar {
			best, bar = o, stamp
		}
	}
	return best
}

// cheaper returns a sampled shard that would give up something which costs less
// than what this one would.
func (s *shard) cheaper(p *policy) (best *shard) {
	low, any := p.cost(s)
	for range olderSamples {
		o := &s.e.shards[s.rand.below(len(s.e.shards))]
		if o == s || o.oldest.Load() == emptyStamp || !o.mu.TryLock() {
			continue
		}
		if c, ok := p.cost(o); ok && (!any || c < low) {
			best, low, any = o, c, true
		}
		o.unlock()
	}
	return best
}

// evictElsewhere evicts a segment of any other shard whose lock is free.
func (s *shard) evictElsewhere(p *policy, now int64) bool {
	first := s.rand.below(len(s.e.shards))
	for i := range s.e.shards {
		o := &s.e.shards[(first+i)&int(s.e.mask)]
		if o == s || o.oldest.Load() == emptyStamp || !o.mu.TryLock() {
			continue
		}
		done := o.evictSegment(p, now)
		o.unlock()
		if done {
			return true
		}
	}
	return false
}

// await reserves n bytes for a writer whose shard is empty. What it needs is a
// debt that every holder of another shard pays when it unlocks, so it ends even
// if no lock is ever free when it looks.
func (s *shard) await(n, least int64) error {
	e := s.e
	e.debt.Add(n)
	defer e.debt.Add(-n)
	for !e.tryReserve(n) {
		if e.closed.Load() {
			return errs.ErrClosed // Close may keep what others have
		}
		if err := e.checkNeed(int(least >> e.arena.blockShift)); err != nil {
			return err
		}
		p, err := e.checkPolicy()
		if err != nil {
			return err
		}
		if !s.evictElsewhere(p, e.now()) {
			runtime.Gosched()
		}
	}
	return nil
}

// payDebt evicts from this shard what waiting writers need.
func (s *shard) payDebt() {
	e, p := s.e, s.e.policy.Load()
	if !p.evicts {
		return
	}
	now := e.now()
	for {
		debt := e.debt.Load()
		if debt <= 0 || e.used.Load()+debt <= e.ceiling.Load() || !s.evictSegment(p, now) {
			return
		}
	}
}
