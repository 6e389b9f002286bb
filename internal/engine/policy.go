package engine

import (
	"fmt"

	"github.com/ringcache/ringcache/internal/errs"
)

// policy decides what leaves when the memory limit is reached. It is asked per
// segment and per record of a segment that is being emptied, never on a read:
// a read only counts in the record's own header.
type policy struct {
	name   string
	evicts bool
	probes bool // new keys go through the small queue
	// victim returns the segment of s to empty next, 0 if there is none.
	victim func(s *shard) uint32
	// verdict says whether a record read freq times since it was last asked
	// about stays, and with which count. round is how many segments this
	// eviction has emptied without gain.
	verdict func(freq, from, round int) (left int, stay bool)
}

var policies = []policy{
	{name: "s3fifo", evicts: true, probes: true, victim: bySmallShare, verdict: func(freq, from, round int) (int, bool) {
		if from == small {
			return 0, freq >= promoteFrom && round < forceAll
		}
		return freq - 1, freq > bar(round)
	}},
	{name: "lru", evicts: true, victim: oldestSegment, verdict: func(freq, _, round int) (int, bool) {
		return 0, freq > bar(round)
	}},
	{name: "lfu", evicts: true, victim: oldestSegment, verdict: func(freq, _, round int) (int, bool) {
		return freq - 1, freq > bar(round)
	}},
	{name: "ttl", evicts: true, victim: soonestSegment, verdict: func(int, int, int) (int, bool) {
		return 0, false
	}},
	{name: "noeviction", victim: func(*shard) uint32 { return 0 }, verdict: func(freq, _, _ int) (int, bool) {
		return freq, true
	}},
}

// bar is the frequency that is not enough to stay.
func bar(round int) int {
	switch {
	case round < forceFrom:
		return 0
	case round < forceAll:
		return maxFreq - 1
	}
	return maxFreq
}

// bySmallShare takes from the small queue while it has more than its share.
func bySmallShare(s *shard) uint32 {
	q := &s.queues
	if q[main].oldest == 0 || q[small].oldest != 0 && q[small].bytes*100 > (q[small].bytes+q[main].bytes)*smallShare {
		return q[small].oldest
	}
	return q[main].oldest
}

func oldestSegment(s *shard) uint32 {
	a, b := s.queues[small].oldest, s.queues[main].oldest
	if a == 0 || b != 0 && s.segs[b].born < s.segs[a].born {
		return b
	}
	return a
}

// soonestSegment returns the segment whose deadlines pass first; those with
// records that never expire come last, in the order of their age.
func soonestSegment(s *shard) uint32 {
	best, at := uint32(0), int64(maxTime)
	for id := range s.segs {
		g := &s.segs[id]
		if g.blocks > 0 && g.vols == g.count && g.latest < at && !s.onlyKeeps(uint32(id)) {
			best, at = uint32(id), g.latest
		}
	}
	if best == 0 {
		return oldestSegment(s)
	}
	return best
}

// queueOf returns the queue of a new key.
func (s *shard) queueOf(p *policy, h uint64) int {
	switch {
	case !p.probes:
		return main
	case s.takeGhost(h):
		return main
	case len(s.ghosts.blocks) == 0 && s.queues[small].bytes*100 > (s.queues[small].bytes+s.queues[main].bytes)*smallShare:
		return main // nothing was evicted yet: the queues fill in their proportion
	}
	return small
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

// SetPolicy changes the eviction policy; entries, their order and their counts
// stay.
func (e *Engine) SetPolicy(name string) error {
	p := policyNamed(name)
	if p == nil {
		return fmt.Errorf("engine: policy is %q, must be one of %q: %w", name, Policies(), errs.ErrConfig)
	}
	e.limitMu.Lock()
	defer e.limitMu.Unlock()
	if used := e.used.Load(); p.evicts && used > e.ceiling.Load() {
		// What noeviction let stand leaves in steps, not in the first writer's hold.
		// The arena must have the chunks for it first: they may be trimmed since.
		e.arena.bound(used)
		e.ceiling.Store(used)
	}
	e.policy.Store(p)
	e.settle(p)
	return nil
}
