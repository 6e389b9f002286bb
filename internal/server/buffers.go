package server

import "sync"

// buffers are the bytes that a transport keeps for one session, and what the
// budget counts for them.
type buffers struct {
	srv *Server
	s   *Session

	// Owned by the goroutine that drives the session.
	in     []byte // in[:filled] is read and not consumed
	filled int
	lists  int // bytes that the parser's lists of arguments may hold
	quiet  int // turns in a row that needed little of large buffers

	// What the budget counts (account). own is written by the goroutine that
	// drives the session only, under mu, so it may read it without.
	mu        sync.Mutex
	own       int   // bytes of in, s.w.Buf and lists
	queueHeld int   // bytes of what holds the replies that wait
	batchHeld int   // bytes of the array that a flusher writes or keeps
	booked    int64 // what the budget counts for this session
}

// grow makes room behind the bytes that were read. Beyond readSize the buffer
// grows towards the end of the current command, but never to more than twice
// of what has been received. It reports false if the budget has no room for
// the unfinished command.
func (t *buffers) grow() bool {
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
func (t *buffers) relax(used int) {
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
func (t *buffers) shrink(size int) {
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
