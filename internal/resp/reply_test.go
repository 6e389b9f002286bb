package resp

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var sameValue = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateNaNs()}

// parseReplies runs a ReplyParser over input given in pieces, moving what is
// left to a fresh buffer before each call.
func parseReplies(t testing.TB, input []byte, lim *ReplyLimits, next func() int) (values []Value, fatal string) {
	t.Helper()
	var p ReplyParser
	var buf []byte
	for len(input) > 0 {
		k := min(max(next(), 1), len(input))
		buf = append(slices.Clone(buf), input[:k]...)
		input = input[k:]
		for {
			v, n, err := p.Next(buf, lim)
			if err != nil {
				return values, err.Error()
			}
			if n == 0 {
				if p.Need() < 1 {
					t.Fatal("an incomplete reply needs no byte")
				}
				break
			}
			values = append(values, v.Clone())
			buf = buf[n:]
		}
		if len(buf) > lim.MaxBytes+maxReplyLine+2 {
			t.Fatalf("%d bytes are held", len(buf))
		}
	}
	return values, ""
}

func str(k Kind, s string) Value { return Value{Kind: k, Str: []byte(s)} }

func TestReplyParser(t *testing.T) {
	one, two := Value{Kind: Integer, Int: 1}, Value{Kind: Integer, Int: 2}
	tests := []struct {
		name, in string
		want     Value
	}{
		{"simple", "+OK\r\n", str(SimpleString, "OK")},
		{"empty simple", "+\r\n", str(SimpleString, "")},
		{"error", "-MOVED 1 a:1\r\n", str(Error, "MOVED 1 a:1")},
		{"integer", ":-12\r\n", Value{Kind: Integer, Int: -12}},
		{"bulk", "$4\r\na\r\nb\r\n", str(Bulk, "a\r\nb")},
		{"empty bulk", "$0\r\n\r\n", str(Bulk, "")},
		{"null bulk", "$-1\r\n", Value{}},
		{"null array", "*-1\r\n", Value{}},
		{"null", "_\r\n", Value{}},
		{"array", "*2\r\n:1\r\n*1\r\n:2\r\n", Value{Kind: Array, Elems: []Value{one, {Kind: Array, Elems: []Value{two}}}}},
		{"empty array", "*0\r\n", Value{Kind: Array}},
		{"empty arrays inside", "*2\r\n*0\r\n%0\r\n", Value{Kind: Array, Elems: []Value{{Kind: Array}, {Kind: Map}}}},
		{"map", "%1\r\n+a\r\n:1\r\n", Value{Kind: Map, Elems: []Value{str(SimpleString, "a"), one}}},
		{"set", "~1\r\n:1\r\n", Value{Kind: Set, Elems: []Value{one}}},
		{"push", ">2\r\n+invalidate\r\n_\r\n", Value{Kind: Push, Elems: []Value{str(SimpleString, "invalidate"), {}}}},
		{"double", ",3.25\r\n", Value{Kind: Double, Float: 3.25}},
		{"infinity", ",-inf\r\n", Value{Kind: Double, Float: math.Inf(-1)}},
		{"not a number", ",nan\r\n", Value{Kind: Double, Float: math.NaN()}},
		{"true", "#t\r\n", Value{Kind: Boolean, Int: 1}},
		{"false", "#f\r\n", Value{Kind: Boolean}},
		{"big number", "(-123456789012345678901234567890\r\n", str(BigNumber, "-123456789012345678901234567890")},
		{"verbatim", "=7\r\ntxt:abc\r\n", Value{Kind: Verbatim, Format: [3]byte{'t', 'x', 't'}, Str: []byte("abc")}},
		{"blob error", "!5\r\nERR x\r\n", str(Error, "ERR x")},
		{"attribute in front", "|1\r\n+ttl\r\n:9\r\n:1\r\n", one},
		{"empty attribute in front", "|0\r\n:1\r\n", one},
		{"attributes inside", "*2\r\n|1\r\n+k\r\n*2\r\n:7\r\n$1\r\nx\r\n:1\r\n|1\r\n+k\r\n%0\r\n:2\r\n", Value{Kind: Array, Elems: []Value{one, two}}},
		{"attribute in an attribute", "|1\r\n|1\r\n+a\r\n+b\r\n+k\r\n+v\r\n:1\r\n", one},
	}
	lim := &ReplyLimits{MaxDepth: 4, MaxElems: 100, MaxBulk: 100, MaxBytes: 1000}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, piece := range []int{1, 3, len(tt.in) * 2} {
				got, fatal := parseReplies(t, []byte(tt.in+tt.in), lim, whole(piece))
				if diff := cmp.Diff([]Value{tt.want, tt.want}, got, sameValue); diff != "" || fatal != "" {
					t.Errorf("in pieces of %d: %s%s", piece, fatal, diff)
				}
			}
		})
	}
}

func TestReplyParserRefuses(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"unknown type", "x\r\n", `unknown reply type "x"`},
		{"empty line", "\r\n", "malformed reply line"},
		{"CR inside a line", "+a\rb\r\n", "malformed reply line"},
		{"LF inside a line", "+a\nb\r\n", "invalid simple string in reply"},
		{"LF inside an error", "-a\n+OK\r\n", "invalid error in reply"},
		{"endless line", "+" + strings.Repeat("a", maxReplyLine+1), "reply line above 65536 bytes"},
		{"integer", ":x\r\n", "invalid integer in reply"},
		{"double", ",0x1p4\r\n", "invalid double in reply"},
		{"double out of range", ",1e999\r\n", "invalid double in reply"},
		{"boolean", "#x\r\n", "invalid boolean in reply"},
		{"null", "_x\r\n", "invalid null in reply"},
		{"big number", "(1x\r\n", "invalid big number in reply"},
		{"bulk length", "$x\r\n", "invalid bulk length in reply"},
		{"bulk length -2", "$-2\r\n", "invalid bulk length in reply"},
		{"streamed string", "$?\r\n", "invalid bulk length in reply"},
		{"bulk above limit", "$101\r\n", "bulk of 101 bytes in reply, limit 100"},
		{"bulk without CRLF", "$1\r\nabc", "bulk string in reply not followed by CRLF"},
		{"verbatim without format", "=4\r\nabcd\r\n", "malformed verbatim string in reply"},
		{"verbatim too short", "=3\r\nabc\r\n", "invalid bulk length in reply"},
		{"null verbatim", "=-1\r\n", "invalid bulk length in reply"},
		{"aggregate length", "*x\r\n", "invalid aggregate length in reply"},
		{"null map", "%-1\r\n", "invalid aggregate length in reply"},
		{"too deep", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "reply nested deeper than 4"},
		{"too many values", "*101\r\n", "reply above 100 values"},
		{"too many pairs", "%51\r\n", "reply above 100 values"},
		{"too many values in all", "*2\r\n*98\r\n" + strings.Repeat(":1\r\n", 98) + "*1\r\n", "reply above 100 values"},
		{"count that overflows", "%9223372036854775807\r\n", "reply above 100 values"},
		{"too many bytes", "*11\r\n" + strings.Repeat("$90\r\n"+strings.Repeat("x", 90)+"\r\n", 11), "reply above 1000 bytes"},
		{"too many bytes in lines", "*4\r\n" + strings.Repeat("+"+strings.Repeat("x", 300)+"\r\n", 4), "reply above 1000 bytes"},
	}
	lim := &ReplyLimits{MaxDepth: 4, MaxElems: 100, MaxBulk: 100, MaxBytes: 1000}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, piece := range []int{len(tt.in), 1 + len(tt.in)/500} {
				if _, fatal := parseReplies(t, []byte(tt.in), lim, whole(piece)); fatal != "Protocol error: "+tt.want {
					t.Errorf("got %q, want %q", fatal, tt.want)
				}
			}
		})
	}
}

func TestReplyHeadersReserveNothing(t *testing.T) {
	in := []byte("*1000000\r\n%100\r\n$500000000\r\n")
	var p ReplyParser
	p.toks = make([]token, 0, 8)
	p.stack = make([]level, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		p = ReplyParser{toks: p.toks[:0], stack: p.stack[:0]}
		if _, n, err := p.Next(in, nil); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValue(t *testing.T) {
	w := Writer{Proto: 3}
	w.Map(2)
	w.BulkString("proto")
	w.Int(3)
	w.Simple("list")
	w.Array(1)
	w.Bulk([]byte("x"))
	var p ReplyParser
	v, _, err := p.Next(w.Buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	clone := v.Clone()
	for i := range w.Buf {
		w.Buf[i] = '!'
	}
	p.values[0].Int = 99
	if got, ok := clone.Find("proto"); !ok || got.Int != 3 || got.Text() != "3" {
		t.Errorf("Find(proto) = %v, %v", got, ok)
	}
	if got, ok := clone.Find("list"); !ok || len(got.Elems) != 1 || got.Elems[0].Text() != "x" {
		t.Errorf("Find(list) = %v, %v", got, ok)
	}
	if _, ok := clone.Find("nothing"); ok {
		t.Error("found what is not there")
	}
	if !(Value{}).IsNull() || clone.IsNull() {
		t.Error("IsNull is wrong")
	}
	err = str(Error, "MOVED 7 host:1").Err()
	if e, ok := err.(ReplyError); !ok || e.Code() != "MOVED" || e.Error() != "MOVED 7 host:1" {
		t.Errorf("Err() = %v", err)
	}
	if ReplyError("ERR").Code() != "ERR" || str(SimpleString, "ERR x").Err() != nil {
		t.Error("Code or Err is wrong")
	}
}

func TestReplyParserAllocations(t *testing.T) {
	w := Writer{Proto: 3}
	w.Bulk(make([]byte, 300))
	w.Map(2)
	w.BulkString("a")
	w.Array(3)
	w.Int(1)
	w.Double(2.5)
	w.Null()
	w.Simple("b")
	w.Bool(true)
	var p ReplyParser
	run := func() {
		for rest := w.Buf; len(rest) > 0; {
			_, n, err := p.Next(rest, nil)
			if n == 0 || err != nil {
				t.Fatal(n, err)
			}
			rest = rest[n:]
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReplyParser holds three things: any division into pieces gives what the
// whole gives, limits hold, and what Writer.Value writes of a value reads as
// that value again.
func FuzzReplyParser(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$3\r\nabc\r\n:1\r\n+OK\r\n",
		"%1\r\n+a\r\n~2\r\n,1.5\r\n#t\r\n>1\r\n_\r\n",
		"|1\r\n+ttl\r\n:9\r\n=7\r\ntxt:abc\r\n(12345678901234567890\r\n!5\r\nERR x\r\n",
		"*1\r\n*1\r\n*1\r\n*0\r\n$-1\r\n*-1\r\n-MOVED 1 a:1\r\n",
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		lim := &ReplyLimits{MaxDepth: 4, MaxElems: 50, MaxBulk: 100, MaxBytes: 500}
		want, wantFatal := parseReplies(t, in, lim, whole(len(in)))
		next := func() int {
			seed = seed*6364136223846793005 + 1442695040888963407
			return int(seed >> 60)
		}
		got, fatal := parseReplies(t, in, lim, next)
		if diff := cmp.Diff(want, got, sameValue); diff != "" || fatal != wantFatal {
			t.Errorf("in pieces: %q instead of %q, %s", fatal, wantFatal, diff)
		}
		w := Writer{Proto: 3}
		for _, v := range want {
			w.Value(v)
		}
		// Errors and texts lose line ends, which only blob errors can hold.
		again, fatal := parseReplies(t, w.Buf, &ReplyLimits{}, whole(len(w.Buf)+1))
		if fatal != "" || len(again) != len(want) {
			t.Fatalf("written again: %d of %d values, %q", len(again), len(want), fatal)
		}
		for i := range want {
			if diff := cmp.Diff(flat(want[i]), flat(again[i]), sameValue); diff != "" {
				t.Errorf("value %d changed: %s", i, diff)
			}
		}
	})
}

// flat replaces the line ends inside errors by spaces, as Writer does.
func flat(v Value) Value {
	if v.Kind == Error {
		v.Str = []byte(strings.NewReplacer("\r", " ", "\n", " ").Replace(string(v.Str)))
	}
	for i := range v.Elems {
		v.Elems[i] = flat(v.Elems[i])
	}
	return v
}

func BenchmarkReplyParser(b *testing.B) {
	w := Writer{Proto: 3}
	for range 32 {
		w.Bulk(make([]byte, 64))
	}
	pipeline := slices.Clone(w.Buf)
	w.Buf = nil
	w.Array(100)
	for i := range 100 {
		w.BulkString(fmt.Sprint("key:", i))
	}
	for _, bb := range []struct {
		name string
		in   []byte
		ops  int
	}{{"bulk64-pipeline", pipeline, 32}, {"array-100", w.Buf, 1}} {
		b.Run(bb.name, func(b *testing.B) {
			var p ReplyParser
			b.ReportAllocs()
			for i := 0; i < b.N; i += bb.ops {
				for rest := bb.in; len(rest) > 0; {
					_, n, err := p.Next(rest, nil)
					if n == 0 || err != nil {
						b.Fatal(n, err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}
