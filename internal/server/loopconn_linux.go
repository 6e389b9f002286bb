package server

import (
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connState says what a connection of a loop is doing.
type connState uint8

const (
	serving   connState = iota
	finishing           // executes nothing more, ends when its replies are sent
	lingering           // has shut down its side, drops what still comes
	over
)

// loopConn is the transport of a session on a loop. While the session has nothing
// at hand it owns no buffer: it is read into one of the loop's, and its replies
// are made in one of the pool's. Except where a comment says otherwise,
// everything belongs to the loop's goroutine.
//
// While it is away, a goroutine of its own drives the session, which owns the
// session and the buffers; the loop keeps the connection and its queue.
type loopConn struct {
	buffers
	l *loop

	fd         int32 // -1 when it is closed
	token      int32 // position in loop.conns
	generation int32 // tells it from those that had the token before
	watched    uint32
	window     uint32 // of crowd, in which it had requests
	state      connState
	away       bool
	silent     bool // the client sends nothing more: end without lingering
	hasRest    bool // in holds commands that were not executed yet
	inMore     bool
	inDirty    bool
	timed      bool

	taken   int     // bytes of in that were consumed before it went away
	used    int     // and by its goroutine since; otherwise what the last turn needed of in
	verdict verdict // of its goroutine

	queue   []chunk // replies that the client did not take yet
	waiting int     // bytes of it
	slice   int     // bytes that the client has to take until the deadline
	until   time.Time
	// until is when the client must have taken a slice of the queue, or when
	// lingering ends.
	idleUntil time.Time // when buffers are given back

	waits     atomic.Int64 // waiting, for other goroutines
	disturbed atomic.Bool  // a message about the stop flag is on its way
	nudged    atomic.Bool  // the same about the outbox
}

// transport makes the transport of a session. What it returns hands it to the
// loop.
func (l *loop) transport(s *Session, a *rawArrival) func() {
	c := &loopConn{buffers: buffers{srv: l.srv, s: s}, l: l, fd: int32(a.fd)}
	s.transport = c
	return func() {
		l.load.Add(1)
		l.post(c, arrived)
	}
}

func (c *loopConn) interrupt(bool) {
	if !c.disturbed.Swap(true) {
		c.l.post(c, disturbed)
	}
}

func (c *loopConn) nudge() {
	if !c.nudged.Swap(true) {
		c.l.post(c, nudged)
	}
}

// deliver sends the messages that were pushed to a session that has nothing to
// do here. One that is away takes them itself, or does when it is back.
func (c *loopConn) deliver() {
	if c.fd < 0 || c.away || c.state != serving || !c.s.pushed() {
		return
	}
	c.takePushes()
	c.reply()
}

// takePushes is that of the session, with a buffer to put them into.
func (c *loopConn) takePushes() {
	if cap(c.s.w.Buf) == 0 {
		c.s.w.Buf = c.l.pool.get(poolMedium)
		c.s.paid = cap(c.s.w.Buf)
	}
	c.s.takePushes()
}

func (c *loopConn) queued() int { return int(c.waits.Load()) }

// begin starts to serve.
func (c *loopConn) begin() {
	l := c.l
	if n := len(l.vacant); n > 0 {
		c.token = l.vacant[n-1]
		l.vacant = l.vacant[:n-1]
	} else {
		c.token = int32(len(l.conns))
		l.conns = append(l.conns, nil)
	}
	l.conns[c.token] = c
	c.generation = int32(c.s.id)
	c.watched = unix.EPOLLIN
	if err := l.poller.control(unix.EPOLL_CTL_ADD, int(c.fd), c.watched, c.token, c.generation); err != nil {
		l.srv.log.Warn("session closed: the loop cannot watch it", "session", c.s.id, "err", err)
		c.cut()
		return
	}
	l.watch(c)
	c.heed()
}

// readable tells whether the loop should read: the session executes what comes,
// or the connection lingers.
func (c *loopConn) readable() bool {
	switch c.state {
	case serving:
		return !c.away && !c.hasRest && c.mayAdd()
	case lingering:
		return true
	}
	return false
}

// mayAdd tells whether so few replies wait that the session may make more.
func (c *loopConn) mayAdd() bool { return c.waiting == 0 || c.waiting <= c.maxWaiting() }

// interest tells the kernel what the loop waits for.
func (c *loopConn) interest() {
	var want uint32
	if c.readable() {
		want = unix.EPOLLIN
	}
	if c.waiting > 0 {
		want |= unix.EPOLLOUT
	}
	if want == c.watched || c.fd < 0 {
		return
	}
	c.watched = want
	if err := c.l.poller.control(unix.EPOLL_CTL_MOD, int(c.fd), want, c.token, c.generation); err != nil {
		c.l.srv.log.Warn("session closed: the loop cannot watch it", "session", c.s.id, "err", err)
		c.cut()
	}
}

// room returns where to read to: the i-th buffer of the loop unless the session
// has one; nil if it cannot read, and is ending.
func (c *loopConn) room(i int) []byte {
	if len(c.in) == 0 || c.state == lingering {
		return c.l.slot(i)
	}
	if !c.grow() && !c.drop() {
		c.s.closing = true
		c.finish()
		c.reply()
		return nil
	}
	return c.in[c.filled:min(len(c.in), c.filled+maxRead)]
}

// received executes what was read; i is the place of t in its batch.
func (c *loopConn) received(t *transfer, i int) {
	switch {
	case t.errno == unix.EAGAIN:
		return
	case t.errno != 0:
		c.cut()
		return
	case t.n == 0:
		c.silent = true
		if c.state == serving {
			c.finish()
		} else {
			c.cut()
		}
		return
	case c.state == lingering:
		if c.slice -= t.n; c.slice <= 0 {
			c.cut()
		}
		return
	case len(c.in) > 0:
		c.filled += t.n
		c.execute(c.in[:c.filled], -1)
		return
	}
	c.execute(t.buf[:t.n], i)
}

// execute lets the session execute data, which is in[:filled] or, if slot is not
// negative, in that buffer of the loop.
func (c *loopConn) execute(data []byte, slot int) {
	s := c.s
	s.pending.Store(int64(len(data)))
	if cap(s.w.Buf) == 0 {
		s.w.Buf = c.l.pool.get(poolMedium)
		s.paid = cap(s.w.Buf)
	}
	s.parser.Lend(&c.l.lists)
	n, v := s.turn(data)
	c.settle(data, n, v, slot)
}

// settle does what follows a turn that consumed n bytes of data.
func (c *loopConn) settle(data []byte, n int, v verdict, slot int) {
	switch {
	case v == handOff:
		if slot >= 0 { // the command's arguments are in it
			c.in, c.filled = data[:cap(data)], len(data)
			c.l.slots[slot] = nil
		}
		c.taken, c.away = n, true
		c.l.leaving = append(c.l.leaving, c)
		c.reply()
		return
	case v == endSession:
		n = len(data)
		c.finish()
	}
	c.s.parser.Return(&c.l.lists)
	c.used = len(data)
	rest := data[n:]
	switch {
	case slot < 0:
		c.filled = copy(c.in, rest)
	case len(rest) > 0:
		in := c.l.pool.get(len(rest))
		c.in = in[:cap(in)]
		c.filled = copy(c.in, rest)
	}
	c.hasRest = v == runAgain
	if c.hasRest && !c.inMore {
		c.inMore = true
		c.l.more = append(c.l.more, c)
	}
	if !c.hasRest && c.state == serving && c.s.stop.Load() == stopDrain {
		c.finish()
	}
	c.reply()
}

// reply lets the replies in s.w.Buf be flushed with those of others.
func (c *loopConn) reply() {
	if len(c.s.w.Buf) == 0 {
		c.rest()
		return
	}
	if !c.inDirty {
		c.inDirty = true
		c.l.dirty = append(c.l.dirty, c)
	}
}

// rest gives back what the session needs no more once its replies are sent or
// wait, and goes on to end it if that is due.
func (c *loopConn) rest() {
	if c.fd < 0 {
		return
	}
	if cap(c.s.w.Buf) > 0 && !c.s.tight {
		c.l.pool.put(c.s.w.Buf)
		c.s.w.Buf = nil
	}
	if c.away {
		c.s.w.Buf, c.s.tight = nil, false
		c.book(true)
		return
	}
	if c.s.parser.Need() > 0 && c.filled == 0 {
		c.lists, c.s.most = 0, 0 // they are the loop's again
	}
	if len(c.in) > 0 || c.own > 0 || c.lists > 0 || c.s.tight || c.s.most > keepArgs {
		c.relax(c.used)
		c.giveBack()
		c.idleUntil = c.l.now.Add(idleAfter)
	}
	if c.state == finishing && c.waiting == 0 {
		c.linger()
		return
	}
	if c.watched&unix.EPOLLIN == 0 {
		c.interest()
	}
	c.l.watch(c)
}

// giveBack returns a small read buffer without anything in it.
func (c *loopConn) giveBack() {
	if c.filled > 0 || len(c.in) == 0 || len(c.in) > readSize {
		return
	}
	c.l.pool.put(c.in)
	c.in = nil
	c.book(true)
}

// goOn executes what an earlier turn left over, unless too many replies wait.
func (c *loopConn) goOn() {
	if c.fd < 0 || c.state != serving || c.away || !c.hasRest || !c.mayAdd() {
		return
	}
	c.hasRest = false
	c.execute(c.in[:c.filled], -1)
}

// leave hands the session to a goroutine that may wait, for the command that
// was put off and what was read behind it.
func (c *loopConn) leave() {
	if c.fd < 0 {
		c.away = false
		c.end()
		return
	}
	c.s.mayWait = true
	// Ends with the turn; the loop waits for its message.
	c.srv.work.Go(func() {
		c.used, c.verdict = c.s.turn(c.in[c.taken:c.filled])
		c.l.post(c, returned)
	})
}

// back takes the session back.
func (c *loopConn) back() {
	c.away, c.s.mayWait = false, false
	if c.fd < 0 {
		c.end()
		return
	}
	if c.s.pushed() {
		c.takePushes()
	}
	c.settle(c.in[:c.filled], c.taken+c.used, c.verdict, -1)
	c.interest()
}

// heed looks at the stop flag.
func (c *loopConn) heed() {
	switch c.s.stop.Load() {
	case stopCut:
		c.cut()
	case stopDrain:
		if c.state == serving && !c.away && !c.hasRest {
			c.finish()
			c.reply()
		}
	}
}

// finish lets nothing more be executed.
func (c *loopConn) finish() {
	c.state = finishing
	c.filled, c.hasRest = 0, false
	if c.silent && len(c.s.w.Buf) == 0 {
		c.rest()
	}
}

// linger shuts down the sending side and drops what the client still sends, for
// a short time, as the function of that name does.
func (c *loopConn) linger() {
	if c.silent || unix.Shutdown(int(c.fd), unix.SHUT_WR) != nil {
		c.cut()
		return
	}
	c.state, c.slice, c.until = lingering, lingerBytes, c.l.now.Add(lingerTime)
	c.interest()
	c.l.watch(c)
}

// cut closes the connection. The session ends at once or, if it is away, when it
// comes back.
func (c *loopConn) cut() {
	if c.fd < 0 {
		return
	}
	unix.Close(int(c.fd))
	c.fd = -1
	c.l.conns[c.token] = nil
	c.l.vacant = append(c.l.vacant, c.token)
	c.dropQueue()
	if !c.away {
		c.end()
	}
}

// end forgets the session.
func (c *loopConn) end() {
	c.state = over
	c.s.later, c.s.laterArgs = nil, nil
	c.discard()
	c.l.left--
	c.l.load.Add(-1)
	c.srv.o.Handler.Closed(c.s)
	c.srv.remove(c.s)
}

// due is the next deadline of the connection; zero if it has none.
func (c *loopConn) due() time.Time {
	if c.fd < 0 {
		return time.Time{}
	}
	if c.state == lingering || c.waiting > 0 {
		if c.state == serving && !c.away && !c.s.trusted() {
			return earliest(c.until, c.authUntil())
		}
		return c.until
	}
	if c.state != serving || c.away {
		return time.Time{}
	}
	if !c.s.trusted() {
		return c.authUntil()
	}
	if len(c.in) > firstRead || c.lists > 0 {
		return c.idleUntil
	}
	return time.Time{}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// authUntil is when the session must have authenticated.
func (c *loopConn) authUntil() time.Time {
	limit := c.srv.o.PreAuthTimeout
	if c.s.surplus {
		limit = min(limit, surplusTime)
	}
	return c.s.created.Add(c.s.since + limit)
}

// expired acts on a deadline that has passed.
func (c *loopConn) expired() {
	now := c.l.now
	switch {
	case c.state == lingering:
		c.cut()
	case c.waiting > 0 && !now.Before(c.until):
		c.failed(errNotRead)
	case c.state != serving || c.away:
	case !c.s.trusted() && !now.Before(c.authUntil()):
		if !c.s.surplus {
			c.srv.counters.preAuthTimeouts.Add(1)
			c.cut()
			return
		}
		c.srv.counters.rejected.Add(1)
		c.s.w.Error(errMaxClients)
		c.finish()
		c.reply()
	default:
		c.idleUntil = now.Add(idleAfter)
		c.shrink(firstRead)
		c.giveBack()
	}
}

// failed ends a session whose replies cannot be sent.
func (c *loopConn) failed(err error) {
	if _, broken := err.(syscall.Errno); !broken {
		c.s.unsendable(err, c.waiting)
	}
	c.cut()
}
