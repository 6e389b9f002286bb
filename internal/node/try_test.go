package node

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// TryExec executes what needs nobody else, with the reply of Exec, and leaves the
// rest untouched.
func TestTryExec(t *testing.T) {
	n := alone(t, nil)
	s := &fakeSession{}
	try := func(line string) (string, bool) {
		t.Helper()
		var args [][]byte
		for _, a := range strings.Fields(line) {
			args = append(args, []byte(a))
		}
		cmd := command.Lookup(args[0])
		if cmd.Subs != nil {
			cmd = cmd.Sub(args[1])
		}
		w := resp.Writer{Buf: []byte("before"), Proto: 2}
		ok := n.TryExec(s, cmd, args, &w)
		return strings.TrimPrefix(string(w.Buf), "before"), ok
	}
	for _, tt := range []struct{ line, want string }{
		{"SET k 1", "+OK\r\n"}, {"GET k", "$1\r\n1\r\n"}, {"INCR k", ":2\r\n"}, {"MGET {k}a {k}b", "*2\r\n$-1\r\n$-1\r\n"},
		{"MGET a b", "-" + errCrossSlot + "\r\n"}, {"WATCH {k}a {k}b", "+OK\r\n"}, {"UNWATCH", "+OK\r\n"}, {"WATCH {k}a {l}b", "-" + errCrossSlot + "\r\n"},
	} {
		if got, ok := try(tt.line); !ok || got != tt.want {
			t.Errorf("%s: %q, %v", tt.line, got, ok)
		}
	}
	for _, line := range []string{"DBSIZE", "FLUSHALL", "INFO", "CLUSTER INFO", "CLUSTER KEYSLOT k", "CONFIG GET maxmemory", "SCAN 0", "SHUTDOWN",
		"RC.PING", "RC.FORWARD 0 GET k", "EVAL return 1 k", "EVALSHA_RO 0 1 k", "SCRIPT FLUSH", "WAIT 0 0"} {
		if got, ok := try(line); ok || got != "" {
			t.Errorf("%s: %q, %v", line, got, ok)
		}
	}
	// A slot that this node owns and does not serve yet needs waiting.
	n.eng.SetServing(ring.Slot([]byte("k")), false)
	for _, line := range []string{"GET k", "WATCH k"} {
		if got, ok := try(line); ok || got != "" || n.watched.Load() != 0 {
			t.Errorf("%s in a slot that is not served: %q, %v", line, got, ok)
		}
	}
	n.eng.SetServing(ring.Slot([]byte("k")), true)
	if got, ok := try("GET k"); !ok || got != "$1\r\n2\r\n" {
		t.Errorf("GET in a slot that is served again: %q, %v", got, ok)
	}
}

// tryTransact queues and executes commands as a loop does.
func tryTransact(n *Node, s Session, lines ...string) (string, bool) {
	var q queue
	w := resp.Writer{Proto: 2}
	for i, line := range lines {
		q.cmds = append(q.cmds, strings.Fields(line))
		cmd, args := q.Command(i)
		n.Admit(s, cmd, args, &w)
	}
	done := n.TryTransact(s, &q, &w)
	return string(w.Buf), done
}

// TryTransact executes short transactions on one slot, and leaves the rest with
// their watches untouched.
func TestTryTransact(t *testing.T) {
	n := alone(t, nil)
	s := &fakeSession{}
	if got, done := tryTransact(n, s, "SET {k}a 1", "INCR {k}a", "TIME"); !done || !strings.HasPrefix(got, "*3\r\n+OK\r\n:2\r\n") {
		t.Errorf("%q, %v", got, done)
	}
	runAs(t, n, s, 2, "WATCH", "{k}a")
	run(t, n, 2, "SET", "{k}a", "changed")
	if got, done := tryTransact(n, s, "GET {k}a"); !done || got != "*-1\r\n" {
		t.Errorf("a watched key was changed: %q, %v", got, done)
	}
	long := slices.Repeat([]string{"GET {k}a"}, maxPrompt+1)
	for _, lines := range [][]string{{"EVAL return 0"}, {"GET {k}a", "EVAL return 1 {k}a"}, {"DBSIZE"}, {"PING", "FLUSHALL"}, long} {
		runAs(t, n, s, 2, "WATCH", "{k}a")
		if got, done := tryTransact(n, s, lines...); done || got != "" {
			t.Errorf("%q: %q, %v", lines[0], got, done)
		}
		if st := stateOf(s); st.watch.Keys() != 1 || n.watched.Load() == 0 {
			t.Errorf("%q: the watch is lost", lines[0])
		}
		n.Forget(s)
	}
	slot := ring.SlotString("{k}a")
	runAs(t, n, s, 2, "WATCH", "{k}a")
	n.eng.SetServing(slot, false)
	if got, done := tryTransact(n, s, "GET {k}a"); done || got != "" {
		t.Errorf("in a slot that is not served: %q, %v", got, done)
	}
	n.eng.SetServing(slot, true)
	var w resp.Writer
	if n.Transact(s, &queue{cmds: [][]string{{"GET", "{k}a"}}}, &w); string(w.Buf) != "*-1\r\n" {
		t.Errorf("the slot was away since WATCH: %q", w.Buf)
	}
	if n.watched.Load() != 0 {
		t.Errorf("%d bytes of watches are left", n.watched.Load())
	}
}

// Who must not wait leaves alone a slot that a script holds, and ends the watches
// of a session there later.
func TestHeldForLong(t *testing.T) {
	n := alone(t, nil)
	s := &fakeSession{}
	runAs(t, n, s, 2, "WATCH", "k")
	tx, err := n.eng.Lock(ring.SlotString("k"))
	if err != nil {
		t.Fatal(err)
	}
	n.long.Add(1)
	w := resp.Writer{Proto: 2}
	get := [][]byte{[]byte("GET"), []byte("k")}
	if n.TryExec(&fakeSession{}, command.Lookup(get[0]), get, &w) || len(w.Buf) > 0 {
		t.Errorf("GET: %q", w.Buf)
	}
	if got, done := tryTransact(n, &fakeSession{}, "GET k"); done || got != "" {
		t.Errorf("a transaction: %q, %v", got, done)
	}
	n.Closed(s) // waits for nobody
	if n.watched.Load() == 0 {
		t.Error("the watch ended while the slot was held by another")
	}
	tx.Unlock()
	n.long.Add(-1)
	deadline := time.After(time.Minute)
	for n.watched.Load() != 0 {
		select {
		case <-deadline:
			t.Fatal("the watch never ended")
		default:
			runtime.Gosched()
		}
	}
	if !n.TryExec(&fakeSession{}, command.Lookup(get[0]), get, &w) {
		t.Error("GET of a slot that nobody holds")
	}
}
