package server

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// holds checks that the budget counts exactly what the sessions hold. Nothing
// may be running.
func holds(t *testing.T, s *Server) int64 {
	t.Helper()
	var sum int64
	s.EachSession(func(c *Session) bool {
		x := c.transport.(*stdTransport)
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.own != len(x.in)+cap(c.w.Buf)+x.lists {
			t.Errorf("session %d: %d bytes of buffers, counted %d", c.id, len(x.in)+cap(c.w.Buf)+x.lists, x.own)
		}
		if least := max(cap(x.queue), len(x.queue)+x.inHand); x.queueHeld+x.batchHeld < least {
			t.Errorf("session %d: %d bytes wait, counted %d", c.id, least, x.queueHeld+x.batchHeld)
		}
		sum += int64(max(0, x.own+x.queueHeld+x.batchHeld-allowance))
		return true
	})
	if st := s.Stats(); st.BufferBytes != sum || sum > st.BufferLimit {
		t.Errorf("sessions hold %d bytes, the budget says %d, limit %d", sum, st.BufferBytes, st.BufferLimit)
	}
	return sum
}

// Ten sessions with 30 MB of an unfinished command each made the process grow
// by 435 MB: the limit was one session's.
func TestManyUnfinishedCommandsAreBoundedTogether(t *testing.T) {
	const sessions, limit = 20, 8 << 20
	s, _ := start(t, Options{BufferLimit: limit})
	args := []string{"MSET"}
	for range 12 {
		args = append(args, "k", strings.Repeat("v", 128<<10))
	}
	whole := string(resp.AppendCommandStrings(nil, args...))
	most := len(whole) - 10
	other := dial(t, s)
	other.ask("PING", "PONG")
	var all []*peerConn
	for range sessions {
		c := dial(t, s)
		c.send(whole[:most])
		all = append(all, c)
	}
	eventually(t, "everything is read", func() bool { return s.Stats().NetIn >= uint64(sessions*most) })
	if st := s.Stats(); st.BufferBytes > limit || st.BufferBytes < limit/2 || st.BufferRefusals == 0 || st.Clients != sessions+1 {
		t.Errorf("%d bytes, limit %d, %d refusals, %d clients", st.BufferBytes, limit, st.BufferRefusals, st.Clients)
	}
	small := strings.Repeat("v", 10_000)
	for range 3 {
		other.ask("PING\r\nECHO "+small, "PONG", small)
		other.send(string(resp.AppendCommandStrings(nil, "SET", "k", small)))
		other.expect("OK")
	}
	other.send(strings.Repeat("ECHO "+small[:1000]+"\r\n", 200)) // a long pipeline of small ones
	for range 200 {
		other.expect(small[:1000])
	}
	busy, done := uint64(0), uint64(0)
	for _, c := range all {
		c.send(whole[most:] + "PING\r\n")
		v, err := c.value()
		if err != nil {
			t.Fatal(err)
		}
		switch text := textOf(v); {
		case text == "mset":
			done++
		case strings.HasPrefix(text, "-RCBUSY session buffers hold ") && strings.Contains(text, fmt.Sprint("limit ", limit, "; ")):
			busy++
		default:
			t.Fatal(text)
		}
		c.expect("PONG") // the session goes on
	}
	if n := s.Stats().BufferRefusals; busy != n || done == 0 {
		t.Errorf("%d dropped, %d executed, %d refusals counted", busy, done, n)
	}
	all[0].send(whole) // there is room again
	all[0].expect("mset")
}

func TestManySlowReadersAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, limit = 40, 4 << 20
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln, BufferLimit: limit})
		node.set("large", []byte(strings.Repeat("v", 1<<20)))
		other := ln.dial(t, local)
		for i := range sessions {
			c := ln.dial(t, local)
			if i%2 == 0 {
				c.send("GET large\r\n")
			} else {
				go c.Write([]byte(strings.Repeat("ECHO "+strings.Repeat("e", 10_000)+"\r\n", 100)))
			}
			if i%8 == 0 {
				pass(2 * stallAfter)
				synctest.Wait()
				holds(t, s)
			}
		}
		pass(2 * stallAfter)
		synctest.Wait()
		if n := holds(t, s); n < limit/2 {
			t.Errorf("only %d bytes are used", n)
		}
		st := s.Stats()
		if st.BufferRefusals == 0 || st.OutputLimit != 0 {
			t.Errorf("%d refusals, %d output limits", st.BufferRefusals, st.OutputLimit)
		}
		small := strings.Repeat("v", 10_000)
		other.ask("PING\r\nECHO "+small, "PONG", small)
		other.send("GET large\r\nPING\r\n") // refused, and the session goes on
		v, err := other.value()
		if err != nil || !strings.HasPrefix(v.Text(), "RCBUSY ") {
			t.Fatal(v.Text()[:20], err)
		}
		other.expect("PONG")
		pass(time.Hour) // those who do not read are cut off
		other.ask("GET large", string(node.value("large")))
		synctest.Wait()
		holds(t, s)
		s.Close()
		if n := s.Stats().BufferBytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
}

// A session whose waiting replies find no room is closed, and nobody else.
func TestRepliesWithoutRoomCloseTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		var log logBuffer
		s, node := start(t, Options{Listener: ln, BufferLimit: 110_000, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		first := stall(t, ln, s, node) // 100 KiB wait
		if n := holds(t, s); n < 80_000 {
			t.Fatalf("%d bytes", n)
		}
		other, silent := ln.dial(t, local), ln.dial(t, local)
		silent.send("ECHO " + strings.Repeat("e", 15_000) + "\r\n")
		pass(3 * stallAfter)
		synctest.Wait()
		if st := s.Stats(); st.Clients != 2 || st.BufferRefusals != 1 || st.OutputLimit != 0 {
			t.Errorf("%+v", st)
		}
		if !strings.Contains(log.String(), "RCBUSY session buffers hold ") {
			t.Errorf("log: %s", log.String())
		}
		holds(t, s)
		other.ask("PING", "PONG")
		first.expect(string(node.value("k"))) // late, but there
		first.ask("PING", "PONG")
		synctest.Wait()
		if n := holds(t, s); n != 0 {
			t.Errorf("%d bytes", n)
		}
		s.Close()
	})
}

// With the budget used up, whatever fits into a session's allowance works.
func TestSmallCommandsNeedNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln, BufferLimit: 1})
		c := ln.dial(t, local)
		c.ask("PING", "PONG")
		value := strings.Repeat("v", 10_000)
		node.set("k", []byte(value))
		c.ask("GET k", value)
		for range 3 {
			c.ask("ECHO "+value, value)
			c.ask("ECHO "+value[:1000]+"\r\nGET k\r\nGET k\r\nPING", value[:1000], value, value, "PONG")
			c.send("*2001\r\n$3\r\nDEL\r\n" + strings.Repeat("$0\r\n\r\n", 2000))
			c.expect("0")
			synctest.Wait()
			if n := s.Stats().BufferBytes; n != 0 {
				t.Errorf("%d bytes", n)
			}
		}
		if n := s.Stats().BufferRefusals; n != 0 {
			t.Errorf("%d refusals", n)
		}
		s.Close()
	})
}

func TestBufferBudgetReturnsToZero(t *testing.T) {
	for _, limit := range []int64{1 << 20, 64 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s, node := start(t, Options{BufferLimit: limit})
			node.set("large", []byte(strings.Repeat("v", 200<<10)))
			for i := range 30 {
				c := dial(t, s)
				switch i % 6 {
				case 0: // an unfinished command
					c.send("*2\r\n$3\r\nGET\r\n$200000\r\n" + strings.Repeat("x", 150_000))
				case 1: // replies that nobody reads
					go c.Write([]byte(strings.Repeat("GET large\r\n", 100)))
				case 2: // many arguments, half of them
					go c.Write([]byte("*60000\r\n$3\r\nDEL\r\n" + strings.Repeat("$0\r\n\r\n", 30_000)))
				case 3: // all of them
					go c.Write([]byte("*30001\r\n$3\r\nDEL\r\n" + strings.Repeat("$0\r\n\r\n", 30_000)))
				case 4: // a polite end
					go c.Write([]byte(strings.Repeat("GET large\r\n", 20) + "QUIT\r\n"))
				case 5: // a protocol error
					go c.Write([]byte(strings.Repeat("GET large\r\n", 5) + "*x\r\n"))
				}
				if i%4 == 3 {
					c.Close()
				}
			}
			eventually(t, "much was read", func() bool { return s.Stats().NetIn > 1_000_000 })
			s.EachSession(func(c *Session) bool {
				if c.ID()%2 == 0 {
					c.Close()
				}
				return true
			})
			if st := s.Stats(); st.BufferBytes < 0 {
				t.Errorf("%d bytes", st.BufferBytes)
			}
			s.Close()
			if st := s.Stats(); st.BufferBytes != 0 || st.Connected() != 0 {
				t.Errorf("%d bytes in %d sessions", st.BufferBytes, st.Connected())
			}
		})
	}
}

// The lists of a command's arguments are several times longer than the command.
func TestManyEmptyArgumentsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, _ := start(t, Options{Listener: ln})
		c := ln.dial(t, local)
		const n = 60_000
		half := strings.Repeat("$0\r\n\r\n", n/2)
		c.send(fmt.Sprintf("*%d\r\n$3\r\nDEL\r\n", n+1) + half)
		synctest.Wait()
		if got := holds(t, s); got < n/2*argCost {
			t.Errorf("%d arguments count for %d bytes", n/2, got)
		}
		c.send(half)
		c.expect("0")
		synctest.Wait()
		if got := holds(t, s); got > 1<<20 {
			t.Errorf("%d bytes when the command is finished", got)
		}
		c.ask("PING", "PONG")
		pass(idleAfter + time.Millisecond)
		synctest.Wait()
		if got := holds(t, s); got != 0 {
			t.Errorf("%d bytes when idle", got)
		}
		s.Close()
	})
}

// A session that was busy with large commands keeps nothing of them.
func TestLargeBuffersGoWhenTheCommandIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln, MaxValue: 8 << 20})
		c := ln.dial(t, local)
		c.send(string(resp.AppendCommandStrings(nil, "SET", "k", strings.Repeat("v", 5<<20))))
		c.expect("OK")
		synctest.Wait()
		if got := holds(t, s); got != 0 {
			t.Errorf("%d bytes after a large SET", got)
		}
		c.ask("GET k", string(node.value("k")))
		synctest.Wait()
		if got := holds(t, s); got != 0 {
			t.Errorf("%d bytes after a large GET", got)
		}
		s.Close()
	})
}

// What cannot be skipped ends the session, after the error.
func TestUnskippableCommandEndsTheSession(t *testing.T) {
	for name, in := range map[string]string{
		"inline": "ECHO " + strings.Repeat("x", 40_000),
		"header": "*2\r\n$" + strings.Repeat("0", 40_000),
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := start(t, Options{BufferLimit: 1})
			c := dial(t, s)
			c.send(in)
			v, err := c.value()
			if err != nil || !strings.HasPrefix(v.Text(), "RCBUSY ") {
				t.Fatal(v.Text(), err)
			}
			c.ended()
		})
	}
	s, _ := start(t, Options{BufferLimit: 1, Password: "secret"})
	c := dial(t, s)
	c.send("*3\r\n$4\r\nAUTH\r\n$16000\r\n" + strings.Repeat("x", 16000) + "\r\n$10000\r\n" + strings.Repeat("x", 9000))
	v, err := c.value()
	if err != nil || !strings.HasPrefix(v.Text(), "RCBUSY ") {
		t.Fatal(v.Text(), err)
	}
	c.ended()
}

// Clients that use up the budget cannot stop what peers tell each other.
func TestPeersAreCountedButNotRefused(t *testing.T) {
	s, _ := start(t, Options{BufferLimit: 1})
	c := dial(t, s)
	c.ask("RC.AUTH ok", "OK")
	value := strings.Repeat("x", 1<<20)
	c.send(string(resp.AppendCommandStrings(nil, "SET", "k", value)))
	c.expect("OK")
	c.ask("GET k", value)
	c.send(string(resp.AppendCommandStrings(nil, "SET", "k", value))[:1<<20])
	eventually(t, "the peer's bytes are counted", func() bool { return s.Stats().BufferBytes > 1<<19 })
	if n := s.Stats().BufferRefusals; n != 0 {
		t.Errorf("%d refusals", n)
	}
}

// The budget is asked when a buffer changes, not by each command.
func TestBudgetIsLeftAloneOnTheFastPath(t *testing.T) {
	c := detached(t)
	in := pipeline(600)
	c.turn(in) // makes the buffer
	x := c.transport.(*stdTransport)
	x.hold()
	x.mu.Lock() // whoever asks the budget waits for this
	defer x.mu.Unlock()
	for range 100 {
		c.w.Buf = c.w.Buf[:0]
		c.turn(in)
		x.hold()
	}
}
