package server

import (
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a result of the ring is about: the upper byte of its user word. Below are
// the connection's token (24 bits) and generation, or the place of a send.
const (
	ringReceives uint64 = (iota + 1) << 56
	ringReadable        // a poll
	ringWritable
	ringSends
	ringWakes
	ringCancels

	ringKinds = 0xff << 56
	maxToken  = 1 << 24
)

const (
	// gather is how long a busy loop waits for more than one request. The work of
	// a turn for itself, of the system call, of falling asleep and being woken,
	// costs more CPU than a request, and the sooner a loop is done, the fewer
	// requests it finds the next time.
	gather = 20 * time.Microsecond
	// gatherMost bounds how many requests it waits for.
	gatherMost = 32
	// gatherTurns is how many turns count the connections that are busy.
	gatherTurns = 64
)

// crowd decides for how many requests a loop waits: a part of the connections that
// have been busy, so that those of one or a few clients are never held up.
type crowd struct {
	turns  int
	window uint32 // number of the current window, never 0
	seen   int    // connections with requests in it
	active int    // in the window before
	last   int    // requests of the turn before
}

// note counts the requests of a turn; busy are their connections.
func (w *crowd) note(busy []transfer) {
	if w.window == 0 {
		w.window = 1
	}
	for i := range busy {
		if c := busy[i].c; c.window != w.window {
			c.window = w.window
			w.seen++
		}
	}
	w.last = len(busy)
	if w.turns++; w.turns < gatherTurns {
		return
	}
	w.active, w.seen, w.turns = w.seen, 0, 0
	if w.window++; w.window == 0 {
		w.window = 1
	}
}

// least is for how many requests the loop should wait.
func (w *crowd) least() int {
	if w.last < 2 {
		return 1
	}
	return min(max(w.active/3, 1), gatherMost)
}

// waitRing submits what is queued, waits for results, at most timeout milliseconds
// (-1: any time), and sorts them. There may be none.
func (l *loop) waitRing(timeout int) error {
	r, p := l.ring, &l.poller
	l.woken = false
	most, least := time.Duration(timeout)*time.Millisecond, l.crowd.least()
	gathers := least > 1 && timeout != 0
	switch {
	case timeout == 0 || len(l.results) > 0:
		least = 0
	case gathers && (timeout < 0 || gather < most):
		most = gather
	case !gathers && (!p.hold || p.idle >= patience):
		least = 0 // look first: a busy loop need not tell the scheduler
	}
	errno := r.enter(least, most, false)
	l.reap()
	if nothing := errno == 0 || errno == unix.ETIME || errno == unix.EINTR; !nothing && errno != unix.EAGAIN && errno != unix.EBUSY {
		return errno
	}
	if err := r.submit(); err != nil {
		return err
	}
	l.reap()
	switch {
	case len(l.results) > 0 || l.woken:
		p.idle = 0
	case least == 0 && timeout != 0 && !gathers:
		if errno = r.enter(1, most, true); errno != 0 && errno != unix.EINTR && errno != unix.ETIME {
			return errno
		}
		l.reap()
	case timeout != 0 && !gathers && errno != unix.ETIME:
		p.idle++ // interrupted
		runtime.Gosched()
	}
	l.settleSends()
	return nil
}

// reap takes the results of sends, and keeps the others for sortResults.
func (l *loop) reap() {
	l.ring.reap(func(r *uringResult) {
		switch r.user & ringKinds {
		case ringSends:
			t := &l.sends[r.user&^ringKinds]
			if t.n, t.errno = 0, 0; r.res < 0 {
				t.errno = syscall.Errno(-r.res)
			} else {
				t.n = int(r.res)
			}
		case ringWakes:
			if r.flags&uringHasMore == 0 {
				l.watchWake()
			}
			l.woken = true
		case ringCancels:
		default:
			l.results = append(l.results, *r)
		}
	})
}

// watchWake watches the wake-up descriptor. A poll that stays reports edges.
func (l *loop) watchWake() {
	l.ring.poll(int32(l.poller.wakeFD), unix.EPOLLIN, true, ringWakes)
}

// sortResults decides what is to be done about the results. What was received is
// put into reads.
func (l *loop) sortResults() {
	for i := range l.results {
		r := &l.results[i]
		c := l.conns[r.user>>32&(maxToken-1)]
		if c == nil || c.generation != int32(r.user) {
			l.drop(r)
			continue
		}
		switch r.user & ringKinds {
		case ringReceives:
			l.arrivals = append(l.arrivals, arrivalOf(c, r, l.ring))
			continue
		case ringReadable:
			c.watched &^= unix.EPOLLIN
		case ringWritable:
			c.watched &^= unix.EPOLLOUT
		}
		if r.res > 0 {
			before := len(l.ready)
			l.react(c, uint32(r.res))
			if len(l.ready) > before {
				c.watched |= unix.EPOLLIN // until it is read: nobody asks again meanwhile
				continue
			}
		}
		c.interest()
	}
	l.results = l.results[:0]
}

// drop gives back the buffer of a result that came too late.
func (l *loop) drop(r *uringResult) {
	if r.flags&uringHasBuffer != 0 {
		l.ring.giveBack(uint16(r.flags >> 16))
	}
}

// arrivalOf is the receive of a result. Its field fd is the number of its buffer, or
// -1 without one.
func arrivalOf(c *loopConn, r *uringResult, ring *ring) transfer {
	t := transfer{c: c, fd: -1}
	if r.flags&uringHasBuffer != 0 {
		t.fd = int32(r.flags >> 16)
	}
	switch {
	case r.res > 0:
		t.n = int(r.res)
		t.buf = ring.buffer(uint16(t.fd), t.n)
	case r.res < 0:
		t.errno = syscall.Errno(-r.res)
		if t.errno == unix.ENOBUFS || t.errno == unix.EINTR || t.errno == unix.ECANCELED {
			t.errno = unix.EAGAIN
		}
	}
	return t
}

// workRing executes what was received. The replies of the last batch are sent by the
// call that waits next.
func (l *loop) workRing() {
	l.crowd.note(l.arrivals)
	for start := 0; start < len(l.arrivals); start += maxBatch {
		batch := l.arrivals[start:min(start+maxBatch, len(l.arrivals))]
		for i := range batch {
			if n := batch[i].n; n > 0 {
				l.netIn += int64(n)
				l.received++
			}
		}
		l.count()
		for i := range batch {
			t := &batch[i]
			t.c.watched &^= unix.EPOLLIN
			switch c := t.c; {
			case c.fd < 0:
			case c.readable() && len(c.in) == 0:
				c.received(t, lent)
			case t.n > 0 && c.state == serving:
				c.stash(t.buf)
			}
			if t.fd >= 0 {
				l.ring.giveBack(uint16(t.fd))
			}
			*t = transfer{}
		}
		if start+maxBatch < len(l.arrivals) {
			l.flush()
		}
	}
	l.arrivals = l.arrivals[:0]
	l.flushLater()
}

// flushLater is flush, but the replies may leave with the next wait.
func (l *loop) flushLater() {
	if len(l.dirty) > maxBatch || len(l.leaving) > 0 {
		l.flush()
		return
	}
	for _, c := range l.dirty {
		if !c.simple() {
			l.flush()
			return
		}
	}
	l.collect(len(l.dirty))
	for i := range l.sends {
		l.queueSend(i)
		l.early.bytes += int64(l.sends[i].n)
		l.sends[i].c.interest()
	}
	l.early.writes = int64(len(l.sends))
	l.netOut += l.early.bytes
	l.writes += l.early.writes
	l.dirty = l.dirty[:0]
}

// simple tells whether nothing follows when the replies are sent but that their
// buffer goes back to the pool: then that may be as late as the next turn.
func (c *loopConn) simple() bool {
	s := c.s
	return c.fd >= 0 && c.state == serving && c.waiting == 0 && len(c.in) == 0 && c.own == 0 && c.lists == 0 &&
		!s.tight && s.most <= keepArgs && s.trusted()
}

func (l *loop) queueSend(i int) {
	t := &l.sends[i]
	t.n = len(t.buf)
	l.ring.send(t.fd, t.buf, ringSends|uint64(i))
}

// sendRing sends the batch at once.
func (l *loop) sendRing() {
	for i := range l.sends {
		l.queueSend(i)
	}
	if err := l.ring.submit(); err != nil {
		l.broken(err)
	}
	l.reap()
}

// arm asks the ring for events. Receives are for sessions that hold nothing; what
// they receive must go where the data before it is otherwise, which a poll
// announces.
func (c *loopConn) arm(events uint32) {
	r, user := c.l.ring, uint64(c.token)<<32|uint64(uint32(c.generation))
	if events&unix.EPOLLIN != 0 {
		if c.polled = c.state != serving || len(c.in) > 0; c.polled {
			r.poll(c.fd, unix.EPOLLIN, false, ringReadable|user)
		} else {
			r.receive(c.fd, ringReceives|user)
		}
	}
	if events&unix.EPOLLOUT != 0 {
		r.poll(c.fd, unix.EPOLLOUT, false, ringWritable|user)
	}
	c.watched |= events
}

// disarm ends what the ring waits for, which would keep the socket open.
func (c *loopConn) disarm() {
	r, user := c.l.ring, uint64(c.token)<<32|uint64(uint32(c.generation))
	if c.watched&unix.EPOLLIN != 0 {
		if c.polled {
			r.cancel(ringReadable | user)
		} else {
			r.cancel(ringReceives | user)
		}
	}
	if c.watched&unix.EPOLLOUT != 0 {
		r.cancel(ringWritable | user)
	}
}

// stash keeps what arrived while the session may execute nothing: replies that were
// pushed to it wait.
func (c *loopConn) stash(data []byte) {
	if c.away || len(c.in) > 0 {
		c.l.srv.log.Error("session closed: data arrived out of turn", "session", c.s.id)
		c.cut()
		return
	}
	in := c.l.pool.get(len(data))
	c.in = in[:cap(in)]
	c.filled, c.hasRest = copy(c.in, data), true
	c.book(true)
}
