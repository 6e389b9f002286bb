package server

import (
	"sync/atomic"
	"testing"
	"time"
)

// gatedNode counts how often it was asked to look around.
type gatedNode struct {
	*fakeNode
	looks atomic.Int32
}

func (g *gatedNode) AwaitFresh(*Session) { g.looks.Add(1) }

// A turn that begins after HoldAfter looks around before its first command for the
// Handler; peers, and turns before that time, do not.
func TestGateHoldsTurns(t *testing.T) {
	eachTransport(t, func(t *testing.T) {
		g := &gatedNode{fakeNode: newFakeNode()}
		srv, _ := start(t, Options{Handler: g})
		looks := func(what string, least, most int32) {
			t.Helper()
			if n := g.looks.Swap(0); n < least || n > most {
				t.Errorf("%s: %d looks, want %d to %d", what, n, least, most)
			}
		}
		c := dial(t, srv)
		c.ask("SET a 1\r\nGET a\r\nPING", "OK", "1", "PONG")
		looks("no time is set", 0, 0)
		srv.HoldAfter(time.Now().Add(-time.Second))
		c.ask("GET a\r\nGET a\r\nGET a\r\nGET a\r\nGET a", "1", "1", "1", "1", "1")
		looks("a batch", 1, 5) // bytes may come in several turns
		c.ask("PING", "PONG")
		looks("a command of the connection", 0, 0)
		peer := dial(t, srv)
		peer.ask("RC.AUTH ok", "OK")
		peer.ask("RC.PING\r\nGET a", "PONG", "1")
		looks("a peer", 0, 0)
		srv.HoldAfter(time.Now().Add(time.Hour))
		c.ask("GET a", "1")
		looks("before the time", 0, 0)
		srv.HoldAfter(time.Time{})
		c.ask("GET a", "1")
		looks("never", 0, 0)
	})
}

// A Handler without a gate is never held.
func TestHoldAfterWithoutGate(t *testing.T) {
	srv, _ := start(t, Options{})
	srv.HoldAfter(time.Now().Add(-time.Hour))
	dial(t, srv).ask("SET a 1\r\nGET a", "OK", "1")
}
