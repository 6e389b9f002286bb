package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// queue is a transaction of ready commands.
type queue struct {
	cmds   [][]string
	failed bool
}

func (q *queue) Len() int          { return len(q.cmds) }
func (q *queue) Failed() bool      { return q.failed }
func (q *queue) Denied(int) string { return "" }
func (q *queue) Connection(int)    { panic("no connection") }
func (q *queue) Command(i int) (*command.Command, [][]byte) {
	var args [][]byte
	for _, a := range q.cmds[i] {
		args = append(args, []byte(a))
	}
	return command.Lookup(args[0]), args
}

// transact queues and executes commands and shows what comes back.
func transact(t *testing.T, n *Node, s Session, lines ...string) string {
	t.Helper()
	var q queue
	for _, line := range lines {
		args := strings.Fields(line)
		q.cmds = append(q.cmds, args)
		var w resp.Writer
		cmd, raw := q.Command(len(q.cmds) - 1)
		if !n.Admit(s, cmd, raw, &w) {
			n.Forget(s)
			return string(w.Buf)
		}
	}
	var w resp.Writer
	n.Transact(s, &q, &w)
	return string(w.Buf)
}

func TestTransaction(t *testing.T) {
	n := alone(t, nil)
	s := &fakeSession{}
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check(transact(t, n, s, "SET {a}1 x", "GET {a}1", "INCR {a}1", "OBJECT HELP x"),
		"*4\r\n+OK\r\n$1\r\nx\r\n-ERR value is not an integer or out of range\r\n-ERR wrong number of arguments for 'object|help' command\r\n")
	check(transact(t, n, s, "SET {a}1 x", "SET {b}1 x"), "-CROSSSLOT Keys in request don't hash to the same slot\r\n")
	check(transact(t, n, s, "SET {a}1 x", "DBSIZE"), "-"+errMixed+"\r\n")
	check(transact(t, n, s, "DBSIZE", "GET {a}1"), "-"+errMixed+"\r\n")
	check(transact(t, n, s, "DBSIZE", "DBSIZE"), "*2\r\n:1\r\n:1\r\n")

	// Watches of a slot that leaves the node, even if it comes back.
	slot := ring.SlotString("{a}1")
	run(t, n, 2, "SET", "{a}1", "y")
	runAs(t, n, s, 2, "WATCH", "{a}1")
	check(transact(t, n, s, "GET {a}1"), "*1\r\n$1\r\ny\r\n")
	runAs(t, n, s, 2, "WATCH", "{a}1")
	n.eng.SetServing(slot, false)
	n.eng.SetServing(slot, true)
	check(transact(t, n, s, "GET {a}1"), "*-1\r\n")
	check(transact(t, n, s, "GET {a}1"), "*1\r\n$1\r\ny\r\n")

	// The watch and the transaction must be in one slot.
	runAs(t, n, s, 2, "WATCH", "{a}1")
	if v := runAs(t, n, s, 2, "WATCH", "{b}1"); !strings.HasPrefix(string(v.Str), "CROSSSLOT") {
		t.Errorf("%s", v.Str)
	}
	check(transact(t, n, s, "GET {b}1"), "-CROSSSLOT Keys in request don't hash to the same slot\r\n")
	check(transact(t, n, s, "GET {b}1"), "*1\r\n$-1\r\n")
}

func TestWatchIsBounded(t *testing.T) {
	n := alone(t, nil)
	s := &fakeSession{}
	args := []string{"WATCH"}
	for i := range maxWatched {
		args = append(args, fmt.Sprintf("{a}%d", i))
	}
	if v := runAs(t, n, s, 2, args...); string(v.Str) != "OK" {
		t.Fatalf("%s", v.Str)
	}
	if v := runAs(t, n, s, 2, "WATCH", "{a}x"); !strings.HasPrefix(string(v.Str), "RCTOOLARGE") {
		t.Errorf("%s", v.Str)
	}
	if n.watched.Load() < maxWatched*watchCost {
		t.Errorf("%d bytes are counted", n.watched.Load())
	}
	n.watched.Add(maxWatchedBytes)
	if v := run(t, n, 2, "WATCH", "{a}x"); !strings.HasPrefix(string(v.Str), "RCBUSY") {
		t.Errorf("%s", v.Str)
	}
	n.watched.Add(-maxWatchedBytes)
	n.Closed(s)
	if n.watched.Load() != 0 {
		t.Errorf("%d bytes are left", n.watched.Load())
	}
}

// What is executed but too long to be told is said to have been executed.
func TestLongReplyOfTransaction(t *testing.T) {
	n := alone(t, nil)
	s := &fakeSession{}
	run(t, n, 2, "SET", "{a}1", strings.Repeat("x", 1000))
	cmds := [][]string{{"GET", "{a}1"}, {"GET", "{a}1"}, {"SET", "{a}2", "done"}}
	openState(s).keyed = true
	w := resp.Writer{Limit: 1500}
	n.Transact(s, &queue{cmds: cmds}, &w)
	if !strings.HasPrefix(string(w.Buf), "-RCTOOLARGE the transaction was executed") {
		t.Errorf("%q", w.Buf)
	}
	if v := run(t, n, 2, "GET", "{a}2"); string(v.Str) != "done" {
		t.Errorf("%q", v.Str)
	}
}
