package server

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// Drain lets the command that is being executed finish, with all that was read
// together with it, and delivers the replies.
func TestDrain(t *testing.T) {
	s, node := start(t, Options{})
	busy, idle, partial := dial(t, s), dial(t, s), dial(t, s)
	idle.ask("PING", "PONG")
	partial.ask("PING", "PONG")
	partial.send("*2\r\n$3\r\nGET")
	busy.send("DEL block\r\nPING\r\nGET nothing\r\n")
	<-node.entered
	done := make(chan error, 1)
	go func() { done <- s.Drain(context.Background()) }()
	idle.ended()
	partial.ended()
	select {
	case err := <-done:
		t.Fatalf("Drain did not wait for the command: %v", err)
	default:
	}
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		c.Close()
		t.Error("it still accepts")
	}
	close(node.release)
	busy.expect("1", "PONG", "(null)")
	busy.ended()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(node.ended()) != 3 {
		t.Errorf("Closed was called %d times", len(node.ended()))
	}
	if err := s.Close(); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("Close after Drain: %v", err)
	}
	if err := s.Start(); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("Start after Drain: %v", err)
	}
}

func TestDrainGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, node := start(t, Options{Listener: ln, WriteTimeout: time.Hour})
		stalled := stall(t, ln, s, node)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		err := s.Drain(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain: %v", err)
		}
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("it took %v", d)
		}
		stalled.Close()
	})
}

func TestCloseCutsSessionsOff(t *testing.T) {
	s, node := start(t, Options{})
	busy, idle := dial(t, s), dial(t, s)
	idle.ask("PING", "PONG")
	busy.send("DEL block\r\n")
	<-node.entered
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	idle.ended()
	busy.ended()
	close(node.release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := s.Stats().Connected(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestServe(t *testing.T) {
	s, err := New(Options{Addr: "127.0.0.1:0", Handler: newFakeNode()})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr() != nil {
		t.Error("an address before Start")
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	eventually(t, "it listens", func() bool { return s.Addr() != nil })
	dial(t, s).ask("PING", "PONG")
	s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCloseWithoutStart(t *testing.T) {
	s, err := New(Options{Handler: newFakeNode()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
