package membership

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/errs"
)

// streamTransport is gossip over TCP alone, for networks that carry no UDP: what
// memberlist sends as packets goes over one connection to each peer, as frames.
// Nothing else changes: like UDP it may lose packets (a full queue, a peer that is
// away), and never waits for a peer.
//
// A connection that begins with packetStream carries frames of a two-byte length
// and a packet; all others are memberlist's own streams, none of whose messages has
// that number. All members of a cluster need the same kind of transport: a node with
// UDP hears no packets of one without.
type streamTransport struct {
	ln      *net.TCPListener
	log     *log.Logger
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{}
	dials   context.Context // done when Shutdown begins
	cut     context.CancelFunc
	source  net.Addr       // dials leave from it; nil: from anywhere
	wg      sync.WaitGroup // accept, incoming connections, senders

	mu     sync.Mutex
	queues map[string]*packetQueue // by address; only those with a sender
	conns  map[net.Conn]struct{}   // incoming ones that carry packets, or do not say yet
	closed bool
}

const (
	packetStream  = 0xF7
	maxPacket     = 65535
	packetBacklog = 256              // packets that wait for one peer; further ones are dropped
	packetConns   = 4 * MaxPeers     // incoming connections at a time; further ones are closed
	senderIdle    = 30 * time.Second // a sender without packets ends
	receiverIdle  = 90 * time.Second
	firstByte     = 10 * time.Second
	packetDial    = time.Second
	packetWrite   = time.Second
)

// packetQueue is what waits for one peer.
type packetQueue struct{ packets chan []byte }

// listenStreams opens the TCP port.
func listenStreams(ip string, port int, logger *log.Logger) (*streamTransport, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	t := &streamTransport{ln: ln.(*net.TCPListener), log: logger, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		done: make(chan struct{}), queues: map[string]*packetQueue{}, conns: map[net.Conn]struct{}{}}
	t.dials, t.cut = context.WithCancel(context.Background())
	t.wg.Go(t.accept) // ends at Shutdown
	return t, nil
}

// GetAutoBindPort is the port listened on.
func (t *streamTransport) GetAutoBindPort() int { return t.ln.Addr().(*net.TCPAddr).Port }

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *streamTransport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	addr := t.ln.Addr().(*net.TCPAddr)
	own := addr.IP
	if ip != "" {
		if own = net.ParseIP(ip); own == nil {
			return nil, 0, fmt.Errorf("%w: advertised gossip address %q is not an IP", errs.ErrConfig, ip)
		}
	}
	if own == nil || own.IsUnspecified() {
		return nil, 0, fmt.Errorf("%w: gossip over TCP alone listens on every interface: say by which address others reach it (advertise)", errs.ErrConfig)
	}
	if v4 := own.To4(); v4 != nil {
		own = v4
	}
	if port == 0 {
		port = addr.Port
	}
	return own, port, nil
}

// PacketCh and StreamCh implement memberlist.Transport.
func (t *streamTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *streamTransport) StreamCh() <-chan net.Conn           { return t.streams }

// accept takes connections until Shutdown.
func (t *streamTransport) accept() {
	wait := time.Duration(0)
	for {
		conn, err := t.ln.Accept()
		if err != nil {
			wait = min(max(2*wait, 5*time.Millisecond), time.Second) // no descriptors, perhaps
			select {
			case <-t.done:
				return
			case <-time.After(wait):
				t.log.Printf("[ERR] memberlist: Error accepting TCP connection: %v", err)
				continue
			}
		}
		wait = 0
		if !t.track(conn) {
			_ = conn.Close()
			continue
		}
		t.wg.Go(func() { t.receive(conn) }) // ends with the connection, or hands it on
	}
}

func (t *streamTransport) track(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.conns) >= packetConns {
		return false
	}
	t.conns[conn] = struct{}{}
	return true
}

func (t *streamTransport) untrack(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, conn)
}

// receive finds out what a connection carries.
func (t *streamTransport) receive(conn net.Conn) {
	keep := false
	defer func() {
		t.untrack(conn)
		if !keep {
			_ = conn.Close()
		}
	}()
	if conn.SetReadDeadline(time.Now().Add(firstByte)) != nil {
		return
	}
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return
	}
	if first[0] == packetStream {
		t.receivePackets(conn)
		return
	}
	if conn.SetReadDeadline(time.Time{}) != nil {
		return
	}
	select {
	case t.streams <- &begunConn{Conn: conn, first: first[:]}:
		keep = true
	case <-t.done:
	}
}

func (t *streamTransport) receivePackets(conn net.Conn) {
	r := bufio.NewReaderSize(conn, 4<<10)
	for {
		var head [2]byte
		if conn.SetReadDeadline(time.Now().Add(receiverIdle)) != nil {
			return
		}
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		buf := make([]byte, binary.BigEndian.Uint16(head[:])) // memberlist keeps it
		if _, err := io.ReadFull(r, buf); err != nil || len(buf) == 0 {
			return
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: buf, From: conn.RemoteAddr(), Timestamp: time.Now()}:
		case <-t.done:
			return
		}
	}
}

// WriteTo implements memberlist.Transport.
func (t *streamTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	if len(b) > maxPacket {
		return time.Time{}, fmt.Errorf("gossip packet has %d bytes, limit %d", len(b), maxPacket)
	}
	frame := make([]byte, 2, 2+len(b))
	binary.BigEndian.PutUint16(frame, uint16(len(b)))
	frame = append(frame, b...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return time.Time{}, net.ErrClosed
	}
	q := t.queues[addr]
	if q == nil {
		if len(t.queues) >= 2*MaxPeers {
			return time.Time{}, fmt.Errorf("%w: gossip has %d connections already", errs.ErrShed, len(t.queues))
		}
		q = &packetQueue{make(chan []byte, packetBacklog)}
		t.queues[addr] = q
		t.wg.Go(func() { t.send(addr, q) }) // ends after senderIdle, on an error, or at Shutdown
	}
	select {
	case q.packets <- frame:
	default: // lost, as a packet may be
	}
	return time.Now(), nil
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *streamTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// send carries what waits for one peer. After a failure that is lost, and the next
// packet makes a new connection.
func (t *streamTransport) send(addr string, q *packetQueue) {
	var conn net.Conn
	defer func() {
		t.mu.Lock()
		if t.queues[addr] == q {
			delete(t.queues, addr)
		}
		t.mu.Unlock()
		if conn != nil {
			_ = conn.Close()
		}
	}()
	idle := time.NewTimer(senderIdle)
	defer idle.Stop()
	for {
		var frame []byte
		select {
		case frame = <-q.packets:
		case <-idle.C:
			return
		case <-t.done:
			return
		}
		idle.Reset(senderIdle)
		if conn == nil {
			var err error
			if conn, err = t.connect(addr); err != nil {
				return
			}
		}
		for n := len(q.packets); n > 0 && len(frame) < 32<<10; n-- { // in one write
			frame = append(frame, <-q.packets...)
		}
		if conn.SetWriteDeadline(time.Now().Add(packetWrite)) != nil {
			return
		}
		if _, err := conn.Write(frame); err != nil {
			return
		}
	}
}

func (t *streamTransport) connect(addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.dials, packetDial)
	defer cancel()
	conn, err := (&net.Dialer{LocalAddr: t.source}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err = conn.SetWriteDeadline(time.Now().Add(packetWrite)); err == nil {
		_, err = conn.Write([]byte{packetStream})
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// DialTimeout implements memberlist.Transport; the wrapper dials itself.
func (t *streamTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout, LocalAddr: t.source}).Dial("tcp", addr)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *streamTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

// Shutdown implements memberlist.Transport. It waits for every goroutine.
func (t *streamTransport) Shutdown() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	for conn := range t.conns {
		_ = conn.Close()
	}
	t.mu.Unlock()
	close(t.done)
	t.cut()
	err := t.ln.Close()
	t.wg.Wait()
	return err
}

// begunConn is a connection whose first byte was read already.
type begunConn struct {
	net.Conn
	first []byte // owned by the reader
}

// Read implements net.Conn.
func (c *begunConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 && len(b) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
