package link

import (
	"fmt"
	"io"
	"net"
	"runtime"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

const (
	readBuffer = 16 << 10  // bytes; what an idle connection keeps
	keepBuffer = 256 << 10 // larger buffers are given back when they are empty
)

// reader parses replies off a socket. The buffer grows with received bytes, up
// to the limit of one reply.
type reader struct {
	nc     net.Conn
	heard  func() // after every read that brought something; nil during the handshake
	parser resp.ReplyParser
	limits resp.ReplyLimits
	buf    []byte
	r, w   int // the unread bytes are buf[r:w]
}

func newReader(nc net.Conn, maxReply int) reader {
	return reader{nc: nc, buf: make([]byte, readBuffer), limits: resp.ReplyLimits{
		MaxDepth: maxReplyDepth, MaxElems: maxReplyElems, MaxBulk: maxReply, MaxBytes: maxReply}}
}

// next returns the next reply or push frame, borrowed until the next call.
func (rd *reader) next() (resp.Value, error) {
	for {
		if rd.r < rd.w {
			v, n, err := rd.parser.Next(rd.buf[rd.r:rd.w], &rd.limits)
			if err != nil {
				return resp.Value{}, fmt.Errorf("%w: %w", errs.ErrProtocol, err)
			}
			if n > 0 {
				rd.r += n
				return v, nil
			}
		}
		if err := rd.fill(); err != nil {
			return resp.Value{}, err
		}
	}
}

// fill reads at least one more byte.
func (rd *reader) fill() error {
	switch {
	case rd.r == rd.w:
		rd.r, rd.w = 0, 0
		if len(rd.buf) > keepBuffer {
			rd.buf = make([]byte, readBuffer)
		}
	case rd.r > 0:
		rd.w = copy(rd.buf, rd.buf[rd.r:rd.w])
		rd.r = 0
	}
	if rd.w == len(rd.buf) {
		grown := make([]byte, 2*len(rd.buf))
		copy(grown, rd.buf[:rd.w])
		rd.buf = grown
	}
	n, err := rd.nc.Read(rd.buf[rd.w:])
	rd.w += n
	if n > 0 {
		if rd.heard != nil {
			rd.heard()
		}
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// readLoop delivers replies until the connection breaks.
func (c *Conn) readLoop() {
	defer c.exit()
	for {
		v, err := c.rd.next()
		if err != nil {
			c.fail(fmt.Errorf("read: %w", err))
			return
		}
		if v.Kind == resp.Push {
			if c.o.OnPush != nil {
				c.o.OnPush(c.addr, v)
			}
			continue
		}
		if err := c.deliver(v); err != nil {
			c.fail(err)
			return
		}
	}
}

// deliver gives a reply to the oldest call.
func (c *Conn) deliver(v resp.Value) error {
	c.mu.Lock()
	if c.pend.n == 0 {
		c.mu.Unlock()
		return errSpurious
	}
	if cl := c.pend.front(); cl.skip > 0 {
		cl.skip--
		c.mu.Unlock()
		return nil
	}
	cl := c.pend.pop()
	last := c.retired && c.pend.n == 0
	c.mu.Unlock()
	cl.finish(v, nil)
	if last {
		return errRetired
	}
	return nil
}

// writeLoop writes what callers queued, all of it in one call, until the
// connection breaks.
func (c *Conn) writeLoop() {
	defer c.exit()
	for {
		select {
		case <-c.wake:
		case <-c.dead:
			return
		}
		// Callers that are about to queue get a chance to share this write.
		runtime.Gosched()
		for {
			buf := c.takeOut()
			if buf == nil {
				break
			}
			if _, err := c.nc.Write(buf); err != nil {
				c.fail(fmt.Errorf("write: %w", err))
				return
			}
			c.giveBack(buf)
		}
	}
}

// takeOut takes the queued bytes, or ends the turn of the writer.
func (c *Conn) takeOut() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 || c.err != nil {
		c.busy = false
		return nil
	}
	buf := c.out
	c.out, c.spare = c.spare[:0], nil
	return buf
}

func (c *Conn) giveBack(buf []byte) {
	if cap(buf) > keepBuffer {
		return
	}
	c.mu.Lock()
	if c.err == nil {
		c.spare = buf[:0]
	}
	c.mu.Unlock()
}

// writeDirect writes a request from its caller's goroutine, without blocking.
// What the socket does not take at once goes to the writer, in front of what
// was queued meanwhile. The caller set busy.
func (c *Conn) writeDirect(req []byte) {
	n, err := c.direct.write(req)
	if err != nil {
		c.fail(fmt.Errorf("write: %w", err))
		return
	}
	c.mu.Lock()
	if n < len(req) && c.err == nil {
		rest := make([]byte, 0, len(req)-n+len(c.out))
		c.out = append(append(rest, req[n:]...), c.out...)
	}
	if len(c.out) == 0 {
		c.busy = false
		c.mu.Unlock()
		return
	}
	c.busy = false // so that the writer is woken
	c.wakeWriter()
}
