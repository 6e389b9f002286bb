package node

import "golang.org/x/sys/unix"

// bootTime reads the clock that counts from boot, suspensions included, in ns.
func bootTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}
