package resp

import (
	"math"
	"strconv"
)

// Writer appends replies to Buf in the protocol version Proto (2 or 3; 0 means
// 2). Types that RESP2 lacks are written as Redis writes them for RESP2
// clients. The zero value is ready for use; the owner of Buf may truncate,
// take or replace it between replies. No text given to it can break a reply:
// line ends inside simple strings, errors and numbers become spaces.
type Writer struct {
	Buf   []byte
	Proto int
	// Limit is the greatest size of one reply in bytes, 0 for none. Whoever
	// writes a reply of many parts asks Over on the way and gives up.
	Limit int
}

// Over tells whether the reply that starts at mark is above Limit.
func (w *Writer) Over(mark int) bool { return w.Limit > 0 && len(w.Buf)-mark > w.Limit }

// Raw appends bytes that are already encoded replies.
func (w *Writer) Raw(b []byte) { w.Buf = append(w.Buf, b...) }

// Insert puts bytes in front of what was written since mark: the header of an
// aggregate whose number of elements was not known before.
func (w *Writer) Insert(mark int, head []byte) {
	size := len(w.Buf)
	w.Buf = append(w.Buf, head...) // room for the header
	copy(w.Buf[mark+len(head):], w.Buf[mark:size])
	copy(w.Buf[mark:], head)
}

// Simple appends a simple string, such as "OK".
func (w *Writer) Simple(s string) { w.Buf = appendLine(w.Buf, '+', s) }

// Error appends an error. s is the whole text with its code first: "ERR syntax
// error".
func (w *Writer) Error(s string) { w.Buf = appendLine(w.Buf, '-', s) }

// appendLine appends s as one line, its CR and LF bytes replaced by spaces: text
// that came from a client must never start a reply of its own.
func appendLine[T string | []byte](dst []byte, kind byte, s T) []byte {
	dst = append(dst, kind)
	start := len(dst)
	dst = append(dst, s...)
	for i := start; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	return append(dst, '\r', '\n')
}

// Int appends an integer.
func (w *Writer) Int(n int64) {
	if uint64(n) < 10 {
		w.Buf = append(w.Buf, ':', byte('0'+n), '\r', '\n')
		return
	}
	b := append(w.Buf, ':')
	b = strconv.AppendInt(b, n, 10)
	w.Buf = append(b, '\r', '\n')
}

// Bulk appends a bulk string.
func (w *Writer) Bulk(v []byte) {
	b := appendHeader(w.Buf, '$', len(v))
	b = append(b, v...)
	w.Buf = append(b, '\r', '\n')
}

// BulkString appends a bulk string.
func (w *Writer) BulkString(s string) {
	b := appendHeader(w.Buf, '$', len(s))
	b = append(b, s...)
	w.Buf = append(b, '\r', '\n')
}

// bulkGuess is the room that StartBulk leaves for a header: "$", three digits
// and CRLF, right without any move for values of 100 to 999 bytes.
const bulkGuess = 6

// StartBulk begins a bulk string whose length is not known yet: append the
// value to Buf, then call EndBulk with the mark. To give up instead, call
// CutBulk.
func (w *Writer) StartBulk() (mark int) {
	w.Buf = append(w.Buf, "$000\r\n"...)
	return len(w.Buf)
}

// EndBulk ends what StartBulk began. The value moves by a few bytes if its
// length has more or fewer than three digits.
func (w *Writer) EndBulk(mark int) {
	var head [24]byte
	size := len(w.Buf) - mark
	h := appendHeader(head[:0], '$', size)
	start := mark - bulkGuess
	if d := len(h) - bulkGuess; d > 0 {
		w.Buf = append(w.Buf, head[:d]...)
		copy(w.Buf[mark+d:], w.Buf[mark:mark+size])
	} else if d < 0 {
		copy(w.Buf[mark+d:], w.Buf[mark:])
		w.Buf = w.Buf[:mark+d+size]
	}
	copy(w.Buf[start:], h)
	w.Buf = append(w.Buf, '\r', '\n')
}

// CutBulk takes back StartBulk and what was appended since.
func (w *Writer) CutBulk(mark int) { w.Buf = w.Buf[:mark-bulkGuess] }

// Null appends the null value (RESP2: the null bulk string).
func (w *Writer) Null() {
	if w.Proto == 3 {
		w.Buf = append(w.Buf, "_\r\n"...)
		return
	}
	w.Buf = append(w.Buf, "$-1\r\n"...)
}

// NullArray appends the null value (RESP2: the null array).
func (w *Writer) NullArray() {
	if w.Proto == 3 {
		w.Buf = append(w.Buf, "_\r\n"...)
		return
	}
	w.Buf = append(w.Buf, "*-1\r\n"...)
}

// Array begins an array; n elements must follow.
func (w *Writer) Array(n int) { w.Buf = appendHeader(w.Buf, '*', n) }

// Map begins a map; n pairs, 2n elements, must follow (RESP2: a flat array).
func (w *Writer) Map(n int) {
	if w.Proto == 3 {
		w.Buf = appendHeader(w.Buf, '%', n)
		return
	}
	w.Buf = appendHeader(w.Buf, '*', 2*n)
}

// Set begins a set; n elements must follow (RESP2: an array).
func (w *Writer) Set(n int) { w.aggregate('~', n) }

// Push begins an out-of-band message; n elements must follow (RESP2: an array).
func (w *Writer) Push(n int) { w.aggregate('>', n) }

func (w *Writer) aggregate(kind byte, n int) {
	if w.Proto != 3 {
		kind = '*'
	}
	w.Buf = appendHeader(w.Buf, kind, n)
}

// Double appends a floating point number with 17 significant digits, as C's
// %.17g prints it (RESP2: a bulk string).
func (w *Writer) Double(f float64) {
	var scratch [32]byte
	text := AppendDouble(scratch[:0], f)
	if w.Proto != 3 {
		w.Bulk(text)
		return
	}
	b := append(w.Buf, ',')
	b = append(b, text...)
	w.Buf = append(b, '\r', '\n')
}

// AppendDouble appends f as Redis prints a double: %.17g, and "inf", "-inf",
// "nan".
func AppendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case math.IsNaN(f):
		return append(dst, "nan"...)
	}
	return strconv.AppendFloat(dst, f, 'g', 17, 64)
}

// Bool appends a truth value (RESP2: the integer 1 or 0).
func (w *Writer) Bool(v bool) {
	switch {
	case w.Proto == 3 && v:
		w.Buf = append(w.Buf, "#t\r\n"...)
	case w.Proto == 3:
		w.Buf = append(w.Buf, "#f\r\n"...)
	case v:
		w.Buf = append(w.Buf, ":1\r\n"...)
	default:
		w.Buf = append(w.Buf, ":0\r\n"...)
	}
}

// BigNumber appends an integer of any size, given in decimal (RESP2: a bulk
// string).
func (w *Writer) BigNumber(s string) {
	if w.Proto != 3 {
		w.BulkString(s)
		return
	}
	w.Buf = appendLine(w.Buf, '(', s)
}

// Verbatim appends a text of a format named by exactly three bytes, "txt" or
// "mkd" (RESP2: a bulk string without the format). A shorter format is padded
// with spaces, a longer one cut.
func (w *Writer) Verbatim(format, s string) {
	if w.Proto != 3 {
		w.BulkString(s)
		return
	}
	b := appendHeader(w.Buf, '=', len(s)+4)
	f := [4]byte{' ', ' ', ' ', ':'}
	copy(f[:3], format)
	b = append(b, f[:]...)
	b = append(b, s...)
	w.Buf = append(b, '\r', '\n')
}

// Value appends v, which came from a ReplyParser, in the Writer's protocol
// version. A map, set or other RESP3 value takes its RESP2 form where needed.
func (w *Writer) Value(v Value) {
	switch v.Kind {
	case SimpleString:
		w.Buf = appendLine(w.Buf, '+', v.Str)
	case Error:
		w.Buf = appendLine(w.Buf, '-', v.Str)
	case Integer:
		w.Int(v.Int)
	case Bulk:
		w.Bulk(v.Str)
	case Double:
		w.Double(v.Float)
	case Boolean:
		w.Bool(v.Int != 0)
	case BigNumber:
		if w.Proto != 3 {
			w.Bulk(v.Str)
			return
		}
		w.Buf = appendLine(w.Buf, '(', v.Str)
	case Verbatim:
		w.Verbatim(string(v.Format[:]), string(v.Str))
	case Array:
		w.Array(len(v.Elems))
	case Set:
		w.Set(len(v.Elems))
	case Push:
		w.Push(len(v.Elems))
	case Map:
		w.Map(len(v.Elems) / 2)
	default:
		w.Null()
	}
	for i := range v.Elems {
		w.Value(v.Elems[i])
	}
}
