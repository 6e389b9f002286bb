package server

import (
	"sync"
	"sync/atomic"
)

const (
	// outboxFree is how many bytes the messages of one session may take without
	// asking the budget, and what an idle session keeps of its outbox.
	outboxFree = 1 << 10
	// outboxStep is the size that an outbox takes next; such buffers are reused.
	outboxStep = readSize
	// outboxCheck is how many bytes of messages wait before those in the queue of
	// the transport, which has a lock, are counted as well.
	outboxCheck = flushSlice
)

// outbox holds the messages that were pushed to a session and that its goroutine
// has not put between two replies yet. A session has none before its first.
type outbox struct {
	// waiting tells that buf is not empty, for a look without mu.
	waiting atomic.Bool

	mu      sync.Mutex
	buf     []byte // whole messages, each a RESP3 push
	ends    []int  // where each message in buf ends
	booked  int64  // what the budget counts for buf
	turning bool   // the session is in a turn, at whose end it looks
	closed  bool   // the session has ended, or is being cut off
	why     error  // why it is cut off: errOutputLimit or errBufferLimit
}

// noOutbox is the outbox of a session that ended without ever having had one.
var noOutbox = &outbox{closed: true}

// Push hands the session an out-of-band message: msg, one RESP3 push (">2...")
// that a session which speaks RESP2 gets as an array. It is copied. Messages
// arrive in order, between two replies and never inside one; one that is pushed
// while a command of the session is executed follows its reply, and one that was
// pushed before precedes it. CLIENT REPLY does not hold them back. An idle session
// sends them at once.
//
// Push never blocks and any goroutine may call it, also under a lock. It reports
// false if the session has ended, or is cut off because what it has not sent
// exceeds the output limit or the buffer limit.
func (s *Session) Push(msg []byte) bool {
	o := s.outbox.Load()
	if o == nil {
		if fresh := new(outbox); s.outbox.CompareAndSwap(nil, fresh) {
			o = fresh
		} else {
			o = s.outbox.Load()
		}
	}
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return false
	}
	if o.why = s.admitPush(o, len(msg)); o.why != nil {
		o.closed = true
		o.drop(s.srv)
		o.mu.Unlock()
		s.interrupt(stopCut)
		return false
	}
	o.buf = append(o.buf, msg...)
	o.ends = append(o.ends, len(o.buf))
	wake := !o.turning && !o.waiting.Load()
	o.waiting.Store(true)
	o.mu.Unlock()
	if wake {
		s.transport.nudge()
	}
	return true
}

// admitPush makes room for a message of size bytes and tells why there is none.
// o.mu is held.
func (s *Session) admitPush(o *outbox, size int) error {
	need := len(o.buf) + size
	if need > outboxCheck && need+s.transport.queued() > s.srv.OutputLimit() {
		return errOutputLimit
	}
	if need <= cap(o.buf) {
		return nil
	}
	room := outboxFree
	switch {
	case need > outboxStep:
		room = max(need, 2*cap(o.buf))
	case need > outboxFree:
		room = outboxStep
	case need <= outboxFree/4:
		room = outboxFree / 4
	}
	want := int64(room - outboxFree)
	if more := want - o.booked; want > 0 {
		if !s.srv.budget.take(more) {
			return errBufferLimit
		}
		o.booked = want
	}
	var buf []byte
	if room == outboxStep {
		buf = s.srv.outboxes.get()
	} else {
		buf = make([]byte, 0, room)
	}
	was := o.buf
	o.buf = append(buf, was...)
	s.srv.outboxes.put(was)
	return nil
}

// drop forgets the messages. o.mu is held.
func (o *outbox) drop(srv *Server) {
	srv.outboxes.put(o.buf)
	srv.budget.held.Add(-o.booked)
	o.buf, o.ends, o.booked = nil, nil, 0
	o.waiting.Store(false)
}

// pushed tells whether messages wait.
func (s *Session) pushed() bool {
	o := s.outbox.Load()
	return o != nil && o.waiting.Load()
}

// pushBytes is how many bytes of messages wait. Any goroutine may call it.
func (s *Session) pushBytes() int {
	o := s.outbox.Load()
	if o == nil || !o.waiting.Load() {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf)
}

// takePushes puts the messages that wait behind the replies, and reports whether
// there were any. It is called between two replies, by the session's goroutine.
func (s *Session) takePushes() bool {
	o := s.outbox.Load()
	if o == nil || !o.waiting.Load() {
		return false
	}
	o.mu.Lock()
	took := s.takeFrom(o)
	o.mu.Unlock()
	s.pushesGrew()
	return took
}

// takeFrom is takePushes with o.mu held and without accounting for the reply
// buffer.
func (s *Session) takeFrom(o *outbox) bool {
	if len(o.buf) == 0 {
		return false
	}
	start := len(s.w.Buf)
	s.w.Buf = append(s.w.Buf, o.buf...)
	if s.w.Proto != 3 {
		s.asArray(start)
		for _, end := range o.ends[:len(o.ends)-1] {
			s.asArray(start + end)
		}
	}
	s.mark = len(s.w.Buf)
	if cap(o.buf) > outboxFree {
		o.drop(s.srv)
		return true
	}
	o.buf, o.ends = o.buf[:0], o.ends[:0]
	o.waiting.Store(false)
	return true
}

// asArray turns the push at an offset into an array; a line of MONITOR stays.
func (s *Session) asArray(at int) {
	if s.w.Buf[at] == '>' {
		s.w.Buf[at] = '*'
	}
}

// pushesGrew books the growth of the reply buffer by messages. Beyond the budget
// the turn ends, so that the buffer is sent and given back.
func (s *Session) pushesGrew() {
	if cap(s.w.Buf) > s.paid && !s.transport.book(false) {
		s.tight = true
		s.transport.book(true)
	}
}

// enterTurn and leaveTurn are around a turn: what is pushed meanwhile wakes
// nobody, because the session takes it before each command and in leaveTurn.
func (s *Session) enterTurn() {
	if o := s.outbox.Load(); o != nil {
		o.mu.Lock()
		o.turning = true
		o.mu.Unlock()
	}
}

func (s *Session) leaveTurn() {
	o := s.outbox.Load()
	if o == nil {
		return
	}
	o.mu.Lock()
	s.takeFrom(o)
	o.turning = false
	o.mu.Unlock()
	s.pushesGrew()
}

// endPushes ends the outbox with the session.
func (s *Session) endPushes() {
	if s.outbox.CompareAndSwap(nil, noOutbox) {
		return
	}
	o := s.outbox.Load()
	o.mu.Lock()
	o.closed = true
	waiting := len(o.buf)
	why := o.why
	o.why = nil
	o.drop(s.srv)
	o.mu.Unlock()
	if why != nil {
		s.unsendable(why, waiting+s.transport.queued())
	}
}

// outboxPool keeps buffers of outboxStep bytes.
type outboxPool struct{ pool sync.Pool }

func (p *outboxPool) get() []byte {
	if b, _ := p.pool.Get().(*[outboxStep]byte); b != nil {
		return b[:0]
	}
	return make([]byte, 0, outboxStep)
}

func (p *outboxPool) put(b []byte) {
	if cap(b) == outboxStep {
		p.pool.Put((*[outboxStep]byte)(b[:outboxStep]))
	}
}
