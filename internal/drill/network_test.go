package drill

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// echo serves data and gossip ports of a node that answers what it is sent.
func echo(t *testing.T) (addr string) {
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
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
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
	return addr
}

func testNetwork(t *testing.T) (*network, *front) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the faulty network needs Linux")
	}
	n := newNetwork("127.99." + strconv.Itoa(1+os.Getpid()%250) + ".")
	t.Cleanup(n.close)
	f := n.add(echo(t))
	if err := f.raise(1 << 30); err != nil { // no process: whoever connects is outside
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
	if err := me.raise(1<<30 + 1); err != nil {
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

// The kernel says which process holds the other end of a connection.
func TestWhoIs(t *testing.T) {
	n, f := testNetwork(t)
	me := n.add("127.0.0.1:1")
	me.up, me.pid = true, os.Getpid()
	me.udp, _ = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if got := n.whoIs(accepted); got != me.index {
		t.Errorf("this process is node %d, want %d", got, me.index)
	}
	me.pid = f.pid
	if got := n.whoIs(accepted); got != outside {
		t.Errorf("a process that is no node is node %d", got)
	}
}
