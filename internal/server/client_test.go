package server

import (
	"regexp"
	"strings"
	"testing"
)

// The fields and their order are those of Redis 7.2.
var clientLine = regexp.MustCompile(`^id=\d+ addr=127\.0\.0\.1:\d+ laddr=127\.0\.0\.1:\d+ fd=-1 name=\S* age=\d+ idle=\d+ flags=\w+ db=0 sub=0 psub=0 ssub=0 multi=-1 ` +
	`qbuf=\d+ qbuf-free=\d+ argv-mem=0 multi-mem=0 rbs=\d+ rbp=\d+ obl=0 oll=0 omem=\d+ tot-mem=\d+ events=r cmd=(\S+) user=default redir=-1 resp=(\d) lib-name=(\S*) lib-ver=(\S*)$`)

func TestClientList(t *testing.T) {
	s, _ := start(t, Options{})
	a, b := dial(t, s), dial(t, s)
	b.ask("HELLO 3 SETNAME bob", "[server redis version 7.4.0 proto 3 id 2 mode cluster role master modules []]")
	b.ask("CLIENT SETINFO lib-name mylib\r\nCLIENT SETINFO LIB-VER 1.2\r\nREADONLY\r\nCLIENT NO-TOUCH on", "OK", "OK", "OK", "OK")
	b.ask("CONFIG GET x", "config|get")
	b.ask("PING", "PONG")
	lines := strings.Split(a.list(), "\n")
	if len(lines) != 3 || lines[2] != "" {
		t.Fatalf("%q", lines)
	}
	m := clientLine.FindStringSubmatch(lines[0])
	if m == nil || m[1] != "client|list" || m[2] != "2" || !strings.HasPrefix(lines[0], "id=1 ") {
		t.Errorf("own line: %q", lines[0])
	}
	m = clientLine.FindStringSubmatch(lines[1])
	if m == nil || m[1] != "ping" && m[1] != "config|get" || m[2] != "3" || m[3] != "mylib" || m[4] != "1.2" ||
		!strings.Contains(lines[1], " name=bob ") || !strings.Contains(lines[1], " flags=rT ") {
		t.Errorf("the other line: %q", lines[1])
	}
	for _, tt := range []struct{ args, ids string }{{"TYPE normal", "12"}, {"TYPE replica", ""}, {"ID 2", "2"}, {"ID 2 1 7", "12"}} {
		a.send("CLIENT LIST " + tt.args + "\r\n")
		v, err := a.value()
		if err != nil {
			t.Fatal(err)
		}
		ids := ""
		for line := range strings.Lines(v.Text()) {
			ids += line[3:4]
		}
		if ids != tt.ids {
			t.Errorf("CLIENT LIST %s: sessions %q, want %q", tt.args, ids, tt.ids)
		}
	}
	b.send("CLIENT INFO\r\n")
	v, err := b.value()
	if err != nil || !strings.HasPrefix(v.Text(), "id=2 ") || v.Kind.String() != "verbatim string" {
		t.Errorf("CLIENT INFO: %v %q %v", v.Kind, v.Text(), err)
	}
}

func TestClientSetInfo(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("CLIENT SETINFO foo bar", "-ERR Unrecognized option 'foo'")
	c.ask(`CLIENT SETINFO lib-name "a b"`, "-ERR lib-name cannot contain spaces, newlines or special characters.")
	c.ask("CLIENT SETNAME "+strings.Repeat("x", 1025), "-ERR Client names cannot be longer than 1024 bytes.")
	c.ask("CLIENT NO-TOUCH maybe", "-ERR syntax error")
}

// TestClientCapa: what a session said of itself is known until RESET; unknown words are
// ignored.
func TestClientCapa(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("CLIENT CAPA redirect", "OK")
	c.ask("CLIENT CAPA", "-ERR wrong number of arguments for 'client|capa' command")
	c.ask("GET triesagain", "0")
	c.ask("CLIENT CAPA redirect TryAgain", "OK")
	c.ask("GET triesagain", "1")
	c.ask("RESET", "RESET")
	c.ask("GET triesagain", "0")
}

func TestClientKill(t *testing.T) {
	s, _ := start(t, Options{})
	a := dial(t, s)
	a.ask("PING", "PONG")
	b := dial(t, s)
	b.ask("PING", "PONG")
	a.ask("CLIENT KILL "+b.LocalAddr().String(), "OK")
	b.ended()
	b = dial(t, s)
	b.ask("PING", "PONG")
	a.ask("CLIENT KILL ID 3 ADDR 1.2.3.4:5", "0")
	a.ask("CLIENT KILL ID 3 ADDR "+b.LocalAddr().String(), "1")
	b.ended()
	b = dial(t, s)
	b.ask("PING", "PONG")
	a.ask("CLIENT KILL TYPE normal", "1") // but not the caller
	b.ended()
	a.ask("CLIENT KILL TYPE normal SKIPME no", "1")
	a.ended()
	a = dial(t, s)
	a.ask("CLIENT KILL "+a.LocalAddr().String(), "OK")
	a.ended()
}

// A session that is killed while its command runs gets no reply, and the Handler
// hears of its end only after the command.
func TestClientKillWhileExecuting(t *testing.T) {
	s, node := start(t, Options{})
	a, b := dial(t, s), dial(t, s)
	b.send("DEL block\r\n")
	<-node.entered
	a.ask("CLIENT KILL ADDR "+b.LocalAddr().String(), "1")
	b.ended()
	node.mu.Lock()
	early := len(node.closed)
	node.mu.Unlock()
	if early != 0 {
		t.Error("Closed was called during Exec")
	}
	close(node.release)
	eventually(t, "Closed is called", func() bool {
		node.mu.Lock()
		defer node.mu.Unlock()
		return len(node.closed) == 1
	})
}
