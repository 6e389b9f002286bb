package resp

import (
	"bytes"
	"fmt"
	"testing"
)

func TestAheadGivesTheFirstKeys(t *testing.T) {
	command := func(args ...string) []byte {
		var b [][]byte
		for _, a := range args {
			b = append(b, []byte(a))
		}
		return AppendCommand(nil, b...)
	}
	long := string(bytes.Repeat([]byte("s"), aheadKey+1))
	all := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, tc := range []struct {
		name  string
		in    []byte
		keys  []string
		whole bool // all bytes are looked at
	}{
		{"nothing", nil, nil, true},
		{"two gets", all(command("GET", "a"), command("GET", "bb")), []string{"a", "bb"}, true},
		{"a long value", all(command("SET", "k", string(make([]byte, 3000))), command("GET", "z")), []string{"k", "z"}, true},
		{"no key", all(command("PING"), command("GET", "z")), []string{"z"}, true},
		{"an empty key", command("GET", ""), []string{""}, true},
		{"a script", all(command("EVAL", long, "0"), command("GET", "z")), []string{"z"}, true},
		{"half a command", command("GET", "abc")[:15], nil, false},
		{"half a line end", command("GET", "abc")[:21], nil, false},
		{"inline", []byte("GET a\r\n"), nil, false},
		{"inline after an array", all(command("GET", "a"), []byte("PING\r\n")), []string{"a"}, false},
		{"a negative count", []byte("*-1\r\n"), nil, false},
		{"no number", []byte("*\r\n$1\r\na\r\n"), nil, false},
		{"a huge count", []byte("*9999999999\r\n"), nil, false},
		{"a huge length", []byte("*2\r\n$999999\r\nx\r\n"), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, n := Ahead(make([][]byte, 0, 8), tc.in)
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.keys) && len(got)+len(tc.keys) > 0 {
				t.Fatalf("keys %q, want %q", got, tc.keys)
			}
			if (n == len(tc.in)) != tc.whole {
				t.Fatalf("%d of %d bytes", n, len(tc.in))
			}
		})
	}
	if got, n := Ahead(make([][]byte, 0, 1), all(command("GET", "a"), command("GET", "b"))); len(got) != 1 || n != len(command("GET", "a")) {
		t.Fatalf("a full list holds %d keys of %d bytes", len(got), n)
	}
}

func TestAheadAllocatesNothing(t *testing.T) {
	in := bytes.Repeat(AppendCommand(nil, []byte("GET"), []byte("key")), 16)
	keys := make([][]byte, 0, 16)
	if n := testing.AllocsPerRun(100, func() { Ahead(keys, in) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// Where the parser agrees that all is well, both see the same keys.
func FuzzAhead(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$0\r\n\r\n",
		"*2\r\n$3\r\nGET\r\n$-1\r\n", "*0\r\n*2\r\n$1\r\na", "\r\nGET a\r\n", "*02\r\n$03\r\nGET\r\n$1\r\na\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, n := Ahead(make([][]byte, 0, 16), in)
		if n < 0 || n > len(in) {
			t.Fatalf("%d of %d bytes", n, len(in))
		}
		lim := Limits{MaxArgs: 1 << 30, MaxBulk: MaxProtoBulk, MaxInline: 64 << 10, MaxQuery: 1 << 30}
		var p Parser
		for rest := bytes.Clone(in); len(rest) > 0 && len(got) > 0; {
			args, size, err := p.Next(rest, &lim)
			if err != nil || size == 0 {
				return
			}
			if len(args) > 1 && len(args[1]) <= aheadKey {
				if !bytes.Equal(args[1], got[0]) {
					t.Fatalf("key %q, the parser says %q", got[0], args[1])
				}
				got = got[1:]
			}
			rest = rest[size:]
		}
	})
}
