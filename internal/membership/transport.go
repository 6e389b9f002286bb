package membership

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport stands between memberlist and the network. memberlist does not
// stop its streams when it shuts down: their goroutines linger until a timeout
// of seconds. This transport knows every stream and closes them, and cuts
// dials short, so that Close is quick and leaves little behind.
type transport struct {
	memberlist.NodeAwareTransport
	real    interface{ GetAutoBindPort() int } // nil in tests
	streams chan net.Conn                      // what memberlist accepts from
	dials   context.Context                    // of dials, done when Shutdown begins
	cut     context.CancelFunc
	source  net.Addr                // streams leave from it; nil: from anywhere
	stop    chan struct{}           // closed when the network below is shut down
	packets chan *memberlist.Packet // what memberlist receives from
	relays  sync.WaitGroup          // relayStreams and relayPackets

	sent, received atomic.Uint64 // packets and streams

	mu     sync.Mutex
	conns  map[*stream]struct{} // bounded by memberlist's concurrency
	closed bool
}

// newTransport wraps given, or listens on ip:port if given is nil, over TCP alone if
// that is asked for.
func newTransport(given memberlist.Transport, ip string, port int, tcpOnly bool, logger *log.Logger) (*transport, error) {
	t := &transport{streams: make(chan net.Conn), packets: make(chan *memberlist.Packet), stop: make(chan struct{}),
		conns: map[*stream]struct{}{}}
	switch given := given.(type) {
	case nil:
		if tcpOnly {
			st, err := listenStreams(ip, port, logger)
			if err != nil {
				return nil, fmt.Errorf("gossip cannot listen on %s port %d (TCP): %w", ip, port, err)
			}
			t.real, t.NodeAwareTransport = st, st
			break
		}
		nt, err := listen(ip, port, logger)
		if err != nil {
			return nil, fmt.Errorf("gossip cannot listen on %s port %d: %w", ip, port, err)
		}
		t.real, t.NodeAwareTransport = nt, nt
	case memberlist.NodeAwareTransport:
		t.NodeAwareTransport = given
	default:
		t.NodeAwareTransport = plainTransport{given}
	}
	t.dials, t.cut = context.WithCancel(context.Background())
	t.relays.Go(t.relayStreams) // ends at Shutdown, which waits for it
	t.relays.Go(t.relayPackets) // the same
	return t, nil
}

// listen opens TCP and UDP on one port. The kernel picks a port for TCP alone,
// and somebody may have it for UDP: then it is asked again.
func listen(ip string, port int, logger *log.Logger) (nt *memberlist.NetTransport, err error) {
	for range 10 {
		nt, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{ip}, BindPort: port, Logger: logger})
		if err == nil || port != 0 {
			break
		}
	}
	return nt, err
}

// leaveFrom says which address streams leave from; nil leaves it to the system. It
// is called before the first dial, and means nothing to a transport given.
func (t *transport) leaveFrom(ip net.IP) {
	if ip == nil {
		return
	}
	t.source = &net.TCPAddr{IP: ip}
	if st, ok := t.real.(*streamTransport); ok {
		st.source = t.source
	}
}

// port returns the port listened on, or 0 with a transport given.
func (t *transport) port() int {
	if t.real == nil {
		return 0
	}
	return t.real.GetAutoBindPort()
}

// relayStreams passes accepted streams on. After Shutdown has begun it still takes
// them, to close them: the listener waits for its hand-over.
func (t *transport) relayStreams() {
	for {
		select {
		case conn := <-t.NodeAwareTransport.StreamCh():
			t.received.Add(1)
			s, err := t.track(conn)
			if err != nil {
				continue
			}
			select {
			case t.streams <- s:
			case <-t.stop:
				_ = s.Close()
			}
		case <-t.stop:
			return
		}
	}
}

// relayPackets passes packets on, and counts them. After Shutdown has begun it drops
// them: the listener waits for its hand-over.
func (t *transport) relayPackets() {
	for {
		select {
		case p := <-t.NodeAwareTransport.PacketCh():
			t.received.Add(1)
			select {
			case t.packets <- p:
			case <-t.dials.Done():
			}
		case <-t.stop:
			return
		}
	}
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	at, err := t.NodeAwareTransport.WriteToAddress(b, a)
	if err == nil {
		t.sent.Add(1)
	}
	return at, err
}

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	var conn net.Conn
	var err error
	if t.real != nil {
		conn, err = (&net.Dialer{Timeout: timeout, LocalAddr: t.source}).DialContext(t.dials, "tcp", a.Addr)
	} else {
		conn, err = t.NodeAwareTransport.DialAddressTimeout(a, timeout)
	}
	if err != nil {
		return nil, err
	}
	t.sent.Add(1)
	return t.track(conn)
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (t *transport) track(conn net.Conn) (net.Conn, error) {
	s := &stream{Conn: conn, t: t}
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.conns[s] = struct{}{}
	}
	t.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return s, nil
}

// Shutdown implements memberlist.Transport. A second call does nothing.
func (t *transport) Shutdown() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	open := make([]*stream, 0, len(t.conns))
	for s := range t.conns {
		open = append(open, s)
	}
	t.mu.Unlock()
	t.cut()
	for _, s := range open {
		_ = s.Close()
	}
	err := t.NodeAwareTransport.Shutdown() // the relays drain its listeners meanwhile
	close(t.stop)
	t.relays.Wait()
	return err
}

// stream is a connection that the transport knows until it is closed.
type stream struct {
	net.Conn
	t *transport
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.t.mu.Lock()
	delete(s.t.conns, s)
	s.t.mu.Unlock()
	return s.Conn.Close()
}

// plainTransport gives a plain Transport the methods with node names.
type plainTransport struct{ memberlist.Transport }

// WriteToAddress implements memberlist.NodeAwareTransport.
func (p plainTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return p.WriteTo(b, a.Addr)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (p plainTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return p.DialTimeout(a.Addr, timeout)
}
