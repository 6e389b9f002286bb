package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

func nodeID(b byte) topology.NodeID { return topology.NodeID(bytes.Repeat([]byte{b}, 20)) }

// servePeer speaks the accepting side of the handshake, then +PONG to all.
func servePeer(nc net.Conn, a *PeerAuth) error {
	defer nc.Close()
	var p resp.Parser
	lim := resp.PreAuthLimits()
	var hs *Handshake
	w := resp.Writer{Proto: 2}
	buf, chunk := []byte(nil), make([]byte, 4096)
	for {
		args, n, err := p.Next(buf, &lim)
		if err != nil {
			return err
		}
		if n == 0 {
			m, err := nc.Read(chunk)
			if err != nil {
				return nil
			}
			buf = append(buf, chunk[:m]...)
			continue
		}
		w.Buf = w.Buf[:0]
		switch string(args[0]) {
		case "RC.HELLO":
			hs, err = a.ServerHello(args, &w)
		case "RC.AUTH":
			if err = a.ServerVerify(hs, args, &w); err == nil {
				w.Map(1)
				w.BulkString("gossip")
				w.BulkString("127.0.0.1:17001")
			}
		case "HELLO":
			w.Error("NOAUTH not yet")
		default:
			w.Simple("PONG")
		}
		buf = buf[n:]
		if _, werr := nc.Write(w.Buf); werr != nil || err != nil {
			return err
		}
	}
}

func TestPeerHandshake(t *testing.T) {
	tests := []struct {
		name           string
		dialler, other PeerAuth
		want           error
	}{
		{"same secret", PeerAuth{"c", []byte("s"), nodeID(1)}, PeerAuth{"c", []byte("s"), nodeID(2)}, nil},
		{"no secret", PeerAuth{"c", nil, nodeID(1)}, PeerAuth{"c", nil, nodeID(2)}, nil},
		{"long names", PeerAuth{"a cluster", bytes.Repeat([]byte("s"), 300), nodeID(0)}, PeerAuth{"a cluster", bytes.Repeat([]byte("s"), 300), nodeID(255)}, nil},
		{"other secret", PeerAuth{"c", []byte("s"), nodeID(1)}, PeerAuth{"c", []byte("t"), nodeID(2)}, errs.ErrAuth},
		{"one without a secret", PeerAuth{"c", []byte("s"), nodeID(1)}, PeerAuth{"c", nil, nodeID(2)}, errs.ErrAuth},
		{"other cluster", PeerAuth{"c", []byte("s"), nodeID(1)}, PeerAuth{"d", []byte("s"), nodeID(2)}, errs.ErrMismatch},
		{"hostile cluster name", PeerAuth{"c\r\n+OK", nil, nodeID(1)}, PeerAuth{"d", nil, nodeID(2)}, errs.ErrMismatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := newMemNet()
				ln := mem.listen("a:1")
				defer ln.Close()
				go func() { // ends with the connection
					if nc, err := ln.Accept(); err == nil {
						servePeer(nc, &tt.other)
					}
				}()
				peers, err := NewPeers(Options{Dialer: mem.dial, Peer: &tt.dialler})
				if err != nil {
					t.Fatal(err)
				}
				defer peers.Close()
				c, err := peers.Conn(within(t, time.Minute), "a:1")
				if !errors.Is(err, tt.want) {
					t.Fatalf("error %v, want %v", err, tt.want)
				}
				if err != nil {
					return
				}
				gossip, ok := c.PeerInfo().Find("gossip")
				if c.PeerID() != tt.other.Self || !ok || gossip.Text() != "127.0.0.1:17001" {
					t.Errorf("peer %v says %v", c.PeerID(), c.PeerInfo())
				}
				v, err := peers.Do(within(t, time.Minute), "a:1", encode("RC.PING"))
				if err != nil || v.Text() != "PONG" {
					t.Errorf("%v, %v", v, err)
				}
			})
		})
	}
}

func TestServerHelloRefuses(t *testing.T) {
	a := &PeerAuth{Cluster: "c", Self: nodeID(1)}
	id, nonce := nodeID(2).String(), "00112233445566778899aabbccddeeff"
	tests := []struct {
		name string
		args []string
		want error
	}{
		{"too few", []string{"RC.HELLO", "1", "c", id}, errs.ErrProtocol},
		{"higher protocol", []string{"RC.HELLO", "2", "c", id, nonce}, errs.ErrMismatch},
		{"other cluster", []string{"RC.HELLO", "1", "d", id, nonce}, errs.ErrMismatch},
		{"bad ID", []string{"RC.HELLO", "1", "c", "xyz", nonce}, errs.ErrProtocol},
		{"short nonce", []string{"RC.HELLO", "1", "c", id, nonce[:30]}, errs.ErrProtocol},
		{"bad nonce", []string{"RC.HELLO", "1", "c", id, nonce[:31] + "g"}, errs.ErrProtocol},
		{"later fields", []string{"RC.HELLO", "1", "c", id, nonce, "future"}, nil},
	}
	for _, tt := range tests {
		w := resp.Writer{Proto: 2}
		h, err := a.ServerHello(words(tt.args...), &w)
		if !errors.Is(err, tt.want) || (h == nil) != (tt.want != nil) || (w.Buf[0] == '-') != (tt.want != nil) {
			t.Errorf("%s: %v, reply %q", tt.name, err, w.Buf)
		}
	}
	w := resp.Writer{Proto: 2}
	if err := a.ServerVerify(nil, words("RC.AUTH", "00"), &w); !errors.Is(err, errs.ErrAuth) || w.Buf[0] != '-' {
		t.Errorf("RC.AUTH without RC.HELLO: %v", err)
	}
}

// TestProofsCannotBeReflected: the acceptor's proof is not the dialler's, and a
// proof of one session does not open another.
func TestProofsCannotBeReflected(t *testing.T) {
	a := &PeerAuth{Cluster: "c", Secret: []byte("s"), Self: nodeID(1)}
	hello := words("RC.HELLO", "1", "c", nodeID(2).String(), "00112233445566778899aabbccddeeff")
	w := resp.Writer{Proto: 2}
	h, err := a.ServerHello(hello, &w)
	if err != nil {
		t.Fatal(err)
	}
	own, _ := a.proof(roleAcceptor, &h.transcript)
	good, _ := a.proof(roleDialler, &h.transcript)
	other, err := a.ServerHello(hello, &w)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		hs    *Handshake
		proof []byte
		want  error
	}{{"right", h, good, nil}, {"reflected", h, own, errs.ErrAuth}, {"replayed", other, good, errs.ErrAuth}, {"cut", h, good[:31], errs.ErrAuth}} {
		hexed := []byte{}
		for _, b := range tt.proof {
			hexed = append(hexed, "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		}
		if err := a.ServerVerify(tt.hs, [][]byte{[]byte("RC.AUTH"), hexed}, &w); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestPeersBackOffAndForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		peers, err := NewPeers(Options{Dialer: mem.dial, MaxLinks: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer peers.Close()
		for range 100 {
			start := time.Now()
			_, err := peers.Do(within(t, time.Second), "a:1", encode("PING"))
			if !errors.Is(err, errs.ErrUnavailable) || kindOf(err) != kindRefused || time.Since(start) != 0 {
				t.Fatalf("%v after %v: a refused connection is reported at once", err, time.Since(start))
			}
			<-time.After(time.Millisecond)
		}
		if got := mem.dialsTo("a:1"); got < 2 || got > 5 {
			t.Errorf("%d dials in 100ms, want a few", got)
		}
		n := startFake("a:1", mem.listen("a:1"))
		defer n.stop()
		<-time.After(2 * maxBackOff)
		if _, err := peers.Do(within(t, time.Second), "a:1", encode("PING")); err != nil {
			t.Errorf("after the node came back: %v", err)
		}
		peers.Do(within(t, time.Second), "b:1", encode("PING"))
		if _, err := peers.Do(within(t, time.Second), "c:1", encode("PING")); !errors.Is(err, errs.ErrShed) {
			t.Errorf("above the link limit: %v", err)
		}
		peers.Forget("b:1")
		if _, err := peers.Do(within(t, time.Second), "c:1", encode("PING")); errors.Is(err, errs.ErrShed) {
			t.Errorf("a forgotten address still counts: %v", err)
		}
	})
}

// TestLinkGivenUpWhileItIsAskedFor: who asks for the link to a node that is given up at
// that moment gets a new one, not the word that the node is gone.
func TestLinkGivenUpWhileItIsAskedFor(t *testing.T) {
	mem := newMemNet()
	n := startFake("a:1", mem.listen("a:1"))
	defer n.stop()
	peers, err := NewPeers(Options{Dialer: mem.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer peers.Close()
	ctx := within(t, time.Minute)
	for range 3000 {
		given := make(chan struct{})
		go func() { // ends at once
			peers.Forget("a:1")
			close(given)
		}()
		if _, err := peers.Conn(ctx, "a:1"); err != nil {
			t.Fatal(err)
		}
		<-given
		peers.Forget("a:1")
	}
}

// TestDialIsSharedAndOutlivesItsCallers: callers with short deadlines leave, one
// dial serves them all.
func TestDialIsSharedAndOutlivesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		n := startFake("a:1", mem.listen("a:1"))
		defer n.stop()
		peers, err := NewPeers(Options{Dialer: slowDial(mem.dial, "a:1", 300*time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		defer peers.Close()
		for range 5 {
			if _, err := peers.Do(within(t, 20*time.Millisecond), "a:1", encode("PING")); !errors.Is(err, errs.ErrTimeout) {
				t.Fatal(err)
			}
		}
		if _, err := peers.Do(within(t, time.Second), "a:1", encode("PING")); err != nil || n.accepted() != 1 {
			t.Errorf("%v, %d connections", err, n.accepted())
		}
	})
}

func TestDialTimeoutCoversTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		ln := mem.listen("a:1")
		defer ln.Close()
		go func() { // accepts and says nothing; ends when the dialler gives up
			if nc, err := ln.Accept(); err == nil {
				io.Copy(io.Discard, nc)
			}
		}()
		start := time.Now()
		_, err := Dial(context.Background(), "a:1", Options{Dialer: mem.dial, DialTimeout: 70 * time.Millisecond})
		if !errors.Is(err, errs.ErrUnavailable) || time.Since(start) != 70*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
