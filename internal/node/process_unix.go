//go:build unix

package node

import "syscall"

// cpuSeconds returns the processor time of this process.
func cpuSeconds() (user, system float64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Nano()) / 1e9 }
	return seconds(u.Utime), seconds(u.Stime)
}
