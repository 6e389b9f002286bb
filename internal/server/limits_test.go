package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// CVE-2025-21605: a client that does not authenticate must not make the node
// keep replies for it without bound.
func TestCVE202521605OutputBeforeAuthentication(t *testing.T) {
	s, _ := start(t, Options{Password: "secret"})
	c := dial(t, s)
	other := dial(t, s)
	// It never reads; its commands are refused, but each refusal is a reply.
	for range 100 {
		if _, err := c.Write([]byte(strings.Repeat("GET k\r\n", 1000))); err != nil {
			break // closed already
		}
	}
	eventually(t, "the session is closed", func() bool { return s.Stats().OutputLimit == 1 })
	replies, err := io.ReadAll(c)
	if err != nil && !isReset(err) {
		t.Fatal(err)
	}
	if len(replies) > maxUnpaid+1000 {
		t.Errorf("%d bytes of replies before authentication", len(replies))
	}
	other.ask("AUTH secret\r\nPING", "OK", "PONG")
	// The allowance is per session that did not authenticate, and RESET does
	// not renew it.
	d := dial(t, s)
	d.send(strings.Repeat("RESET\r\nGET k\r\n", 5000))
	eventually(t, "the second session is closed", func() bool { return s.Stats().OutputLimit == 2 })
}

// CVE-2021-32675 and CVE-2025-46686: many large multibulk headers must not cost
// memory, before or after authentication.
func TestCVE202132675HeadersReserveNothing(t *testing.T) {
	s, _ := start(t, Options{})
	locked, _ := start(t, Options{Password: "secret"})
	tests := []struct {
		name, in, want string
		server         *Server
	}{
		{"count before", "*11\r\n", "-ERR Protocol error: unauthenticated multibulk length", locked},
		{"bulk before", "*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length", locked},
		{"count after", "*65537\r\n", "-ERR Protocol error: invalid multibulk length", s},
		{"bulk after", "*2\r\n$4\r\nAUTH\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length", s},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, tt.server)
			c.send(tt.in)
			c.expect(tt.want)
			c.ended()
		})
	}
	// What is within the limits but never comes costs a small buffer only.
	c := dial(t, s)
	c.ask("PING", "PONG")
	c.send("*60000\r\n$536870912\r\n")
	eventually(t, "the headers are read", func() bool { return s.Stats().NetIn >= uint64(len("PING\r\n*60000\r\n$536870912\r\n")) })
	s.EachSession(func(c *Session) bool {
		if held := c.held.Load(); held > readSize {
			t.Errorf("a session with nothing but headers holds %d bytes", held)
		}
		return true
	})
}

// CVE-2026-27623: an empty request must not disturb the session.
func TestCVE202627623EmptyRequests(t *testing.T) {
	for _, password := range []string{"", "secret"} {
		s, _ := start(t, Options{Password: password})
		for _, empty := range []string{"*0\r\n", "*-1\r\n", "\r\n", "\n", "   \r\n", "*1\r\n$0\r\n\r\n"} {
			t.Run(fmt.Sprintf("%q password %q", empty, password), func(t *testing.T) {
				c := dial(t, s)
				c.send(strings.Repeat(empty, 3))
				if strings.HasPrefix(empty, "*1") {
					const unknown = "-ERR unknown command '', with args beginning with: "
					c.expect(unknown, unknown, unknown)
				}
				c.ask("AUTH default secret\r\nPING", "OK", "PONG")
			})
		}
	}
}

// CVE-2025-67733: no text of a client can become a reply of its own.
func TestCVE202567733ReplyInjection(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	const evil = `"x\r\n+INJECTED\r\n"`
	const flat = "x  +INJECTED  "
	for _, tt := range []struct{ line, want string }{
		{evil, "-ERR unknown command '" + flat + "', with args beginning with: "},
		{"FOO " + evil, "-ERR unknown command 'FOO', with args beginning with: '" + flat + "' "},
		{"CLIENT " + evil, "-ERR unknown subcommand '" + flat + "'. Try CLIENT HELP."},
		{"HELLO 3 " + evil, "-ERR Syntax error in HELLO option '" + flat + "'"},
		{"CLIENT KILL USER " + evil, "-ERR No such user '" + flat + "'"},
		{"CLIENT KILL TYPE " + evil, "-ERR Unknown client type '" + flat + "'"},
		{"CLIENT SETINFO " + evil + " x", "-ERR Unrecognized option '" + flat + "'"},
		{"CLIENT SETNAME " + evil, errText(errBadName)},
		{"CLIENT SETINFO LIB-NAME " + evil, "-ERR LIB-NAME cannot contain spaces, newlines or special characters."},
	} {
		c.ask(tt.line+"\r\nPING", tt.want, "PONG")
	}
}

func errText(s string) string { return "-" + s }

func TestMaxClients(t *testing.T) {
	s, _ := start(t, Options{MaxClients: 2})
	a, b := dial(t, s), dial(t, s)
	a.ask("PING", "PONG")
	b.ask("PING", "PONG")
	c := dial(t, s)
	c.send("PING\r\n")
	c.expect("-" + errMaxClients)
	c.ended()
	if n := s.Stats().Rejected; n != 1 {
		t.Errorf("rejected %d", n)
	}
	b.Close()
	eventually(t, "the place is free again", func() bool { return s.Stats().Clients == 1 })
	dial(t, s).ask("PING", "PONG")
	s.SetMaxClients(3)
	dial(t, s).ask("PING", "PONG")
}

// Clients cannot keep peers out.
func TestPeerReserve(t *testing.T) {
	s, _ := start(t, Options{MaxClients: 1, PeerReserve: 1})
	a := dial(t, s)
	a.ask("PING", "PONG")
	p := dial(t, s)
	p.ask("RC.AUTH ok\r\nRC.PING", "OK", "PONG")
	c := dial(t, s)
	c.ask("PING", "-"+errMaxClients)
	c.ended()
	eventually(t, "the client is gone", func() bool { return s.Stats().Clients == 1 })
	silent := dial(t, s)
	over := dial(t, s)
	over.expect("-" + errMaxClients) // at once: the reserve is used
	silent.expect("-" + errMaxClients)
	silent.ended()
}

func TestProtectedMode(t *testing.T) {
	remote := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 50000}
	tests := []struct {
		name    string
		from    net.Addr
		o       Options
		refused bool
	}{
		{"loopback", local, Options{}, false},
		{"IPv6 loopback", &net.TCPAddr{IP: net.IPv6loopback}, Options{}, false},
		{"unix socket", &net.UnixAddr{Name: "x"}, Options{}, false},
		{"remote", remote, Options{}, true},
		{"remote with password", remote, Options{Password: "x"}, false},
		{"remote, switched off", remote, Options{Unprotected: true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ln := newMemListener()
			tt.o.Listener = ln
			s, _ := start(t, tt.o)
			c := ln.dial(t, tt.from)
			if tt.refused {
				c.expect("-" + errProtected)
				c.ended()
			} else {
				c.ask("QUIT", "OK")
			}
			if n := s.Stats().Rejected; (n == 1) != tt.refused {
				t.Errorf("rejected %d", n)
			}
		})
	}
}

func TestPreAuthTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, _ := start(t, Options{Listener: ln, Password: "secret", PreAuthTimeout: 10 * time.Second})
		begin := time.Now()
		late, good := ln.dial(t, local), ln.dial(t, local)
		late.ask("PING", "-NOAUTH Authentication required.")
		good.ask("AUTH secret", "OK")
		late.ended()
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("closed after %v", d)
		}
		pass(time.Hour)
		good.ask("PING\r\nRESET\r\nGET k", "PONG", "RESET", "-NOAUTH Authentication required.")
		begin = time.Now()
		good.ended() // unauthenticated again, with a new deadline
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("closed %v after RESET", d)
		}
		if n := s.Stats().PreAuthTimeouts; n != 2 {
			t.Errorf("PreAuthTimeouts = %d", n)
		}
		s.Close()
	})
}

func TestAcceptErrorsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		var log logBuffer
		s, _ := start(t, Options{Listener: ln, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		begin := time.Now()
		for range 12 {
			ln.fails <- errors.New("too many open files")
		}
		c := ln.dial(t, local)
		// 5 ms doubling to 1 s: 5+10+...+640 and four times a second.
		if d, want := time.Since(begin), 1275*time.Millisecond+4*time.Second; d != want {
			t.Errorf("12 errors took %v, want %v", d, want)
		}
		c.ask("PING", "PONG")
		if n := strings.Count(log.String(), "accept failed"); n != 12 {
			t.Errorf("logged %d times", n)
		}
		begin = time.Now()
		ln.fails <- errors.New("too many open files")
		ln.fails <- errors.New("too many open files")
		if d := time.Since(begin); d != minAcceptDelay {
			t.Errorf("a success did not reset the delay: %v", d)
		}
		s.Close()
	})
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, _ := start(t, Options{Listener: ln})
		c := ln.dial(t, local)
		if st := s.Stats(); st.CommandsPerSec != 0 {
			t.Errorf("before any command: %v", st.CommandsPerSec)
		}
		for range 50 {
			for range 10 {
				c.ask("PING", "PONG")
			}
			pass(100 * time.Millisecond)
		}
		if st := s.Stats(); st.CommandsPerSec < 90 || st.CommandsPerSec > 110 || st.NetInPerSec != 6*st.CommandsPerSec {
			t.Errorf("100 commands a second: %v commands, %v bytes", st.CommandsPerSec, st.NetInPerSec)
		}
		pass(5 * time.Second)
		s.Stats()
		pass(5 * time.Second)
		if st := s.Stats(); st.CommandsPerSec > 1 {
			t.Errorf("after ten idle seconds: %v", st.CommandsPerSec)
		}
		s.Close()
	})
}

// CVE-2025-46686: many arguments announced by many sessions must not cost memory
// before they come.
func TestCVE202546686AnnouncedArgumentsReserveNothing(t *testing.T) {
	s, _ := start(t, Options{})
	const header = "*60000\r\n"
	for range 50 {
		c := dial(t, s)
		c.ask("PING", "PONG")
		c.send(header)
	}
	eventually(t, "the headers are read", func() bool { return s.Stats().NetIn >= uint64(50*len("PING\r\n"+header)) })
	held := int64(0)
	s.EachSession(func(c *Session) bool { held += c.held.Load(); return true })
	if held > 50*readSize {
		t.Errorf("50 sessions with headers of 60,000 arguments hold %d bytes", held)
	}
}
