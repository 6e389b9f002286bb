package server

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/resp"
)

const (
	// allowance is what every session may hold without asking: small commands
	// go on when the budget is used up.
	allowance = readSize
	// argCost is what the parser's lists hold for one argument, their growth
	// included.
	argCost = 50
	// keepArgs is up to how many arguments the lists cost too little to count.
	keepArgs = 64
	// skipAt makes a parser skip a command that is longer than firstRead.
	skipAt = firstRead / 2
)

// errBufferLimit ends a session whose replies cannot wait.
var errBufferLimit = errors.New("buffer limit of all sessions reached")

// budget bounds what the buffers of all sessions hold together beyond the
// allowance of each: read buffers, replies that are being made or wait, and the
// lists of arguments. It is asked before a read buffer or a queue grows, and
// when a command has made the reply buffer grow, so only when a capacity
// changes. Peers are counted, and never refused: they are few, have proven the
// cluster's secret, and slots move by what they say.
type budget struct {
	limit    int64 // never written after New
	held     atomic.Int64
	refusals atomic.Int64
}

// take books n bytes more unless that exceeds the limit.
func (b *budget) take(n int64) bool {
	for {
		was := b.held.Load()
		if was+n > b.limit {
			return false
		}
		if b.held.CompareAndSwap(was, was+n) {
			return true
		}
	}
}

// scarce tells that sessions should give back at once what they do not need,
// and wait for their readers.
func (b *budget) scarce() bool { return b.held.Load() > b.limit/4*3 }

// refuse counts a refusal and returns the error that tells it.
func (b *budget) refuse(what string) string {
	b.refusals.Add(1)
	return fmt.Sprintf("RCBUSY session buffers hold %d bytes, limit %d; %s", b.held.Load(), b.limit, what)
}

// account books what the session holds now: own buffers, queue and batch of the
// flusher. With force, and for a peer, it always does; otherwise it reports false
// and changes nothing if the budget is used up. t.mu is held.
func (t *buffers) account(own, queue, batch int, force bool) bool {
	want := int64(max(0, own+queue+batch-allowance))
	switch more := want - t.booked; {
	case more > 0 && !force && !t.s.isPeer.Load():
		if !t.srv.budget.take(more) {
			return false
		}
	case more != 0:
		t.srv.budget.held.Add(more)
	}
	if own != t.own { // never for the flusher: the session reads it without mu
		t.own = own
		t.s.held.Store(int64(own))
	}
	t.queueHeld, t.batchHeld, t.booked = queue, batch, want
	return true
}

// bookAs books a read buffer of the given size and lists beside the reply
// buffer as it is.
func (t *buffers) bookAs(size, lists int, force bool) bool {
	if own := size + cap(t.s.w.Buf) + lists; own != t.own {
		t.mu.Lock()
		ok := t.account(own, t.queueHeld, t.batchHeld, force)
		t.mu.Unlock()
		if !ok {
			return false
		}
	}
	t.lists, t.s.paid = lists, cap(t.s.w.Buf)
	return true
}

func (t *buffers) book(force bool) bool { return t.bookAs(len(t.in), t.lists, force) }

// hold books and publishes the size of the buffers at the end of a turn.
func (t *buffers) hold() {
	lists := t.lists
	if t.s.most > keepArgs {
		lists = max(lists, int(t.s.most)*argCost)
	}
	t.s.most = 0
	if t.bookAs(len(t.in), lists, false) {
		return
	}
	t.lists = lists
	t.trim()
	t.book(true)
}

// trim gives back the parser's lists, unless they are in use.
func (t *buffers) trim() {
	if t.filled == 0 && t.s.parser.Need() > 0 {
		t.s.parser.Trim()
		t.lists = 0
	}
}

// reserve books a read buffer of the given size before it is made, and lists
// for the command in it. If the budget is used up, the empty reply buffer goes
// first.
func (t *buffers) reserve(size, lists int) bool {
	if t.bookAs(size, lists, false) {
		return true
	}
	if cap(t.s.w.Buf) == 0 || len(t.s.w.Buf) > 0 {
		return false
	}
	t.s.w.Buf = nil
	return t.bookAs(size, lists, false)
}

// announced returns how many arguments the command that begins in b may get
// before it fills size bytes: what its header tells, within what fits.
func announced(b []byte, size int) int {
	const header, shortest = 24, 6 // "*<20 digits>\r\n", "$0\r\n\r\n"
	if b[0] != '*' {
		return 0
	}
	end := bytes.IndexByte(b[:min(len(b), header)], '\r')
	if end < 0 {
		return 0
	}
	n, _ := resp.ParseInt(b[1:end])
	return int(min(n, int64(size/shortest)))
}

// drop refuses the unfinished command in the read buffer, for which the budget
// has no room: what is there goes, what still comes is skipped, and the error
// follows when the command ends. If that cannot be, the error is left in the
// reply buffer and drop reports false: the session ends.
func (t *buffers) drop() bool {
	n, ok := t.s.skipCommand(t.in[:t.filled])
	if !ok {
		return false
	}
	t.lists = 0
	t.filled = copy(t.in, t.in[n:t.filled])
	t.shrink(readSize)
	return true
}

// skipCommand makes the parser skip the unfinished command of which in is the
// beginning, and returns how many bytes it took.
func (s *Session) skipCommand(in []byte) (n int, ok bool) {
	text := s.srv.budget.refuse(fmt.Sprintf("a command of more than %d bytes was dropped: send it later or in parts", len(in)))
	s.srv.log.Debug("command dropped: session buffers are full", "session", s.id, "remote", addrText(s.remote), "bytes", len(in))
	if s.trusted() && s.busy == "" {
		// A new parser finds the command above this limit, and keeps nothing.
		limits := *s.limits
		limits.MaxQuery = skipAt
		s.parser = resp.Parser{}
		if _, n, err := s.parser.Next(in, &limits); err == nil && n > 0 {
			s.busy = text
			return n, true
		}
	}
	s.w.Error(text)
	return 0, false
}

// replyGrew books the growth of the reply buffer by the current command. If the
// budget is used up, a reply above the allowance becomes an error, although its
// command was executed, and the turn ends, so that the buffer is sent and given
// back.
func (s *Session) replyGrew() {
	if s.transport.book(false) {
		return
	}
	if size := len(s.w.Buf) - s.mark; size > allowance {
		text := s.srv.budget.refuse(fmt.Sprintf("a reply of %d bytes was dropped: ask later or for less", size))
		was := s.w.Buf[:s.mark]
		s.w.Buf = append(make([]byte, 0, len(was)+len(text)+len("-\r\n")), was...)
		s.w.Error(text)
		s.errors++
	}
	s.tight = true
	s.transport.book(true)
}

// maxWaiting is how many bytes may wait for the flusher when the session goes
// on executing.
func (t *buffers) maxWaiting() int {
	limit := t.srv.OutputLimit() / 2
	if !t.s.peer && t.srv.budget.scarce() {
		return min(limit, allowance)
	}
	return limit
}

// discard gives back the buffers of the session's goroutine, which needs them
// no more.
func (t *buffers) discard() {
	t.s.endTracking()
	t.s.endPushes()
	t.in, t.filled, t.lists = nil, 0, 0
	t.s.w.Buf, t.s.parser = nil, resp.Parser{}
	t.book(true)
}
