package main

import (
	"syscall"
	"time"
)

// clocks are what operations can be counted against.
var clocks = map[string]func() time.Duration{"wall": wallTime, "cpu": cpuTime}

var started = time.Now()

func wallTime() time.Duration { return time.Since(started) }

// cpuTime is what all threads of the process have run so far: the caches' own
// goroutines and the garbage collector count, other processes do not.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for bad arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
