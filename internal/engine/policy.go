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
	// deadlines: segments are divided by remaining time in shards of any size.
	deadlines bool
	classed   bool // classes count
	custom    bool // the embedding program's
	// cost orders what shards would give up next, the lowest first; nil if the
	// age of their segments does.
	cost func(s *shard) (int64, bool)
	// victim returns the segment of s to empty next, 0 if there is none.
	victim func(s *shard) uint32
	// verdict says whether a record read freq times since it was last asked
	// about stays, and with which count. round is how many segments this
	// eviction has emptied without gain.
	verdict func(freq, from, round int) (left int, stay bool)
}

var policies = []policy{
	{name: "s3fifo", evicts: true, probes: true, victim: bySmallShare, verdict: twoQueues},
	{name: "lru", evicts: true, victim: oldestSegment, verdict: func(freq, _, round int) (int, bool) {
		return 0, freq > bar(round)
	}},
	{name: "lfu", evicts: true, victim: oldestSegment, verdict: func(freq, _, round int) (int, bool) {
		return freq - 1, freq > bar(round)
	}},
	{name: "ttl", evicts: true, deadlines: true, cost: soonest, victim: soonestSegment, verdict: func(int, int, int) (int, bool) {
		return 0, false
	}},
	{name: "priority", evicts: true, probes: true, classed: true, victim: byPriority, verdict: twoQueues},
	{name: "noeviction", victim: func(*shard) uint32 { return 0 }, verdict: func(freq, _, _ int) (int, bool) {
		return freq, true
	}},
	{name: PolicyCustom, evicts: true, custom: true, cost: leastScore, victim: byScore},
}

// PolicyCustom is the name of the policy that is Options.Custom.
const PolicyCustom = "custom"

// twoQueues is S3-FIFO's verdict.
func twoQueues(freq, from, round int) (int, bool) {
	if from == small {
		return 0, freq >= promoteFrom && round < forceAll
	}
	return freq - 1, freq > bar(round)
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
	if q[main].oldest == 0 || q[small].oldest != 0 && q[small].bytes*100 > (q[small].bytes+q[main].bytes)*s.e.smallShare() {
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

// soonest is when the deadlines of the segment to leave next have passed.
func soonest(s *shard) (int64, bool) {
	id := soonestSegment(s)
	if id == 0 {
		return 0, false
	}
	g := &s.segs[id]
	if g.vols == g.count {
		return g.latest, true
	}
	return maxTime/2 + int64(g.born), true
}

// queueOf returns the queue of a new key.
func (s *shard) queueOf(p *policy, h uint64) int {
	switch {
	case !p.probes:
		return main
	case s.takeGhost(h):
		return main
	case s.ghosts.sets == 0 && s.queues[small].bytes*100 > (s.queues[small].bytes+s.queues[main].bytes)*s.e.smallShare():
		return main // nothing was evicted yet: the queues fill in their proportion
	}
	return small
}

// Policies returns the names that Options.Policy and SetPolicy take. Where
// Options.Custom is given, they take PolicyCustom too.
func Policies() []string {
	var names []string
	for i := range policies {
		if !policies[i].custom {
			names = append(names, policies[i].name)
		}
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
	if p == nil || p.custom && (e.classes == nil || e.classes.custom == nil) {
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
