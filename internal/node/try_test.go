package node

import (
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// TryExec executes what needs nobody else, with the reply of Exec, and leaves the
// rest untouched.
func TestTryExec(t *testing.T) {
	n := alone(t, nil)
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
		ok := n.TryExec(&fakeSession{}, cmd, args, &w)
		return strings.TrimPrefix(string(w.Buf), "before"), ok
	}
	for _, tt := range []struct{ line, want string }{
		{"SET k 1", "+OK\r\n"}, {"GET k", "$1\r\n1\r\n"}, {"INCR k", ":2\r\n"}, {"MGET {k}a {k}b", "*2\r\n$-1\r\n$-1\r\n"},
		{"MGET a b", "-" + errCrossSlot + "\r\n"},
	} {
		if got, ok := try(tt.line); !ok || got != tt.want {
			t.Errorf("%s: %q, %v", tt.line, got, ok)
		}
	}
	before := n.counts.of(command.Get)
	for _, line := range []string{"DBSIZE", "FLUSHALL", "INFO", "CLUSTER INFO", "CLUSTER KEYSLOT k", "CONFIG GET maxmemory", "SCAN 0", "SHUTDOWN",
		"RC.PING", "RC.FORWARD 0 GET k"} {
		if got, ok := try(line); ok || got != "" {
			t.Errorf("%s: %q, %v", line, got, ok)
		}
	}
	// A slot that this node owns and does not serve yet needs waiting.
	n.eng.SetServing(ring.Slot([]byte("k")), false)
	if got, ok := try("GET k"); ok || got != "" {
		t.Errorf("GET in a slot that is not served: %q, %v", got, ok)
	}
	n.eng.SetServing(ring.Slot([]byte("k")), true)
	if got, ok := try("GET k"); !ok || got != "$1\r\n2\r\n" {
		t.Errorf("GET in a slot that is served again: %q, %v", got, ok)
	}
	if got := n.counts.of(command.Get) - before; got != 1 {
		t.Errorf("%d calls are counted, want 1", got)
	}
}
