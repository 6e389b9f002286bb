package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// gatherNanos is how long a busy loop waits for more than one request. A turn by
	// itself, with its system calls, falling asleep and being woken, costs more CPU
	// than a request, and the sooner a loop is done, the fewer requests it finds
	// the next time.
	gatherNanos = 20_000
	// gatherMost is with how many requests it does not wait for more.
	gatherMost = 32
	// gatherTurns is how many turns count the connections that are busy.
	gatherTurns = 64

	prSetTimerSlack = 29
)

// crowd decides for how many requests a loop waits: a part of the connections that
// have been busy, so that those of one or a few clients are never held up.
type crowd struct {
	turns  int
	window uint32 // number of the current window, never 0
	seen   int    // connections with requests in it
	active int    // in the window before
	last   int    // requests of the turn before
}

// note counts the requests of a turn; busy are their connections.
func (w *crowd) note(busy []*loopConn) {
	if w.window == 0 {
		w.window = 1
	}
	for _, c := range busy {
		if c.window != w.window {
			c.window = w.window
			w.seen++
		}
	}
	w.last = len(busy)
	if w.turns++; w.turns < gatherTurns {
		return
	}
	w.active, w.seen, w.turns = w.seen, 0, 0
	if w.window++; w.window == 0 {
		w.window = 1
	}
}

// least is for how many requests the loop should wait.
func (w *crowd) least() int {
	if w.last < 2 {
		return 1
	}
	return min(max(w.active/3, 1), gatherMost)
}

// exactSleep lets sleeps of the calling thread be no longer than asked for, until
// restore.
func exactSleep() (restore func()) {
	syscall.RawSyscall(unix.SYS_PRCTL, prSetTimerSlack, 1, 0)
	return func() { syscall.RawSyscall(unix.SYS_PRCTL, prSetTimerSlack, 0, 0) } // the default
}

// nap sleeps for gatherNanos, less if a signal comes. The scheduler is not told.
func nap() {
	t := unix.Timespec{Nsec: gatherNanos}
	syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
