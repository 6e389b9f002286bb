package server

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// pushOf is a RESP3 push of two words.
func pushOf(kind, text string) []byte {
	w := resp.Writer{Proto: 3}
	w.Push(2)
	w.BulkString(kind)
	w.BulkString(text)
	return w.Buf
}

// session returns the session of a connection.
func (c *peerConn) session(s *Server) (found *Session) {
	c.t.Helper()
	c.send("CLIENT ID\r\n")
	v, err := c.value()
	if err != nil {
		c.t.Fatal(err)
	}
	s.EachSession(func(x *Session) bool {
		if x.ID() == uint64(v.Int) {
			found = x
		}
		return found == nil
	})
	if found == nil {
		c.t.Fatalf("no session %d", v.Int)
	}
	return found
}

// An idle session sends at once what it is given, in the protocol that it
// speaks, and its deadlines stay what they were.
func TestPushToIdleSession(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, _ := start(t, Options{Password: "secret", PreAuthTimeout: time.Minute})
		c := dial(t, s)
		c.ask("AUTH secret", "OK")
		x := c.session(s)
		for i := range 100 {
			if !x.Push(pushOf("note", strconv.Itoa(i))) {
				t.Fatal("refused")
			}
			v, err := c.value()
			if err != nil || v.Kind != resp.Array || textOf(v) != fmt.Sprintf("[note %d]", i) {
				t.Fatal(v.Kind, textOf(v), err)
			}
		}
		c.send("HELLO 3\r\n")
		if v, err := c.value(); err != nil || v.Kind != resp.Map {
			t.Fatal(v.Kind, err)
		}
		for i := range 100 {
			x.Push(pushOf("note", strconv.Itoa(i)))
		}
		for i := range 100 {
			v, err := c.value()
			if err != nil || v.Kind != resp.Push || textOf(v) != fmt.Sprintf("[note %d]", i) {
				t.Fatal(v.Kind, textOf(v), err)
			}
		}
		c.ask("PING\r\nRESET\r\nPING", "PONG", "RESET", "-NOAUTH Authentication required.")
		x.Push(pushOf("a", "b")) // the deadline of authentication runs
		c.expect("[a b]")
		c.ask("AUTH secret\r\nPING", "OK", "PONG")
		c.send("*2\r\n$3\r\nGET\r\n") // and with half a command at hand
		x.Push(pushOf("a", "b"))
		c.expect("[a b]")
		c.ask("$1\r\nk", "(null)")
	})
}

// What is pushed during a command follows its reply, also that of EXEC, and
// CLIENT REPLY OFF drops replies only.
func TestPushDuringCommands(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		node := multiNode{newFakeNode()}
		s, _ := start(t, Options{Loops: 1, Handler: node})
		c := dial(t, s)
		x := c.session(s)
		c.send("PING\r\nDEL block\r\nPING\r\n")
		<-node.entered
		x.Push(pushOf("during", "1"))
		x.Push(pushOf("during", "2"))
		node.release <- struct{}{}
		c.expect("PONG", "1", "[during 1]", "[during 2]", "PONG")
		c.ask("MULTI\r\nSET k v", "OK", "QUEUED")
		x.Push(pushOf("between", "commands"))
		c.expect("[between commands]")
		c.send("DEL block\r\nGET k\r\nEXEC\r\nPING\r\n")
		<-node.entered
		x.Push(pushOf("during", "EXEC"))
		node.release <- struct{}{}
		c.expect("QUEUED", "QUEUED", "[OK 1 v]", "[during EXEC]", "PONG")
		c.send("CLIENT REPLY OFF\r\nDEL block\r\nPING\r\n")
		<-node.entered
		x.Push(pushOf("without", "replies"))
		node.release <- struct{}{}
		c.expect("[without replies]")
		x.Push(pushOf("without", "commands"))
		c.expect("[without commands]")
		c.ask("CLIENT REPLY ON", "OK")
	})
}

// pushStorm lets several goroutines push to a session that executes all kinds of
// commands, and checks that nothing is lost, torn apart or overtaken.
func pushStorm(t *testing.T, s *Server, node *fakeNode, c *peerConn) {
	large := strings.Repeat("v", 70<<10)
	node.set("large", []byte(large))
	node.set("later", []byte("x"))
	c.send("HELLO 3\r\n")
	if _, err := c.value(); err != nil {
		t.Fatal(err)
	}
	x := c.session(s)
	const pushers, each, rounds = 3, 1000, 150
	var done sync.WaitGroup
	defer done.Wait()
	var replied atomic.Int64 // paces the pushers, so that they last as long as the commands
	for p := range pushers {
		done.Go(func() {
			for i := range each {
				for replied.Load() < int64(i)*rounds/each-2 && !t.Failed() {
					<-time.After(100 * time.Microsecond)
				}
				if !x.Push(pushOf(strconv.Itoa(p), strconv.Itoa(i))) {
					t.Error("refused")
					return
				}
			}
		})
	}
	done.Go(func() {
		for i := range rounds {
			var in []byte
			in = resp.AppendCommandStrings(in, "ECHO", strconv.Itoa(i))
			in = resp.AppendCommandStrings(in, "GET", "later")
			in = resp.AppendCommandStrings(in, "MULTI")
			in = resp.AppendCommandStrings(in, "GET", "later")
			in = resp.AppendCommandStrings(in, "GET", "large")
			in = resp.AppendCommandStrings(in, "EXEC")
			in = resp.AppendCommandStrings(in, "GET", "large")
			for len(in) > 0 {
				n := min(1+i*7919%97, len(in))
				if _, err := c.Write(in[:n]); err != nil {
					t.Error(err)
					return
				}
				in = in[n:]
			}
			for replied.Load() < int64(i)-20 && !t.Failed() {
				<-time.After(100 * time.Microsecond)
			}
		}
	})
	var seen [pushers]int
	var want []string
	for i := range rounds {
		want = append(want, strconv.Itoa(i), "x", "OK", "QUEUED", "QUEUED", "[x "+large+"]", large)
	}
	for pushes := 0; len(want) > 0 || pushes < pushers*each; {
		v, err := c.value()
		if err != nil {
			t.Error(err)
			return
		}
		if v.Kind == resp.Push {
			p, _ := strconv.Atoi(v.Elems[0].Text())
			if v.Elems[1].Text() != strconv.Itoa(seen[p]) {
				t.Errorf("pusher %d: got %s, want %d", p, v.Elems[1].Text(), seen[p])
				return
			}
			seen[p]++
			pushes++
			continue
		}
		if len(want) == 0 || textOf(v) != want[0] {
			t.Errorf("got %.60s", textOf(v))
			return
		}
		if want = want[1:]; len(want)%7 == 0 {
			replied.Add(1)
		}
	}
}

func TestPushStorm(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		node := multiNode{newFakeNode()}
		s, _ := start(t, Options{Loops: 1, Handler: node})
		pushStorm(t, s, node.fakeNode, dial(t, s))
		eventually(t, "nothing is booked", func() bool { return s.Stats().BufferBytes == 0 })
	})
}

func TestPushStormOverTLS(t *testing.T) {
	a := newAuthority(t)
	conf, err := NewTLS(a.files("node"), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	node := multiNode{newFakeNode()}
	s, _ := start(t, Options{TLS: conf, IO: IOStd, Handler: node})
	conn, err := a.dial(s, true)
	if err != nil {
		t.Fatal(err)
	}
	pushStorm(t, s, node.fakeNode, wrap(t, conn))
}

// A client that does not read what is pushed to it is cut off at the output
// limit or when the buffers of all sessions are full, and holds up nobody.
func TestPushToStalledClient(t *testing.T) {
	for _, tt := range []struct {
		name    string
		o       Options
		counted func(Stats) uint64
	}{
		{"output limit", Options{Loops: 1, OutputLimit: 4 << 20}, func(st Stats) uint64 { return st.OutputLimit }},
		{"buffer limit", Options{Loops: 1, BufferLimit: 1 << 20}, func(st Stats) uint64 { return st.BufferRefusals }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachTransport(t, func(t *testing.T) {
				s, _ := start(t, tt.o)
				stalled, other := dial(t, s), dial(t, s)
				x := stalled.session(s)
				msg := pushOf("note", strings.Repeat("v", 10_000))
				pushed := 0
				for ; x.Push(msg); pushed += len(msg) {
					if pushed%(100*len(msg)) == 0 {
						other.ask("PING", "PONG")
					}
					if pushed > 256<<20 {
						t.Fatal("never refused")
					}
				}
				eventually(t, "it is gone", func() bool { st := s.Stats(); return st.Clients == 1 && st.BufferBytes == 0 })
				if n := tt.counted(s.Stats()); n == 0 {
					t.Error("not counted")
				}
				if x.Push(msg) {
					t.Error("accepted after the end")
				}
				other.ask("PING", "PONG")
				if n := s.Stats().BufferBytes; n != 0 {
					t.Errorf("%d bytes are booked", n)
				}
			})
		})
	}
}

// A message that is larger than the limit ends the session, busy or not.
func TestPushAboveTheLimit(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, node := start(t, Options{Loops: 1, OutputLimit: 1 << 20})
		c := dial(t, s)
		x := c.session(s)
		c.send("DEL block\r\n")
		<-node.entered
		msg := pushOf("note", strings.Repeat("v", 600<<10))
		if !x.Push(msg) || x.Push(msg) || x.Push(pushOf("a", "b")) {
			t.Error("the limit was not heeded")
		}
		close(node.release)
		if _, err := io.Copy(io.Discard, c); err != nil && !isReset(err) {
			t.Error(err)
		}
		eventually(t, "it is gone", func() bool { st := s.Stats(); return st.Clients == 0 && st.BufferBytes == 0 && st.OutputLimit == 1 })
	})
}

// A session that ended takes nothing, whether it ever got something or not.
func TestPushAfterTheEnd(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, _ := start(t, Options{})
		for _, used := range []bool{false, true} {
			c := dial(t, s)
			x := c.session(s)
			if used {
				x.Push(pushOf("a", "b"))
				c.expect("[a b]")
			}
			c.Close()
			eventually(t, "it ends", func() bool { return s.Stats().Clients == 0 })
			if x.Push(make([]byte, 100<<10)) {
				t.Error("accepted")
			}
		}
		if n := s.Stats().BufferBytes; n != 0 {
			t.Errorf("%d bytes are booked", n)
		}
	})
}

// Small messages to sessions that read them allocate nothing, apart from the
// error by which a goroutine that waits in net.Conn is woken up.
func TestPushAllocations(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, _ := start(t, Options{Loops: 1})
		c := dial(t, s)
		x := c.session(s)
		msg := pushOf("note", "hello")
		in := make([]byte, 1<<10)
		run := func() {
			for left := 3 * len(msg); left > 0; {
				if left%len(msg) == 0 {
					x.Push(msg)
				}
				n, err := c.Read(in[:min(left, len(msg))])
				if err != nil {
					t.Fatal(err)
				}
				left -= n
			}
		}
		for range 20 {
			run()
		}
		most := 0.0
		if s.IO() == IOStd {
			most = 3
		}
		if n := testing.AllocsPerRun(200, run); n > most {
			t.Errorf("%v allocations for three messages", n)
		}
	})
}
