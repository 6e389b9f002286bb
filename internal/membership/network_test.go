package membership

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

// network is an in-memory network with faults, for virtual time: packets and
// streams of memberlist, and data ports for Probe and Contact.
type network struct {
	mu    sync.Mutex
	hosts map[string]*host // by IP
	cut   map[[2]string]bool
	slow  map[string]chan struct{} // IPs of paused processes; closed on resume
	delay time.Duration
	loss  float64 // share of packets lost; streams are TCP and lose nothing

	packets, packetBytes, streamBytes atomic.Int64 // sent
}

// host is one process on the network. It is a memberlist.Transport.
type host struct {
	n       *network
	ip      string
	member  topology.Member
	packets chan *memberlist.Packet
	streams chan net.Conn

	// guarded by n.mu
	killed   bool
	dataPort dataPort
}

type dataPort uint8

const (
	dataUp dataPort = iota
	dataRefuses
	dataSilent
)

func newNetwork() *network {
	return &network{hosts: map[string]*host{}, cut: map[[2]string]bool{}, slow: map[string]chan struct{}{},
		delay: 200 * time.Microsecond}
}

// add starts a process at ip; a killed one there is replaced.
func (n *network) add(ip string, m topology.Member) *host {
	h := &host{n: n, ip: ip, member: m, packets: make(chan *memberlist.Packet, 4096), streams: make(chan net.Conn, 64)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[ip] = h
	return h
}

func (n *network) kill(ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[ip].killed = true
}

// sever cuts or mends both directions between two addresses.
func (n *network) sever(a, b string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]string{a, b}], n.cut[[2]string{b, a}] = cut, cut
}

// isolate cuts or mends one address from all others.
func (n *network) isolate(ip string, cut bool) {
	n.mu.Lock()
	var others []string
	for other := range n.hosts {
		if other != ip {
			others = append(others, other)
		}
	}
	n.mu.Unlock()
	for _, other := range others {
		n.sever(ip, other, cut)
	}
}

// pause stops a process: what it sends and what is sent to it waits.
func (n *network) pause(ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[ip] = make(chan struct{})
}

func (n *network) resume(ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.slow[ip])
	delete(n.slow, ip)
}

// path says what stands between two processes: to is nil if nothing runs
// there, wait is not nil while one of them is paused.
func (n *network) path(from, to string) (h *host, cut bool, wait chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h = n.hosts[to]
	if h != nil && h.killed {
		h = nil
	}
	if wait = n.slow[from]; wait == nil {
		wait = n.slow[to]
	}
	if src := n.hosts[from]; src == nil || src.killed {
		return nil, true, nil // the dead send nothing
	}
	return h, n.cut[[2]string{from, to}], wait
}

func (n *network) lost() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return rand.Float64() < n.loss
}

func ipOf(addr string) string {
	ip, _, _ := net.SplitHostPort(addr)
	return ip
}

func (h *host) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.ParseIP(h.ip).To4(), 17001, nil
}
func (h *host) PacketCh() <-chan *memberlist.Packet { return h.packets }
func (h *host) StreamCh() <-chan net.Conn           { return h.streams }
func (h *host) Shutdown() error                     { return nil }

func (h *host) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	h.n.packets.Add(1)
	h.n.packetBytes.Add(int64(len(b)))
	_, cut, wait := h.n.path(h.ip, ipOf(addr))
	if cut || h.n.lost() {
		return now, nil
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: &net.UDPAddr{IP: net.ParseIP(h.ip), Port: 17001}}
	deliver := func() {
		to, cut, _ := h.n.path(h.ip, ipOf(addr))
		if to == nil || cut {
			return
		}
		p.Timestamp = time.Now()
		select {
		case to.packets <- p:
		default:
		}
	}
	if wait != nil {
		go func() { <-wait; deliver() }()
	} else {
		time.AfterFunc(h.n.delay, deliver)
	}
	return now, nil
}

func (h *host) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	to, err := h.reach(ctx, ipOf(addr), false)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	near, far := net.Pipe()
	_ = near.SetDeadline(time.Now().Add(timeout))
	a, b := &pipe{near, h.n, h.ip, to.ip}, &pipe{far, h.n, to.ip, h.ip}
	select {
	case to.streams <- b:
		return a, nil
	default:
		return nil, syscall.ECONNREFUSED
	}
}

// reach waits as a TCP connection does: refused at once where nothing listens,
// silence over a cut link and while one side is paused.
func (h *host) reach(ctx context.Context, ip string, data bool) (*host, error) {
	to, cut, wait := h.n.path(h.ip, ip)
	if wait != nil {
		select {
		case <-wait:
			to, cut, _ = h.n.path(h.ip, ip)
		case <-ctx.Done():
		}
	}
	port := dataUp
	if to != nil && data {
		h.n.mu.Lock()
		port = to.dataPort
		h.n.mu.Unlock()
	}
	if ctx.Err() != nil || cut || port == dataSilent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if to == nil || port == dataRefuses {
		return nil, syscall.ECONNREFUSED
	}
	return to, nil
}

// Probe implements Prober.
func (h *host) Probe(ctx context.Context, m topology.Member) error {
	to, err := h.reach(ctx, m.Host, true)
	if err != nil {
		return fmt.Errorf("dial %s: %w", m.Addr(), err)
	}
	if to.member.ID != m.ID || to.member.Boot != m.Boot {
		return fmt.Errorf("at %s: %w", m.Addr(), errs.ErrOtherNode)
	}
	return nil
}

// Contact implements Prober.
func (h *host) Contact(ctx context.Context, seed string) (string, topology.NodeID, error) {
	to, err := h.reach(ctx, ipOf(seed), true)
	if err != nil {
		return "", topology.NodeID{}, err
	}
	return to.ip + ":17001", to.member.ID, nil
}

// pipe is a stream that swallows what is written while its link is cut.
type pipe struct {
	net.Conn
	n        *network
	from, to string
}

func (p *pipe) Write(b []byte) (int, error) {
	p.n.streamBytes.Add(int64(len(b)))
	if to, cut, wait := p.n.path(p.from, p.to); wait != nil {
		select {
		case <-wait:
		case <-time.After(streamTimeout):
			return 0, context.DeadlineExceeded
		}
	} else if cut || to == nil {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func (p *pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.to), Port: 17001} }
