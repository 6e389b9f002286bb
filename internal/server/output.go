package server

import (
	"errors"
	"os"
	"time"
)

// flushSlice is how much a flusher writes under one write deadline.
const flushSlice = 64 << 10

var errOutputLimit = errors.New("output limit reached")

// flush sends the replies of a turn. Normally it writes them itself. If the
// client does not take them within stallAfter, what is left goes to a flusher,
// so that the session can go on reading: a client may send a long pipeline
// before it reads the first reply. A TLS connection cannot be written to any more
// once a write of it has timed out, so there all replies go to the flusher.
func (t *stdTransport) flush() error {
	buf := t.s.w.Buf
	if len(buf) == 0 {
		return nil
	}
	t.s.w.Buf = buf[:0]
	n := 0
	if !t.patient && !t.flushing.Load() {
		if t.sendUntil.Sub(t.s.now) < stallAfter {
			t.sendUntil = t.srv.o.Now().Add(2 * stallAfter)
			t.conn.SetWriteDeadline(t.sendUntil)
		}
		var err error
		n, err = t.conn.Write(buf)
		t.srv.counters.sent(n)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		t.sendUntil = time.Time{} // the flusher sets deadlines of its own
	}
	return t.enqueue(buf, n)
}

// enqueue gives buf, which was s.w.Buf, to the flusher without its first n
// bytes, and starts it if there is none.
func (t *stdTransport) enqueue(buf []byte, n int) error {
	b := buf[n:]
	limit := t.srv.OutputLimit()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sendErr != nil {
		return t.sendErr
	}
	if len(t.queue)+t.inHand+len(b) > limit {
		return errOutputLimit
	}
	switch {
	case t.s.tight:
		// The buffer is beyond the budget; what waits must find room in it.
		t.s.w.Buf = nil
		t.account(len(t.in)+t.lists, t.queueHeld, t.batchHeld, true)
		fallthrough
	case len(t.queue) > 0 || cap(b) <= keepSize:
		if !t.growQueue(len(t.queue) + len(b)) {
			return errBufferLimit
		}
		t.queue = append(t.queue, b...)
	default:
		// A large reply is handed over, not copied: the session may wait long
		// for room and would hold it all the time.
		t.queue, t.s.w.Buf = b, nil
		t.account(len(t.in)+t.lists, cap(buf), t.batchHeld, true)
	}
	if !t.flushing.Swap(true) {
		// Ends when the queue is empty or the connection fails. The session
		// that starts it is counted itself, so nobody waits for zero yet.
		t.srv.work.Go(t.flushQueue)
	}
	return nil
}

// growQueue makes the queue's room at least size bytes, if the budget has them.
// t.mu is held.
func (t *stdTransport) growQueue(size int) bool {
	if size <= cap(t.queue) {
		return true
	}
	room := max(size, cap(t.queue)+cap(t.queue)/2)
	if !t.account(t.own, room, t.batchHeld, false) {
		if room = size; !t.account(t.own, room, t.batchHeld, false) {
			return false
		}
	}
	t.queue = append(make([]byte, 0, room), t.queue...)
	return true
}

// flushQueue is the flusher.
func (t *stdTransport) flushQueue() {
	var spare []byte
	for {
		t.mu.Lock()
		if len(t.queue) == 0 {
			t.queue = nil
			t.account(t.own, 0, 0, true)
			t.flushing.Store(false)
			t.room.Broadcast()
			t.mu.Unlock()
			return
		}
		if t.batchHeld > keepSize {
			spare, t.batchHeld = nil, 0
		}
		batch := t.queue
		t.queue, t.inHand = spare[:0], len(batch)
		t.account(t.own, t.batchHeld, t.queueHeld, true)
		t.mu.Unlock()
		spare = batch
		if err := t.writeAll(batch); err != nil {
			t.sendFailed(err)
			t.mu.Lock()
			t.queue, t.inHand, t.sendErr = nil, 0, err
			t.account(t.own, 0, 0, true)
			t.flushing.Store(false)
			t.room.Broadcast()
			t.mu.Unlock()
			return
		}
	}
}

// writeAll writes b in slices; each must be taken by the client in time.
func (t *stdTransport) writeAll(b []byte) error {
	for len(b) > 0 {
		if err := t.conn.SetWriteDeadline(t.srv.o.Now().Add(t.srv.o.WriteTimeout)); err != nil {
			return err
		}
		n, err := t.conn.Write(b[:min(len(b), flushSlice)])
		t.srv.counters.sent(n)
		b = b[n:]
		t.mu.Lock()
		t.inHand = len(b)
		t.room.Broadcast()
		t.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitRoom waits until at most limit bytes wait for the flusher. It reports
// false if the flusher gave up. It ends in time because each slice has a
// deadline and because cutting the session off fails the write.
func (t *stdTransport) awaitRoom(limit int) bool {
	if !t.flushing.Load() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue)+t.inHand > limit && t.sendErr == nil {
		t.room.Wait()
	}
	return t.sendErr == nil
}

// sendFailed ends the connection because replies cannot be sent.
func (t *stdTransport) sendFailed(err error) {
	t.s.unsendable(err, t.queued())
	t.conn.Close()
}

// unsendable counts and logs why a session ends whose replies cannot be sent;
// waiting is how many bytes of them there are.
func (s *Session) unsendable(err error, waiting int) {
	switch {
	case err == errBufferLimit:
		s.srv.log.Warn("replies cannot wait; session closed", "session", s.id, "remote", addrText(s.remote),
			"waiting", waiting, "err", s.srv.budget.refuse("close sessions that do not read, or raise the buffer limit"))
	case err == errOutputLimit || errors.Is(err, os.ErrDeadlineExceeded):
		s.srv.counters.outputLimit.Add(1)
		s.srv.log.Warn("client does not read its replies; session closed", "session", s.id,
			"remote", addrText(s.remote), "waiting", waiting, "limit", s.srv.OutputLimit(), "err", err)
	}
}
