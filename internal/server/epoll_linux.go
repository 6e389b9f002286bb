package server

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience is how many times in a row the runtime may interrupt a wait that
// holds its processor before the loop is idle and waits without. The runtime
// interrupts whoever holds a processor for 10 ms.
const patience = 3

// poller waits for the descriptors of a loop.
//
// Giving up the processor around a wait, as a blocking system call of Go does,
// costs more than a request when few connections are ready at once. So a poller
// that may hold its processor waits by a raw call: the scheduler believes that
// the goroutine is running. When it wants it to stop, for a garbage collection or
// because others wait, its preemption signal interrupts the call, and the loop
// yields. That takes a processor for each loop and one for all other goroutines.
// A loop that has had nothing to do for a while waits the ordinary way, so that
// an idle node is not woken a hundred times a second.
type poller struct {
	fd, wakeFD int
	hold       bool
	idle       int // interrupted waits in a row
	events     [maxBatch]unix.EpollEvent
}

func (p *poller) open(hold bool) (err error) {
	if p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if p.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(p.fd)
		return os.NewSyscallError("eventfd", err)
	}
	p.hold = hold
	if err = p.control(unix.EPOLL_CTL_ADD, p.wakeFD, unix.EPOLLIN|unix.EPOLLET, wakeToken, 0); err != nil {
		p.close()
	}
	return err
}

func (p *poller) close() {
	unix.Close(p.wakeFD)
	unix.Close(p.fd)
}

// control adds or changes a descriptor. token and generation come back with its
// events.
func (p *poller) control(op, fd int, events uint32, token, generation int32) error {
	e := unix.EpollEvent{Events: events, Fd: token, Pad: generation}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, &e))
}

// gather returns at least that many events, or those that are there after a nap.
func (p *poller) gather(least int) []unix.EpollEvent {
	for looks := 0; ; looks++ {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
			uintptr(len(p.events)), 0, 0, 0)
		switch {
		case errno != 0:
			return nil
		case int(n) >= least || looks > 0:
			return p.events[:n]
		}
		nap()
	}
}

// wake makes wait return, the one under way or the next. It may be called from
// any goroutine until close. The descriptor is watched for edges: each write is an
// event, and nobody has to read what adds up.
func (p *poller) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(p.wakeFD), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
}

// wait returns the events that are there, after at most timeout milliseconds (-1:
// any time). If there are any, but less than least, and it may hold its processor, it
// looks again after a nap. They are valid until the next call. There may be none.
func (p *poller) wait(timeout, least int) ([]unix.EpollEvent, error) {
	if p.hold && least > 1 && timeout != 0 {
		if events := p.gather(least); len(events) > 0 {
			p.idle = 0
			return events, nil
		}
	}
	raw := timeout
	if !p.hold || p.idle >= patience {
		raw = 0 // look first: a busy loop need not tell the scheduler
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(raw), 0, 0)
	if errno == 0 && n == 0 && raw != timeout {
		n, _, errno = syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
			uintptr(len(p.events)), uintptr(timeout), 0, 0)
	}
	switch errno {
	case 0:
		if n > 0 {
			p.idle = 0
		}
		return p.events[:n], nil
	case unix.EINTR:
		p.idle++
		runtime.Gosched()
		return nil, nil
	}
	return nil, errno
}
