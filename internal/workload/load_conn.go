package workload

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/ring"
)

const (
	// loadInline is up to how many bytes without a reply a connection is written
	// to by whoever has a request for it: the kernel takes them at once. Beyond,
	// a goroutine writes, so that a server that stalls holds up nobody else.
	loadInline = 16 << 10
	// maxHops bounds how often a request is sent elsewhere.
	maxHops = 8
	// maxDraws bounds the search for a key of a node.
	maxDraws = 1 << 16
	loadKey  = len("key:000000000000")
)

// loadRequest is one request; due is since the start of the load.
type loadRequest struct {
	due  time.Duration
	key  int
	size int32 // on the wire
	set  bool
	hops uint8
}

// loadFIFO is a queue of requests.
type loadFIFO struct {
	items []loadRequest
	head  int
}

func (q *loadFIFO) len() int { return len(q.items) - q.head }

func (q *loadFIFO) push(r loadRequest) {
	if q.head > 64 && q.head >= len(q.items)/2 {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	q.items = append(q.items, r)
}

func (q *loadFIFO) pop() loadRequest {
	r := q.items[q.head]
	q.head++
	return r
}

// loadNode is one server.
type loadNode struct {
	e    *loadEngine
	addr string

	mu     sync.Mutex // guards what follows, and the fields of its connections named there
	queue  loadFIFO   // requests that no connection has taken
	ready  []*loadConn
	conns  []*loadConn
	rng    *rand.Rand
	zipf   *Zipf
	errors uint64
}

// loadConn is a connection. Its reader ends with the connection.
type loadConn struct {
	n *loadNode

	// Guarded by n.mu.
	nc      net.Conn // nil while there is none
	pending loadFIFO
	bytes   int    // of out and of what was written to nc without a reply yet
	out     []byte // not written yet
	spare   []byte // the array of out before
	writing bool
	isReady bool // in n.ready

	// Of the reader.
	in       *bufio.Reader
	get, set Histogram
	hits     uint64
	misses   uint64
}

// offer puts a request into the queue of a node. The caller pumps.
func (n *loadNode) offer(r loadRequest) {
	n.mu.Lock()
	n.queue.push(r)
	n.mu.Unlock()
}

// pump hands requests to connections that may send, and writes.
func (n *loadNode) pump() {
	var buf [16]*loadConn
	dirty := buf[:0]
	n.mu.Lock()
	for len(n.ready) > 0 {
		var r loadRequest
		switch {
		case n.queue.len() > 0:
			r = n.queue.pop()
		case n.e.saturates():
			var ok bool
			if r, ok = n.draw(); !ok {
				n.write(dirty)
				return
			}
		default:
			n.write(dirty)
			return
		}
		c := n.ready[0]
		n.ready = n.ready[:copy(n.ready, n.ready[1:])]
		c.isReady = false
		if len(c.out) == 0 {
			dirty = append(dirty, c)
		}
		c.add(r)
		c.room()
	}
	n.write(dirty)
}

// room puts a connection among those that may send. n.mu is held.
func (c *loadConn) room() {
	if !c.isReady && c.nc != nil && c.pending.len() < int(c.n.e.depth.Load()) {
		c.isReady = true
		c.n.ready = append(c.n.ready, c)
	}
}

// draw makes a request for a node of a load without a rate. n.mu is held.
func (n *loadNode) draw() (loadRequest, bool) {
	e := n.e
	r := loadRequest{due: e.since(), set: n.rng.Float64() >= e.o.Reads}
	var key [loadKey]byte
	for range maxDraws {
		if r.key = drawKey(n.rng, n.zipf, e.o.Keys); !e.cluster || e.slots[ring.Slot(appendKey(key[:0], r.key))].Load() == n {
			e.open.Add(1)
			return r, true
		}
	}
	return r, false
}

func drawKey(rng *rand.Rand, zipf *Zipf, keys int) int {
	if zipf != nil {
		return int(zipf.Next())
	}
	return rng.IntN(keys)
}

func appendKey(b []byte, key int) []byte {
	at := len(b)
	b = append(b, "key:000000000000"...)
	for i := at + loadKey - 1; key > 0; i-- {
		b[i] = byte('0' + key%10)
		key /= 10
	}
	return b
}

// add appends a request to what is to be written. n.mu is held.
func (c *loadConn) add(r loadRequest) {
	e, was := c.n.e, len(c.out)
	if !r.set {
		c.out = appendKey(append(c.out, "*2\r\n$3\r\nGET\r\n$16\r\n"...), r.key)
		c.out = append(c.out, "\r\n"...)
	} else {
		size := e.o.MinValue
		if more := e.o.MaxValue - size; more > 0 {
			size += int(mix(uint64(r.key)^uint64(r.due)) % uint64(more+1))
		}
		head := "*3\r\n$3\r\nSET\r\n$16\r\n"
		if e.ttl != "" {
			head = "*5\r\n$3\r\nSET\r\n$16\r\n"
		}
		c.out = appendKey(append(c.out, head...), r.key)
		c.out = strconv.AppendInt(append(c.out, "\r\n$"...), int64(size), 10)
		c.out = append(append(append(c.out, "\r\n"...), e.value[:size]...), "\r\n"...)
		c.out = append(c.out, e.ttl...)
	}
	r.size = int32(len(c.out) - was)
	c.bytes += int(r.size)
	c.pending.push(r)
}

// write writes what was added to connections. n.mu is held, and released.
func (n *loadNode) write(dirty []*loadConn) {
	for i, c := range dirty {
		switch {
		case c.writing || c.nc == nil:
			dirty[i] = nil // whoever writes goes on, or the requests have failed
		case c.bytes > loadInline:
			c.writing, dirty[i] = true, nil
			n.e.work.Go(c.flush) // ends when all is written, or with the connection
		default:
			c.writing = true
		}
	}
	n.mu.Unlock()
	for _, c := range dirty {
		if c != nil {
			c.flush()
		}
	}
}

// flush writes until nothing is left. An error ends the connection, and its reader
// with it.
func (c *loadConn) flush() {
	n := c.n
	n.mu.Lock()
	for len(c.out) > 0 && c.nc != nil {
		nc, out := c.nc, c.out
		c.out, c.spare = c.spare[:0], nil
		n.mu.Unlock()
		_, err := nc.Write(out)
		if err != nil {
			nc.Close()
		}
		n.mu.Lock()
		c.spare = out
		if err != nil {
			break
		}
	}
	c.writing = false
	n.mu.Unlock()
}

// read takes the replies of a connection until it ends, and says why.
func (c *loadConn) read(nc net.Conn) error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if err := c.reply(line); err != nil {
			return err
		}
		if c.in.Buffered() == 0 {
			c.n.pump()
		}
	}
}

// reply takes one reply, whose first line is line.
func (c *loadConn) reply(line []byte) error {
	n, e := c.n, c.n.e
	n.mu.Lock()
	if c.pending.len() == 0 {
		n.mu.Unlock()
		return fmt.Errorf("a reply to no request: %.80q", line)
	}
	r := c.pending.pop()
	c.bytes -= int(r.size)
	c.room()
	n.mu.Unlock()
	if line[0] == '-' {
		e.refused(n, r, line)
		return nil
	}
	null := false
	if line[0] == '$' {
		size, err := strconv.Atoi(string(line[1 : len(line)-2]))
		if err != nil {
			return fmt.Errorf("reply %.80q", line)
		}
		if null = size < 0; !null {
			if _, err := c.in.Discard(size + 2); err != nil {
				return err
			}
		}
	} else if line[0] != '+' && line[0] != '_' {
		return fmt.Errorf("reply %.80q", line)
	}
	e.open.Add(-1)
	if !e.counts(r.due) {
		return nil
	}
	took := e.since() - r.due
	switch {
	case r.set:
		c.set.Record(took)
		return nil
	case null || line[0] == '_':
		c.misses++
	default:
		c.hits++
	}
	c.get.Record(took)
	return nil
}

// serve reads a connection and, when it breaks, fails its requests and makes another,
// until the load ends.
func (c *loadConn) serve() {
	n, e := c.n, c.n.e
	for {
		n.mu.Lock()
		nc := c.nc
		n.mu.Unlock()
		if nc != nil {
			err := c.read(nc)
			nc.Close()
			if e.ended.Load() {
				return
			}
			c.lost(fmt.Errorf("%s: %w", n.addr, err))
		}
		for nc = nil; nc == nil; {
			if !e.pause(loadRetry) {
				return
			}
			e.refresh()
			nc, _ = e.dial(e.ctx, n.addr)
		}
		if !c.adopt(nc) {
			return
		}
		n.pump()
	}
}

// adopt takes a new connection, unless the load has ended.
func (c *loadConn) adopt(nc net.Conn) bool {
	n := c.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.e.ended.Load() {
		nc.Close()
		return false
	}
	c.in = bufio.NewReaderSize(nc, 16<<10)
	c.nc = nc
	c.room()
	return true
}

// lost fails the requests of a connection that broke.
func (c *loadConn) lost(err error) {
	n := c.n
	n.mu.Lock()
	failed := uint64(c.pending.len())
	c.nc, c.out, c.bytes, c.pending = nil, nil, 0, loadFIFO{}
	if c.isReady {
		c.isReady = false
		for i, x := range n.ready {
			if x == c {
				n.ready = append(n.ready[:i], n.ready[i+1:]...)
				break
			}
		}
	}
	n.errors += failed
	n.mu.Unlock()
	n.e.open.Add(-int64(failed))
	n.e.note(err)
}
