package server

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringcache/ringcache/internal/resp"
)

const (
	// slotSize is how much a loop reads from one connection in one turn, unless
	// a long command needs more. Its buffers begin slotShift bytes later from one
	// to the next: at equal offsets within their pages they would all compete
	// for the same sets of the processor's cache.
	slotSize  = readSize
	slotShift = 5 * 64
	slotRoom  = slotSize + 2<<10
	// maxRead bounds one read into a long command's own buffer.
	maxRead = 256 << 10
	// scanEvery is how late a deadline of a connection may be noticed.
	scanEvery = 20 * time.Millisecond
	// wakeToken marks the events of the wake-up descriptor.
	wakeToken = -1
)

// loop serves its connections on one goroutine: it waits for those that are
// ready, reads them, executes what they ask and flushes the replies, each step
// for up to maxBatch of them at once. It never waits for one of them: replies
// that a client does not take wait in a queue, and a session whose command may
// have to wait is driven by a goroutine of its own until it has been executed.
type loop struct {
	srv    *Server
	poller poller
	io     batchIO
	crowd  crowd

	// Owned by the loop's goroutine.
	now      time.Time // of this turn
	conns    []*loopConn
	vacant   []int32 // positions in conns that are free
	ready    []*loopConn
	more     []*loopConn // have unexecuted commands at hand
	hasMore  []*loopConn // the same, being worked on
	dirty    []*loopConn // have replies in s.w.Buf
	leaving  []*loopConn // are handed over once the batch is flushed
	timed    []*loopConn // have a deadline
	nextScan time.Time   // when timed is looked at; zero: never
	reads    []transfer
	keys     [previewKeys][]byte // room of preview
	sends    []transfer
	slots    [maxBatch][]byte
	pool     pool
	lists    resp.Lists
	vector   [maxVector]unix.Iovec
	netIn    int64
	netOut   int64
	received int64 // reads that gave bytes
	writes   int64
	left     int // connections of the loop, those in the inbox not included

	load atomic.Int64 // connections, those in the inbox included

	mu     sync.Mutex // guards what follows; held for moments only
	inbox  []message
	taken  []message // the array of the inbox before
	awake  bool      // a wake-up is on its way
	closed bool      // the loop has ended
}

// message is what other goroutines tell a loop.
type message struct {
	c    *loopConn
	what messageKind
}

type messageKind uint8

const (
	arrived   messageKind = iota // a new connection
	returned                     // its goroutine has executed what might have waited
	disturbed                    // look at its stop flag
	nudged                       // look at its outbox
)

// openLoops starts the loops of a server that is about to accept, and returns
// them with what they use. They end when the server has stopped and their last
// connection is gone.
func openLoops(s *Server) (all []multiplexer, io string, err error) {
	kind := s.o.IO
	io = IOEpoll
	if kind == IOUring || kind == IOAuto {
		switch err := tryUring(); {
		case err == nil:
			io = IOUring
		case kind == IOUring:
			return nil, "", fmt.Errorf("%w: %w", errNoLoops, err)
		default:
			s.log.Debug("there is no io_uring", "why", err)
		}
	}
	for range loopCount(s.o.Loops) {
		l, err := openLoop(s, io)
		if err != nil {
			for _, m := range all {
				m.(*loop).release()
			}
			return nil, "", err
		}
		all = append(all, l)
	}
	for _, m := range all {
		s.work.Go(m.(*loop).run)
	}
	s.log.Debug("connections are served by loops", "io", io, "loops", len(all))
	return all, io, nil
}

func openLoop(s *Server, kind string) (*loop, error) {
	l := &loop{srv: s, io: plainIO{}}
	if kind == IOUring {
		u, err := openUring()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoLoops, err)
		}
		l.io = u
	}
	if err := l.poller.open(s.o.HoldProcessor); err != nil {
		l.io.close()
		return nil, fmt.Errorf("%w: %w", errNoLoops, err)
	}
	return l, nil
}

// release closes what the loop has of the kernel.
func (l *loop) release() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.poller.close()
	l.io.close()
}

func (l *loop) serving() int64 { return l.load.Load() }

func (l *loop) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signal()
}

// signal wakes the loop unless that is under way. l.mu is held.
func (l *loop) signal() {
	if l.awake || l.closed {
		return
	}
	l.awake = true
	l.poller.wake()
}

// post leaves a message. The inbox is bounded by the number of connections: each
// has at most one message of a kind in it.
func (l *loop) post(c *loopConn, what messageKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inbox = append(l.inbox, message{c, what})
	l.signal()
}

// run is the loop's goroutine. It keeps its thread where it holds a processor.
func (l *loop) run() {
	if l.poller.hold {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer exactSleep()()
	}
	for {
		events, err := l.poller.wait(l.timeout(), l.crowd.least())
		if err != nil {
			// Only a descriptor or an address that is not the loop's leads here.
			panic(os.NewSyscallError("epoll_wait", err))
		}
		l.now = l.srv.now()
		l.hear()
		for i := range events {
			l.sort(&events[i])
		}
		l.crowd.note(l.ready)
		l.goOn()
		l.work()
		l.expire()
		l.count()
		if l.finished() {
			l.release()
			return
		}
	}
}

// timeout is how many milliseconds the loop may wait, -1 for any time.
func (l *loop) timeout() int {
	switch {
	case len(l.more) > 0:
		return 0
	case l.nextScan.IsZero():
		return -1
	}
	return int(max(l.nextScan.Sub(l.srv.now()), 0)/time.Millisecond) + 1
}

// finished tells whether the server has stopped and nobody is left.
func (l *loop) finished() bool {
	select {
	case <-l.srv.quit:
	default:
		return false
	}
	// The server admits nobody after quit was closed: who is not in the inbox
	// now will never be.
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left == 0 && len(l.inbox) == 0
}

// hear reads the inbox.
func (l *loop) hear() {
	l.mu.Lock()
	messages := l.inbox
	l.inbox = l.taken[:0]
	l.awake = false
	l.mu.Unlock()
	for i, m := range messages {
		switch m.what {
		case arrived:
			l.left++
			m.c.begin()
		case returned:
			m.c.back()
		case disturbed:
			m.c.disturbed.Store(false)
			m.c.heed()
		case nudged:
			m.c.nudged.Store(false)
			m.c.deliver()
		}
		messages[i] = message{}
	}
	l.taken = messages
}

// sort decides what is to be done about an event.
func (l *loop) sort(e *unix.EpollEvent) {
	if e.Fd == wakeToken {
		return // the inbox was read
	}
	c := l.conns[e.Fd]
	if c == nil || c.generation != e.Pad {
		return // it ended earlier in this turn
	}
	if e.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 && c.waiting > 0 {
		if !c.sendQueue() {
			return
		}
	}
	if e.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
		return
	}
	switch {
	case c.readable():
		l.ready = append(l.ready, c)
	case e.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		c.cut() // these events cannot be switched off, and nothing can be sent
	case !c.inMore: // otherwise it will be readable soon
		c.interest()
	}
}

// goOn lets connections execute what an earlier turn left over.
func (l *loop) goOn() {
	l.hasMore, l.more = l.more, l.hasMore[:0]
	for _, c := range l.hasMore {
		c.inMore = false
		c.goOn()
		l.batched()
	}
	clear(l.hasMore)
	l.flush()
}

// work reads and executes the connections that are ready.
func (l *loop) work() {
	for start := 0; start < len(l.ready); start += maxBatch {
		batch := l.ready[start:min(start+maxBatch, len(l.ready))]
		l.reads = l.reads[:0]
		for _, c := range batch {
			if c.fd < 0 {
				continue
			}
			if buf := c.room(len(l.reads)); buf != nil {
				l.reads = append(l.reads, transfer{c: c, fd: c.fd, buf: buf})
			}
		}
		if len(l.reads) > 0 {
			l.io.receive(l.reads)
		}
		for i := range l.reads {
			l.netIn += int64(l.reads[i].n)
			if l.reads[i].n > 0 {
				l.received++
			}
		}
		l.count()
		l.preview()
		for i := range l.reads {
			t := &l.reads[i]
			t.c.received(t, i)
			*t = transfer{}
		}
		l.flush()
	}
	clear(l.ready)
	l.ready = l.ready[:0]
}

// preview shows the Handler the first key of each connection of the batch.
func (l *loop) preview() {
	if l.srv.previewer == nil || len(l.reads) < 2 {
		return
	}
	n := 0
	for i := range l.reads {
		t := &l.reads[i]
		if t.n <= 0 || t.c.filled > 0 {
			continue
		}
		first, _ := resp.Ahead(l.keys[n:n:n+1], t.buf[:t.n])
		if n += len(first); n == previewKeys {
			l.srv.previewer.Preview(l.keys[:])
			n = 0
		}
	}
	if n > 0 {
		l.srv.previewer.Preview(l.keys[:n])
	}
	clear(l.keys[:])
}

// slot is the i-th read buffer of a batch.
func (l *loop) slot(i int) []byte {
	if l.slots[i] == nil {
		at := i * slotShift % (slotRoom - slotSize)
		l.slots[i] = make([]byte, slotRoom)[at : at+slotSize : at+slotSize]
	}
	return l.slots[i]
}

// batched flushes when a whole batch of replies waits.
func (l *loop) batched() {
	if len(l.dirty) >= maxBatch {
		l.flush()
	}
}

// flush sends the replies of a batch, each connection's by one call, and then
// hands over the sessions that cannot go on here.
func (l *loop) flush() {
	for len(l.dirty) > 0 {
		n := min(len(l.dirty), maxBatch)
		l.sends = l.sends[:0]
		for _, c := range l.dirty[:n] {
			c.inDirty = false
			if c.fd >= 0 && c.offer() {
				l.sends = append(l.sends, transfer{c: c, fd: c.fd, buf: c.s.w.Buf})
			}
		}
		if len(l.sends) > 0 {
			l.io.send(l.sends)
		}
		for i := range l.sends {
			t := &l.sends[i]
			l.netOut += int64(t.n)
			l.writes++
			t.c.sent(t)
			*t = transfer{}
		}
		left := copy(l.dirty, l.dirty[n:])
		clear(l.dirty[left:])
		l.dirty = l.dirty[:left]
	}
	for i, c := range l.leaving {
		c.leave()
		l.leaving[i] = nil
	}
	l.leaving = l.leaving[:0]
}

// count publishes what this turn moved.
func (l *loop) count() {
	if l.netIn != 0 {
		l.srv.counters.netIn.Add(l.netIn)
		l.srv.counters.reads.Add(l.received)
	}
	if l.netOut != 0 {
		l.srv.counters.netOut.Add(l.netOut)
		l.srv.counters.writes.Add(l.writes)
	}
	l.netIn, l.netOut, l.received, l.writes = 0, 0, 0, 0
}

// watch makes expire look at a connection that has a deadline.
func (l *loop) watch(c *loopConn) {
	due := c.due()
	if due.IsZero() {
		return
	}
	if !c.timed {
		c.timed = true
		l.timed = append(l.timed, c)
	}
	if l.nextScan.IsZero() || due.Before(l.nextScan) {
		l.nextScan = due
	}
}

// expire acts on the deadlines that have passed. It looks at no connection more
// often than every scanEvery.
func (l *loop) expire() {
	if l.nextScan.IsZero() || l.now.Before(l.nextScan) {
		return
	}
	l.nextScan = time.Time{}
	kept := l.timed[:0]
	for _, c := range l.timed {
		due := c.due()
		if !due.IsZero() && !l.now.Before(due) {
			c.expired()
			due = c.due()
		}
		if due.IsZero() {
			c.timed = false
			continue
		}
		kept = append(kept, c)
		if due = latest(due, l.now.Add(scanEvery)); l.nextScan.IsZero() || due.Before(l.nextScan) {
			l.nextScan = due
		}
	}
	clear(l.timed[len(kept):])
	l.timed = kept
	l.flush()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
