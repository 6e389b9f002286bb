package exec

import (
	"testing"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/invariant"
)

// hotLines are the commands whose execution must not allocate, engine and reply
// included.
var hotLines = []string{
	"GET {k}a",
	"GET {k}none",
	"SET {k}a 12345678901234567890",
	"SET {k}a 12345678901234567890 EX 100",
	"SET {k}a 12345678901234567890 XX KEEPTTL",
	"SETEX {k}a 100 12345678901234567890",
	"SETNX {k}a x",
	"MGET {k}a {k}b {k}none",
	"MSET {k}a 12345678901234567890 {k}b v",
	"INCR {k}n",
	"INCRBY {k}n 5",
	"EXISTS {k}a {k}b {k}none",
	"EXPIRE {k}a 100",
	"EXPIRE {k}a 100 XX",
	"PEXPIRE {k}a 100000 LT",
	"TTL {k}a",
	"TOUCH {k}a {k}b",
	"STRLEN {k}a",
	"GETRANGE {k}a 2 5",
	"SETRANGE {k}a 2 xyz",
	"GETEX {k}a EX 100",
	"TYPE {k}a",
	"DEL {k}none",
	"OBJECT ENCODING {k}a",
}

func TestHotCommandsAllocateNothing(t *testing.T) {
	if invariant.Enabled {
		t.Skip("a checked build copies what it lends")
	}
	l := newLocal(t, engine.Options{})
	l.w.Buf = make([]byte, 0, 4096)
	for _, line := range []string{"SET {k}a 12345678901234567890", "SET {k}b v", "SET {k}n 1000000"} {
		l.line(line)
	}
	for _, line := range hotLines {
		args := parseLine(line)
		l.do(args...)
		if n := testing.AllocsPerRun(200, func() { l.do(args...) }); n != 0 {
			t.Errorf("%s: %v allocations", line, n)
		}
	}
}

// Deleting and storing again may allocate the entry, and nothing else.
func TestSetAfterDelAllocates(t *testing.T) {
	if invariant.Enabled {
		t.Skip("a checked build copies what it lends")
	}
	l := newLocal(t, engine.Options{})
	l.w.Buf = make([]byte, 0, 4096)
	l.line("SET b stays") // or the slot itself would come and go
	setArgs, delArgs := parseLine("SET a value"), parseLine("DEL a")
	set := testing.AllocsPerRun(200, func() { l.do(setArgs...); l.do(delArgs...) })
	if set > 2 {
		t.Errorf("%v allocations", set)
	}
}

func BenchmarkHot(b *testing.B) {
	for _, line := range []string{"GET {k}a", "SET {k}a 12345678901234567890", "INCR {k}n", "MGET {k}a {k}b {k}c {k}d", "EXPIRE {k}a 100"} {
		b.Run(line, func(b *testing.B) {
			l := newLocal(b, engine.Options{})
			l.line("SET {k}a 12345678901234567890")
			args := parseLine(line)
			b.ReportAllocs()
			for b.Loop() {
				l.do(args...)
			}
		})
	}
}
