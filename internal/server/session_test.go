package server

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/ringcache/ringcache/internal/resp"
)

func TestPipelineInPieces(t *testing.T) {
	s, _ := start(t, Options{})
	var in []byte
	var want []string
	for i := range 100 {
		k, v := fmt.Sprint("key", i), strings.Repeat("v", i*13)
		in = resp.AppendCommandStrings(in, "SET", k, v)
		in = resp.AppendCommandStrings(in, "GET", k)
		in = append(in, "PING\r\n"...)
		want = append(want, "OK", v, "PONG")
	}
	for _, piece := range []int{len(in), 1, 7, 1000} {
		t.Run(fmt.Sprint(piece), func(t *testing.T) {
			c := dial(t, s)
			sent := make(chan error, 1)
			go func() {
				var err error
				for rest := in; len(rest) > 0 && err == nil; {
					n := min(piece, len(rest))
					_, err = c.Write(rest[:n])
					rest = rest[n:]
				}
				sent <- err
			}()
			c.expect(want...)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTooLargeValueLeavesTheSessionUsable(t *testing.T) {
	s, node := start(t, Options{MaxValue: 256 << 10})
	c := dial(t, s)
	c.send(string(resp.AppendCommandStrings(nil, "SET", "k", strings.Repeat("x", 300000))))
	c.ask("PING", "-RCTOOLARGE value is 300000 bytes, limit 262144; raise max-value on every node or store the value in parts", "PONG")
	c.send(string(resp.AppendCommandStrings(nil, "SET", "k", strings.Repeat("x", 256<<10))))
	c.expect("OK")
	if n := len(node.value("k")); n != 256<<10 {
		t.Errorf("the longest value has %d bytes", n)
	}
	c.ask("PING", "PONG")
	if n := s.Stats().TooLarge; n != 1 {
		t.Errorf("TooLarge = %d", n)
	}
}

func TestTooLargeCommandLeavesTheSessionUsable(t *testing.T) {
	ln := newMemListener()
	s, err := New(Options{Listener: ln, Handler: newFakeNode()})
	if err != nil {
		t.Fatal(err)
	}
	s.normal.MaxQuery = 1 << 20
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := ln.dial(t, local)
	args := []string{"MSET"}
	for range 10 {
		args = append(args, "k", strings.Repeat("x", 128<<10))
	}
	command := resp.AppendCommandStrings(nil, args...)
	c.send(string(command))
	c.ask("PING", fmt.Sprintf("-RCTOOLARGE command is %d bytes, limit 1048576; send fewer or shorter arguments in one command", len(command)), "PONG")
}

func TestAskingLastsForOneCommand(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("GET asking", "0")
	c.ask("ASKING\r\nGET asking\r\nGET asking", "OK", "1", "0")
	c.ask("ASKING\r\nASKING\r\nGET asking", "OK", "OK", "1")
	for _, between := range []string{"PING", "NOSUCH", "GET", "CLIENT NOSUCH", "*2\r\n$3\r\nGET\r\n$300000\r\n" + strings.Repeat("x", 300000)} {
		c.send("ASKING\r\n" + between + "\r\nGET asking\r\n")
		c.expect("OK")
		if _, err := c.value(); err != nil {
			t.Fatal(err)
		}
		c.expect("0")
	}
	c.ask("ASKING\r\nRESET\r\nGET asking", "OK", "RESET", "0")
}

func TestReadOnly(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("GET readonly\r\nREADONLY\r\nGET readonly\r\nREADWRITE\r\nGET readonly", "0", "OK", "1", "OK", "0")
	c.ask("READONLY\r\nRESET\r\nGET readonly", "OK", "RESET", "0")
}

func TestContainersReachTheHandlerAsSubcommands(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("CONFIG GET x", "config|get")
	c.ask("CONFIG NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.")
	c.ask("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command")
	c.ask("CONFIG", "-ERR wrong number of arguments for 'config' command")
}

func TestInternalCommandsAreForPeers(t *testing.T) {
	s, _ := start(t, Options{Password: "secret"})
	c := dial(t, s)
	c.ask("RC.PING x", "-ERR unknown command 'RC.PING', with args beginning with: 'x' ")
	c.ask("GET k", "-NOAUTH Authentication required.")
	c.ask("RC.HELLO 1 c n nonce", "rc.hello")
	c.ask("RC.AUTH ok", "OK")
	c.ask("RC.PING", "PONG")
	c.ask("GET peer", "1")
	if st := s.Stats(); st.Peers != 1 || st.Clients != 0 {
		t.Errorf("peers %d, clients %d", st.Peers, st.Clients)
	}
	d := dial(t, s)
	d.ask("AUTH secret", "OK")
	v := d.list()
	if strings.Count(v, "\n") != 1 {
		t.Errorf("the peer is listed as a client: %q", v)
	}
	d.ask("RC.AUTH wrong\r\nPING", "-ERR no peer")
	d.ended()
	d = dial(t, s)
	d.ask("AUTH secret\r\nCOMMAND INFO rc.ping\r\nCOMMAND GETKEYS rc.ping a b", "OK", "[(null)]", "-ERR Invalid command specified")
}

func (c *peerConn) list() string {
	c.t.Helper()
	c.send("CLIENT LIST\r\n")
	v, err := c.value()
	if err != nil {
		c.t.Fatal(err)
	}
	return v.Text()
}

// What a peer may send is more than what a client may: a view or a batch.
func TestPeersMaySendMore(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("RC.AUTH ok", "OK")
	c.send(string(resp.AppendCommandStrings(nil, "SET", "k", strings.Repeat("x", 1<<20))))
	c.expect("OK")
}

func TestPanicEndsOnlyItsSession(t *testing.T) {
	var log logBuffer
	s, node := start(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	other := dial(t, s)
	other.ask("PING", "PONG")
	c := dial(t, s)
	c.send("PING\r\nDEL panic\r\nPING\r\n")
	c.expect("PONG", "-ERR internal error, see the log of the node")
	c.ended()
	other.ask("PING", "PONG")
	eventually(t, "Closed is called for the session", func() bool {
		node.mu.Lock()
		defer node.mu.Unlock()
		return len(node.closed) == 1
	})
	if st := s.Stats(); st.Panics != 1 || st.Clients != 1 {
		t.Errorf("panics %d, clients %d", st.Panics, st.Clients)
	}
	for _, want := range []string{"a defect", "command=del", "fakeNode"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not tell %q: %s", want, log.String())
		}
	}
}

func TestHandlerWithoutReply(t *testing.T) {
	s, _ := start(t, Options{})
	dial(t, s).ask("DEL silent\r\nPING", "-ERR internal error, the command gave no reply", "PONG")
}

func TestStats(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("PING\r\nFOO\r\nECHO abc", "PONG", "-ERR unknown command 'FOO', with args beginning with: ", "abc")
	// Counters are settled after the reply of the turn; the next turn sees them.
	c.ask("PING", "PONG")
	st := s.Stats()
	if st.Clients != 1 || st.Total != 1 || st.Commands < 3 || st.ErrorReplies != 1 || st.Connected() != 1 {
		t.Errorf("%+v", st)
	}
	if in := len("PING\r\nFOO\r\nECHO abc\r\nPING\r\n"); st.NetIn != uint64(in) || st.NetOut == 0 {
		t.Errorf("bytes in %d (want %d), out %d", st.NetIn, in, st.NetOut)
	}
	s.ResetStats()
	if st = s.Stats(); st.Total != 0 || st.Commands != 0 || st.NetIn != 0 || st.Clients != 1 {
		t.Errorf("after a reset: %+v", st)
	}
}

func TestOptions(t *testing.T) {
	_, err := New(Options{MaxClients: -1, MaxValue: -1, OutputLimit: -1})
	for _, want := range []string{"no handler", "max clients is -1", "max value is -1", "output limit is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell %q", err, want)
		}
	}
}

// Sessions may be looked at while they work.
func TestConcurrentInspection(t *testing.T) {
	s, _ := start(t, Options{})
	var wg sync.WaitGroup
	for range 4 {
		c := dial(t, s)
		wg.Go(func() {
			for i := range 50 {
				if _, err := fmt.Fprintf(c, "CLIENT SETNAME n%d\r\nGET k\r\nHELLO 3\r\nREADONLY\r\n", i); err != nil {
					t.Error(err)
					return
				}
				for range 4 {
					if _, err := c.value(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	watch := dial(t, s)
	for range 20 {
		if n := strings.Count(watch.list(), "\n"); n < 1 || n > 5 {
			t.Errorf("%d lines", n)
		}
		s.EachSession(func(c *Session) bool { return c.Name() != "nobody" && c.Proto() > 0 && !c.IsPeer() })
		s.Stats()
	}
	wg.Wait()
	if st := s.Stats(); st.Clients != 5 || st.ErrorReplies != 0 {
		t.Errorf("%+v", st)
	}
}
