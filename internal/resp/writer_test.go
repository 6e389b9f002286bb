package resp

import (
	"math"
	"strings"
	"testing"
)

// The expected bytes are those of redis-server 7.0.15 (DEBUG PROTOCOL and the
// replies of COMMAND, CLIENT and HELLO).
func TestWriter(t *testing.T) {
	tests := []struct {
		name         string
		write        func(w *Writer)
		resp2, resp3 string // resp3 empty: the same
	}{
		{"simple", func(w *Writer) { w.Simple("OK") }, "+OK\r\n", ""},
		{"error", func(w *Writer) { w.Error("ERR no") }, "-ERR no\r\n", ""},
		{"integer", func(w *Writer) { w.Int(7) }, ":7\r\n", ""},
		{"large integer", func(w *Writer) { w.Int(math.MinInt64) }, ":-9223372036854775808\r\n", ""},
		{"negative integer", func(w *Writer) { w.Int(-1) }, ":-1\r\n", ""},
		{"bulk", func(w *Writer) { w.Bulk([]byte("a\r\nb")) }, "$4\r\na\r\nb\r\n", ""},
		{"empty bulk", func(w *Writer) { w.BulkString("") }, "$0\r\n\r\n", ""},
		{"null", func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{"null array", func(w *Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		{"array", func(w *Writer) { w.Array(12) }, "*12\r\n", ""},
		{"map", func(w *Writer) { w.Map(5) }, "*10\r\n", "%5\r\n"},
		{"set", func(w *Writer) { w.Set(2) }, "*2\r\n", "~2\r\n"},
		{"push", func(w *Writer) { w.Push(3) }, "*3\r\n", ">3\r\n"},
		{"true", func(w *Writer) { w.Bool(true) }, ":1\r\n", "#t\r\n"},
		{"false", func(w *Writer) { w.Bool(false) }, ":0\r\n", "#f\r\n"},
		{"big number", func(w *Writer) { w.BigNumber("12345678901234567890") }, "$20\r\n12345678901234567890\r\n", "(12345678901234567890\r\n"},
		{"verbatim", func(w *Writer) { w.Verbatim("txt", "a b") }, "$3\r\na b\r\n", "=7\r\ntxt:a b\r\n"},
		{"verbatim, odd format", func(w *Writer) { w.Verbatim("m", "a") }, "$1\r\na\r\n", "=5\r\nm  :a\r\n"},
		{"raw", func(w *Writer) { w.Raw([]byte("+x\r\n")) }, "+x\r\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for proto, want := range map[int]string{0: tt.resp2, 2: tt.resp2, 3: tt.resp3} {
				if want == "" {
					want = tt.resp2
				}
				w := Writer{Proto: proto}
				tt.write(&w)
				if got := string(w.Buf); got != want {
					t.Errorf("RESP%d: got %q, want %q", proto, got, want)
				}
			}
		})
	}
}

// The expected texts were printed by C's printf("%.17g").
func TestDouble(t *testing.T) {
	tests := map[string]float64{
		"0": 0, "-0": math.Copysign(0, -1), "1": 1, "-1.5": -1.5, "100000": 1e5,
		"0.10000000000000001": 0.1, "3.141": 3.141, "1234567.8899999999": 1234567.89,
		"10000000000000000": 1e16, "1e+17": 1e17, "1.0000000000000001e-05": 1e-5, "0.0001": 1e-4,
		"1.7976931348623157e+308": math.MaxFloat64, "4.9406564584124654e-324": math.SmallestNonzeroFloat64,
		"inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(),
	}
	for want, f := range tests {
		if got := string(AppendDouble(nil, f)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	w := Writer{Proto: 3}
	w.Double(0.5)
	w.Proto = 2
	w.Double(0.5)
	if got, want := string(w.Buf), ",0.5\r\n$3\r\n0.5\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Text of a client must never begin a reply of its own (CVE-2025-67733).
func TestTextCannotInjectReplies(t *testing.T) {
	for _, proto := range []int{2, 3} {
		w := Writer{Proto: proto}
		const evil = "x\r\n+OK\n\r:1\r"
		w.Error("ERR unknown '" + evil + "'")
		w.Simple(evil)
		w.BigNumber("1\r\n+OK")
		w.Value(Value{Kind: Error, Str: []byte("ERR " + evil)})
		var p ReplyParser
		n := 0
		for rest := w.Buf; len(rest) > 0; n++ {
			_, size, err := p.Next(rest, nil)
			if proto == 3 && err != nil && n == 2 {
				// What is no number is no valid reply either, but still one line.
				size, err = strings.Index(string(rest), "\n")+1, nil
				p = ReplyParser{}
			}
			if size == 0 || err != nil {
				t.Fatal(size, err)
			}
			rest = rest[size:]
		}
		if n != 4 {
			t.Errorf("RESP%d: %d replies instead of 4: %q", proto, n, w.Buf)
		}
	}
}

func TestBulkOfUnknownLength(t *testing.T) {
	for _, size := range []int{0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10000, 1 << 20} {
		want := Writer{}
		want.Simple("before")
		want.BulkString(strings.Repeat("v", size))
		got := Writer{}
		got.Simple("before")
		mark := got.StartBulk()
		for range size {
			got.Buf = append(got.Buf, 'v')
		}
		got.EndBulk(mark)
		if string(got.Buf) != string(want.Buf) {
			t.Errorf("%d bytes: wrong encoding", size)
		}
	}
	w := Writer{}
	w.Simple("before")
	mark := w.StartBulk()
	w.Buf = append(w.Buf, "half"...)
	w.CutBulk(mark)
	if got := string(w.Buf); got != "+before\r\n" {
		t.Errorf("after CutBulk: %q", got)
	}
}

func TestWriterAllocations(t *testing.T) {
	w := Writer{Buf: make([]byte, 0, 4096)}
	value := []byte(strings.Repeat("v", 300))
	reply := Value{Kind: Array, Elems: []Value{{Kind: Bulk, Str: value}, {Kind: Error, Str: []byte("ERR x")}}}
	for _, proto := range []int{2, 3} {
		n := testing.AllocsPerRun(100, func() {
			w.Buf, w.Proto = w.Buf[:0], proto
			w.Simple("OK")
			w.Error("ERR no such thing")
			w.Int(1234567)
			w.Bulk(value)
			w.Null()
			w.Array(100)
			w.Map(3)
			w.Double(3.14159)
			w.Bool(true)
			w.Value(reply)
			mark := w.StartBulk()
			w.Buf = append(w.Buf, "abc"...)
			w.EndBulk(mark)
		})
		if n != 0 {
			t.Errorf("RESP%d: %v allocations", proto, n)
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	value := []byte(strings.Repeat("v", 64))
	for _, bb := range []struct {
		name  string
		write func(*Writer)
	}{
		{"simple", func(w *Writer) { w.Simple("OK") }},
		{"bulk64", func(w *Writer) { w.Bulk(value) }},
		{"start-end-bulk64", func(w *Writer) {
			mark := w.StartBulk()
			w.Buf = append(w.Buf, value...)
			w.EndBulk(mark)
		}},
		{"int", func(w *Writer) { w.Int(1234567) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := Writer{Buf: make([]byte, 0, 256)}
			b.ReportAllocs()
			for b.Loop() {
				w.Buf = w.Buf[:0]
				bb.write(&w)
			}
		})
	}
}
