package server

import (
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
)

// stdTransport drives one session by a goroutine of its own over a net.Conn. A
// second goroutine, the flusher, exists only while the client does not read its
// replies fast enough.
type stdTransport struct {
	srv  *Server
	s    *Session
	conn net.Conn

	// Owned by the session's goroutine.
	in        []byte // in[:filled] is read and not consumed
	filled    int
	lists     int // bytes that the parser's lists of arguments may hold
	quiet     int // turns in a row that needed little of large buffers
	mode      readMode
	readUntil time.Time // when the idle deadline passes
	sendUntil time.Time // when the write deadline passes

	flushing atomic.Bool // a flusher exists; set by the session only

	mu      sync.Mutex
	room    sync.Cond // signalled when queue shrinks; uses mu
	queue   []byte    // replies that the flusher has not taken yet
	inHand  int       // bytes that the flusher has taken and not written yet
	sendErr error     // why the flusher gave up

	// What the budget counts (account). own is written by the session only,
	// under mu, so the session may read it without.
	own       int   // bytes of in, s.w.Buf and lists
	queueHeld int   // bytes of the array of queue
	batchHeld int   // bytes of the array that the flusher writes or keeps
	booked    int64 // what the budget counts for this session
}

func newStdTransport(srv *Server, s *Session, conn net.Conn) *stdTransport {
	t := &stdTransport{srv: srv, s: s, conn: conn}
	t.room.L = &t.mu
	s.transport = t
	return t
}

func (t *stdTransport) interrupt(cut bool) {
	if cut {
		t.conn.Close()
		return
	}
	// The session's goroutine looks at the stop flag after it has set a
	// deadline of its own, so this one is never lost.
	t.conn.SetReadDeadline(time.Unix(1, 0))
}

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
		return false
	}
	for {
		t.armRead()
		if t.s.stop.Load() != stopNot {
			return false
		}
		n, err := t.conn.Read(t.in[t.filled:])
		if n > 0 {
			t.srv.counters.netIn.Add(int64(n))
			t.filled += n
			return true
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || t.s.stop.Load() != stopNot {
			return false
		}
		switch t.mode {
		case readPreAuth:
			t.tooLate()
			return false
		case readIdle:
			t.readUntil = time.Time{}
			t.shrink(firstRead)
		}
	}
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
			t.mode = readPreAuth
			t.conn.SetReadDeadline(s.since.Add(limit))
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

// grow makes room behind the bytes that were read. Beyond readSize the buffer
// grows towards the end of the current command, but never to more than twice
// of what has been received. It reports false if the budget has no room for
// the unfinished command.
func (t *stdTransport) grow() bool {
	size, lists := len(t.in), t.lists
	switch {
	case t.filled < size:
	case size == 0:
		size = firstRead
	case size < readSize:
		size = min(4*size, readSize)
	default:
		size = min(max(t.filled+t.s.parser.Need(), size+size/2), 2*size)
	}
	if t.filled > firstRead && t.s.busy == "" {
		if n := announced(t.in[:t.filled], size); n > keepArgs {
			lists = max(lists, n*argCost)
		}
	}
	if !t.reserve(size, lists) {
		return false
	}
	if size > len(t.in) {
		in := make([]byte, size)
		copy(in, t.in[:t.filled])
		t.in = in
	}
	return true
}

// relax gives large buffers back when many turns in a row needed little of them,
// and very large ones, or any when memory is scarce, at once; used is what this
// turn needed. The replies are flushed.
func (t *stdTransport) relax(used int) {
	t.hold()
	large := max(len(t.in), cap(t.s.w.Buf), t.lists)
	switch {
	case t.s.tight || large > largeSize || t.own > allowance && t.srv.budget.scarce():
		t.s.tight = false
		t.s.w.Buf = nil
		t.shrink(readSize)
	case large > keepSize && used < large/4:
		if t.quiet++; t.quiet < quietTurns {
			return
		}
		t.shrink(readSize)
	}
	t.quiet = 0
}

// shrink gives back buffers beyond size bytes. The replies must be flushed.
func (t *stdTransport) shrink(size int) {
	if len(t.in) > size && t.filled < size {
		in := make([]byte, size)
		copy(in, t.in[:t.filled])
		t.in = in
	}
	if cap(t.s.w.Buf) > size && len(t.s.w.Buf) == 0 {
		t.s.w.Buf = nil
	}
	t.trim()
	t.hold()
}
