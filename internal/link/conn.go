package link

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// asking goes in front of a request that follows an ASK redirect.
const asking = "*1\r\n$6\r\nASKING\r\n"

// Conn is one pipelined connection. Requests of concurrent callers share it;
// replies come back in order. A request on an idle connection is written by its
// caller, without blocking; under concurrency one writer goroutine batches. A
// caller that leaves costs nothing but its reply, which is dropped in its turn.
//
// A Conn never reconnects: once broken it stays broken (see Peers and Router).
type Conn struct {
	addr   string
	o      *Options
	nc     net.Conn
	direct *direct // nil where a write could block
	rd     reader  // used by the handshake, then by the reader goroutine alone
	calls  *callPool
	hello  resp.Value
	peerID topology.NodeID
	peer   resp.Value

	wake   chan struct{} // capacity 1: the writer has work
	dead   chan struct{} // closed when the connection broke
	gone   chan struct{} // closed when all goroutines of the connection ended
	onGone func(*Conn)
	broken atomic.Bool // the fast form of err != nil
	born   time.Time
	heard  atomic.Int64 // ns from born to the last byte that came
	mute   atomic.Bool  // nothing has come since the node was taken for silent
	live   atomic.Int32 // goroutines, the armed watchdog included
	lost   atomic.Uint64

	mu      sync.Mutex
	pend    callQueue // requests given to the connection, in order
	out     []byte    // bytes not yet given to the socket
	spare   []byte    // the buffer to swap out with
	busy    bool      // somebody writes and will look at out again
	armed   bool      // the watchdog runs
	retired bool      // break when the last reply is in
	err     *Error    // why it broke
	watch   *time.Timer
}

// Dial opens and authenticates a connection to addr ("host:port"). ctx and
// Options.DialTimeout bound it, whichever is earlier. Close ends it.
func Dial(ctx context.Context, addr string, o Options) (*Conn, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c, err := dial(ctx, addr, &o, &callPool{}, nil)
	if err != nil {
		return nil, dialError(addr, err)
	}
	return c, nil
}

// start begins the goroutines of a connection whose handshake is done.
func (c *Conn) start() {
	c.watch = time.AfterFunc(time.Hour, c.checkStall)
	c.watch.Stop()
	c.born, c.rd.heard = time.Now(), c.hear
	c.live.Store(2)
	go c.readLoop()  // ends when the socket is closed
	go c.writeLoop() // ends when dead is closed
}

// exit accounts for one goroutine that ended.
func (c *Conn) exit() {
	if c.live.Add(-1) == 0 {
		close(c.gone)
		if c.onGone != nil {
			c.onGone(c)
		}
	}
}

// Addr returns the address that was dialled.
func (c *Conn) Addr() string { return c.addr }

// Hello returns the server's reply to HELLO; Null if it had none.
func (c *Conn) Hello() resp.Value { return c.hello }

// PeerID returns the proven ID of the node at the other end of a peer link.
func (c *Conn) PeerID() topology.NodeID { return c.peerID }

// PeerInfo returns the reply to RC.AUTH on a peer link: a map, in its RESP2 form
// (an array of key, value, ...).
func (c *Conn) PeerInfo() resp.Value { return c.peer }

// Err returns why the connection broke, nil while it works.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// Close breaks the connection, fails what is pending with ErrClosed and waits
// for its goroutines.
func (c *Conn) Close() error {
	c.fail(errs.ErrClosed)
	<-c.gone
	return nil
}

// Do sends one encoded request and returns its reply, owned by the caller. An
// error reply is a Value of kind Error, not an error. The deadline is that of
// ctx; without one, an unanswered request fails when it breaks the connection,
// after Options.StallAfter. Commands that change how replies arrive (SUBSCRIBE,
// MONITOR, blocking commands, MULTI) must not be sent.
func (c *Conn) Do(ctx context.Context, req []byte) (resp.Value, error) {
	if ctx.Err() != nil {
		return resp.Value{}, endError(ctx, c.addr, false)
	}
	until, _ := ctx.Deadline()
	return c.roundTrip(ctx, req, until, time.Now(), false)
}

func (c *Conn) roundTrip(ctx context.Context, req []byte, until, now time.Time, ask bool) (resp.Value, error) {
	cl := c.calls.get()
	if err := c.send(cl, req, until, now, ask); err != nil {
		cl.release()
		return resp.Value{}, err
	}
	if !cl.wait(ctx, until) && cl.abandon() {
		c.lost.Add(1)
		return resp.Value{}, endError(ctx, c.addr, true)
	}
	return cl.take()
}

// send gives one request to the connection. After an error nothing was sent and
// the call is still the caller's; after nil the caller waits for the call.
func (c *Conn) send(cl *call, req []byte, until, now time.Time, ask bool) error {
	cl.sent, cl.breakAt = now, c.breakAt(until, now)
	c.mu.Lock()
	if err := c.refuse(1, len(req)); err != nil {
		c.mu.Unlock()
		return err
	}
	idle := c.pend.n == 0
	c.pend.push(cl)
	c.arm(cl.breakAt, now)
	if idle && !c.busy && !ask && c.direct != nil {
		c.busy = true
		c.mu.Unlock()
		c.writeDirect(req)
		return nil
	}
	if ask {
		cl.skip = 1
		c.out = append(c.out, asking...)
	}
	c.out = append(c.out, req...)
	c.wakeWriter()
	return nil
}

// sendAll is send for a pipeline: all of it or nothing.
func (c *Conn) sendAll(cls []*call, reqs [][]byte, size int, until, now time.Time) error {
	breakAt := c.breakAt(until, now)
	c.mu.Lock()
	if err := c.refuse(len(cls), size); err != nil {
		c.mu.Unlock()
		return err
	}
	for i, cl := range cls {
		cl.sent, cl.breakAt = now, breakAt
		c.pend.push(cl)
		c.out = append(c.out, reqs[i]...)
	}
	c.arm(breakAt, now)
	c.wakeWriter()
	return nil
}

// breakAt gives the time at which a call without a reply breaks the connection.
func (c *Conn) breakAt(until, now time.Time) time.Time {
	at := now.Add(c.o.StallAfter)
	if until.After(at) {
		return until
	}
	return at
}

// hear notes that something came.
func (c *Conn) hear() {
	c.heard.Store(int64(time.Since(c.born)))
	if c.mute.Load() {
		c.mute.Store(false)
	}
}

// silentFor is for how long requests have waited without a byte from the node.
func (c *Conn) silentFor(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.pend.n == 0 {
		return 0
	}
	since := max(c.pend.front().sent.Sub(c.born), time.Duration(c.heard.Load()))
	return now.Sub(c.born) - since
}

// refuse says why the connection takes no further requests now. The caller
// holds mu.
func (c *Conn) refuse(n, size int) error {
	switch {
	case c.err != nil:
		k := kindRetired
		if c.err.kind == kindClosed {
			k = kindClosed
		}
		return &Error{Addr: c.addr, Err: c.err.Err, kind: k}
	case c.retired:
		return &Error{Addr: c.addr, Err: errRetired, kind: kindRetired}
	case c.pend.n+n > c.o.MaxInFlight:
		return &Error{Addr: c.addr, Err: errInFlight, kind: kindShed}
	case len(c.out) > 0 && len(c.out)+size > c.o.MaxQueued:
		return &Error{Addr: c.addr, Err: errQueueFull, kind: kindShed}
	}
	return nil
}

// wakeWriter releases mu and makes sure that the writer looks at out.
func (c *Conn) wakeWriter() {
	wake := !c.busy
	c.busy = true
	c.mu.Unlock()
	if wake {
		select {
		case c.wake <- struct{}{}:
		default: // woken already
		}
	}
}

// arm starts the watchdog if it does not run. The caller holds mu. The timer
// runs at most once per stall bound, not once per request.
func (c *Conn) arm(at, now time.Time) {
	if c.armed {
		return
	}
	c.armed = true
	c.live.Add(1)
	c.watch.Reset(at.Sub(now))
}

// checkStall is the watchdog, on a timer goroutine: it looks at the oldest call
// and runs again when that one would be due.
func (c *Conn) checkStall() {
	c.mu.Lock()
	if c.err == nil && c.pend.n > 0 {
		if d := time.Until(c.pend.front().breakAt); d > 0 {
			c.watch.Reset(d)
			c.mu.Unlock()
			return
		}
	}
	stalled := c.err == nil && c.pend.n > 0
	c.armed = false
	c.mu.Unlock()
	if stalled {
		c.fail(errStalled)
	}
	c.exit()
}

// retire lets the replies that are due come in and breaks the connection then.
func (c *Conn) retire() {
	c.mu.Lock()
	c.retired = true
	idle := c.pend.n == 0
	c.mu.Unlock()
	if idle {
		c.fail(errRetired)
	}
}

// fail breaks the connection once: everything pending fails with cause.
func (c *Conn) fail(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	k := kindBroken
	if errors.Is(cause, errs.ErrClosed) {
		k = kindClosed
	}
	failure := &Error{Addr: c.addr, Sent: true, Err: cause, kind: k}
	c.err = failure
	c.broken.Store(true)
	lost := c.pend
	c.pend = callQueue{}
	c.out, c.spare = nil, nil
	unarmed := c.armed && c.watch.Stop()
	if unarmed {
		c.armed = false
	}
	c.mu.Unlock()
	close(c.dead)
	c.nc.Close()
	for lost.n > 0 {
		lost.pop().finish(resp.Value{}, failure)
	}
	if unarmed {
		c.exit()
	}
}
