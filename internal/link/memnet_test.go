package link

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memNet is a network in memory: listeners by address, connections that
// testing/synctest counts as blocked while they wait.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	blackhole map[string]bool // dials hang until their context ends
	dials     map[string]int
}

func newMemNet() *memNet {
	return &memNet{listeners: map[string]*memListener{}, blackhole: map[string]bool{}, dials: map[string]int{}}
}

func (n *memNet) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l, hole := n.listeners[addr], n.blackhole[addr]
	n.dials[addr]++
	n.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	a, b := newHalf(), newHalf()
	here, there := &memConn{in: a, out: b}, &memConn{in: b, out: a}
	select {
	case l.accept <- there:
		return here, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *memNet) dialsTo(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

func (n *memNet) listen(addr string) net.Listener {
	l := &memListener{net: n, addr: addr, accept: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	n.listeners[addr] = l
	n.mu.Unlock()
	return l
}

type memListener struct {
	net    *memNet
	addr   string
	accept chan net.Conn
	done   chan struct{}
	close  sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.net.mu.Lock()
	delete(l.net.listeners, l.addr)
	l.net.mu.Unlock()
	l.close.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) Addr() net.Addr { return memAddr(l.addr) }

type memAddr string

func (a memAddr) Network() string { return "mem" }
func (a memAddr) String() string  { return string(a) }

// half is one direction of a connection: a byte queue.
type half struct {
	mu       sync.Mutex
	more     sync.Cond // data, space, closed or deadline
	buf      []byte
	limit    int // a writer waits while more than this is unread; 0 = no limit
	closed   bool
	deadline time.Time
	timer    *time.Timer
}

func newHalf() *half {
	h := &half{}
	h.more.L = &h.mu
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 {
		switch {
		case h.closed:
			return 0, io.EOF
		case !h.deadline.IsZero() && !time.Now().Before(h.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		h.more.Wait()
	}
	n := copy(p, h.buf)
	h.buf = h.buf[n:]
	h.more.Broadcast()
	return n, nil
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := 0
	for done < len(p) {
		room := len(p) - done
		if h.limit > 0 {
			room = min(room, h.limit-len(h.buf))
		}
		switch {
		case h.closed:
			return done, io.ErrClosedPipe
		case room <= 0:
			h.more.Wait()
			continue
		}
		h.buf = append(h.buf, p[done:done+room]...)
		done += room
		h.more.Broadcast()
	}
	return done, nil
}

func (h *half) close() {
	h.mu.Lock()
	h.closed = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	h.more.Broadcast()
}

func (h *half) setDeadline(t time.Time) {
	h.mu.Lock()
	h.deadline = t
	if h.timer != nil {
		h.timer.Stop()
	}
	if !t.IsZero() {
		h.timer = time.AfterFunc(time.Until(t), h.more.Broadcast)
	}
	h.mu.Unlock()
	h.more.Broadcast()
}

// memConn is one end. Only read deadlines are needed.
type memConn struct{ in, out *half }

func (c *memConn) Read(p []byte) (int, error)         { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error)        { return c.out.write(p) }
func (c *memConn) Close() error                       { c.in.close(); c.out.close(); return nil }
func (c *memConn) LocalAddr() net.Addr                { return memAddr("local") }
func (c *memConn) RemoteAddr() net.Addr               { return memAddr("remote") }
func (c *memConn) SetDeadline(t time.Time) error      { c.in.setDeadline(t); return nil }
func (c *memConn) SetReadDeadline(t time.Time) error  { c.in.setDeadline(t); return nil }
func (c *memConn) SetWriteDeadline(t time.Time) error { return nil }
