package server

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// chunkSize is the size of the pieces that small replies wait in.
	chunkSize = readSize
	// maxVector is how many pieces one call sends, and maxSend about how many
	// bytes: the others of the loop come next.
	maxVector = 32
	maxSend   = 256 << 10
)

// errNotRead ends a session whose client took too long to read.
var errNotRead = fmt.Errorf("write: %w", os.ErrDeadlineExceeded)

// chunk is a piece of the replies that wait; rest is not sent yet. The budget
// counts size bytes for it.
type chunk struct {
	rest []byte
	size int
}

// offer tells whether the replies in s.w.Buf should be sent: if others wait
// already, they join the queue.
func (c *loopConn) offer() bool {
	if c.waiting == 0 {
		return len(c.s.w.Buf) > 0
	}
	if err := c.enqueue(0); err != nil {
		c.failed(err)
		return false
	}
	c.rest()
	c.interest()
	return false
}

// sent looks at what became of the replies in s.w.Buf.
func (c *loopConn) sent(t *transfer) {
	switch {
	case t.errno != 0 && t.errno != unix.EAGAIN:
		c.cut()
		return
	case t.n < len(t.buf):
		if err := c.enqueue(t.n); err != nil {
			c.failed(err)
			return
		}
		c.rest()
		c.interest()
		return
	}
	c.s.w.Buf = c.s.w.Buf[:0]
	c.rest()
}

// enqueue lets the replies in s.w.Buf wait, without their first n bytes. Small
// ones are copied, so that the session gives its buffer back; a large buffer is
// handed over.
func (c *loopConn) enqueue(n int) error {
	buf := c.s.w.Buf
	b := buf[n:]
	c.s.w.Buf = buf[:0]
	if c.waiting+len(b) > c.srv.OutputLimit() {
		return errOutputLimit
	}
	if c.waiting == 0 {
		c.until, c.slice = c.l.now.Add(c.srv.o.WriteTimeout), flushSlice
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.s.tight:
		// The buffer is beyond the budget; what waits must find room in it.
		c.s.w.Buf = nil
		c.account(len(c.in)+c.lists, c.queueHeld, 0, true)
	case cap(buf) > keepSize && len(b) > cap(buf)/2:
		c.s.w.Buf = nil
		c.account(len(c.in)+c.lists, c.queueHeld+cap(buf), 0, true)
		c.queue = append(c.queue, chunk{b, cap(buf)})
		c.addWaiting(len(b))
		return nil
	}
	return c.copyToQueue(b)
}

// copyToQueue fills the last chunk and appends new ones. c.mu is held.
func (c *loopConn) copyToQueue(b []byte) error {
	for len(b) > 0 {
		if n := len(c.queue); n > 0 {
			last := &c.queue[n-1]
			if room := min(cap(last.rest)-len(last.rest), len(b)); room > 0 {
				last.rest = append(last.rest, b[:room]...)
				c.addWaiting(room)
				b = b[room:]
				continue
			}
		}
		size := chunkSize
		if !c.account(c.own, c.queueHeld+size, 0, false) {
			if size = min(len(b), chunkSize); !c.account(c.own, c.queueHeld+size, 0, false) {
				return errBufferLimit
			}
		}
		c.queue = append(c.queue, chunk{make([]byte, 0, size), size})
	}
	return nil
}

func (c *loopConn) addWaiting(n int) {
	c.waiting += n
	c.waits.Store(int64(c.waiting))
}

// sendQueue sends what the client takes of the queue, up to maxSend, and lets the
// session go on if it waited for that. It reports false if the connection ended.
func (c *loopConn) sendQueue() bool {
	parts, size := c.l.vector[:0], 0
	for i := range c.queue {
		rest := c.queue[i].rest
		if len(parts) == maxVector || size >= maxSend {
			break
		}
		rest = rest[:min(len(rest), maxSend-size)]
		v := unix.Iovec{Base: &rest[0]}
		v.SetLen(len(rest))
		parts = append(parts, v)
		size += len(rest)
	}
	n, errno := sendVector(c.fd, parts)
	clear(parts)
	if errno == unix.EAGAIN {
		return true
	}
	if errno != 0 {
		c.failed(errno)
		return false
	}
	c.l.netOut += int64(n)
	c.l.writes++
	c.took(n)
	if c.state == serving && c.hasRest && !c.inMore && c.mayAddNow() {
		c.inMore = true
		c.l.more = append(c.l.more, c)
	}
	if c.waiting == 0 && c.state == finishing && !c.inDirty {
		c.linger()
	} else {
		c.interest()
	}
	return c.fd >= 0
}

// mayAddNow is mayAdd for a session that may be away.
func (c *loopConn) mayAddNow() bool { return !c.away && c.mayAdd() }

// took removes n bytes from the front of the queue.
func (c *loopConn) took(n int) {
	c.addWaiting(-n)
	if c.slice -= n; c.slice <= 0 {
		c.until, c.slice = c.l.now.Add(c.srv.o.WriteTimeout), flushSlice
	}
	done, freed := 0, 0
	for n > 0 {
		q := &c.queue[done]
		if n < len(q.rest) {
			q.rest = q.rest[n:]
			break
		}
		n -= len(q.rest)
		freed += q.size
		done++
	}
	if done == 0 {
		return
	}
	left := copy(c.queue, c.queue[done:])
	clear(c.queue[left:])
	if c.queue = c.queue[:left]; left == 0 {
		c.queue = nil
	}
	c.mu.Lock()
	c.account(c.own, c.queueHeld-freed, 0, true)
	c.mu.Unlock()
}

// dropQueue forgets the replies that wait.
func (c *loopConn) dropQueue() {
	c.queue = nil
	c.addWaiting(-c.waiting)
	c.mu.Lock()
	c.account(c.own, 0, 0, true)
	c.mu.Unlock()
}
