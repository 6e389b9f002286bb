package register

import (
	"math"
	"sync"
	"time"
)

// excuses are the windows of crashes and partitions: in one of them a copy that
// lags may take over, or two owners accept writes. Their number is that of the
// faults of a run.
type excuses struct {
	mu   sync.RWMutex
	list []window
}

type window struct {
	from, to time.Duration
	within   bool // only reads that begin in it
}

// overlap tells whether a window lies within the time from the acknowledged
// operation that was not seen to the read that did not see it. A value that was
// overwritten and read after all windows has no excuse.
func (e *excuses) overlap(acked, read time.Duration) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range e.list {
		if w.from <= read && acked <= w.to && (!w.within || read <= w.to) {
			return true
		}
	}
	return false
}

// Unclean opens a window of a crash or a partition and returns what closes it: from
// then on the nodes agree again.
func (c *Checker) Unclean(from time.Duration) (end func(to time.Duration)) {
	return c.open(window{from, math.MaxInt64, false})
}

// Silent opens a window in which an owner does not answer, so that reads may go to a
// copy that lacks its last changes. A value that is read after the window has no excuse.
func (c *Checker) Silent(from time.Duration) (end func(to time.Duration)) {
	return c.open(window{from, math.MaxInt64, true})
}

func (c *Checker) open(w window) (end func(to time.Duration)) {
	e := &c.excuses
	e.mu.Lock()
	defer e.mu.Unlock()
	i := len(e.list)
	e.list = append(e.list, w)
	return func(to time.Duration) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.list[i].to = to
	}
}
