package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// multiNode is a fakeNode that executes transactions.
type multiNode struct{ *fakeNode }

func (m multiNode) Admit(_ *Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	if cmd.ID == command.Get && string(args[1]) == "moved" {
		w.Error("MOVED 1 127.0.0.1:1")
		return false
	}
	return true
}

func (m multiNode) Transact(s *Session, t *Transaction, w *resp.Writer) {
	if t.Failed() {
		w.Error("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	w.Array(t.Len())
	for i := range t.Len() {
		if cmd, args := t.Command(i); cmd.Conn {
			t.Connection(i)
		} else {
			m.Exec(s, cmd, args, w)
		}
	}
}

func (m multiNode) Forget(*Session) {}

// TryTransact leaves alone what TryExec does.
func (m multiNode) TryTransact(s *Session, t *Transaction, w *resp.Writer) bool {
	for i := range t.Len() {
		if cmd, args := t.Command(i); !m.prompt(cmd, args) {
			return false
		}
	}
	m.Transact(s, t, w)
	return true
}

// slowNode cannot tell which transactions end at once.
type slowNode struct{ Transactor }

func (n slowNode) Exec(s *Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	n.Transactor.(multiNode).Exec(s, cmd, args, w)
}

func (n slowNode) Closed(s *Session) { n.Transactor.(multiNode).Closed(s) }

// A transaction that waits holds up its own session only, which keeps the order
// of replies and what the connection was told meanwhile.
func TestBlockingTransaction(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		node := multiNode{newFakeNode()}
		s, _ := start(t, Options{Loops: 1, Handler: node})
		blocked, other := dial(t, s), dial(t, s)
		blocked.send("MULTI\r\nSET a 1\r\nDEL block\r\nHELLO 3\r\nGET none\r\nEXEC\r\nASKING\r\nGET asking\r\nMULTI\r\nGET a\r\n")
		<-node.entered
		for range 100 {
			other.ask("PING\r\nMULTI\r\nGET a\r\nEXEC", "PONG", "OK", "QUEUED", "[1]")
		}
		blocked.send("GET later\r\nEXEC\r\nPING\r\n")
		node.release <- struct{}{}
		blocked.expect("OK", "QUEUED", "QUEUED", "QUEUED", "QUEUED")
		if v, err := blocked.value(); err != nil || len(v.Elems) != 4 || v.Elems[1].Text() != "1" || v.Elems[2].Kind != resp.Map || v.Elems[3].Kind != resp.Null {
			t.Fatalf("%v %v", textOf(v), err)
		}
		blocked.expect("OK")
		if v, err := blocked.value(); err != nil || v.Kind != resp.Boolean {
			t.Errorf("the protocol after EXEC: %v, %v", v.Kind, err)
		}
		blocked.expect("OK", "QUEUED", "QUEUED", "[1 (null)]", "PONG")
	})
}

// A Handler that cannot tell which transactions wait is never called on a loop
// for one.
func TestTransactionsThatMayAlwaysBlock(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		node := multiNode{newFakeNode()}
		s, _ := start(t, Options{Loops: 1, Handler: slowNode{node}})
		blocked, other := dial(t, s), dial(t, s)
		blocked.send("MULTI\r\nDEL block\r\nEXEC\r\nPING\r\n")
		<-node.entered
		other.ask("SET a 1\r\nMULTI\r\nGET a\r\nEXEC\r\nPING", "OK", "OK", "QUEUED", "[1]", "PONG")
		close(node.release)
		blocked.expect("OK", "QUEUED", "[1]", "PONG")
	})
}

// A connection that ends while its transaction is executed gives back what that
// holds, once.
func TestConnectionEndsWithinItsTransaction(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		node := multiNode{newFakeNode()}
		s, _ := start(t, Options{Loops: 1, Handler: node})
		c := dial(t, s)
		c.ask("MULTI", "OK")
		c.send(string(resp.AppendCommandStrings(nil, "SET", "a", strings.Repeat("v", 100_000))))
		c.expect("QUEUED")
		c.send("DEL block\r\nEXEC\r\nSET b 1\r\n")
		<-node.entered
		if held := s.Stats().BufferBytes; held < 100_000 {
			t.Errorf("%d bytes are counted", held)
		}
		s.EachSession(func(x *Session) bool { x.Close(); return true })
		node.release <- struct{}{}
		eventually(t, "it ends", func() bool { st := s.Stats(); return st.Clients == 0 && st.BufferBytes == 0 })
		if n := len(node.ended()); n != 1 {
			t.Errorf("Closed was called %d times", n)
		}
	})
}

func TestTransactionQueue(t *testing.T) {
	srv, _ := start(t, Options{Handler: multiNode{newFakeNode()}})
	c := dial(t, srv)
	const abort = "-EXECABORT Transaction discarded because of previous errors."
	c.ask("MULTI", "OK")
	c.ask("SET a 1", "QUEUED")
	c.ask("PING hello", "QUEUED")
	c.ask("GET a", "QUEUED")
	c.ask("SET b 22", "QUEUED")
	c.ask("EXEC", "[OK hello 1 OK]")
	for _, line := range []string{"FOO", "GET", "GET moved", "SHUTDOWN"} {
		c.ask("MULTI", "OK")
		c.send(line + "\r\n")
		if v, err := c.value(); err != nil || v.Kind != resp.Error {
			t.Fatalf("%s: %v %v", line, v, err)
		}
		c.ask("SET a 2", "QUEUED")
		c.ask("EXEC", abort)
	}
	c.ask("GET a", "1")
	c.ask("MULTI", "OK")
	c.ask("SET a 2", "QUEUED")
	c.send("CLIENT LIST\r\n")
	c.expect("QUEUED")
	c.send("EXEC\r\n")
	v, err := c.value()
	if err != nil || !strings.Contains(v.Elems[1].Text(), "flags=x ") || !strings.Contains(v.Elems[1].Text(), "multi=2 ") {
		t.Errorf("%v %v", v, err)
	}
	c.ask("MULTI", "OK")
	c.ask("RESET", "RESET")
	c.ask("EXEC", "-ERR EXEC without MULTI")
}

func TestTransactionNeedsATransactor(t *testing.T) {
	srv, _ := start(t, Options{})
	c := dial(t, srv)
	c.ask("MULTI", "-ERR transactions are not served here")
}

// What waits for EXEC is counted, bounded, and given back.
func TestTransactionIsBounded(t *testing.T) {
	srv, _ := start(t, Options{Handler: multiNode{newFakeNode()}, BufferLimit: 1 << 20})
	value := strings.Repeat("v", 10_000)
	c := dial(t, srv)
	c.ask("MULTI", "OK")
	for range 50 {
		c.ask("SET a "+value, "QUEUED")
	}
	if held := srv.Stats().BufferBytes; held < 500_000 {
		t.Errorf("%d bytes are counted", held)
	}
	for i := 0; ; i++ {
		c.send("SET a " + value + "\r\n")
		if v, err := c.value(); err != nil {
			t.Fatal(err)
		} else if v.Kind == resp.Error {
			if !strings.HasPrefix(v.Text(), "RCBUSY") {
				t.Error(v.Text())
			}
			break
		}
		if i > 100 {
			t.Fatal("there is no bound")
		}
	}
	if held := srv.Stats().BufferBytes; held > 100_000 {
		t.Errorf("%d bytes are held by a transaction that failed", held)
	}
	c.ask("EXEC", "-EXECABORT Transaction discarded because of previous errors.")

	c.ask("MULTI", "OK")
	for range maxQueued {
		c.send("GET a\r\n")
	}
	for range maxQueued {
		c.expect("QUEUED")
	}
	c.ask("GET a", fmt.Sprintf("-RCTOOLARGE a transaction holds at most %d commands with %d bytes; use more of them", maxQueued, maxQueuedBytes))
	c.ask("DISCARD", "OK")
	if held := srv.Stats().BufferBytes; held > 100_000 {
		t.Errorf("%d bytes are held after DISCARD", held)
	}

	// A session that ends gives back what it held.
	c.ask("MULTI", "OK")
	c.ask("SET a "+value, "QUEUED")
	c.ask("QUIT", "OK")
	c.ended()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if held := srv.Stats().BufferBytes; held != 0 {
		t.Errorf("%d bytes are held without sessions", held)
	}
}
