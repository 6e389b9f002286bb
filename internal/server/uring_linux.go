package server

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What of io_uring's interface (linux/io_uring.h) is used here.
const (
	uringOpPoll   = 6
	uringOpCancel = 14
	uringOpSend   = 26
	uringOpRecv   = 27

	uringSetupCQSize       = 1 << 3
	uringSetupDisabled     = 1 << 6
	uringSetupSubmitAll    = 1 << 7
	uringSetupSingleIssuer = 1 << 12
	uringSetupDeferTaskrun = 1 << 13

	uringFeatSingleMmap = 1 << 0
	uringFeatNoDrop     = 1 << 1
	uringFeatExtArg     = 1 << 8

	uringEnterGetEvents = 1 << 0
	uringEnterExtArg    = 1 << 3

	uringRegisterEnable  = 12
	uringRegisterBuffers = 22

	uringSelectBuffer = 1 << 5 // flags of an entry
	uringSkipSuccess  = 1 << 6
	uringPollFirst    = 1 << 0 // ioprio of a receive
	uringPollMulti    = 1 << 0 // length of a poll
	uringHasBuffer    = 1 << 0 // flags of a result; the buffer's number is in the upper half
	uringHasMore      = 1 << 1

	uringOffRing    = 0
	uringOffEntries = 0x10000000
)

const (
	// ringEntries is how many requests may wait to be submitted: a send, a watch
	// and something more for each connection of a batch.
	ringEntries = 4 * maxBatch
	// ringResults is how many results fit without the kernel having to keep some.
	ringResults = 4096
	// ringBuffers is how many receives may have data at once; those beyond are
	// made again in the next turn. A power of two.
	ringBuffers = 256
	ringStride  = slotSize + slotShift
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
	group     uint16
	_         [11]uint16
}

// uringResult is an entry of the completion queue.
type uringResult struct {
	user  uint64
	res   int32
	flags uint32
}

// uringBuffer offers a buffer to the kernel. That of the first one holds the tail of
// their queue in its last field.
type uringBuffer struct {
	addr   uint64
	length uint32
	number uint16
	tail   uint16
}

// uringWait is what bounds a wait.
type uringWait struct {
	signals uint64
	size, _ uint32
	timeout uint64 // address of a unix.Timespec
}

// ring is an io_uring for one thread. Requests are collected and submitted by the
// call that waits. Sends carry MSG_DONTWAIT: each has come to its end when that
// call has submitted it, so what is in flight while a loop works are receives and
// polls only. Receives go to buffers of the ring's own memory, which the kernel
// picks when there is data: no memory of the Go heap is ever in its hands
// between two calls.
type ring struct {
	fd      int
	queues  []byte // both queues' heads and tails, and the results
	memory  []byte // the entries
	data    []byte // the buffers
	offers  []byte // the queue of those that are free
	entries []uringEntry
	results []uringResult
	free    []uringBuffer
	mask    uint32 // of entries
	resMask uint32
	sqTail  *uint32
	cqHead  *uint32
	cqTail  *uint32
	tail    uint32 // of the entries made
	queued  int    // entries that are not submitted
	offered uint16 // tail of free

	// On the heap with the ring, where the kernel may be told of them.
	wait    uringWait
	timeout unix.Timespec
}

// openRing makes a ring that its thread has to enable. Its error says why there is
// none: a kernel before 6.1, or one that does not allow it (sysctl
// io_uring_disabled, seccomp).
func openRing() (r *ring, err error) {
	p := uringParams{cqEntries: ringResults, flags: uringSetupCQSize | uringSetupDisabled | uringSetupSubmitAll |
		uringSetupSingleIssuer | uringSetupDeferTaskrun}
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, ringEntries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	r = &ring{fd: int(fd)}
	unix.CloseOnExec(r.fd)
	if err = r.mapQueues(&p); err == nil {
		err = r.offerBuffers()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ring) mapQueues(p *uringParams) (err error) {
	const needed = uringFeatSingleMmap | uringFeatNoDrop | uringFeatExtArg
	if p.features&needed != needed {
		return errors.New("io_uring of this kernel is too old")
	}
	size := max(int(p.sq.array+p.sqEntries*4), int(p.cq.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(uringResult{})))
	if r.queues, err = unix.Mmap(r.fd, uringOffRing, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	size = int(p.sqEntries) * int(unsafe.Sizeof(uringEntry{}))
	if r.memory, err = unix.Mmap(r.fd, uringOffEntries, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.queues[offset])) }
	r.sqTail, r.cqHead, r.cqTail = at(p.sq.tail), at(p.cq.head), at(p.cq.tail)
	r.mask, r.resMask = *at(p.sq.mask), *at(p.cq.mask)
	r.entries = unsafe.Slice((*uringEntry)(unsafe.Pointer(&r.memory[0])), p.sqEntries)
	r.results = unsafe.Slice((*uringResult)(unsafe.Pointer(&r.queues[p.cq.cqes])), p.cqEntries)
	// The indirection between queue and entries is the identity, for good.
	array := unsafe.Slice(at(p.sq.array), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	return nil
}

// offerBuffers makes the buffers of receives. Memory is taken when they are used.
func (r *ring) offerBuffers() (err error) {
	const prot, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if r.data, err = unix.Mmap(-1, 0, ringBuffers*ringStride, prot, private); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if r.offers, err = unix.Mmap(-1, 0, ringBuffers*int(unsafe.Sizeof(uringBuffer{})), prot, private|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.free = unsafe.Slice((*uringBuffer)(unsafe.Pointer(&r.offers[0])), ringBuffers)
	group := struct {
		addr    uint64
		entries uint32
		_       uint32
		_       [3]uint64
	}{addr: uint64(uintptr(unsafe.Pointer(&r.offers[0]))), entries: ringBuffers}
	if _, _, errno := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uringRegisterBuffers,
		uintptr(unsafe.Pointer(&group)), 1, 0, 0); errno != 0 {
		return os.NewSyscallError("io_uring_register", errno)
	}
	for i := range ringBuffers {
		r.giveBack(uint16(i))
	}
	return nil
}

// enable makes the calling thread the one that uses the ring.
func (r *ring) enable() error {
	if _, _, errno := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uringRegisterEnable, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("io_uring_register", errno)
	}
	return nil
}

// buffer is what a receive left in a buffer; it is valid until giveBack.
func (r *ring) buffer(number uint16, size int) []byte {
	at := int(number) * ringStride
	return r.data[at : at+size : at+slotSize]
}

// giveBack offers a buffer to the next receives.
func (r *ring) giveBack(number uint16) {
	b := &r.free[r.offered%ringBuffers]
	b.addr = uint64(uintptr(unsafe.Pointer(&r.data[int(number)*ringStride])))
	b.length = slotSize
	b.number = number
	r.offered++
	// Number and tail of the first are stored together: there is no store of 16 bits.
	first := (*uint32)(unsafe.Pointer(&r.free[0].number))
	atomic.StoreUint32(first, uint32(r.free[0].number)|uint32(r.offered)<<16)
}

// entry returns the next request, empty.
func (r *ring) entry() *uringEntry {
	for r.queued == len(r.entries) {
		r.enter(0, -1, false)
	}
	e := &r.entries[r.tail&r.mask]
	*e = uringEntry{}
	r.tail++
	r.queued++
	return e
}

// enter submits what is queued and waits for least results, at most for a time that
// is not negative. Unless it may block by the ordinary way, the scheduler is not
// told. An error (EINTR, ETIME) means that nothing was submitted; the results
// that are there may be fewer than least without one.
func (r *ring) enter(least int, timeout time.Duration, ordinary bool) syscall.Errno {
	atomic.StoreUint32(r.sqTail, r.tail)
	flags, arg, size := uintptr(uringEnterGetEvents), uintptr(0), uintptr(0)
	if least > 0 && timeout >= 0 {
		r.timeout = unix.NsecToTimespec(int64(timeout))
		r.wait.timeout = uint64(uintptr(unsafe.Pointer(&r.timeout)))
		flags, arg, size = flags|uringEnterExtArg, uintptr(unsafe.Pointer(&r.wait)), unsafe.Sizeof(r.wait)
	}
	call := syscall.RawSyscall6
	if ordinary {
		call = syscall.Syscall6
	}
	n, _, errno := call(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.queued), uintptr(least), flags, arg, size)
	if errno == 0 {
		r.queued -= int(n)
	}
	return errno
}

// submit hands over everything that is queued.
func (r *ring) submit() error {
	for r.queued > 0 {
		switch errno := r.enter(0, -1, false); errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.EBUSY: // the kernel lacks memory
			runtime.Gosched()
		default:
			return os.NewSyscallError("io_uring_enter", errno)
		}
	}
	return nil
}

// reap calls fn with each result that is there.
func (r *ring) reap(fn func(*uringResult)) {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	for ; head != tail; head++ {
		fn(&r.results[head&r.resMask])
	}
	atomic.StoreUint32(r.cqHead, head)
}

func (r *ring) close() {
	unix.Close(r.fd)
	r.fd = -1
	for _, b := range [][]byte{r.queues, r.memory, r.offers, r.data} {
		if b != nil {
			unix.Munmap(b)
		}
	}
}

// tryRing finds out whether rings do what the loops rely on: data arrives in a
// buffer, a send that is taken says nothing, and one that is not taken in full does.
func tryRing() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := openRing()
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.enable(); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	const receiving, sending, flooding = 1, 2, 3
	out := make([]byte, 4<<20)
	r.receive(int32(pair[1]), receiving)
	r.send(int32(pair[0]), out[:1], sending)
	r.send(int32(pair[0]), out, flooding)
	var got, took int32 = -1, -1
	quiet := true
	for range 10 {
		if errno := r.enter(2, 100*time.Millisecond, false); errno != 0 && errno != unix.EINTR && errno != unix.ETIME {
			return os.NewSyscallError("io_uring_enter", errno)
		}
		r.reap(func(res *uringResult) {
			switch res.user {
			case receiving:
				if res.flags&uringHasBuffer != 0 {
					got = res.res
				}
			case sending:
				quiet = false
			case flooding:
				took = res.res
			}
		})
		if got > 0 && took >= 0 {
			break
		}
	}
	if got < 1 || took < 1 || int(took) >= len(out) || !quiet {
		return fmt.Errorf("io_uring does not work: bytes did not come through: %d, %d, %t", got, took, quiet)
	}
	return nil
}

// receive asks for the next data of a socket, in a buffer of the ring, when there
// is some.
func (r *ring) receive(fd int32, user uint64) {
	e := r.entry()
	e.op, e.fd, e.user = uringOpRecv, fd, user
	e.flags, e.ioprio = uringSelectBuffer, uringPollFirst
}

// send sends what the socket takes at once. There is a result only if that is not
// all of buf: with MSG_WAITALL, less counts as a failure.
func (r *ring) send(fd int32, buf []byte, user uint64) {
	e := r.entry()
	e.op, e.fd, e.user, e.flags = uringOpSend, fd, user, uringSkipSuccess
	e.addr, e.length = uint64(uintptr(unsafe.Pointer(&buf[0]))), uint32(len(buf))
	e.opFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL | unix.MSG_WAITALL
}

// poll asks for one of the events of a descriptor, or with multi for all that follow.
func (r *ring) poll(fd int32, events uint32, multi bool, user uint64) {
	e := r.entry()
	e.op, e.fd, e.user, e.opFlags = uringOpPoll, fd, user, events
	if multi {
		e.length = uringPollMulti
	}
}

// cancel ends a request that waits. Its result comes all the same.
func (r *ring) cancel(user uint64) {
	e := r.entry()
	e.op, e.fd, e.flags, e.addr, e.user = uringOpCancel, -1, uringSkipSuccess, user, ringCancels
}
