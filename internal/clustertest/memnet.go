package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// latency is how long bytes take on a MemNet, in virtual time.
const latency = 200 * time.Microsecond

// MemNet is a network inside the process. Every node has a name; pairs of nodes
// can be blocked (bytes wait, as in a black hole) or cut (connections reset).
type MemNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener // by address
	conns     map[*memConn]struct{}
	blocked   map[[2]string]bool
	changed   chan struct{} // closed and replaced when blocked changes

	rate atomic.Int64 // bytes per second of each connection and direction; 0: no limit
}

// NewMemNet makes an empty network.
func NewMemNet() *MemNet {
	return &MemNet{listeners: map[string]*memListener{}, conns: map[*memConn]struct{}{},
		blocked: map[[2]string]bool{}, changed: make(chan struct{})}
}

func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// Block makes bytes between two nodes wait, or lets them go on.
func (n *MemNet) Block(a, b string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked[pair(a, b)] = on
	close(n.changed)
	n.changed = make(chan struct{})
}

// Rate sets how many bytes per second each direction of a connection carries; 0: as
// many as there are.
func (n *MemNet) Rate(bytes int) { n.rate.Store(int64(bytes)) }

// carrying is how long a number of bytes is on its way.
func (n *MemNet) carrying(bytes int) time.Duration {
	d := latency
	if rate := n.rate.Load(); rate > 0 {
		d += time.Duration(int64(bytes) * int64(time.Second) / rate)
	}
	return d
}

// Cut resets the connections between two nodes; new ones may be opened.
func (n *MemNet) Cut(a, b string) {
	n.closeWhere(func(c *memConn) bool { return pair(c.from, c.to) == pair(a, b) })
}

// Drop lets the connections between two nodes go silent for good: what is written to
// them is lost, and nobody is told. New ones may be opened.
func (n *MemNet) Drop(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if pair(c.from, c.to) == pair(a, b) {
			c.lost.Store(true)
		}
	}
}

// Kill resets every connection of a node and refuses new ones.
func (n *MemNet) Kill(name string) {
	n.mu.Lock()
	var mine []*memListener
	for _, l := range n.listeners {
		if l.name == name {
			mine = append(mine, l)
		}
	}
	n.mu.Unlock()
	for _, l := range mine {
		l.shut()
	}
	n.closeWhere(func(c *memConn) bool { return c.from == name || c.to == name })
}

func (n *MemNet) closeWhere(match func(*memConn) bool) {
	n.mu.Lock()
	var hit []*memConn
	for c := range n.conns {
		if match(c) {
			hit = append(hit, c)
		}
	}
	n.mu.Unlock()
	for _, c := range hit {
		c.shut()
	}
}

// gate returns nil while bytes may pass, else a channel that closes when that
// may have changed.
func (n *MemNet) gate(a, b string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blocked[pair(a, b)] {
		return n.changed
	}
	return nil
}

// Listen opens the address of a node.
func (n *MemNet) Listen(name, addr string) net.Listener {
	l := &memListener{net: n, name: name, addr: addr, accept: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	n.listeners[addr] = l
	n.mu.Unlock()
	return l
}

// Dialer opens connections in the name of a node.
func (n *MemNet) Dialer(name string) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		n.mu.Lock()
		l := n.listeners[addr]
		n.mu.Unlock()
		refused := &net.OpError{Op: "dial", Net: "mem", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		if l == nil {
			return nil, refused
		}
		for gate := n.gate(name, l.name); gate != nil; gate = n.gate(name, l.name) {
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
			}
		}
		a, b := net.Pipe()
		client := &memConn{Conn: a, net: n, from: name, to: l.name, done: make(chan struct{})}
		server := &memConn{Conn: b, net: n, from: l.name, to: name, done: make(chan struct{})}
		n.mu.Lock()
		n.conns[client], n.conns[server] = struct{}{}, struct{}{}
		n.mu.Unlock()
		select {
		case l.accept <- server:
			return client, nil
		case <-l.done:
			client.shut()
			server.shut()
			return nil, refused
		case <-ctx.Done():
			client.shut()
			server.shut()
			return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
		}
	}
}

type memListener struct {
	net        *MemNet
	name, addr string
	accept     chan net.Conn
	once       sync.Once
	done       chan struct{}
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
	l.shut()
	return nil
}

// shut closes the listener.
func (l *memListener) shut() {
	l.once.Do(func() {
		close(l.done)
		l.net.mu.Lock()
		if l.net.listeners[l.addr] == l {
			delete(l.net.listeners, l.addr)
		}
		l.net.mu.Unlock()
	})
}

func (l *memListener) Addr() net.Addr { return memAddr(l.addr) }

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }

// memConn is one end of a pipe. Writes wait while the pair is blocked.
type memConn struct {
	net.Conn
	net      *MemNet
	from, to string
	once     sync.Once
	done     chan struct{}
	lost     atomic.Bool // see MemNet.Drop

	mu       sync.Mutex
	deadline time.Time // of writes
}

func (c *memConn) Write(b []byte) (int, error) {
	if err := c.pause(c.net.carrying(len(b)), nil); err != nil {
		return 0, err
	}
	for gate := c.net.gate(c.from, c.to); gate != nil; gate = c.net.gate(c.from, c.to) {
		if err := c.pause(0, gate); err != nil {
			return 0, err
		}
	}
	if c.lost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// pause waits for d, or until the gate moves, within the write deadline.
func (c *memConn) pause(d time.Duration, gate <-chan struct{}) error {
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	var wait, late <-chan time.Time
	if gate == nil {
		t := time.NewTimer(d)
		defer t.Stop()
		wait = t.C
	}
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-wait:
		return nil
	case <-gate:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	case <-c.done:
		return errors.Join(net.ErrClosed, syscall.ECONNRESET)
	}
}

func (c *memConn) SetDeadline(t time.Time) error {
	c.setWrite(t)
	return c.Conn.SetDeadline(t)
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.setWrite(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *memConn) setWrite(t time.Time) {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
}

func (c *memConn) Close() error {
	c.shut()
	return nil
}

// shut closes this end.
func (c *memConn) shut() {
	c.once.Do(func() {
		close(c.done)
		c.net.mu.Lock()
		delete(c.net.conns, c)
		c.net.mu.Unlock()
		// A closed pipe has nothing to report.
		_ = c.Conn.Close()
	})
}

func (c *memConn) RemoteAddr() net.Addr { return memAddr(c.to) }
func (c *memConn) LocalAddr() net.Addr  { return memAddr(c.from) }
