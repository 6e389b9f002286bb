package resp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// event is one outcome of a parser: a command, a TooLargeError or the end of the
// stream by a ProtocolError.
type event struct {
	args  []string
	large string
	fatal string
}

// parse runs a parser over input, given in pieces of the sizes that next tells,
// as a session would: bytes stay until they are consumed and move to a fresh
// buffer before each call.
func parse(t testing.TB, input []byte, lim Limits, next func() int) []event {
	t.Helper()
	var p Parser
	var buf []byte
	var events []event
	for len(input) > 0 {
		k := min(max(next(), 1), len(input))
		buf = append(slices.Clone(buf), input[:k]...)
		input = input[k:]
		for {
			args, n, err := p.Next(buf, &lim)
			if n < 0 || n > len(buf) {
				t.Fatalf("consumed %d of %d bytes", n, len(buf))
			}
			if len(args) > lim.MaxArgs {
				t.Fatalf("%d arguments, limit %d", len(args), lim.MaxArgs)
			}
			var fatal *ProtocolError
			var large *TooLargeError
			switch {
			case errors.As(err, &fatal):
				return append(events, event{fatal: fatal.Error()})
			case errors.As(err, &large):
				events = append(events, event{large: large.Command + " " + large.Error()})
			case len(args) > 0:
				e := event{}
				for _, a := range args {
					e.args = append(e.args, string(a))
				}
				events = append(events, e)
			}
			buf = buf[n:]
			if n == 0 {
				if p.Need() < 1 && p.over == nil {
					t.Fatal("an incomplete command needs no byte")
				}
				break
			}
		}
		if most := lim.MaxQuery + lim.MaxInline + 2; len(buf) > most {
			t.Fatalf("%d bytes are held, at most %d expected", len(buf), most)
		}
	}
	return events
}

func whole(n int) func() int { return func() int { return n } }

func show(events []event) string {
	var b strings.Builder
	for _, e := range events {
		switch {
		case e.fatal != "":
			fmt.Fprintf(&b, "!%s", e.fatal)
		case e.large != "":
			fmt.Fprintf(&b, "~%s\n", e.large)
		default:
			fmt.Fprintf(&b, "%q\n", e.args)
		}
	}
	return b.String()
}

// The texts are those of redis-server 7.0.15; the ones about CRLF are ours, as
// Redis does not check it.
func TestParser(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"array", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", `["GET" "k"]` + "\n"},
		{"long numbers", "*11\r\n" + strings.Repeat("$12\r\nabcdefghijkl\r\n", 11), "[" + strings.TrimSpace(strings.Repeat(`"abcdefghijkl" `, 11)) + "]\n"},
		{"three digits", "*1\r\n$100\r\n" + strings.Repeat("x", 100) + "\r\n", `["` + strings.Repeat("x", 100) + `"]` + "\n"},
		{"binary argument", "*1\r\n$6\r\na\r\n\x00$1\r\n", `["a\r\n\x00$1"]` + "\n"},
		{"empty argument", "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", `["GET" ""]` + "\n"},
		{"pipeline", "*1\r\n$4\r\nPING\r\nping x\r\n*1\r\n$4\r\nQUIT\r\n", "[\"PING\"]\n[\"ping\" \"x\"]\n[\"QUIT\"]\n"},
		{"empty array is ignored", "*0\r\nPING\r\n", "[\"PING\"]\n"},
		{"null array is ignored", "*-1\r\n*-7\r\nPING\r\n", "[\"PING\"]\n"},
		{"empty lines are ignored", "\r\n\n  \r\nPING\n", "[\"PING\"]\n"},
		{"incomplete", "*2\r\n$3\r\nGET\r\n$1\r\n", ""},

		{"count is no number", "*x\r\n", "!Protocol error: invalid multibulk length"},
		{"count with leading zero", "*01\r\n", "!Protocol error: invalid multibulk length"},
		{"count with plus", "*+1\r\n", "!Protocol error: invalid multibulk length"},
		{"count is empty", "*\r\n", "!Protocol error: invalid multibulk length"},
		{"count above limit", "*65\r\n", "!Protocol error: invalid multibulk length"},
		{"count above int64", "*99999999999999999999\r\n", "!Protocol error: invalid multibulk length"},
		{"count without LF", "*1\rx", "!Protocol error: invalid multibulk length"},
		{"count never ends", "*" + strings.Repeat("1", 64), "!Protocol error: too big mbulk count string"},
		{"no dollar", "*1\r\nfoo\r\n", "!Protocol error: expected '$', got 'f'"},
		{"no dollar, empty line", "*1\r\n\r\n", "!Protocol error: expected '$', got '\r'"},
		{"no dollar, 8-bit byte", "*1\r\n\xff\r\n", "!Protocol error: expected '$', got '\xff'"},
		{"length is no number", "*1\r\n$x\r\n", "!Protocol error: invalid bulk length"},
		{"length negative", "*1\r\n$-1\r\n", "!Protocol error: invalid bulk length"},
		{"length with leading zero", "*1\r\n$03\r\nabc\r\n", "!Protocol error: invalid bulk length"},
		{"length above 512 MiB", "*1\r\n$536870913\r\n", "!Protocol error: invalid bulk length"},
		{"length never ends", "*1\r\n$" + strings.Repeat("1", 64), "!Protocol error: too big bulk count string"},
		{"bulk too long for its length", "*1\r\n$4\r\nPINGXX\r\n", "!Protocol error: bulk string not followed by CRLF"},
		{"bulk too short for its length", "*2\r\n$4\r\nABC\r\n$1\r\nx\r\n", "!Protocol error: bulk string not followed by CRLF"},
		{"inline never ends", strings.Repeat("a", 65), "!Protocol error: too big inline request"},
		{"inline too long", strings.Repeat("a", 65) + "\r\n", "!Protocol error: too big inline request"},
		{"unbalanced quotes", "set k \"v\r\nPING\r\n", "!Protocol error: unbalanced quotes in request"},

		{"large argument is skipped", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$101\r\n" + strings.Repeat("v", 101) + "\r\nPING\r\n",
			"~SET value is 101 bytes, limit 100\n[\"PING\"]\n"},
		{"what follows a large argument is skipped", "*3\r\n$101\r\n" + strings.Repeat("v", 101) + "\r\n$2\r\nab\r\n$102\r\n" + strings.Repeat("*", 102) + "\r\nPING\r\n",
			"~ value is 101 bytes, limit 100\n[\"PING\"]\n"},
		{"large command is skipped", "*4\r\n$4\r\nMSET\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("v", 100)+"\r\n", 3) + "PING\r\n",
			"~MSET command is 338 bytes, limit 300\n[\"PING\"]\n"},
		{"error behind a large argument", "*2\r\n$101\r\n" + strings.Repeat("v", 101) + "\r\nx\r\n", "!Protocol error: expected '$', got 'x'"},
		{"no CRLF behind a large argument", "*2\r\n$101\r\n" + strings.Repeat("v", 103) + "\r\n", "!Protocol error: bulk string not followed by CRLF"},
		{"skipping has an end", "*3\r\n$536870912\r\n", ""},
	}
	lim := Limits{MaxArgs: 64, MaxBulk: 100, MaxInline: 64, MaxQuery: 300}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, piece := range []int{len(tt.in), 1, 2, 7} {
				got := show(parse(t, []byte(tt.in), lim, whole(piece)))
				if got != tt.want {
					t.Errorf("in pieces of %d:\n got %q\nwant %q", piece, got, tt.want)
				}
			}
		})
	}
}

func TestParserUnauthenticated(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"ten arguments", "*10\r\n" + strings.Repeat("$1\r\nx\r\n", 10), `["x" "x" "x" "x" "x" "x" "x" "x" "x" "x"]` + "\n"},
		{"eleven arguments", "*11\r\n", "!Protocol error: unauthenticated multibulk length"},
		{"eleven inline words", "a b c d e f g h i j k\r\n", "!Protocol error: unauthenticated multibulk length"},
		{"long argument", "*1\r\n$16385\r\n", "!Protocol error: unauthenticated bulk length"},
		{"longest argument", "*1\r\n$16384\r\n", ""},
		{"long line", strings.Repeat("x", 16385), "!Protocol error: too big inline request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := show(parse(t, []byte(tt.in), PreAuthLimits(), whole(len(tt.in)))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The expected words were taken from redis-server 7.0.15 (ECHO and the argument
// list of an unknown command).
func TestInlineWords(t *testing.T) {
	tests := []struct {
		in   string
		want []string // nil: unbalanced quotes
	}{
		{`a b  c`, []string{"a", "b", "c"}},
		{" \ta\v\fb\t", []string{"a\v\fb"}},
		{`"a b" 'c d'`, []string{"a b", "c d"}},
		{`"" ''`, []string{"", ""}},
		{`"\x41\x4a\xff"`, []string{"AJ\xff"}},
		{`"\x4"`, []string{"x4"}},
		{`"\xzz"`, []string{"xzz"}},
		{`"\n\r\t\b\a\q\""`, []string{"\n\r\t\b\aq\""}},
		{`'\'\n'`, []string{`'\n`}},
		{`a"b c"`, []string{"ab c"}},
		{`a'b c'`, []string{"ab c"}},
		{`a\b`, []string{`a\b`}},
		{`"a"b`, nil},
		{`'a'b`, nil},
		{`"a`, nil},
		{`'a`, nil},
		{`"a\"`, nil},
		{`"a\`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			args, ok := splitInline(nil, []byte(tt.in))
			if ok != (tt.want != nil) {
				t.Fatalf("ok = %v", ok)
			}
			var got []string
			for _, a := range args {
				got = append(got, string(a))
			}
			if ok && !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A header alone must reserve nothing, whatever it announces (CVE-2025-46686,
// CVE-2021-32675).
func TestHeadersReserveNothing(t *testing.T) {
	lim := Limits{MaxArgs: 1 << 30, MaxBulk: MaxProtoBulk, MaxInline: 64 << 10, MaxQuery: 1 << 30}
	in := []byte("*1000000000\r\n$500000000\r\n")
	var p Parser
	allocs := testing.AllocsPerRun(100, func() {
		p = Parser{}
		if _, n, err := p.Next(in, &lim); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if want := 500000000 + 2; p.Need() != want {
		t.Errorf("Need() = %d, want %d", p.Need(), want)
	}
}

// A large argument that arrives in small pieces must not be looked at again with
// each piece: the parser keeps no more than its position.
func TestPartsAreNotReparsed(t *testing.T) {
	lim := DefaultLimits(1 << 20)
	var in []byte
	in = append(in, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n"...)
	head := len(in)
	in = append(in, make([]byte, 1000000)...)
	in = append(in, "\r\n"...)
	var p Parser
	for k := head; k < len(in); k += 5000 {
		if _, n, err := p.Next(in[:k], &lim); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if len(p.spans) != 2 || p.pos != head {
			t.Fatalf("after %d bytes: %d arguments kept, position %d", k, len(p.spans), p.pos)
		}
		if want := len(in) - k; p.Need() != want {
			t.Fatalf("Need() = %d, want %d", p.Need(), want)
		}
	}
	if args, n, err := p.Next(in, &lim); len(args) != 3 || n != len(in) || err != nil {
		t.Fatal(len(args), n, err)
	}
}

func TestTrim(t *testing.T) {
	lim := DefaultLimits(100)
	var p Parser
	big := []byte("*10000\r\n" + strings.Repeat("$1\r\nx\r\n", 10000))
	if args, _, err := p.Next(big, &lim); len(args) != 10000 || err != nil {
		t.Fatal(len(args), err)
	}
	p.Trim()
	if cap(p.args) > keepArgs || cap(p.spans) > keepArgs {
		t.Errorf("room for %d arguments is kept", cap(p.args))
	}
	if _, n, err := p.Next(big[:5000], &lim); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	p.Trim()
	if args, _, err := p.Next(big, &lim); len(args) != 10000 || err != nil {
		t.Errorf("a trim amid a command broke it: %d arguments, %v", len(args), err)
	}
}

func TestParseInt(t *testing.T) {
	for _, s := range []string{"0", "1", "-1", "42", "9223372036854775807", "-9223372036854775808"} {
		if n, ok := ParseInt([]byte(s)); !ok || fmt.Sprint(n) != s {
			t.Errorf("%q: %d, %v", s, n, ok)
		}
	}
	for _, s := range []string{"", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1a", "9223372036854775808",
		"-9223372036854775809", "18446744073709551616", "99999999999999999999", "100000000000000000000"} {
		if n, ok := ParseInt([]byte(s)); ok {
			t.Errorf("%q: accepted as %d", s, n)
		}
	}
}

func TestAppendCommand(t *testing.T) {
	const want = "*2\r\n$3\r\nGET\r\n$10\r\n0123456789\r\n"
	if got := string(AppendCommandStrings(nil, "GET", "0123456789")); got != want {
		t.Errorf("strings: %q", got)
	}
	if got := string(AppendCommand(nil, []byte("GET"), []byte("0123456789"))); got != want {
		t.Errorf("bytes: %q", got)
	}
}

func TestParserAllocations(t *testing.T) {
	lim := DefaultLimits(1 << 20)
	var in []byte
	in = AppendCommandStrings(in, "GET", "key:000001")
	in = AppendCommandStrings(in, "MSET", "a", strings.Repeat("x", 500), "b", "2", "c", "3", "d", "4", "e", "5")
	in = append(in, "set k v\r\n"...)
	var p Parser
	run := func() {
		for rest := in; len(rest) > 0; {
			_, n, err := p.Next(rest, &lim)
			if n == 0 || err != nil {
				t.Fatal(n, err)
			}
			rest = rest[n:]
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations for three commands", n)
	}
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$120\r\n" + strings.Repeat("v", 120) + "\r\nPING\r\n",
		"set \"a b\" 'c'\r\n*0\r\n\r\n*-1\r\n",
		"*4\r\n$4\r\nMSET\r\n" + strings.Repeat("$90\r\n"+strings.Repeat("v", 90)+"\r\n", 3) + "PING\r\n",
		"*1\r\nfoo\r\n",
	} {
		f.Add([]byte(s), uint64(3), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, unauthenticated bool) {
		lim := Limits{MaxArgs: 16, MaxBulk: 100, MaxInline: 64, MaxQuery: 300, Unauthenticated: unauthenticated}
		want := show(parse(t, in, lim, whole(len(in))))
		next := func() int {
			seed = seed*6364136223846793005 + 1442695040888963407
			return int(seed >> 60)
		}
		if got := show(parse(t, in, lim, next)); got != want {
			t.Errorf("in pieces %q, whole %q", got, want)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	var get, set, mset []byte
	for i := range 32 {
		get = AppendCommandStrings(get, "GET", fmt.Sprintf("key:%06d", i))
		set = AppendCommandStrings(set, "SET", fmt.Sprintf("key:%06d", i), strings.Repeat("v", 300))
	}
	words := []string{"MSET"}
	for i := range 32 {
		words = append(words, fmt.Sprintf("key:%06d", i), "value")
	}
	mset = AppendCommandStrings(nil, words...)
	for _, bb := range []struct {
		name string
		in   []byte
		ops  int
	}{{"get-pipeline", get, 32}, {"set300-pipeline", set, 32}, {"mset-32", mset, 1}, {"inline", []byte("get key:000001\r\n"), 1}} {
		b.Run(bb.name, func(b *testing.B) {
			lim := DefaultLimits(256 << 10)
			var p Parser
			b.SetBytes(int64(len(bb.in) / bb.ops))
			b.ReportAllocs()
			for i := 0; i < b.N; i += bb.ops {
				for rest := bb.in; len(rest) > 0; {
					_, n, err := p.Next(rest, &lim)
					if n == 0 || err != nil {
						b.Fatal(n, err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}
