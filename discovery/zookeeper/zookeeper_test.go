package zookeeper

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		says string
	}{
		{Options{Path: "/x"}, "0 servers"},
		{Options{Servers: []string{"a"}, Path: "/x"}, "not host:port"},
		{Options{Servers: []string{"a:1"}, Path: "x"}, "not like"},
		{Options{Servers: []string{"a:1"}, Path: "/x/"}, "not like"},
		{Options{Servers: []string{"a:1"}, Path: "/"}, "not like"},
		{Options{Servers: []string{"a:1"}, Path: "/x", Session: time.Second}, "below 2s"},
		{Options{Servers: []string{"a:1"}, Path: "/x", Auth: "digest"}, "scheme:credentials"},
	} {
		if _, err := New(tc.o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v", tc.o, err)
		}
	}
}

func source(t *testing.T, s *server, auth string) *Source {
	t.Helper()
	z, err := New(Options{Servers: []string{s.ln.Addr().String()}, Path: "/ringcache/prod", Session: 2 * time.Second, Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestListsAndForgets(t *testing.T) {
	s := newServer(t)
	z := source(t, s, "digest:ring:secret")
	if got, err := z.Seeds(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	s.mu.Lock()
	s.nodes["/ringcache"], s.nodes["/ringcache/prod"] = 0, 0
	s.nodes["/ringcache/prod/10.0.0.1:7001"] = 99 // of the process before
	s.nodes["/ringcache/prod/no address"] = 0
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	for _, addr := range []string{"10.0.0.1:7001", "[fd00::1]:7002"} {
		go func() { done <- z.Register(ctx, addr) }() // ends with ctx
	}
	until(t, "the nodes are not listed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		own := s.nodes["/ringcache/prod/10.0.0.1:7001"]
		return own != 99 && own != 0 && s.nodes["/ringcache/prod/[fd00::1]:7002"] != 0
	})
	if got, err := z.Seeds(t.Context()); !reflect.DeepEqual(got, []string{"10.0.0.1:7001", "[fd00::1]:7002"}) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	until(t, "the entries stay", func() bool {
		return !s.has("/ringcache/prod/10.0.0.1:7001") && !s.has("/ringcache/prod/[fd00::1]:7002")
	})
}

func TestRegisterSaysWhenTheSessionIsOver(t *testing.T) {
	s := newServer(t)
	z := source(t, s, "")
	done := make(chan error, 1)
	go func() { done <- z.Register(t.Context(), "10.0.0.1:7001") }() // ends with the session
	until(t, "the node is not listed", func() bool { return s.has("/ringcache/prod/10.0.0.1:7001") })
	s.mu.Lock()
	s.expire = true
	s.mu.Unlock()
	s.cut()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "ended the session") {
		t.Error(err)
	}
	if err := z.Register(t.Context(), "nowhere"); err == nil {
		t.Error("registered nowhere")
	}
}

// TestServerThatAnswersPingsAlone: a question ends after Timeout, and with its context:
// the node that asks may be closing.
func TestServerThatAnswersPingsAlone(t *testing.T) {
	s := newServer(t)
	s.nodes["/ringcache"], s.nodes["/ringcache/prod"] = 0, 0
	s.mute = opChildren2
	z := source(t, s, "")
	result := make(chan error, 2)
	go func() { // ends after Timeout
		_, err := z.Seeds(t.Context())
		result <- err
	}()
	ends := func(what string) error {
		t.Helper()
		select {
		case err := <-result:
			return err
		case <-time.After(time.Minute):
			t.Fatal(what + " does not end")
		}
		return nil
	}
	if err := ends("Seeds"); err == nil || !strings.Contains(err.Error(), "does not answer within") {
		t.Error(err)
	}
	s.mu.Lock()
	s.mute = opCreate
	begun := s.sessions
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { result <- z.Register(ctx, "10.0.0.1:7001") }() // ends with ctx
	until(t, "no session", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.sessions > begun
	})
	cancel()
	if err := ends("Register"); err != nil {
		t.Error(err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	s := newServer(t)
	s.ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source(t, s, "").Seeds(ctx); err == nil {
		t.Error("seeds from nobody")
	}
}
