package workload

import (
	"syscall"
	"time"
)

const prSetTimerSlack = 29

// fineSleep lets the calling thread be woken without delay, until restore.
func fineSleep() (restore func()) {
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
	return func() { syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 0, 0) } // the default
}

// shortSleep sleeps more exactly than a timer of the runtime, which may be a millisecond late.
func shortSleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&t, nil)
}
