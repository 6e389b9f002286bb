package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	getForm = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n"
	setForm = "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n"
	turn    = 512 // connections that one wait reports
)

// generator drives all connections of one server on one thread: one wait finds
// those with replies, and each gets its next batch at once. It costs less than
// a server, so that a server of one processor never waits for it for long.
type generator struct {
	load  load
	poll  int
	conns []*client
	value string
	rnd   *rand.Rand
	in    [64 << 10]byte
	ready [turn]syscall.EpollEvent
}

// client is one connection.
type client struct {
	fd   int
	out  []byte // the batch; out[sent:] is not sent yet
	sent int
	owed int    // replies that are missing
	skip int    // bytes of a value, with its CR LF, that are missing
	line []byte // beginning of a line that came in parts
}

func openGenerator(l load) (*generator, error) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	value := "$" + strconv.Itoa(l.size) + "\r\n" + string(bytes.Repeat([]byte{'v'}, l.size)) + "\r\n"
	return &generator{load: l, poll: poll, value: value, rnd: rand.New(rand.NewPCG(1, 1))}, nil
}

// dial adds a connection to addr, which is IPv4.
func (g *generator) dial(addr string) error {
	to, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	sa := &syscall.SockaddrInet4{Port: to.Port}
	copy(sa.Addr[:], to.IP.To4())
	if err = syscall.Connect(fd, sa); err == nil {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err == nil {
		e := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(len(g.conns))}
		err = syscall.EpollCtl(g.poll, syscall.EPOLL_CTL_ADD, fd, &e)
	}
	if err != nil {
		syscall.Close(fd)
		return err
	}
	g.conns = append(g.conns, &client{fd: fd})
	return nil
}

func (g *generator) close() {
	for _, c := range g.conns {
		syscall.Close(c.fd)
	}
	syscall.Close(g.poll)
}

// preload stores every key.
func (g *generator) preload() error {
	const batch = 100
	c := g.conns[0]
	for k := 0; k < g.load.keys; k += batch {
		c.out, c.sent = c.out[:0], 0
		c.owed = min(batch, g.load.keys-k)
		for i := range c.owed {
			g.set(c, k+i)
		}
		if err := g.exchange(c); err != nil {
			return err
		}
	}
	return nil
}

func (g *generator) exchange(c *client) error {
	if err := c.send(); err != nil {
		return err
	}
	for c.owed > 0 {
		if err := g.wait(func(*client) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// run keeps every connection busy until the end, and returns how many requests were
// answered, when all are.
func (g *generator) run(end time.Time) (n int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	busy := 0
	next := func(c *client) error {
		n += g.load.pipeline
		if !time.Now().Before(end) {
			busy--
			return nil
		}
		return g.batch(c)
	}
	for _, c := range g.conns {
		if err := g.batch(c); err != nil {
			return 0, err
		}
		busy++
	}
	for busy > 0 {
		if err := g.wait(next); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// batch sends the next requests of a connection.
func (g *generator) batch(c *client) error {
	c.out, c.sent, c.owed = c.out[:0], 0, g.load.pipeline
	for range c.owed {
		r := g.rnd.Uint64()
		key := int(r >> 32 * uint64(g.load.keys) >> 32)
		if int(r&0xffffffff*100>>32) < g.load.reads {
			c.out = append(c.out, getForm...)
			number(c.out[:len(c.out)-2], key)
		} else {
			g.set(c, key)
		}
	}
	return c.send()
}

func (g *generator) set(c *client, key int) {
	c.out = append(c.out, setForm...)
	number(c.out[:len(c.out)-2], key)
	c.out = append(c.out, g.value...)
}

// number writes the digits of key to the end of b.
func number(b []byte, key int) {
	for i := len(b) - 1; key > 0; i-- {
		b[i] = byte('0' + key%10)
		key /= 10
	}
}

func (c *client) send() error {
	for c.sent < len(c.out) {
		b := c.out[c.sent:]
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			c.sent += int(n)
		case syscall.EINTR:
		default:
			return os.NewSyscallError("sendto", errno)
		}
	}
	return nil
}

// wait waits for replies, reads them, and calls done for each connection that has all
// of its batch. The waiting is a raw call: giving the processor back to the runtime
// around each would cost more than a request.
func (g *generator) wait(done func(*client) error) error {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(g.poll), uintptr(unsafe.Pointer(&g.ready)), turn,
		uintptr(requestWait.Milliseconds()), 0, 0)
	switch {
	case errno == syscall.EINTR:
		runtime.Gosched()
		return nil
	case errno != 0:
		return os.NewSyscallError("epoll_pwait", errno)
	case n == 0:
		return fmt.Errorf("no reply within %s", requestWait)
	}
	for i := range g.ready[:n] {
		c := g.conns[g.ready[i].Fd]
		if err := g.read(c); err != nil {
			return err
		}
		if c.owed == 0 {
			if err := done(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *generator) read(c *client) error {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&g.in)), uintptr(len(g.in)),
		syscall.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return nil
	case errno != 0:
		return os.NewSyscallError("recvfrom", errno)
	case n == 0:
		return fmt.Errorf("the server closed a connection")
	}
	return c.replies(g.in[:n])
}

// replies counts the replies in b. An error, or a key that is not there, fails the
// run: the servers would not be doing the same work.
func (c *client) replies(b []byte) error {
	for len(b) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(b))
			b = b[n:]
			if c.skip -= n; c.skip == 0 {
				c.owed--
			}
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			c.line = append(c.line, b...)
			return nil
		}
		line := b[:end+1]
		b = b[end+1:]
		if len(c.line) > 0 {
			line = append(c.line, line...)
			c.line = c.line[:0]
		}
		switch {
		case line[0] == '+':
			c.owed--
		case line[0] == '$' && len(line) > 3 && line[1] != '-':
			size := 0
			for _, d := range line[1 : len(line)-2] {
				size = 10*size + int(d-'0')
			}
			c.skip = size + 2
		default:
			return fmt.Errorf("reply %.200q", line)
		}
	}
	if c.owed < 0 {
		return fmt.Errorf("%d replies too many", -c.owed)
	}
	return nil
}
