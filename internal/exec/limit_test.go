package exec

import (
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/resp"
)

// One command must not build a reply of any size in memory: 64 Ki keys in one
// MGET, each of 256 KiB, would be 16 GiB.
func TestOneReplyIsBoundedByTheOutputLimit(t *testing.T) {
	e, err := engine.New(engine.Options{Now: func() int64 { return 1 }, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	key := []byte("{k}" + strings.Repeat("x", 100))
	const slot = 5
	e.SetServing(slot, true)
	if err := e.Set(slot, key, make([]byte, 1000), 0); err != nil {
		t.Fatal(err)
	}
	many := [][]byte{[]byte("MGET")}
	for range 50 {
		many = append(many, key)
	}
	for _, c := range []struct {
		name  string
		args  [][]byte
		limit int
	}{
		{"MGET", many, 10_000},
		{"KEYS", [][]byte{[]byte("KEYS"), []byte("*")}, 50},
		{"SCAN", [][]byte{[]byte("SCAN"), []byte("0")}, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &resp.Writer{Limit: c.limit, Buf: []byte("+before\r\n")}
			call := &Call{Cmd: command.Lookup(c.args[0]), Args: c.args, Slot: slot, W: w, Eng: e}
			if call.Cmd.HasKeys(c.args) {
				tx, err := e.Lock(slot)
				if err != nil {
					t.Fatal(err)
				}
				call.Tx = tx
				Keyed(call)
				tx.Unlock()
			} else {
				Keyless(call)
			}
			if got := string(w.Buf); !strings.HasPrefix(got, "+before\r\n-RCTOOLARGE the reply is above ") || cap(w.Buf) > 4*c.limit+4096 {
				t.Errorf("reply %.80q in a buffer of %d bytes, limit %d", got, cap(w.Buf), c.limit)
			}
		})
	}
}
