package exec

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/glob"
)

// TestEveryCommandHasAHandler holds the table against the handlers: what is not
// executed here must be executed by the connection or by the node itself.
func TestEveryCommandHasAHandler(t *testing.T) {
	elsewhere := map[command.ID]bool{
		command.Role: true, command.Info: true, command.Config: true, command.Shutdown: true, command.Cluster: true, command.Ring: true,
		command.Watch: true, command.Unwatch: true,
		command.SlowLog: true, command.CommandLog: true, command.Latency: true, command.HotKeys: true, command.Debug: true, command.Publish: true, command.SPublish: true,
		command.MemoryDoctor: true, command.MemoryMallocStats: true, command.MemoryPurge: true, command.MemoryStats: true,
	}
	for _, c := range command.All() {
		if c.Conn || c.Flags.Has(command.Internal) {
			if Has(c.ID) {
				t.Errorf("%s has a handler, but is executed elsewhere", c.Name)
			}
			continue
		}
		if Has(c.ID) == elsewhere[c.ID] {
			t.Errorf("%s: handler %v", c.Name, Has(c.ID))
		}
		if c.FirstKey != 0 && !elsewhere[c.ID] && handlers[c.ID] == nil {
			t.Errorf("%s has keys, but no handler for them", c.Name)
		}
		if c.FirstKey == 0 && c.Subs == nil && !elsewhere[c.ID] && keyless[c.ID] == nil && !IsEval(c.ID) {
			t.Errorf("%s has no keys and no handler without", c.Name)
		}
		for _, s := range c.Subs {
			if !elsewhere[c.ID] && Has(s.ID) == elsewhere[s.ID] {
				t.Errorf("%s has no handler", s.FullName())
			}
		}
	}
	if Has(command.NumCommands) || Has(command.None) {
		t.Error("what is no command has a handler")
	}
}

func expect(t *testing.T, l *local, line, want string) {
	t.Helper()
	if got := renderRaw(t, l.line(line)); got != want+"\n" {
		t.Errorf("%.60s\ngot  %.200swant %s", line, got, want)
	}
}

func TestKeylessRefusesOthers(t *testing.T) {
	l := newLocal(t, engine.Options{})
	expect(t, l, "INFO", "-ERR not executed here")
	expect(t, l, "CLUSTER INFO", "-ERR not executed here")
}

// A caller may pass the subcommand itself instead of the container.
func TestSubcommandAsCommand(t *testing.T) {
	l := newLocal(t, engine.Options{})
	l.line("SET a 1")
	sub := command.Lookup([]byte("object")).Sub([]byte("encoding"))
	tx, err := l.eng.Lock(testSlot)
	if err != nil {
		t.Fatal(err)
	}
	l.w.Buf = l.w.Buf[:0]
	Keyed(&Call{Cmd: sub, Args: parseLine("OBJECT ENCODING a"), Slot: testSlot, Tx: tx, W: &l.w, Eng: l.eng})
	tx.Unlock()
	if got := renderRaw(t, l.w.Buf); got != "\"int\"\n" {
		t.Error(got)
	}
}

func TestLimits(t *testing.T) {
	l := newLocal(t, engine.Options{MaxValue: 10, MaxKey: 5})
	const value = "-RCTOOLARGE value is 11 bytes, limit 10; raise max-value on every node or store the value in parts"
	const key = "-RCTOOLARGE key is 6 bytes, limit 5; use a shorter key"
	long, longKey := strings.Repeat("v", 11), strings.Repeat("k", 6)
	expect(t, l, "SET a 1234567890", "+OK")
	for _, line := range []string{
		"SET a " + long, "SET a " + long + " GET", "SET a " + long + " XX", "SET a " + long + " EX 5", "GETSET a " + long,
		"SETEX a 5 " + long, "PSETEX a 5 " + long, "SETNX b " + long, "MSET b 1 a " + long, "MSETNX b 1 c " + long,
		"APPEND a 1", "SETRANGE a 10 1", "INCRBY b 12345678901",
	} {
		expect(t, l, line, value)
	}
	for _, line := range []string{
		"SET " + longKey + " 1", "SET " + longKey + " 1 GET", "GETSET " + longKey + " 1", "SETNX " + longKey + " 1",
		"MSET b 1 " + longKey + " 1", "MSETNX b 1 " + longKey + " 1", "APPEND " + longKey + " 1", "SETRANGE " + longKey + " 1 1",
		"INCR " + longKey, "INCRBYFLOAT " + longKey + " 1", "RENAME a " + longKey, "RENAMENX a " + longKey, "COPY a " + longKey,
	} {
		expect(t, l, line, key)
	}
	expect(t, l, "GET a", `"1234567890"`)
	expect(t, l, "GET "+longKey, "nil")
	expect(t, l, "DBSIZE", ":1")
	expect(t, l, "KEYS "+strings.Repeat("*", glob.MaxPattern+1), "-RCTOOLARGE pattern is 1025 bytes, limit 1024; use a shorter pattern")
	expect(t, l, "SCAN 0 MATCH "+strings.Repeat("*", glob.MaxPattern+1), "-RCTOOLARGE pattern is 1025 bytes, limit 1024; use a shorter pattern")
}

// Under noeviction a full node refuses what needs room, with one reply and the
// old values in place.
func TestOutOfMemory(t *testing.T) {
	l := newLocal(t, engine.Options{MaxBytes: 4 << 20, Policy: "noeviction", Shards: 1, MaxValue: 64 << 10})
	value := strings.Repeat("v", 60<<10)
	expect(t, l, "SET old small", "+OK")
	for i := 0; ; i++ {
		if got := renderRaw(t, l.line(fmt.Sprintf("SET k%d %s", i, value))); got != "+OK\n" {
			if i == 0 || got != "-"+errNoMemory+"\n" {
				t.Fatalf("key %d: %s", i, got)
			}
			break
		}
	}
	for i := 0; renderRaw(t, l.line(fmt.Sprintf("SET s%d %s", i, value[:1<<10]))) == "+OK\n"; i++ { // the rest, so that no large value finds room
	}
	for _, line := range []string{
		"SET new " + value, "SET new " + value + " GET", "SET old " + value + " GET", "SET old " + value + " GET EX 10", "GETSET old " + value,
		"SETNX new " + value, "SETEX new 10 " + value, "MSET new " + value, "MSETNX new " + value,
		"APPEND old " + value, "SETRANGE old 61439 x", "COPY k0 new",
	} {
		expect(t, l, line, "-"+errNoMemory)
	}
	expect(t, l, "GET old", `"small"`)
	expect(t, l, "EXISTS new", ":0")
	expect(t, l, "DEL k0 k1", ":2")
	expect(t, l, "SET new 1", "+OK")
}

func TestNullInRESP3(t *testing.T) {
	l := newLocal(t, engine.Options{})
	l.w.Proto = 3
	for _, line := range []string{"GET a", "GETSET b 1", "SET c 1 XX", "OBJECT ENCODING a", "GETEX a", "GETDEL a"} {
		if got := l.line(line); string(got) != "_\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
	l.line("FLUSHALL")
	if got := l.line("RANDOMKEY"); string(got) != "_\r\n" {
		t.Errorf("RANDOMKEY: %q", got)
	}
}

func TestIdleTime(t *testing.T) {
	l := newLocal(t, engine.Options{})
	l.line("SET a 1")
	l.now += 5_000 // accesses are known to the second
	expect(t, l, "OBJECT IDLETIME a", ":5")
	expect(t, l, "OBJECT ENCODING a", `"int"`)
	expect(t, l, "TTL a", ":-1")
	expect(t, l, "OBJECT IDLETIME a", ":5") // looking does not refresh
	expect(t, l, "TOUCH a", ":1")
	expect(t, l, "OBJECT IDLETIME a", ":0")
	l.now += 3_000
	expect(t, l, "GET a", `"1"`)
	expect(t, l, "OBJECT IDLETIME a", ":0")
}

func TestErrorTextCarriesNoLines(t *testing.T) {
	l := newLocal(t, engine.Options{})
	l.line("SET a 1")
	for _, args := range [][][]byte{
		{[]byte("EXPIRE"), []byte("a"), []byte("1"), []byte("x\r\n+OK\r\n")},
		{[]byte("OBJECT"), []byte("x\r\n+OK\r\n")},
		{[]byte("MEMORY"), []byte("\n" + strings.Repeat("y", 1000))},
	} {
		got := l.do(args...)
		if bytes.Count(got, []byte("\n")) != 1 || !bytes.HasSuffix(got, []byte("\r\n")) || len(got) > 300 {
			t.Errorf("%s: %q", args[0], got)
		}
	}
}

func TestScanVisitsEveryKeyOnce(t *testing.T) {
	l := newLocal(t, engine.Options{})
	want := make(map[string]bool)
	for i := range 5000 {
		key := fmt.Sprintf("key:%d", i)
		want[key] = true
		if err := l.eng.Set(uint16(i*37%engine.Slots), []byte(key), []byte("v"), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, count := range []string{"1", "10", "777", "1000000"} {
		seen := make(map[string]int)
		cursor := "0"
		for calls := 0; ; calls++ {
			reply := renderRaw(t, l.line("SCAN "+cursor+" COUNT "+count))
			lines := strings.Split(strings.TrimSpace(reply), "\n")
			cursor = strings.Trim(strings.TrimSpace(lines[1]), `"`)
			for _, k := range lines[3:] {
				seen[strings.Trim(strings.TrimSpace(k), `"`)]++
			}
			if cursor == "0" {
				break
			}
			if calls > 2*len(want) {
				t.Fatal("SCAN does not end")
			}
		}
		if len(seen) != len(want) {
			t.Errorf("COUNT %s: %d keys, want %d", count, len(seen), len(want))
		}
		for k, n := range seen {
			if n != 1 || !want[k] {
				t.Errorf("COUNT %s: %s came %d times", count, k, n)
			}
		}
	}
	expect(t, l, "DBSIZE", ":5000")
	expect(t, l, "KEYS key:4999", "*1\n  \"key:4999\"")
	if got := renderRaw(t, l.line("KEYS *")); !strings.HasPrefix(got, "*5000\n") {
		t.Errorf("%.20s", got)
	}
	l.eng.SetServing(0, false)
	expect(t, l, "KEYS key:0", "*0")
}

func TestTime(t *testing.T) {
	l := newLocal(t, engine.Options{})
	l.now = 1_700_000_000_123
	expect(t, l, "TIME", "*2\n  \"1700000000\"\n  \"123000\"")
}
