package server

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// waiting is how many bytes of replies wait in all sessions.
func waiting(s *Server) (n int) {
	s.EachSession(func(c *Session) bool { n += c.transport.queued(); return true })
	return n
}

// A client that reads late holds up nobody, and gets everything in order.
func TestLateReader(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, node := start(t, Options{Loops: 1})
		value := strings.Repeat("v", 100<<10)
		node.set("k", []byte(value))
		late, other := dial(t, s), dial(t, s)
		var in []byte
		const n = 200 // 20 MB
		for i := range n {
			in = resp.AppendCommandStrings(in, "GET", "k")
			in = resp.AppendCommandStrings(in, "ECHO", fmt.Sprint(i))
		}
		late.send(string(in))
		eventually(t, "replies wait", func() bool { return waiting(s) > 0 })
		for range 100 {
			other.ask("PING", "PONG")
		}
		for i := range n {
			late.expect(value, fmt.Sprint(i))
		}
		late.ask("PING", "PONG")
		eventually(t, "nothing waits", func() bool { return waiting(s) == 0 && s.Stats().BufferBytes == 0 })
		if st := s.Stats(); st.OutputLimit != 0 || st.Clients != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// A stalled client is cut off when its time is over, or at once when a reply is
// above the limit, and with it goes what waited.
func TestStalledClient(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
		size int
	}{
		{"time", Options{Loops: 1, WriteTimeout: 100 * time.Millisecond}, 1 << 20},
		{"limit", Options{Loops: 1, OutputLimit: 1 << 20}, 16 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachTransport(t, func(t *testing.T) {
				s, node := start(t, tt.o)
				node.set("k", []byte(strings.Repeat("v", tt.size)))
				stalled, other := dial(t, s), dial(t, s)
				for range 32 {
					if _, err := stalled.Write([]byte("GET k\r\n")); err != nil {
						break // it was cut off already
					}
				}
				eventually(t, "it is cut off", func() bool { other.ask("PING", "PONG"); return s.Stats().OutputLimit == 1 })
				eventually(t, "its memory is free", func() bool { st := s.Stats(); return st.Clients == 1 && st.BufferBytes == 0 })
			})
		})
	}
}

// Beyond half of the output limit a session executes nothing more.
func TestNothingIsExecutedForWhomDoesNotRead(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		const limit = 4 << 20
		s, node := start(t, Options{Loops: 1, OutputLimit: limit})
		value := strings.Repeat("v", 64<<10)
		node.set("k", []byte(value))
		c := dial(t, s)
		const n = 400 // 25 MB
		c.send(strings.Repeat("GET k\r\n", n) + "SET mark x\r\n")
		eventually(t, "more than half of the limit waits", func() bool { return waiting(s) > limit/2 })
		if w := waiting(s); w > limit {
			t.Errorf("%d bytes wait", w)
		}
		if node.value("mark") != nil {
			t.Error("everything was executed")
		}
		for range n {
			c.expect(value)
		}
		c.expect("OK")
		if node.value("mark") == nil {
			t.Error("it did not go on")
		}
	})
}

// A command that waits holds up its own session only, whose replies keep their
// order, and that session only until the command ends.
func TestBlockingCommand(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, node := start(t, Options{Loops: 1})
		node.set("k", []byte("v"))
		blocked, other := dial(t, s), dial(t, s)
		blocked.send("GET k\r\nDEL block\r\nGET k\r\nDEL block\r\n" + "SET k w\r\nGET k\r\n")
		<-node.entered
		for range 100 {
			other.ask("PING\r\nGET k", "PONG", "v")
		}
		blocked.send("ECHO last\r\n")
		node.release <- struct{}{}
		<-node.entered
		other.ask("GET k", "v")
		node.release <- struct{}{}
		blocked.expect("v", "1", "v", "1", "OK", "w", "last")
		blocked.ask("PING", "PONG")
	})
}

// Sessions that are handed over again and again lose and mix up nothing, however
// their commands are cut into pieces.
func TestHandOver(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, node := start(t, Options{Loops: 2})
		large := strings.Repeat("v", 40<<10)
		node.set("later", []byte("x"))
		node.set("later-large", []byte(large))
		var clients sync.WaitGroup
		for id := range 20 {
			c := dial(t, s)
			clients.Go(func() {
				var in []byte
				var want []string
				for i := range 60 {
					mark := fmt.Sprint(id, "-", i)
					in = resp.AppendCommandStrings(in, "ECHO", mark)
					in = resp.AppendCommandStrings(in, "GET", "later")
					in = append(in, "get \"later\"\r\n"...)
					want = append(want, mark, "x", "x")
					if i%10 == 0 {
						in = resp.AppendCommandStrings(in, "SET", mark, large)
						in = resp.AppendCommandStrings(in, "GET", "later-large")
						want = append(want, "OK", large)
					}
				}
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for i := 0; len(in) > 0; i++ {
						n := min(1+(i*i*37+id*101)%5000, len(in))
						if _, err := c.Write(in[:n]); err != nil {
							t.Error(err)
							return
						}
						in = in[n:]
					}
				}()
				for i, w := range want {
					v, err := c.value()
					if err != nil || v.Text() != w {
						t.Errorf("client %d, reply %d: %.60q, %v, want %.60q", id, i, v.Text(), err, w)
						break
					}
				}
				c.Close()
				<-sent
			})
		}
		clients.Wait()
		eventually(t, "the sessions end", func() bool { st := s.Stats(); return st.Clients == 0 && st.BufferBytes == 0 })
		if n := len(node.ended()); n != 20 {
			t.Errorf("Closed was called %d times", n)
		}
	})
}

// A client may say that it sends nothing more before it reads its replies.
func TestHalfClose(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, node := start(t, Options{})
		node.set("k", []byte(strings.Repeat("v", 1000)))
		c := dial(t, s)
		c.send(strings.Repeat("GET k\r\n", 100))
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(c)
		if want := 100 * (1000 + len("$1000\r\n\r\n")); err != nil || len(b) != want {
			t.Errorf("%d bytes, want %d, %v", len(b), want, err)
		}
	})
}

func TestLateAuthentication(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		whileBusy(t, func(limit time.Duration) (early bool) {
			s, _ := start(t, Options{Password: "secret", PreAuthTimeout: limit})
			good, late := dial(t, s), dial(t, s)
			if good.try("AUTH secret") != "OK" || late.try("PING") != "-NOAUTH Authentication required." {
				return true
			}
			late.ended()
			if n := s.Stats().PreAuthTimeouts; n != 1 {
				t.Errorf("PreAuthTimeouts = %d", n)
			}
			good.ask("PING\r\nRESET\r\nGET k", "PONG", "RESET", "-NOAUTH Authentication required.")
			good.ended() // unauthenticated again, with a new deadline
			return false
		})
	})
}

// Buffers that a busy session kept go when it is idle.
func TestIdleSessionKeepsNothing(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, _ := start(t, Options{})
		c := dial(t, s)
		value := strings.Repeat("v", 200<<10)
		c.send(string(resp.AppendCommandStrings(nil, "SET", "k", value)))
		c.expect("OK")
		c.ask("GET k", value)
		c.send("*2\r\n$3\r\nGET\r\n$1\r\n") // and the beginning of a command
		eventually(t, "it holds next to nothing", func() (small bool) {
			s.EachSession(func(x *Session) bool { small = x.held.Load() <= 2*firstRead; return true })
			return small
		})
		c.send("k\r\n")
		c.expect(value)
	})
}

// A turn ends after some commands, so that tiny ones in great number hold up
// nobody.
func TestTurnIsBounded(t *testing.T) {
	c := detached(t)
	in := []byte(strings.Repeat("PING\r\n", 3*turnCommands))
	for i := range 3 {
		c.w.Buf = c.w.Buf[:0]
		n, v := c.turn(in)
		if want := turnCommands * len("PING\r\n"); n != want || v == runAgain != (i < 2) {
			t.Fatalf("turn %d consumed %d bytes, want %d; %v", i, n, want, v)
		}
		in = in[n:]
	}
}

// A Handler that cannot tell what blocks is never called on a loop.
func TestHandlerThatMayAlwaysBlock(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		node := newFakeNode()
		s, _ := start(t, Options{Loops: 1, Handler: struct{ Handler }{node}})
		blocked, other := dial(t, s), dial(t, s)
		blocked.send("DEL block\r\nSET k v\r\n")
		<-node.entered
		other.ask("SET k w\r\nGET k\r\nPING", "OK", "w", "PONG")
		close(node.release)
		blocked.expect("1", "OK")
	})
}

func TestTransportsThatCannotBe(t *testing.T) {
	ln := newMemListener()
	for _, io := range []string{IOEpoll, IOUring} {
		s, err := New(Options{Listener: ln, Handler: newFakeNode(), IO: io})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err == nil || !strings.Contains(err.Error(), "io "+io) {
			t.Errorf("%s over a listener in memory: %v", io, err)
		}
		s.Close()
	}
	var log logBuffer
	s, _ := start(t, Options{Listener: newMemListener(), IO: IOAuto, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if s.IO() != IOStd || !strings.Contains(log.String(), "TCP listener") {
		t.Errorf("auto takes %q, log %s", s.IO(), log.String())
	}
	for _, o := range []Options{{IO: "fast"}, {Loops: -1}, {Loops: MaxLoops + 1}, {IO: IOEpoll, TLS: &TLS{}}} {
		o.Handler = newFakeNode()
		if _, err := New(o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
}
