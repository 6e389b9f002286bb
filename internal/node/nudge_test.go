package node

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

type numbered struct {
	fakeSession
	id   uint64
	host byte
}

func (s *numbered) ID() uint64           { return s.id }
func (s *numbered) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, s.host)} }

// A client that asks a dead owner for its slots, and the survivors for theirs,
// would never hear that the slots have moved: each older session gets one MOVED,
// to the node that it asked, and the repetition is executed.
func TestClientsHearOfADeadOwner(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	n := alone(t, func(o *Options) { o.Now = func() time.Time { return now } })
	old, young := &numbered{id: 3}, &numbered{id: 4}
	if v := runAs(t, n, old, 2, "INCR", "k"); v.Int != 1 {
		t.Fatalf("before: %q", v.Text())
	}
	for round := int64(1); round <= 2; round++ {
		n.nudges.begin(3)
		if v := runAs(t, n, old, 2, "DBSIZE"); v.Int != 1 {
			t.Errorf("without a key: %q", v.Text())
		}
		if v := runAs(t, n, old, 2, "INCR", "k"); v.Text() != "MOVED 7629 127.0.0.1:7001" {
			t.Errorf("the first command: %q", v.Text())
		}
		if v := runAs(t, n, old, 2, "INCR", "k"); v.Int != 2*round {
			t.Errorf("the second command: %d, %q", v.Int, v.Text())
		}
		if v := runAs(t, n, young, 2, "INCR", "k"); v.Int != 2*round+1 {
			t.Errorf("a session that began after the death: %q", v.Text())
		}
	}
}

// The repetition of a command that got its MOVED may come by another session of
// the same client: that is not answered by one more.
func TestOneHostIsNudgedOnceAtATime(t *testing.T) {
	var later atomic.Int64 // the node's own goroutines look at the clock too
	n := alone(t, func(o *Options) {
		o.Now = func() time.Time { return time.Unix(1_000_000, 0).Add(time.Duration(later.Load())) }
	})
	a, b, other := &numbered{id: 1}, &numbered{id: 2}, &numbered{id: 3, host: 1}
	n.nudges.begin(3)
	nudged := func(s Session) bool { return runAs(t, n, s, 2, "INCR", "k").Kind == resp.Error }
	if !nudged(a) || nudged(b) || !nudged(other) {
		t.Error("want one nudge for each of the two hosts")
	}
	later.Store(int64(nudgeEvery * time.Millisecond))
	if nudged(a) || !nudged(b) || nudged(b) {
		t.Error("later, want one for the other session of the first host")
	}
}

// Loops answer without waiting, by TryExec: their sessions hear of it too.
func TestLoopsTellOfADeadOwner(t *testing.T) {
	n := alone(t, nil)
	n.nudges.begin(1)
	s := &numbered{id: 1}
	get := [][]byte{[]byte("GET"), []byte("k")}
	for _, want := range []string{"-MOVED 7629 127.0.0.1:7001\r\n", "$-1\r\n"} {
		w := resp.Writer{Proto: 2}
		if !n.TryExec(s, command.Lookup(get[0]), get, &w) || string(w.Buf) != want {
			t.Errorf("%q, want %q", w.Buf, want)
		}
	}
}

// A client that is sent elsewhere would lose what it watches here.
func TestNobodyIsNudgedWhileItWatches(t *testing.T) {
	n := alone(t, nil)
	s := &numbered{id: 1}
	runAs(t, n, s, 2, "WATCH", "k")
	n.nudges.begin(1)
	if v := runAs(t, n, s, 2, "GET", "k"); v.Kind == resp.Error {
		t.Errorf("while it watches: %q", v.Text())
	}
	runAs(t, n, s, 2, "UNWATCH")
	if v := runAs(t, n, s, 2, "GET", "k"); v.Text() != "MOVED 7629 127.0.0.1:7001" {
		t.Errorf("afterwards: %q", v.Text())
	}
}
