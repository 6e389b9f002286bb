package membership

import (
	"errors"
	"io"
	"log"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/errs"
)

// newStreams listens on a port that no system gives to outgoing connections: another
// one could have it while nobody listens.
func newStreams(t *testing.T) *streamTransport {
	t.Helper()
	port, err := child.FreePorts("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := listenStreams("127.0.0.1", port, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// Packets arrive whole and in order, streams pass beside them, and no UDP is used.
func TestPacketsOverStreams(t *testing.T) {
	a, b := newStreams(t), newStreams(t)
	if pc, err := net.ListenPacket("udp", b.ln.Addr().String()); err != nil {
		t.Errorf("the UDP port is taken: %v", err)
	} else {
		pc.Close()
	}
	to := b.ln.Addr().String()
	want := []string{"x", strings.Repeat("y", 1400), strings.Repeat("z", maxPacket)}
	for _, p := range want {
		if at, err := a.WriteTo([]byte(p), to); err != nil || time.Since(at) > time.Minute {
			t.Fatal(at, err)
		}
	}
	for _, p := range want {
		select {
		case got := <-b.PacketCh():
			if string(got.Buf) != p || got.From == nil {
				t.Errorf("got %d bytes, want %d", len(got.Buf), len(p))
			}
		case <-time.After(time.Minute):
			t.Fatal("a packet is lost on the way")
		}
	}
	conn, err := a.DialTimeout(to, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{244, 'h', 'i'}); err != nil { // as memberlist begins, with a label
		t.Fatal(err)
	}
	select {
	case got := <-b.StreamCh():
		defer got.Close()
		buf := make([]byte, 3)
		if _, err := io.ReadFull(got, buf); err != nil || string(buf) != "\xf4hi" {
			t.Errorf("%q, %v", buf, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the stream is not handed on")
	}
	if _, err := a.WriteTo(make([]byte, maxPacket+1), to); err == nil {
		t.Error("a packet above the limit was taken")
	}
}

// A peer that is away costs its packets and holds nobody up; when it is back, a new
// connection is made.
func TestPacketsToNobody(t *testing.T) {
	a, b := newStreams(t), newStreams(t)
	to := b.ln.Addr().String()
	if err := b.Shutdown(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 10 * packetBacklog {
		if _, err := a.WriteTo([]byte("lost"), to); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("writing to nobody took %s", took)
	}
	_, port, _ := net.SplitHostPort(to)
	number, _ := net.LookupPort("tcp", port)
	again, err := listenStreams("127.0.0.1", number, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Shutdown()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		if _, err := a.WriteTo([]byte("found"), to); err != nil {
			t.Fatal(err)
		}
		select {
		case p := <-again.PacketCh():
			if string(p.Buf) == "found" {
				return
			}
		case <-tick.C:
		case <-deadline:
			t.Fatal("nothing arrives after the peer is back")
		}
	}
}

func TestStreamsRefuse(t *testing.T) {
	a := newStreams(t)
	if _, _, err := a.FinalAdvertiseAddr("no ip", 1); !errors.Is(err, errs.ErrConfig) {
		t.Error(err)
	}
	if ip, port, err := a.FinalAdvertiseAddr("", 0); ip.String() != "127.0.0.1" || port != a.GetAutoBindPort() || err != nil {
		t.Error(ip, port, err)
	}
	all, err := listenStreams("0.0.0.0", 0, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Shutdown()
	if _, _, err := all.FinalAdvertiseAddr("", 0); !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), "advertise") {
		t.Error(err)
	}
	// A connection that promises packets and sends an empty one is closed.
	conn, err := net.Dial("tcp", a.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{packetStream, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("an empty packet was taken")
	}
	if err := errors.Join(a.Shutdown(), a.Shutdown()); err != nil {
		t.Error(err)
	}
	if _, err := a.WriteTo([]byte("x"), "127.0.0.1:1"); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Streams of either transport leave from the address that was asked for.
func TestStreamsLeaveFromSource(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	source := net.IPv4(127, 0, 7, 9)
	probe := net.Dialer{LocalAddr: &net.TCPAddr{IP: source}}
	if conn, err := probe.Dial("tcp", ln.Addr().String()); err != nil {
		t.Skip("this system has one loopback address only: ", err)
	} else {
		conn.Close()
		if accepted, err := ln.Accept(); err == nil {
			accepted.Close()
		}
	}
	for _, tcpOnly := range []bool{false, true} {
		tr, err := newTransport(nil, "127.0.0.1", 0, tcpOnly, log.New(io.Discard, "", 0))
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Shutdown()
		tr.leaveFrom(source)
		arrives := func(how string) {
			t.Helper()
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := conn.RemoteAddr().(*net.TCPAddr).IP; !got.Equal(source) {
				t.Errorf("TCP alone %v: a %s comes from %v, want %v", tcpOnly, how, got, source)
			}
		}
		conn, err := tr.DialTimeout(ln.Addr().String(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		arrives("stream")
		if tcpOnly {
			if _, err := tr.WriteTo([]byte("packet"), ln.Addr().String()); err != nil {
				t.Fatal(err)
			}
			arrives("packet")
		}
	}
}
