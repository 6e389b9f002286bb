package register

import (
	"fmt"
	"sync"
	"time"
)

// counter is a key that is only incremented by one. It may be forgotten and start
// anew; it never repeats a number and never skips one that nobody added.
type counter struct {
	mu      sync.Mutex
	last    int64 // the latest answer
	lastAt  time.Duration
	unknown int64 // increments whose fate is unknown and that no answer has shown yet
	answers uint64
}

// Count judges the answer to an increment of a counter that began at began and was answered
// at now. The increments of one counter must follow each other.
func (c *Checker) Count(i int, got int64, began, now time.Duration) Verdict {
	n := &c.counters[i]
	n.mu.Lock()
	last, lastAt, unknown := n.last, n.lastAt, n.unknown
	verdict := Legal
	switch {
	case got > last && got <= last+1+unknown:
		n.unknown -= got - last - 1
	case got >= 1 && got <= 1+unknown: // it was forgotten
		n.unknown -= got - 1
	case got > last || got < 1:
		verdict = Invented
	default:
		verdict = CounterBack
	}
	n.last, n.lastAt = got, now
	n.answers++
	n.mu.Unlock()
	if verdict.excusable() && c.excuses.overlap(lastAt, began) {
		c.excuse(began - lastAt)
		return verdict
	}
	c.count(verdict, began, fmt.Sprintf("counter %d is %d after %d and %d increments of unknown fate", i, got, last, unknown))
	return verdict
}

// CountUnknown notes an increment whose fate is unknown.
func (c *Checker) CountUnknown(i int) {
	n := &c.counters[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unknown++
}

func (c *Checker) counted() (sum uint64) {
	for i := range c.counters {
		n := &c.counters[i]
		n.mu.Lock()
		sum += n.answers
		n.mu.Unlock()
	}
	return sum
}
