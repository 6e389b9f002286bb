package server

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What of io_uring's interface (linux/io_uring.h) is used here.
const (
	uringOpSend = 26
	uringOpRecv = 27

	uringEnterGetEvents = 1 << 0
	uringFeatSingleMmap = 1 << 0
	uringFeatNoDrop     = 1 << 1
	uringFeatCQESkip    = 1 << 11
	uringSkipSuccess    = 1 << 6 // flag of an entry: no result if all went well

	uringOffRing    = 0
	uringOffEntries = 0x10000000

	// plainUpTo is up to how many transfers plain system calls are cheaper than
	// the ring.
	plainUpTo = 2
)

type uringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle uint32
	features, wqFD                                         uint32
	_                                                      [3]uint32
	sq                                                     struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// uringEntry is a request of the submission queue.
type uringEntry struct {
	op, flags uint8
	ioprio    uint16
	fd        int32
	offset    uint64
	addr      uint64
	length    uint32
	opFlags   uint32
	user      uint64
	_         [3]uint64
}

// uringResult is an entry of the completion queue.
type uringResult struct {
	user  uint64
	res   int32
	flags uint32
}

// uringIO uses io_uring as a system call that does many things: each batch is
// submitted and reaped by one call. All requests carry MSG_DONTWAIT, so each
// completes while it is submitted, and no buffer is in the kernel's hands when a
// batch returns.
type uringIO struct {
	fd      int
	ring    []byte // both queues' heads and tails, and the results
	memory  []byte // the entries
	entries []uringEntry
	results []uringResult
	mask    uint32 // of entries
	resMask uint32
	sqTail  *uint32
	cqHead  *uint32
	cqTail  *uint32
	fault   error // the ring is unusable; plain calls do the work
}

// openUring makes a ring. Its error says why there is none: an old kernel, or one that
// does not allow it (sysctl io_uring_disabled, seccomp).
func openUring() (*uringIO, error) {
	var p uringParams
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, maxBatch, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	u := &uringIO{fd: int(fd)}
	unix.CloseOnExec(u.fd)
	if err := u.mapRings(&p); err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

func (u *uringIO) mapRings(p *uringParams) (err error) {
	const needed = uringFeatSingleMmap | uringFeatNoDrop | uringFeatCQESkip
	if p.features&needed != needed {
		return errors.New("io_uring of this kernel is too old")
	}
	size := max(int(p.sq.array+p.sqEntries*4), int(p.cq.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(uringResult{})))
	if u.ring, err = unix.Mmap(u.fd, uringOffRing, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	size = int(p.sqEntries) * int(unsafe.Sizeof(uringEntry{}))
	if u.memory, err = unix.Mmap(u.fd, uringOffEntries, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.ring[offset])) }
	u.sqTail, u.cqHead, u.cqTail = at(p.sq.tail), at(p.cq.head), at(p.cq.tail)
	u.mask, u.resMask = *at(p.sq.mask), *at(p.cq.mask)
	u.entries = unsafe.Slice((*uringEntry)(unsafe.Pointer(&u.memory[0])), p.sqEntries)
	u.results = unsafe.Slice((*uringResult)(unsafe.Pointer(&u.ring[p.cq.cqes])), p.cqEntries)
	// The indirection between queue and entries is the identity, for good.
	array := unsafe.Slice(at(p.sq.array), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	return nil
}

// tryUring makes a ring and looks for the outcomes that the loops rely on: nothing to
// read is an error, a send of which less is taken says how much, and all that
// comes to its end at once.
func tryUring() error {
	u, err := openUring()
	if err != nil {
		return err
	}
	defer u.close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	empty := []transfer{{fd: int32(pair[1]), buf: make([]byte, 1)}}
	small := []transfer{{fd: int32(pair[0]), buf: []byte{'x'}}}
	flood := []transfer{{fd: int32(pair[0]), buf: make([]byte, 8<<20)}}
	u.run(uringOpRecv, unix.MSG_DONTWAIT, empty)
	first := empty[0].errno
	u.run(uringOpSend, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, small)
	u.run(uringOpRecv, unix.MSG_DONTWAIT, empty)
	u.run(uringOpSend, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, flood)
	e, f, n := &empty[0], &flood[0], len(flood[0].buf)
	switch {
	case u.fault != nil:
		return u.fault
	case first != unix.EAGAIN || small[0].n != 1 || small[0].errno != 0 || e.n != 1 || e.errno != 0 || e.buf[0] != 'x' || f.n < 1 || f.n >= n || f.errno != 0:
		return fmt.Errorf("io_uring does not work: bytes did not come through: %v, %d, %v, %d, %v", first, e.n, e.errno, f.n, f.errno)
	}
	return nil
}

func (u *uringIO) receive(ts []transfer) {
	if len(ts) <= plainUpTo || u.fault != nil {
		plainIO{}.receive(ts)
		return
	}
	u.run(uringOpRecv, unix.MSG_DONTWAIT, ts)
}

func (u *uringIO) send(ts []transfer) {
	if len(ts) <= plainUpTo || u.fault != nil {
		plainIO{}.send(ts)
		return
	}
	u.run(uringOpSend, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, ts)
}

// run submits a batch and waits for all of its results. The buffers stay where
// they are meanwhile: ts refers to them, and the collector moves nothing that is
// on the heap. A send has a result only if not all of it was taken: with
// MSG_WAITALL less counts as a failure.
func (u *uringIO) run(op uint8, flags uint32, ts []transfer) {
	tail, sends := *u.sqTail, op == uringOpSend
	skip, due, wait := uint8(0), len(ts), uintptr(uringEnterGetEvents)
	if sends {
		skip, due, wait, flags = uringSkipSuccess, 0, 0, flags|unix.MSG_WAITALL
	}
	for i := range ts {
		t := &ts[i]
		if t.n, t.errno = 0, unix.EAGAIN; sends {
			t.n, t.errno = len(t.buf), 0
		}
		u.entries[(tail+uint32(i))&u.mask] = uringEntry{op: op, flags: skip, fd: t.fd, addr: uint64(uintptr(unsafe.Pointer(&t.buf[0]))),
			length: uint32(len(t.buf)), opFlags: flags, user: uint64(i)}
	}
	atomic.StoreUint32(u.sqTail, tail+uint32(len(ts)))
	for submitted := 0; submitted < len(ts) || due > 0; {
		n, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(len(ts)-submitted),
			uintptr(max(due, 0)), wait, 0, 0)
		switch errno {
		case 0:
			submitted += int(n)
		case unix.EINTR, unix.EAGAIN, unix.EBUSY: // again
		default:
			// Nothing but a defect leads here. What was submitted has completed
			// at once or never will; sockets of this ring are left to plain calls.
			u.fault = os.NewSyscallError("io_uring_enter", errno)
			for i := submitted; i < len(ts); i++ {
				ts[i].n, ts[i].errno = 0, unix.EAGAIN
			}
			return
		}
		due -= u.reap(ts)
	}
}

// reap takes the results that are there.
func (u *uringIO) reap(ts []transfer) (n int) {
	head, tail := *u.cqHead, atomic.LoadUint32(u.cqTail)
	for ; head != tail; head++ {
		r := &u.results[head&u.resMask]
		t := &ts[r.user]
		if t.errno = 0; r.res >= 0 {
			t.n = int(r.res)
		} else {
			t.errno = syscall.Errno(-r.res)
		}
		n++
	}
	atomic.StoreUint32(u.cqHead, head)
	return n
}

func (u *uringIO) close() {
	if u.ring != nil {
		unix.Munmap(u.ring)
	}
	if u.memory != nil {
		unix.Munmap(u.memory)
	}
	unix.Close(u.fd)
	u.fd = -1
}
