package exec

import (
	"bytes"
	"testing"

	"github.com/ringcache/ringcache/internal/engine"
)

func TestDumpAndRestore(t *testing.T) {
	l := newLocal(t, engine.Options{MaxValue: 1000})
	l.line("SET a value")
	reply := l.line("DUMP a")
	payload := bytes.Clone(reply[bytes.IndexByte(reply, '\n')+1 : len(reply)-2])
	restore := func(want string, key, ttl string, rest ...string) {
		t.Helper()
		args := [][]byte{[]byte("RESTORE"), []byte(key), []byte(ttl), payload}
		for _, a := range rest {
			args = append(args, []byte(a))
		}
		if got := renderRaw(t, l.do(args...)); got != want+"\n" {
			t.Errorf("%s %s %s: got %s, want %s", key, ttl, rest, got, want)
		}
	}
	restore("-"+errBusyKey, "a", "0")
	restore("+OK", "a", "100000", "REPLACE")
	expect(t, l, "TTL a", ":100")
	restore("+OK", "b", "0", "IDLETIME", "5")
	expect(t, l, "GET b", `"value"`)
	expect(t, l, "TTL b", ":-1")
	restore("+OK", "b", "1", "ABSTTL", "REPLACE") // long ago
	expect(t, l, "EXISTS b", ":0")
	restore("-"+errTTL, "b", "-1")
	restore("-"+errTTL, "b", "9223372036854775807")
	for i := range payload {
		payload[i] ^= 1
		restore("-"+errDump, "b", "0")
		payload[i] ^= 1
	}
	payload = payload[:len(payload)-1]
	restore("-"+errDump, "b", "0")
	expect(t, l, "EXISTS b", ":0")
}

// Whatever is restored is what was dumped, or is refused.
func FuzzRestore(f *testing.F) {
	f.Add([]byte("RCDUMP\x01value\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\xc0\x01\n\x00&x\xe7\xb6\xd1\x01\x11\xfc"))
	f.Add([]byte(""))
	l := newLocal(f, engine.Options{MaxValue: 4096})
	l.line("SET seed value")
	reply := l.line("DUMP seed")
	f.Add(bytes.Clone(reply[bytes.IndexByte(reply, '\n')+1 : len(reply)-2]))
	f.Fuzz(func(t *testing.T, payload []byte) {
		l.line("DEL k")
		got := bytes.Clone(l.do([]byte("RESTORE"), []byte("k"), []byte("0"), payload))
		exists := string(l.line("EXISTS k")) == ":1\r\n"
		if ok := string(got) == "+OK\r\n"; ok != exists || !ok && got[0] != '-' {
			t.Fatalf("%q, exists %v", got, exists)
		}
		if !exists {
			return
		}
		reply := l.line("DUMP k")
		if again := reply[bytes.IndexByte(reply, '\n')+1 : len(reply)-2]; !bytes.Equal(again, payload) {
			t.Fatalf("restored %q, dumped %q", payload, again)
		}
	})
}
