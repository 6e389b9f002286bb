package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// keepAliveSeconds is when a silent connection is probed, and how often, as the
// net package does for those that it accepts.
const keepAliveSeconds = 15

// rawArrival is an accepted TCP connection as a non-blocking descriptor that the
// runtime's poller does not know: each packet would wake that one too.
type rawArrival struct {
	fd            int
	remote, local net.Addr
}

func (a *rawArrival) RemoteAddr() net.Addr { return a.remote }
func (a *rawArrival) LocalAddr() net.Addr  { return a.local }
func (a *rawArrival) Close() error         { return unix.Close(a.fd) }

// conn gives the connection to the net package.
func (a *rawArrival) conn() (net.Conn, error) {
	f := os.NewFile(uintptr(a.fd), "session")
	defer f.Close() // FileConn duplicates the descriptor
	return net.FileConn(f)
}

// rawListener accepts rawArrivals, which inherit the options of its socket.
type rawListener struct {
	*net.TCPListener
	file *os.File // the same socket, without what the net package adds
	raw  syscall.RawConn
	last *net.TCPAddr // local address of the last connection; most have the same
}

// openRaw takes over a listener; if it fails, ln is as before.
func openRaw(ln *net.TCPListener) (_ *rawListener, err error) {
	l := &rawListener{TCPListener: ln}
	if l.file, err = ln.File(); err != nil {
		return nil, err
	}
	if l.raw, err = l.file.SyscallConn(); err == nil {
		fault := l.raw.Control(func(fd uintptr) { err = inherit(int(fd)) })
		err = errors.Join(fault, err)
	}
	if err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// inherit sets the options that accepted connections should have.
func inherit(fd int) (err error) {
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveSeconds},
	} {
		if e := unix.SetsockoptInt(fd, o.level, o.name, o.value); e != nil {
			err = errors.Join(err, fmt.Errorf("socket option %d: %w", o.name, e))
		}
	}
	return err
}

// release gives the listener back.
func (l *rawListener) release() error { return l.file.Close() }

// Close ends next.
func (l *rawListener) Close() error { return errors.Join(l.TCPListener.Close(), l.file.Close()) }

// next waits for a connection.
func (l *rawListener) next() (arrival, error) {
	fd, sa, err := -1, unix.Sockaddr(nil), error(nil)
	fault := l.raw.Read(func(lfd uintptr) bool {
		for {
			fd, sa, err = unix.Accept4(int(lfd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if err != unix.EINTR && err != unix.ECONNABORTED {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case errors.Is(fault, os.ErrClosed):
		return nil, net.ErrClosed
	case fault != nil:
		return nil, fault
	case err != nil:
		return nil, os.NewSyscallError("accept4", err)
	}
	here, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("getsockname", err)
	}
	local := tcpAddr(here)
	if l.last == nil || l.last.Port != local.Port || l.last.Zone != local.Zone || !slices.Equal(l.last.IP, local.IP) {
		l.last = local
	}
	return &rawArrival{fd: fd, remote: tcpAddr(sa), local: l.last}, nil
}

// tcpAddr is the net package's form of an address.
func tcpAddr(sa unix.Sockaddr) *net.TCPAddr {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: append(net.IP(nil), a.Addr[:]...), Port: a.Port}
	case *unix.SockaddrInet6:
		t := &net.TCPAddr{IP: append(net.IP(nil), a.Addr[:]...), Port: a.Port}
		if a.ZoneId != 0 {
			t.Zone = fmt.Sprint(a.ZoneId)
			if i, err := net.InterfaceByIndex(int(a.ZoneId)); err == nil {
				t.Zone = i.Name
			}
		}
		return t
	}
	return &net.TCPAddr{}
}
