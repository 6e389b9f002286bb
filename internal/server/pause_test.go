package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// waitingSessions counts the sessions that wait for the end of a pause.
func waitingSessions(s *Server) (n int) {
	s.EachSession(func(c *Session) bool {
		if c.waits.Load() {
			n++
		}
		return true
	})
	return n
}

// Writes, transactions with writes and scripts wait for the end of a pause of
// writes, in order with what follows them; reads go on.
func TestPauseOfWrites(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		node := multiNode{newFakeNode()}
		s, _ := start(t, Options{Loops: 1, Handler: node})
		admin, b, c, d := dial(t, s), dial(t, s), dial(t, s), dial(t, s)
		c.ask("MULTI\r\nSET k v", "OK", "QUEUED")
		d.ask("MULTI\r\nGET k", "OK", "QUEUED")
		admin.ask("CLIENT PAUSE 3600000 WRITE\r\nGET k", "OK", "(null)")
		b.send("GET k\r\nSET k b\r\nGET k\r\n")
		c.send("EXEC\r\nPING\r\n")
		d.ask("EXEC\r\nPING", "[(null)]", "PONG")
		d.send("EVAL \"return 1\" 0\r\n")
		b.expect("(null)")
		eventually(t, "three wait", func() bool { return waitingSessions(s) == 3 && s.Stats().Waiting == 3 })
		if node.value("k") != nil {
			t.Error("a write was executed")
		}
		admin.ask("FOO\r\nSET k", "-ERR unknown command 'FOO', with args beginning with: ", "-ERR wrong number of arguments for 'set' command")
		admin.ask("CLIENT PAUSE 1 WRITE\r\nGET k", "OK", "(null)") // makes it no shorter
		if n := waitingSessions(s); n != 3 {
			t.Errorf("%d wait", n)
		}
		admin.ask("CLIENT UNPAUSE", "OK")
		b.expect("OK")
		if v, err := b.value(); err != nil || v.Text() != "b" && v.Text() != "v" {
			t.Error(v, err)
		}
		c.expect("[OK]", "PONG")
		d.expect("eval")
		b.ask("SET k x", "OK")
		if s.pause.active.Load() || waitingSessions(s) != 0 || s.Stats().Waiting != 0 {
			t.Error("the pause is not over")
		}
	})
}

// A pause of everything ends by itself, a session that waits can be killed, and a
// peer never waits.
func TestPauseOfEverything(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		whileBusy(t, func(length time.Duration) bool { return pauseEverything(t, length) })
	})
}

// pauseEverything reports whether the pause was over too early to see who waits.
func pauseEverything(t *testing.T, length time.Duration) (early bool) {
	s, _ := start(t, Options{Loops: 1})
	admin, b, killed, peer := dial(t, s), dial(t, s), dial(t, s), dial(t, s)
	peer.ask("RC.AUTH ok", "OK")
	killed.ask("PING", "PONG")
	began := time.Now()
	admin.ask(fmt.Sprintf("CLIENT PAUSE %d WRITE\r\nCLIENT PAUSE 1 ALL", length.Milliseconds()), "OK", "OK") // the longer, and the stricter
	b.send("PING\r\nGET k\r\n")
	killed.send("PING\r\n")
	peer.ask("RC.PING", "PONG")
	both := false
	eventually(t, "both wait, or the pause is over", func() bool {
		both = waitingSessions(s) == 2
		return both || time.Since(began) > length
	})
	var victim *Session
	s.EachSession(func(c *Session) bool {
		if addrText(c.RemoteAddr()) == killed.LocalAddr().String() {
			victim = c
		}
		return true
	})
	victim.Close()
	if !both || time.Since(began) > length {
		return true
	}
	killed.ended()
	eventually(t, "it has ended", func() bool { return s.Stats().Clients == 2 })
	b.expect("PONG", "(null)")
	if d := time.Since(began); d < length {
		t.Errorf("the pause took %v", d)
	}
	admin.ask("PING", "PONG")
	return false
}

// A server that drains lets those go on that wait.
func TestDrainDuringAPause(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		s, node := start(t, Options{Loops: 1})
		admin, b := dial(t, s), dial(t, s)
		admin.ask("CLIENT PAUSE 3600000", "OK")
		b.send("SET k v\r\n")
		eventually(t, "it waits", func() bool { return waitingSessions(s) == 1 })
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.expect("OK")
		if string(node.value("k")) != "v" {
			t.Error("not executed")
		}
	})
}

func TestPauseTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, _ := start(t, Options{Listener: ln})
		c := ln.dial(t, local)
		c.ask("CLIENT PAUSE 5000\r\nCLIENT PAUSE 0", "OK")
		began := time.Now()
		c.expect("OK")
		c.ask("PING", "PONG")
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("%v", d)
		}
		c.ask("CLIENT PAUSE 9223372036854775807 WRITE\r\nPING\r\nCLIENT UNPAUSE\r\nSET k v", "OK", "PONG", "OK", "OK")
		s.Close()
	})
}

func TestClientKillByAgeAndType(t *testing.T) {
	now := time.Now()
	s, _ := start(t, Options{Now: func() time.Time { return now }})
	old, admin := dial(t, s), dial(t, s)
	old.ask("PING", "PONG")
	admin.ask("CLIENT KILL MAXAGE 1", "0")
	admin.ask("CLIENT KILL MAXAGE x\r\nCLIENT KILL MAXAGE 0", "-ERR maxage is not an integer or out of range", "-ERR maxage must be greater than 0")
	old.ask("SUBSCRIBE x", "[subscribe x 1]")
	admin.ask("CLIENT LIST TYPE nosuch\r\nCLIENT KILL TYPE normal MAXAGE 1\r\nCLIENT KILL TYPE replica", "-ERR Unknown client type 'nosuch'", "0", "0")
	admin.ask("CLIENT KILL TYPE pubsub SKIPME no", "1")
	old.ended()
}
