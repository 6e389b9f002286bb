package clustertest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/node"
)

const (
	gossipPort = 7946
	// gossipQueue bounds the packets that wait for one node; more are lost.
	gossipQueue = 4096
	// maxGossipHosts is how many names find an address in one network.
	maxGossipHosts = 250
)

// GossipNet is real membership over a MemNet: packets of memberlist that are lost
// where a pair is blocked, and streams that wait there, as TCP does. Every name has
// an address that it keeps over restarts.
type GossipNet struct {
	net *MemNet

	mu    sync.Mutex
	ips   map[string]string      // by name
	hosts map[string]*gossipHost // by ip:port, the latest process
}

// NewGossipNet makes gossip over a network.
func NewGossipNet(n *MemNet) *GossipNet {
	return &GossipNet{net: n, ips: map[string]string{}, hosts: map[string]*gossipHost{}}
}

// Start is what node.Options.StartMembership takes for a node of that name.
func (g *GossipNet) Start(name string) func(membership.Options) (node.Members, error) {
	return func(o membership.Options) (node.Members, error) {
		h, err := g.open(name)
		if err != nil {
			return nil, err
		}
		o.Transport = h
		m, err := membership.Start(o)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
}

func (g *GossipNet) open(name string) (*gossipHost, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ip, ok := g.ips[name]
	if !ok {
		if len(g.ips) == maxGossipHosts {
			return nil, fmt.Errorf("no gossip address for %s: the network has room for %d names", name, maxGossipHosts)
		}
		ip = "10.0.0." + strconv.Itoa(len(g.ips)+1)
		g.ips[name] = ip
	}
	h := &gossipHost{g: g, name: name, ip: ip, packets: make(chan *memberlist.Packet, gossipQueue), streams: make(chan net.Conn), done: make(chan struct{})}
	h.ln = g.net.Listen(name, h.addr())
	g.hosts[h.addr()] = h
	h.wg.Go(h.accept) // ends at Shutdown, or when the node is killed
	return h, nil
}

// at returns the process at an address, nil without one.
func (g *GossipNet) at(addr string) *gossipHost {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hosts[addr]
}

// gossipHost is the gossip port of one process. It is a memberlist.Transport.
type gossipHost struct {
	g        *GossipNet
	name, ip string
	ln       net.Listener
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	wg       sync.WaitGroup

	once   sync.Once
	done   chan struct{} // closed at Shutdown
	killed atomic.Bool   // says nothing any more
}

func (h *gossipHost) addr() string { return net.JoinHostPort(h.ip, strconv.Itoa(gossipPort)) }

func (h *gossipHost) accept() {
	for {
		c, err := h.ln.Accept()
		if err != nil {
			return // closed, or killed
		}
		select {
		case h.streams <- c:
		case <-h.done:
			_ = c.Close() // nobody waits for it any more
		}
	}
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (h *gossipHost) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.ParseIP(h.ip).To4(), gossipPort, nil
}

// PacketCh implements memberlist.Transport.
func (h *gossipHost) PacketCh() <-chan *memberlist.Packet { return h.packets }

// StreamCh implements memberlist.Transport.
func (h *gossipHost) StreamCh() <-chan net.Conn { return h.streams }

// WriteTo implements memberlist.Transport. A packet over a blocked pair is lost, at
// either end of its way.
func (h *gossipHost) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	if h.closed() {
		return now, nil
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: &net.UDPAddr{IP: net.ParseIP(h.ip), Port: gossipPort}}
	if to := h.g.at(addr); to == nil || h.g.net.gate(h.name, to.name) != nil {
		return now, nil
	}
	time.AfterFunc(latency, func() {
		to := h.g.at(addr)
		if to == nil || to.closed() || h.g.net.gate(h.name, to.name) != nil {
			return
		}
		p.Timestamp = time.Now()
		select {
		case to.packets <- p:
		default: // as a full socket buffer does
		}
	})
	return now, nil
}

// DialTimeout implements memberlist.Transport.
func (h *gossipHost) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return h.g.net.Dialer(h.name)(ctx, addr)
}

func (h *gossipHost) closed() bool {
	select {
	case <-h.done:
		return true
	default:
		return h.killed.Load()
	}
}

// Kill silences the process of a name that runs now.
func (g *GossipNet) Kill(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.hosts {
		if h.name == name {
			h.killed.Store(true)
		}
	}
}

// Shutdown implements memberlist.Transport.
func (h *gossipHost) Shutdown() error {
	h.once.Do(func() {
		close(h.done)
		_ = h.ln.Close() // a listener of a MemNet closes without fail
		h.g.mu.Lock()
		if h.g.hosts[h.addr()] == h {
			delete(h.g.hosts, h.addr())
		}
		h.g.mu.Unlock()
	})
	h.wg.Wait()
	return nil
}
