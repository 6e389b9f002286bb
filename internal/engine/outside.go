package engine

import (
	"fmt"

	"github.com/ringcache/ringcache/internal/errs"
)

// outsideMost is the part of the limit, as a divisor, that memory outside of
// the engine may take away from the entries at most.
const outsideMost = 2

// SetOutside says how many bytes the process holds beside the engine that count
// against the memory limit, such as the buffers of sessions: entries get the rest,
// at least half of the limit. When that is less than is used, SetOutside returns
// after as much was evicted, as SetMaxBytes does; under noeviction writes fail
// until there is room again. A negative n is an error.
func (e *Engine) SetOutside(n int64) error {
	if n < 0 {
		return fmt.Errorf("engine: %d bytes outside, must not be negative: %w", n, errs.ErrConfig)
	}
	e.limitMu.Lock()
	defer e.limitMu.Unlock()
	if e.outside.Swap(n) != n && e.limit.Load() != unlimited && !e.closed.Load() {
		e.settle(e.policy.Load())
	}
	return nil
}

// allowed is how much of the limit is left for entries.
func (e *Engine) allowed() int64 {
	limit := min(e.limit.Load(), e.arena.reach())
	if e.limit.Load() == unlimited {
		return limit
	}
	return limit - min(e.outside.Load(), limit/outsideMost)
}
