//go:build unix

package link

import (
	"net"
	"syscall"
)

// direct writes to a socket without ever waiting for it: the deadline of a call
// must not depend on the peer's reading. One caller at a time uses it.
type direct struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // made once, so that writing allocates nothing
	buf []byte
	n   int
	err error
}

// newDirect returns nil for connections that are no plain sockets (TLS, pipes):
// those are left to the writer goroutine.
func newDirect(nc net.Conn) *direct {
	var raw syscall.RawConn
	var err error
	switch s := nc.(type) {
	case *net.TCPConn:
		raw, err = s.SyscallConn()
	case *net.UnixConn:
		raw, err = s.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	d := &direct{raw: raw}
	d.try = func(fd uintptr) bool {
		for {
			d.n, d.err = syscall.Write(int(fd), d.buf)
			if d.err != syscall.EINTR {
				return true
			}
		}
	}
	return d
}

// write returns how much the socket took at once, which may be nothing.
func (d *direct) write(b []byte) (int, error) {
	d.buf = b
	err := d.raw.Write(d.try)
	n, werr := d.n, d.err
	d.buf, d.n, d.err = nil, 0, nil
	switch {
	case err != nil:
		return 0, err
	case werr == syscall.EAGAIN:
		return 0, nil
	case werr != nil:
		return 0, werr
	}
	return n, nil
}
