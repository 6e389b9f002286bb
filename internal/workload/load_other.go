//go:build !linux

package workload

import "time"

func fineSleep() (restore func()) { return func() {} }

func shortSleep(d time.Duration) { time.Sleep(d) }
