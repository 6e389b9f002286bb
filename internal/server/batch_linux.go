package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxBatch is how many connections a loop reads, executes and flushes together.
const maxBatch = 128

// transfer is one receive or send: buf goes in, the outcome comes out.
type transfer struct {
	c     *loopConn
	fd    int32
	buf   []byte        // not empty
	n     int           // bytes moved; a receive of 0 without errno is the end
	errno syscall.Errno // EAGAIN: nothing to do now
}

// batchIO moves the bytes of many connections by as few system calls as it can.
// No call blocks, and nothing is in flight when one returns. At most maxBatch
// transfers come at once.
type batchIO interface {
	receive([]transfer)
	send([]transfer)
	close()
}

// plainIO makes one system call for each transfer. The calls are raw: they never
// block, so telling the scheduler would be for nothing.
type plainIO struct{}

func (plainIO) receive(ts []transfer) {
	for i := range ts {
		plain(unix.SYS_RECVFROM, &ts[i], unix.MSG_DONTWAIT)
	}
}

func (plainIO) send(ts []transfer) {
	for i := range ts {
		plain(unix.SYS_SENDTO, &ts[i], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
}

func (plainIO) close() {}

func plain(call uintptr, t *transfer, flags uintptr) {
	for {
		n, _, errno := syscall.RawSyscall6(call, uintptr(t.fd), uintptr(unsafe.Pointer(&t.buf[0])), uintptr(len(t.buf)), flags, 0, 0)
		if errno != unix.EINTR {
			t.n, t.errno = 0, errno
			if errno == 0 {
				t.n = int(n)
			}
			return
		}
	}
}

// sendVector sends up to the whole of parts, which is not empty, by one call.
func sendVector(fd int32, parts []unix.Iovec) (int, syscall.Errno) {
	msg := unix.Msghdr{Iov: &parts[0]}
	msg.SetIovlen(len(parts))
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}
