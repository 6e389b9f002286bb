package engine

import (
	"fmt"
	"math"
	"runtime"

	"github.com/ringcache/ringcache/internal/errs"
)

const (
	unlimited = math.MaxInt64 / 2 // no sum with it overflows
	// shrinkStep is by how much SetMaxBytes lowers the ceiling at once, hence
	// the most that one writer evicts on its behalf.
	shrinkStep = 64 << 10
	// evictBatch is the most entries that one hold of evictStep evicts.
	evictBatch = 32
	// olderSamples is how many other shards a writer compares its own oldest
	// entry with.
	olderSamples = 2
)

// policy decides what leaves when the memory limit is reached.
type policy struct {
	name   string
	evicts bool
	// victim returns the entry of s to evict next, never keep; nil if none.
	victim func(s *shard, keep *entry) *entry
}

var policies = []policy{
	{"lru", true, func(s *shard, keep *entry) *entry {
		if s.lru.oldest == keep && keep != nil {
			return keep.newer
		}
		return s.lru.oldest
	}},
	{"noeviction", false, func(*shard, *entry) *entry { return nil }},
}

// Policies returns the names that Options.Policy and SetPolicy take.
func Policies() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	return names
}

func policyNamed(name string) *policy {
	for i := range policies {
		if policies[i].name == name {
			return &policies[i]
		}
	}
	return nil
}

// Policy returns the name of the eviction policy.
func (e *Engine) Policy() string { return e.policy.Load().name }

// SetPolicy changes the eviction policy; entries and their recency stay.
func (e *Engine) SetPolicy(name string) error {
	p := policyNamed(name)
	if p == nil {
		return fmt.Errorf("engine: policy is %q, must be one of %q: %w", name, Policies(), errs.ErrConfig)
	}
	e.limitMu.Lock()
	defer e.limitMu.Unlock()
	if used := e.used.Load(); p.evicts && used > e.ceiling.Load() {
		e.ceiling.Store(used) // what noeviction let stand leaves in steps, not in the first writer's hold
	}
	e.policy.Store(p)
	e.settle(p)
	return nil
}

func limitOf(n int64) int64 {
	if n == 0 || n > unlimited {
		return unlimited
	}
	return n
}

// SetMaxBytes changes the memory limit; 0 means none. When less is allowed than
// is used, it returns after as much was evicted, in steps that hold one shard
// lock for a few entries each; meanwhile writers hold to a ceiling that sinks
// from step to step. Under noeviction nothing leaves, and writes fail instead.
func (e *Engine) SetMaxBytes(n int64) error {
	if n < 0 {
		return fmt.Errorf("engine: memory limit is %d, must not be negative: %w", n, errs.ErrConfig)
	}
	e.limitMu.Lock()
	defer e.limitMu.Unlock()
	e.limit.Store(limitOf(n))
	e.settle(e.policy.Load())
	return nil
}

// settle brings ceiling and use to the limit. limitMu is held.
func (e *Engine) settle(p *policy) {
	limit := e.limit.Load()
	at := min(e.ceiling.Load(), max(limit, e.used.Load()))
	if !p.evicts {
		at = limit
	}
	for at > limit {
		at = max(limit, at-shrinkStep)
		e.ceiling.Store(at)
		for e.used.Load() > at {
			if !e.evictStep(p, at) {
				runtime.Gosched() // what is used is just being stored or removed
			}
		}
	}
	e.ceiling.Store(limit)
}

// evictStep evicts up to evictBatch entries from the shard with the oldest
// entry of a few, and says whether there was any. No shard lock may be held.
func (e *Engine) evictStep(p *policy, goal int64) bool {
	var s *shard
	first := e.pick(len(e.shards))
	for i := range e.shards {
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
	s.mu.Lock()
	defer s.unlock()
	now, any := e.now(), false
	for i := 0; i < evictBatch && e.used.Load() > goal; i++ {
		if !s.evictOne(p, nil, now) {
			break
		}
		any = true
	}
	return any
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

// checkCharge refuses what could never be stored.
func (e *Engine) checkCharge(charge int64) error {
	if limit := e.limit.Load(); charge > limit {
		return fmt.Errorf("entry needs %d bytes, memory limit is %d: %w", charge, limit, errs.ErrNoMemory)
	}
	return nil
}

func (e *Engine) checkPolicy() (*policy, error) {
	p := e.policy.Load()
	if !p.evicts {
		return nil, fmt.Errorf("%d of %d bytes are used and the policy is %s: %w",
			e.used.Load(), e.limit.Load(), p.name, errs.ErrNoMemory)
	}
	return p, nil
}

// reserve takes n bytes for an entry that will be charged charge in all, and
// evicts what is needed, entry by entry. keep is the entry being replaced (nil
// if new); it is returned, or nil when it had to be evicted itself, and then
// the whole charge is reserved. The shard lock is held; DESIGN.md says why this
// ends.
func (s *shard) reserve(n, charge int64, keep *entry) (*entry, error) {
	e := s.e
	if e.tryReserve(n) {
		return keep, nil
	}
	now := e.now()
	if !e.policy.Load().evicts {
		s.sweepStep(now) // room that only expired entries take is no reason to refuse
	}
	for !e.tryReserve(n) {
		if err := e.checkCharge(charge); err != nil {
			return keep, err
		}
		p, err := e.checkPolicy()
		if err != nil {
			return keep, err
		}
		if s.makeRoom(p, keep, now) {
			continue
		}
		if keep != nil {
			// Two writers that each guard the last entry of their shard would
			// wait for each other: a waiting writer owns nothing.
			s.evict(keep, now)
			keep, n = nil, charge
			continue
		}
		return nil, s.await(charge)
	}
	return keep, nil
}

// makeRoom evicts one entry: the oldest of this shard, or of another one whose
// oldest is clearly older and whose lock is free.
func (s *shard) makeRoom(p *policy, keep *entry, now int64) bool {
	if o := s.older(now); o != nil && o.mu.TryLock() {
		done := o.evictOne(p, nil, now)
		o.unlock()
		if done {
			return true
		}
	}
	return s.evictOne(p, keep, now) || s.evictElsewhere(p, now)
}

// older returns a sampled shard whose oldest entry was idle for at least 1/8
// longer than this one's. So one busy shard does not lose its warm entries
// while the others keep cold ones, and equal shards leave each other alone.
func (s *shard) older(now int64) *shard {
	bar := s.oldest.Load()
	if bar != emptyStamp {
		bar -= max(0, now-bar) / 8
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

// evictElsewhere evicts one entry of any other shard whose lock is free.
func (s *shard) evictElsewhere(p *policy, now int64) bool {
	first := s.rand.below(len(s.e.shards))
	for i := range s.e.shards {
		o := &s.e.shards[(first+i)&int(s.e.mask)]
		if o == s || o.oldest.Load() == emptyStamp || !o.mu.TryLock() {
			continue
		}
		done := o.evictOne(p, nil, now)
		o.unlock()
		if done {
			return true
		}
	}
	return false
}

// await reserves charge bytes for a writer whose shard is empty. What it needs
// is a debt that every holder of another shard pays when it unlocks, so it ends
// even if no lock is ever free when it looks.
func (s *shard) await(charge int64) error {
	e := s.e
	e.debt.Add(charge)
	defer e.debt.Add(-charge)
	for !e.tryReserve(charge) {
		if err := e.checkCharge(charge); err != nil {
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
	now := e.now()
	for {
		debt := e.debt.Load()
		if debt <= 0 || e.used.Load()+debt <= e.ceiling.Load() || !s.evictOne(p, nil, now) {
			return
		}
	}
}

func (s *shard) evictOne(p *policy, keep *entry, now int64) bool {
	v := p.victim(s, keep)
	if v == nil {
		return false
	}
	s.evict(v, now)
	return true
}

// evict removes v, which counts as expired when its time had passed anyway.
func (s *shard) evict(v *entry, now int64) {
	why := byEviction
	if expired(v.deadline, now) {
		why = byExpiry
	}
	s.remove(s.state(v), v, why)
}
