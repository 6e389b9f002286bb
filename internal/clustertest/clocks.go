package clustertest

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clocks are the clocks of nodes whose processes may be away: they jump then, and
// none of the node's timers has run meanwhile.
type Clocks struct {
	mu    sync.Mutex
	ahead map[string]*atomic.Int64 // nanoseconds, by name
}

// NewClocks makes clocks that go with the bubble's.
func NewClocks() *Clocks { return &Clocks{ahead: map[string]*atomic.Int64{}} }

func (c *Clocks) get(name string) *atomic.Int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead[name] == nil {
		c.ahead[name] = new(atomic.Int64)
	}
	return c.ahead[name]
}

// Of is what Sim.Clock takes.
func (c *Clocks) Of(name string) func() time.Time {
	ahead := c.get(name)
	return func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
}

// Away lets the process of a node wake up after d.
func (c *Clocks) Away(name string, d time.Duration) { c.get(name).Add(int64(d)) }
