package drill

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// echo serves data and gossip ports of a node that answers what it is sent. It counts
// its connections.
func echo(t *testing.T) (addr string, connections *atomic.Int64) {
	t.Helper()
	addr, err := child.FreeAddr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	number, _ := strconv.Atoi(port)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host), Port: number + gossipOffset})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); u.Close() })
	connections = new(atomic.Int64)
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() { // ends with the connection
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	go func() { // ends with the socket
		buf := make([]byte, 100)
		for {
			n, from, err := u.ReadFromUDP(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteToUDP(append([]byte(from.String()+" "), buf[:n]...), from)
		}
	}()
	return addr, connections
}

func testNetwork(t *testing.T) (*network, *front) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the faulty network needs Linux")
	}
	n := newNetwork("127." + strconv.Itoa(1+os.Getpid()%250) + ".")
	t.Cleanup(n.close)
	addr, _ := echo(t)
	f := n.add(addr)
	if err := f.raise(); err != nil {
		t.Fatal(err)
	}
	return n, f
}

func say(c net.Conn, word string, limit time.Duration) (string, error) {
	if _, err := c.Write([]byte(word)); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(limit))
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// A cut makes a connection silent; healed, it delivers what was sent meanwhile.
func TestCutDelaysConnections(t *testing.T) {
	n, f := testNetwork(t)
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := say(c, "one", 30*time.Second); got != "one" {
		t.Fatalf("%q, %v", got, err)
	}
	n.isolate(f.index)
	if got, err := say(c, "two", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%q, %v came through the cut", got, err)
	}
	fresh, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if got, err := say(fresh, "new", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%q, %v came through the cut on a new connection", got, err)
	}
	n.heal()
	for _, conn := range []net.Conn{c, fresh} {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		buf := make([]byte, 3)
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "two" && string(buf) != "new" {
			t.Errorf("%q, %v after the cut healed", buf, err)
		}
	}
	f.lower()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v: the connection outlived its front", err)
	}
	if _, err := net.Dial("tcp", f.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling a front that is down: %v", err)
	}
}

// Datagrams pass between nodes, bear the announced address of the sender, and are lost in a cut.
func TestCutDropsDatagrams(t *testing.T) {
	n, f := testNetwork(t)
	own, err := child.FreeAddr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	me := n.add(own)
	if err := me.raise(); err != nil {
		t.Fatal(err)
	}
	gossip := func(addr string) *net.UDPAddr {
		host, port, _ := net.SplitHostPort(addr)
		number, _ := strconv.Atoi(port)
		return &net.UDPAddr{IP: net.ParseIP(host), Port: number + gossipOffset}
	}
	u, err := net.ListenUDP("udp", gossip(own))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	ask := func(word string, limit time.Duration) (string, error) {
		if _, err := u.WriteToUDP([]byte(word), gossip(f.addr)); err != nil {
			return "", err
		}
		_ = u.SetReadDeadline(time.Now().Add(limit))
		buf := make([]byte, 100)
		size, _, err := u.ReadFromUDP(buf)
		return string(buf[:size]), err
	}
	if got, err := ask("hello", 30*time.Second); got != gossip(me.addr).String()+" hello" {
		t.Fatalf("%q, %v; want the announced address and the word", got, err)
	}
	n.cut(me.index, f.index)
	if got, err := ask("lost", 50*time.Millisecond); err == nil {
		t.Errorf("%q came through the cut", got)
	}
	n.heal()
	if got, err := ask("again", 30*time.Second); err != nil {
		t.Errorf("%q, %v after the cut healed", got, err)
	}
}

// connect dials a front from an address; "" is a client's.
func connect(t *testing.T, f *front, from string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 30 * time.Second}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A cut between two nodes leaves clients and other nodes alone, because each node
// connects from an address of its own, however many there have been.
func TestCutSeparatesNodesNotClients(t *testing.T) {
	n, f := testNetwork(t)
	var others []*front
	for range 3 * addressPairs {
		others = append(others, n.add("127.0.0.1:1"))
	}
	a, b := others[0], others[addressPairs-1] // the next one is again the first of its group
	n.cut(a.index, f.index)
	if got, err := say(connect(t, f, a.source), "cut", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v came through the cut", got, err)
	}
	for name, from := range map[string]string{"another node": b.source, "the second of its name": others[addressPairs].source, "a client": ""} {
		if got, err := say(connect(t, f, from), "through", 30*time.Second); got != "through" {
			t.Errorf("%s is cut off too: %q, %v", name, got, err)
		}
	}
}

// What is sent on a connection that was made and given up during a cut never arrives: a
// pulled cable would not have let it come about. Otherwise clients that try again and
// again would fall upon the node at once when it is back.
func TestGivenUpConnectionsDoNotArriveAfterACut(t *testing.T) {
	n, _ := testNetwork(t)
	addr, arrived := echo(t)
	f := n.add(addr)
	if err := f.raise(); err != nil {
		t.Fatal(err)
	}
	n.isolate(f.index)
	const many = 50
	for i := range many {
		c := connect(t, f, "")
		if _, err := c.Write([]byte("late " + strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	held := connect(t, f, "")
	if _, err := held.Write([]byte("held")); err != nil {
		t.Fatal(err)
	}
	left := func() []string { // accepted in this order: when the last one is there, all are
		n.mu.Lock()
		defer n.mu.Unlock()
		var from []string
		for c := range f.conns {
			from = append(from, c.RemoteAddr().String())
		}
		return from
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !slices.Equal(left(), []string{held.LocalAddr().String()}); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("connections are held from %v, want the one that is open", left())
		}
	}
	n.heal()
	_ = held.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, 4)
	if _, err := io.ReadFull(held, buf); err != nil || string(buf) != "held" {
		t.Errorf("%q, %v after the cut healed", buf, err)
	}
	if got := arrived.Load(); got != 1 {
		t.Errorf("%d connections arrived, want 1", got)
	}
}
