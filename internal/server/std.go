package server

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Read buffers begin small, grow to readSize when a client fills them, and
	// beyond only for a command that is longer.
	firstRead = 1 << 10
	readSize  = 16 << 10
	// keepSize is the buffer size up to which a busy session keeps its buffers
	// without asking; larger ones go after quietTurns turns that needed less
	// than a quarter.
	keepSize   = 64 << 10
	quietTurns = 128
	// largeSize is the buffer size above which a buffer goes as soon as its
	// command is finished.
	largeSize = 1 << 20
	// idleAfter is how long a session must be silent to give back all buffers
	// beyond firstRead.
	idleAfter = 2 * time.Second
	// stallAfter is how long a write may take before the session goes on
	// reading and leaves the rest to a flusher.
	stallAfter = 50 * time.Millisecond
	// surplusTime is how long a session beyond the limit has to prove a peer.
	surplusTime = time.Second
)

// readMode says which read deadline is set.
type readMode uint8

const (
	readForever readMode = iota
	readPreAuth
	readIdle
	readNudged // none that counts
)

// stdTransport drives one session by a goroutine of its own over a net.Conn. A
// second goroutine, the flusher, exists only while the client does not read its
// replies fast enough.
type stdTransport struct {
	buffers
	conn    net.Conn
	patient bool // the connection does not survive a write that times out

	// Owned by the session's goroutine.
	mode      readMode
	readUntil time.Time // when the deadline passes
	sendUntil time.Time // when the write deadline passes

	flushing atomic.Bool // a flusher exists; set by the session only

	room    sync.Cond // signalled when queue shrinks; uses mu
	queue   []byte    // replies that the flusher has not taken yet
	inHand  int       // bytes that the flusher has taken and not written yet
	sendErr error     // why the flusher gave up
}

func newStdTransport(srv *Server, s *Session, conn net.Conn) *stdTransport {
	t := &stdTransport{buffers: buffers{srv: srv, s: s}, conn: conn}
	_, t.patient = conn.(*tls.Conn)
	t.room.L = &t.mu
	s.transport, s.mayWait = t, true
	return t
}

func (t *stdTransport) interrupt(cut bool) {
	if cut {
		// A TLS connection says goodbye when it is closed, for which it may wait.
		if c, ok := t.conn.(*tls.Conn); ok {
			c.NetConn().Close()
		} else {
			t.conn.Close()
		}
		return
	}
	t.nudge()
}

// nudge ends the session's read. Its goroutine looks at the stop flag and at the
// outbox after it has set a deadline of its own, so this one is never lost.
func (t *stdTransport) nudge() { t.conn.SetReadDeadline(time.Unix(1, 0)) }

func (t *stdTransport) queued() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) + t.inHand
}

// run serves the session until it ends.
func (t *stdTransport) run() {
	polite := t.loop()
	t.discard()
	if polite {
		t.awaitRoom(0)
		linger(t.conn, make([]byte, firstRead))
	}
	t.conn.Close()
	t.awaitRoom(0)
	t.mu.Lock()
	t.account(0, 0, 0, true)
	t.mu.Unlock()
	t.srv.o.Handler.Closed(t.s)
	t.srv.remove(t.s)
}

// loop returns when the session is over: true if the client should get what is
// still on its way to it.
func (t *stdTransport) loop() bool {
	for t.read() {
		v := runAgain
		for v == runAgain {
			if t.s.stop.Load() == stopCut || t.flushing.Load() && !t.awaitRoom(t.maxWaiting()) {
				return false
			}
			t.s.pending.Store(int64(t.filled))
			var n int
			n, v = t.s.turn(t.in[:t.filled])
			used := max(t.filled, len(t.s.w.Buf))
			for v == handOff {
				// The replies so far go first; what waits has its arguments in t.in.
				if err := t.flush(); err != nil {
					t.sendFailed(err)
					return false
				}
				var more int
				more, v = t.s.turn(t.in[n:t.filled])
				n += more
				used = max(used, len(t.s.w.Buf))
			}
			if n > 0 {
				t.filled = copy(t.in, t.in[n:t.filled])
			}
			if err := t.flush(); err != nil {
				t.sendFailed(err)
				return false
			}
			t.relax(used)
		}
		if v == endSession {
			return true
		}
	}
	return t.s.closing || t.s.stop.Load() == stopDrain
}

// read waits for bytes and reports whether there are any.
func (t *stdTransport) read() bool {
	if !t.grow() && !t.drop() {
		t.s.closing = t.flush() == nil
		return false
	}
	for {
		t.armRead()
		if t.s.stop.Load() != stopNot {
			return false
		}
		if t.s.pushed() {
			if !t.deliver() {
				return false
			}
			continue
		}
		n, err := t.conn.Read(t.in[t.filled:])
		if n > 0 {
			t.srv.counters.netIn.Add(int64(n))
			t.srv.counters.reads.Add(1)
			t.filled += n
			return true
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || t.s.stop.Load() != stopNot {
			return false
		}
		switch early := t.srv.o.Now().Before(t.readUntil); {
		case t.mode == readForever, early: // a nudge; the deadline has to be set again
			t.mode = readNudged
		case t.mode == readPreAuth:
			t.tooLate()
			return false
		default:
			t.readUntil = time.Time{}
			t.shrink(firstRead)
		}
	}
}

// deliver sends the messages that were pushed to an idle session.
func (t *stdTransport) deliver() bool {
	t.s.now = t.srv.o.Now()
	if t.s.takePushes() {
		used := len(t.s.w.Buf)
		if err := t.flush(); err != nil {
			t.sendFailed(err)
			return false
		}
		t.relax(used)
	}
	return true
}

// armRead sets the read deadline that the state of the session asks for. An idle
// deadline is moved only when half of it has passed.
func (t *stdTransport) armRead() {
	s := t.s
	switch {
	case !s.trusted():
		limit := t.srv.o.PreAuthTimeout
		if s.surplus {
			limit = min(limit, surplusTime)
		}
		if t.mode != readPreAuth {
			t.mode, t.readUntil = readPreAuth, s.created.Add(s.since+limit)
			t.conn.SetReadDeadline(t.readUntil)
		}
	case len(t.in) > firstRead || cap(s.w.Buf) > firstRead || t.lists > 0:
		if t.mode != readIdle || t.readUntil.Sub(s.now) < idleAfter/2 {
			now := t.srv.o.Now()
			t.mode, t.readUntil = readIdle, now.Add(idleAfter)
			t.conn.SetReadDeadline(t.readUntil)
		}
	case t.mode != readForever:
		t.mode = readForever
		t.conn.SetReadDeadline(time.Time{})
	}
}

// tooLate ends a session that did not authenticate in time.
func (t *stdTransport) tooLate() {
	if t.s.surplus {
		t.srv.counters.rejected.Add(1)
		t.s.w.Error(errMaxClients)
		t.s.closing = t.flush() == nil
		return
	}
	t.srv.counters.preAuthTimeouts.Add(1)
}
