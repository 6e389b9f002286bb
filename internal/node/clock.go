package node

import (
	"sync/atomic"
	"time"
)

// clock is wall time at start plus the time elapsed since, counted by a clock
// that nobody can set: a step of the wall clock neither expires nor revives
// anything. Reads cost one reading of the monotonic clock. That clock stands
// still while the machine is suspended; refresh, called once a second, adds
// what was missed.
type clock struct {
	start     time.Time
	boot      int64        // boot-time clock at start, ns; 0 where there is none
	suspended atomic.Int64 // ns that the monotonic clock missed since start
	now       func() time.Time
}

// suspendNoise is the difference between two readings that is no suspension.
const suspendNoise = 50 * time.Millisecond

func newClock(now func() time.Time) *clock {
	return &clock{start: time.Now(), boot: bootTime(), now: now}
}

// millis returns the time in ms since 1970.
func (c *clock) millis() int64 {
	if c.now != nil {
		return c.now().UnixMilli()
	}
	return (c.start.UnixNano() + int64(time.Since(c.start)) + c.suspended.Load()) / int64(time.Millisecond)
}

// elapsed returns a time that only ever grows, for measuring.
func (c *clock) elapsed() time.Duration {
	if c.now != nil {
		return c.now().Sub(c.start)
	}
	return time.Since(c.start)
}

// time returns the time as a time.Time.
func (c *clock) time() time.Time {
	if c.now != nil {
		return c.now()
	}
	return c.start.Add(time.Since(c.start) + time.Duration(c.suspended.Load()))
}

// refresh adds the time that the machine was suspended. It never goes back.
func (c *clock) refresh() {
	if c.now != nil || c.boot == 0 {
		return
	}
	missed := bootTime() - c.boot - int64(time.Since(c.start))
	if missed-c.suspended.Load() > int64(suspendNoise) {
		c.suspended.Store(missed)
	}
}
