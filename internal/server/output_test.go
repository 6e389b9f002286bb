package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// A client may send a pipeline whose replies fill every buffer on the way before
// it reads the first reply.
func TestLongPipelineIsReadBeforeItsReplies(t *testing.T) {
	const n, size = 400, 64 << 10 // 25 MiB of replies
	s, node := start(t, Options{})
	node.set("k", []byte(strings.Repeat("v", size)))
	c := dial(t, s)
	var in []byte
	for i := range n {
		in = resp.AppendCommandStrings(in, "GET", "k")
		in = resp.AppendCommandStrings(in, "ECHO", fmt.Sprint(i, strings.Repeat("e", 4000)))
	}
	c.send(string(in))
	for i := range n {
		v, err := c.value()
		if err != nil || len(v.Str) != size {
			t.Fatal(len(v.Str), err)
		}
		if v, err = c.value(); err != nil || !strings.HasPrefix(v.Text(), fmt.Sprint(i, "e")) {
			t.Fatal(v.Text(), err)
		}
	}
	c.ask("PING", "PONG")
}

// stall makes a session send more than its client reads, and returns when its
// flusher waits.
func stall(t *testing.T, ln *memListener, s *Server, node *fakeNode) *peerConn {
	t.Helper()
	node.set("k", []byte(strings.Repeat("v", 100<<10)))
	c := ln.dial(t, local)
	c.send("GET k\r\n")
	synctest.Wait()
	pass(2 * stallAfter)
	synctest.Wait()
	queued := 0
	s.EachSession(func(x *Session) bool { queued += x.transport.queued(); return true })
	if queued == 0 {
		t.Fatal("no flusher is waiting")
	}
	return c
}

// A client that does not read its replies holds up nobody else, and is cut off
// when its time is over.
func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln, WriteTimeout: 30 * time.Second})
		begin := time.Now()
		stalled := stall(t, ln, s, node)
		other := ln.dial(t, local)
		other.ask("PING\r\nGET nothing", "PONG", "(null)")
		if d := time.Since(begin); d > time.Second {
			t.Errorf("another session waited %v", d)
		}
		stalled.send("PING\r\n") // it is still read
		pass(31 * time.Second)
		synctest.Wait()
		if st := s.Stats(); st.OutputLimit != 1 || st.Clients != 1 {
			t.Errorf("output limit %d, clients %d", st.OutputLimit, st.Clients)
		}
		other.ask("PING", "PONG")
		s.Close()
	})
}

// A client that reads late gets all replies in order.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln})
		c := stall(t, ln, s, node)
		c.send("ECHO first\r\n")
		c.send("GET k\r\nECHO second\r\n")
		synctest.Wait()
		for _, want := range []string{string(node.value("k")), "first", string(node.value("k")), "second"} {
			pass(10 * time.Second)
			c.expect(want)
		}
		synctest.Wait()
		pass(time.Minute)
		c.ask("PING", "PONG")
		if st := s.Stats(); st.OutputLimit != 0 {
			t.Errorf("output limit %d", st.OutputLimit)
		}
		s.Close()
	})
}

// While replies waited for a slow reader, the session kept a buffer of the same
// size beside them: twice the memory for each such client.
func TestSlowReaderCostsItsRepliesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln})
		c := stall(t, ln, s, node)
		s.EachSession(func(x *Session) bool {
			if held := x.held.Load(); held > 2*firstRead {
				t.Errorf("%d bytes wait, and the session holds %d beside them", x.transport.queued(), held)
			}
			return true
		})
		c.expect(string(node.value("k")))
		c.send("ECHO a\r\nGET k\r\nECHO b\r\n")
		c.expect("a", string(node.value("k")), "b")
		s.Close()
	})
}

func TestOutputLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln, OutputLimit: 256 << 10})
		node.set("large", []byte(strings.Repeat("v", 200<<10)))
		c := stall(t, ln, s, node)
		begin := time.Now()
		c.send("GET large\r\n") // 100 KiB wait, 200 KiB more are too many
		synctest.Wait()
		if st := s.Stats(); st.OutputLimit != 1 || st.Clients != 0 {
			t.Errorf("output limit %d, clients %d", st.OutputLimit, st.Clients)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("it took %v", d)
		}
		s.Close()
	})
}

// Beyond half of the limit a session executes nothing more until its client has
// read: memory is bounded without cutting off a client that is only slow.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln, OutputLimit: 150 << 10})
		c := stall(t, ln, s, node) // 100 KiB wait, more than half
		c.send("SET mark x\r\n")
		synctest.Wait()
		if done := node.value("mark") != nil; done {
			t.Error("executed a command with more than half of the limit waiting")
		}
		c.expect(string(node.value("k")), "OK")
		if done := node.value("mark") != nil; !done {
			t.Error("did not go on")
		}
		s.Close()
	})
}

func TestBuffersShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, _ := start(t, Options{Listener: ln})
		c := ln.dial(t, local)
		held := func() (n int64) {
			synctest.Wait()
			s.EachSession(func(x *Session) bool { n = x.held.Load(); return true })
			return n
		}
		c.ask("PING", "PONG")
		if n := held(); n > 2*firstRead {
			t.Errorf("a session with small commands holds %d bytes", n)
		}
		value := strings.Repeat("v", 200<<10)
		c.send(string(resp.AppendCommandStrings(nil, "SET", "k", value)))
		c.expect("OK")
		c.ask("GET k", value)
		if n := held(); n < 400<<10 || n > 1<<20 {
			t.Errorf("after a value of 200 KiB in both directions it holds %d bytes", n)
		}
		pass(idleAfter + time.Millisecond)
		if n := held(); n > 2*firstRead {
			t.Errorf("when idle it holds %d bytes", n)
		}
		c.send(string(resp.AppendCommandStrings(nil, "SET", "k", value)))
		c.expect("OK")
		for range quietTurns + 1 {
			c.ask("PING", "PONG")
		}
		if n := held(); n > 2*readSize {
			t.Errorf("busy with small commands it holds %d bytes", n)
		}
		s.Close()
	})
}

// The read buffer grows with what was received, never with what was announced.
func TestReadBufferGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, _ := start(t, Options{Listener: ln, MaxValue: 64 << 20})
		c := ln.dial(t, local)
		c.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n")
		sent := 0
		for _, piece := range []int{1, 1000, 10000, 100000, 1000000} {
			c.send(strings.Repeat("x", piece))
			sent += piece
			synctest.Wait()
			var n int64
			s.EachSession(func(x *Session) bool { n = x.held.Load(); return true })
			if most := int64(max(readSize, 4*sent)); n > most {
				t.Errorf("%d bytes received, %d held", sent, n)
			}
		}
		s.Close()
	})
}
