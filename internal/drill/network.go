package drill

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

const (
	gossipOffset = child.GossipOffset
	maxFlows     = 4096 // connections through one front at a time; further ones are closed
	flowBuffer   = 32 << 10
	maxPacket    = 64 << 10
	addressPairs = 125
	outside      = -1 // who is no node: the clients
)

// network stands between the nodes of a cluster and everybody: every node listens
// on an address that nobody knows, and announces one of a front here, which passes
// on what is not cut off. A cut delays bytes of connections, as lost and repeated
// packets would, and drops datagrams; connections are accepted even so and stay
// silent. Every node connects from an address of its own, which tells nodes from each
// other and from clients.
type network struct {
	prefix string // of the fronts' addresses, two bytes of an IPv4 address

	mu      sync.Mutex
	open    *sync.Cond // broadcast when a cut heals, a front goes down or all is closed
	fronts  []*front
	sources map[string]*front // who connects from where
	cuts    map[[2]int]bool   // pairs of nodes (or outside) that do not hear each other
	closed  bool
	wg      sync.WaitGroup
}

// front is what others see of one node.
type front struct {
	n      *network
	index  int
	addr   string // announced data address
	target string // where the node listens
	source string // address that the node connects from

	// guarded by network.mu
	up    bool
	tcp   []net.Listener
	udp   *net.UDPConn
	conns map[net.Conn]struct{}
}

func newNetwork(prefix string) *network {
	n := &network{prefix: prefix, cuts: map[[2]int]bool{}, sources: map[string]*front{}}
	n.open = sync.NewCond(&n.mu)
	return n
}

// add makes a front for a node that listens at target; it is down.
func (n *network) add(target string) *front {
	_, port, _ := net.SplitHostPort(target)
	n.mu.Lock()
	defer n.mu.Unlock()
	f := &front{n: n, index: len(n.fronts), target: target, conns: map[net.Conn]struct{}{}}
	// There are fewer faults than such addresses. Nobody listens on source, so that no
	// connection from it can have taken a port that the front needs.
	group, last := f.index/addressPairs, 2*(f.index%addressPairs)
	f.addr = net.JoinHostPort(fmt.Sprintf("%s%d.%d", n.prefix, group, last+1), port)
	f.source = fmt.Sprintf("%s%d.%d", n.prefix, group, last+2)
	n.fronts = append(n.fronts, f)
	n.sources[f.source] = f
	return f
}

// raise opens the ports of a front.
func (f *front) raise() error {
	host, port, _ := net.SplitHostPort(f.addr)
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	gossip := net.JoinHostPort(host, strconv.Itoa(number+gossipOffset))
	data, err := net.Listen("tcp", f.addr)
	if err != nil {
		return err
	}
	stream, err := net.Listen("tcp", gossip)
	if err != nil {
		return errors.Join(err, data.Close())
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host), Port: number + gossipOffset})
	if err != nil {
		return errors.Join(err, data.Close(), stream.Close())
	}
	n := f.n
	n.mu.Lock()
	defer n.mu.Unlock()
	f.up, f.tcp, f.udp = true, []net.Listener{data, stream}, udp
	target, _, _ := net.SplitHostPort(f.target)
	n.wg.Go(func() { f.accept(data, f.target) })
	n.wg.Go(func() { f.accept(stream, net.JoinHostPort(target, strconv.Itoa(number+gossipOffset))) })
	n.wg.Go(func() { f.packets(udp) })
	return nil
}

// lower closes the ports and connections of a front, as the end of its process
// does: whoever dials is refused.
func (f *front) lower() {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	f.lowerLocked()
}

func (f *front) lowerLocked() {
	if !f.up {
		return
	}
	f.up = false
	for _, l := range f.tcp {
		l.Close()
	}
	f.udp.Close()
	for c := range f.conns {
		c.Close()
	}
	f.n.open.Broadcast()
}

// cut separates a from b until heal; outside stands for the clients.
func (n *network) cut(a, b int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[pair(a, b)] = true
}

// isolate separates a node from everybody.
func (n *network) isolate(a int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.fronts {
		if f.index != a {
			n.cuts[pair(a, f.index)] = true
		}
	}
	n.cuts[pair(a, outside)] = true
}

// heal ends all cuts.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	n.open.Broadcast()
}

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// close ends everything and waits for it.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	for _, f := range n.fronts {
		f.lowerLocked()
	}
	n.open.Broadcast()
	n.mu.Unlock()
	n.wg.Wait()
}

// accept ends when the listener is closed.
func (f *front) accept(l net.Listener, target string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !f.track(c) {
			c.Close()
			continue
		}
		f.n.wg.Go(func() { f.flow(c, target) })
	}
}

// track notes a connection, so that lower ends it.
func (f *front) track(c net.Conn) bool {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if !f.up || f.n.closed || len(f.conns) >= maxFlows {
		return false
	}
	f.conns[c] = struct{}{}
	return true
}

func (f *front) forget(c net.Conn) {
	c.Close()
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	delete(f.conns, c)
}

// flow is one connection; it ends with either side, or with the front.
func (f *front) flow(c net.Conn, target string) {
	defer f.forget(c)
	from := f.n.whoIs(c)
	sent, ok := f.begin(c, from)
	if !ok {
		return
	}
	back, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		if tcp, ok := c.(*net.TCPConn); ok && errors.Is(err, syscall.ECONNREFUSED) {
			_ = tcp.SetLinger(0)
		}
		return
	}
	if !f.track(back) {
		back.Close()
		return
	}
	defer f.forget(back)
	if _, err := back.Write(sent); err != nil {
		return
	}
	done := make(chan struct{})
	go func() { // ends when back is closed
		defer close(done)
		f.pump(c, back, from)
		c.Close()
	}()
	f.pump(back, c, from)
	back.Close()
	<-done
}

// begin waits until the way of a new connection is free, and returns what was sent on
// it meanwhile. One that is given up before would never have come about where a cable is
// pulled, so nothing of it arrives: false.
func (f *front) begin(c net.Conn, from int) (sent []byte, ok bool) {
	if !f.isCut(from) {
		return nil, true
	}
	sent, over, read := make([]byte, flowBuffer), new(bool), make(chan struct{})
	go func() { // ends with the connection, a full buffer, or at the deadline set below
		defer close(read)
		size, err := io.ReadFull(c, sent)
		sent = sent[:size]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			f.n.mu.Lock()
			defer f.n.mu.Unlock()
			*over = true
			f.n.open.Broadcast()
		}
	}()
	f.wait(from, over)
	_ = c.SetReadDeadline(time.Unix(1, 0))
	<-read
	if *over || c.SetReadDeadline(time.Time{}) != nil {
		return nil, false
	}
	return sent, f.pass(from)
}

func (f *front) isCut(from int) bool {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	return f.n.cuts[pair(from, f.index)]
}

// pump copies until either end closes; what it has read waits while the way is
// cut.
func (f *front) pump(dst, src net.Conn, from int) {
	buf := make([]byte, flowBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if !f.pass(from) {
				return
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until the way from a node is free; false: the front is down.
func (f *front) pass(from int) bool { return f.wait(from, new(bool)) }

// wait is pass that also ends when over, guarded by network.mu, is set.
func (f *front) wait(from int, over *bool) bool {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	for f.up && !f.n.closed && !*over && f.n.cuts[pair(from, f.index)] {
		f.n.open.Wait()
	}
	return f.up && !f.n.closed
}

// packets passes datagrams on; it ends when the socket is closed. The receiver
// sees the announced address of the sender.
func (f *front) packets(udp *net.UDPConn) {
	host, port, _ := net.SplitHostPort(f.target)
	number, _ := strconv.Atoi(port)
	target := &net.UDPAddr{IP: net.ParseIP(host), Port: number + gossipOffset}
	buf := make([]byte, maxPacket)
	for {
		n, from, err := udp.ReadFromUDP(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if out := f.sender(from); out != nil {
			_, _ = out.WriteToUDP(buf[:n], target) // lost if the node is gone
		}
	}
}

// sender returns the socket with the announced address of the node that sent a
// datagram; nil if the way is cut or nobody is known there.
func (f *front) sender(from *net.UDPAddr) *net.UDPConn {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	for _, s := range f.n.fronts {
		host, port, _ := net.SplitHostPort(s.target)
		number, _ := strconv.Atoi(port)
		if s.up && number+gossipOffset == from.Port && from.IP.Equal(net.ParseIP(host)) {
			if f.n.cuts[pair(s.index, f.index)] {
				return nil
			}
			return s.udp
		}
	}
	return nil
}

// whoIs finds the node that a connection comes from; outside if it comes from none.
func (n *network) whoIs(c net.Conn) int {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.sources[host]; f != nil {
		return f.index
	}
	return outside
}

// checkHost says whether a loopback address can be listened on; on Linux all of
// 127.0.0.0/8 can.
func checkHost(host string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return fmt.Errorf("scenarios that cut the network need all of 127.0.0.0/8, as Linux has it: %w", err)
	}
	return l.Close()
}
