package resp

import (
	"bytes"
	"math"
	"strconv"
)

// ReplyLimits bounds one reply. A field that is 0 takes its default.
type ReplyLimits struct {
	// MaxDepth is the greatest nesting of aggregates. Default 32.
	MaxDepth int
	// MaxElems is the greatest number of values in one reply, over all levels.
	// Default 1 Mi.
	MaxElems int
	// MaxBulk is the longest string in bytes. Default MaxProtoBulk.
	MaxBulk int
	// MaxBytes is the greatest size of one reply as sent. Default 1 GiB.
	MaxBytes int
}

const (
	defaultDepth = 32
	defaultElems = 1 << 20
	defaultBytes = 1 << 30

	// maxReplyLine bounds simple strings, errors and headers.
	maxReplyLine = 64 << 10
	// keepValues is the number of values for which a ReplyParser keeps room
	// between replies.
	keepValues = 1024
)

func (l *ReplyLimits) orDefault() ReplyLimits {
	var r ReplyLimits
	if l != nil {
		r = *l
	}
	if r.MaxDepth == 0 {
		r.MaxDepth = defaultDepth
	}
	if r.MaxElems == 0 {
		r.MaxElems = defaultElems
	}
	if r.MaxBulk == 0 {
		r.MaxBulk = MaxProtoBulk
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = defaultBytes
	}
	return r
}

// token is one value of an unfinished reply, in the order in which they arrive:
// an aggregate, then its elements.
type token struct {
	kind   Kind
	format [3]byte
	off    int   // of Str
	len    int   // of Str, or the number of elements
	num    int64 // Int, or the bits of Float
}

// level is an aggregate whose elements are being read.
type level struct {
	left int  // elements to come
	attr bool // the aggregate is an attribute, which is not itself a value
	drop bool // it lies in an attribute: its values are not kept
}

// ReplyParser reads the replies of a server incrementally, in RESP2 and RESP3.
// What it learned of an unfinished reply survives until the next call. The zero
// value is ready for use.
type ReplyParser struct {
	toks   []token
	stack  []level
	values []Value // Elems of the reply that was returned last
	used   int     // of values, while building

	pos   int  // offset of the first byte that is not parsed yet
	scan  int  // bytes from pos on that hold no line end
	elems int  // values announced so far
	kind  byte // type byte of the string being read, or 0
	bulk  int  // its length
	have  int  // length of the buffer at the last call
}

// Next parses one reply from buf, which holds all bytes that are not consumed
// yet, and returns it and how many bytes it took. n == 0 without an error says
// that the reply is incomplete: call again with the same bytes and more behind
// them; they may have moved. lim may be nil.
//
// Strings of v are borrowed from buf until its bytes change, Elems until the
// next call. Attributes are read and dropped. An error is a *ProtocolError; the
// stream cannot be used any further.
func (p *ReplyParser) Next(buf []byte, lim *ReplyLimits) (v Value, n int, err error) {
	if cap(p.values) > keepValues {
		p.values = nil
	}
	l := lim.orDefault()
	p.have = len(buf)
	for {
		complete, ok, err := p.step(buf, &l)
		if !ok || err != nil {
			return Value{}, 0, err
		}
		if complete {
			break
		}
	}
	n = p.pos
	v = p.finish(buf)
	return v, n, nil
}

// Need returns how many bytes the reply lacks at least, as far as its headers
// tell. A buffer may grow towards it only in proportion to the bytes received.
func (p *ReplyParser) Need() int {
	if p.kind != 0 {
		return max(1, p.pos+p.bulk+2-p.have)
	}
	return 1
}

// step reads one header or string. ok is false if bytes are missing; complete
// tells that the whole reply is there.
func (p *ReplyParser) step(buf []byte, lim *ReplyLimits) (complete, ok bool, err error) {
	if p.kind != 0 {
		return p.blob(buf)
	}
	line, ok, err := p.line(buf)
	if !ok || err != nil {
		return false, false, err
	}
	off := p.pos + 1
	p.pos += len(line) + 2
	if p.pos > lim.MaxBytes {
		return false, false, protocolError("reply above %d bytes", lim.MaxBytes)
	}
	switch kind := line[0]; kind {
	case '$', '=', '!':
		return p.stringHeader(kind, line[1:], lim)
	case '*', '%', '~', '>', '|':
		return p.aggregate(kind, line[1:], lim)
	default:
		t, err := scalar(kind, line[1:])
		if err != nil {
			return false, false, err
		}
		t.off = off
		return p.value(t), true, nil
	}
}

// line returns the line at pos without its line end.
func (p *ReplyParser) line(buf []byte) ([]byte, bool, error) {
	b := buf[p.pos:]
	window := b[:min(len(b), maxReplyLine+1)]
	i := bytes.IndexByte(window[p.scan:], '\r')
	if i < 0 {
		p.scan = len(window)
		if len(window) > maxReplyLine {
			return nil, false, protocolError("reply line above %d bytes", maxReplyLine)
		}
		return nil, false, nil
	}
	end := p.scan + i
	if end+1 >= len(b) {
		p.scan = end
		return nil, false, nil
	}
	p.scan = 0
	if end == 0 || b[end+1] != '\n' {
		return nil, false, protocolError("malformed reply line")
	}
	return b[:end], true, nil
}

// stringHeader reads the length of a bulk string, verbatim string or blob error.
func (p *ReplyParser) stringHeader(kind byte, text []byte, lim *ReplyLimits) (complete, ok bool, err error) {
	n, good := ParseInt(text)
	switch {
	case good && n == -1 && kind == '$':
		return p.value(token{kind: Null}), true, nil
	case !good || n < 0 || kind == '=' && n < 4:
		return false, false, protocolError("invalid bulk length in reply")
	case n > int64(lim.MaxBulk):
		return false, false, protocolError("bulk of %d bytes in reply, limit %d", n, lim.MaxBulk)
	case n > int64(lim.MaxBytes-p.pos-2):
		return false, false, protocolError("reply above %d bytes", lim.MaxBytes)
	}
	p.kind, p.bulk = kind, int(n)
	return false, true, nil
}

// blob reads a string whose header was read before.
func (p *ReplyParser) blob(buf []byte) (complete, ok bool, err error) {
	end := p.pos + p.bulk
	if end+2 > len(buf) {
		return false, false, nil
	}
	if buf[end] != '\r' || buf[end+1] != '\n' {
		return false, false, protocolError("bulk string in reply not followed by CRLF")
	}
	t := token{kind: Bulk, off: p.pos, len: p.bulk}
	switch p.kind {
	case '!':
		t.kind = Error
	case '=':
		if buf[p.pos+3] != ':' {
			return false, false, protocolError("malformed verbatim string in reply")
		}
		t.kind, t.off, t.len = Verbatim, p.pos+4, p.bulk-4
		copy(t.format[:], buf[p.pos:])
	}
	p.kind = 0
	p.pos = end + 2
	return p.value(t), true, nil
}

// aggregate reads the header of an array, map, set, push or attribute.
func (p *ReplyParser) aggregate(kind byte, text []byte, lim *ReplyLimits) (complete, ok bool, err error) {
	n, good := ParseInt(text)
	if good && n == -1 && kind == '*' {
		return p.value(token{kind: Null}), true, nil
	}
	if !good || n < 0 {
		return false, false, protocolError("invalid aggregate length in reply")
	}
	t := token{kind: Array}
	switch kind {
	case '%':
		t.kind = Map
	case '~':
		t.kind = Set
	case '>':
		t.kind = Push
	case '|':
		t.kind = Attribute
	}
	if n > int64(lim.MaxElems) || int64(p.elems)+2*n > int64(lim.MaxElems) && (t.kind == Map || t.kind == Attribute) ||
		int64(p.elems)+n > int64(lim.MaxElems) {
		return false, false, protocolError("reply above %d values", lim.MaxElems)
	}
	if t.len = int(n); t.kind == Map || t.kind == Attribute {
		t.len *= 2
	}
	p.elems += t.len
	drop := len(p.stack) > 0 && p.stack[len(p.stack)-1].drop
	if t.len == 0 {
		return t.kind != Attribute && p.value(t), true, nil
	}
	if len(p.stack) >= lim.MaxDepth {
		return false, false, protocolError("reply nested deeper than %d", lim.MaxDepth)
	}
	attr := t.kind == Attribute
	if !attr && !drop {
		p.toks = append(p.toks, t)
	}
	p.stack = append(p.stack, level{left: t.len, attr: attr, drop: drop || attr})
	return false, true, nil
}

// value takes a value that is complete in itself, closes the aggregates that end
// with it and reports whether the whole reply ended.
func (p *ReplyParser) value(t token) bool {
	if len(p.stack) == 0 || !p.stack[len(p.stack)-1].drop {
		p.toks = append(p.toks, t)
	}
	for len(p.stack) > 0 {
		top := &p.stack[len(p.stack)-1]
		if top.left--; top.left > 0 {
			return false
		}
		attr := top.attr
		p.stack = p.stack[:len(p.stack)-1]
		if attr {
			return false // its value is still to come
		}
	}
	return true
}

// finish builds the Value from the tokens and makes ready for the next reply.
func (p *ReplyParser) finish(buf []byte) Value {
	if len(p.toks)-1 > cap(p.values) {
		p.values = make([]Value, len(p.toks)-1)
	}
	p.values = p.values[:cap(p.values)]
	p.used = 0
	v, _ := p.build(buf, 0)
	p.toks, p.pos, p.elems = p.toks[:0], 0, 0
	if cap(p.toks) > keepValues {
		p.toks = nil
	}
	return v
}

// build returns the value of token i and the index of the token behind it. It
// calls itself to the depth that ReplyLimits allows.
func (p *ReplyParser) build(buf []byte, i int) (Value, int) {
	t := &p.toks[i]
	i++
	v := Value{Kind: t.kind, Format: t.format}
	switch t.kind {
	case Integer, Boolean:
		v.Int = t.num
	case Double:
		v.Float = math.Float64frombits(uint64(t.num))
	case SimpleString, Error, Bulk, BigNumber, Verbatim:
		v.Str = buf[t.off : t.off+t.len : t.off+t.len]
	case Array, Map, Set, Push:
		if t.len == 0 {
			break
		}
		v.Elems = p.values[p.used : p.used+t.len : p.used+t.len]
		p.used += t.len
		for k := range v.Elems {
			v.Elems[k], i = p.build(buf, i)
		}
	}
	return v, i
}

// scalar reads a value that is one line; text is the line behind its type byte.
func scalar(kind byte, text []byte) (token, error) {
	t := token{len: len(text)}
	good := true
	switch kind {
	case '+':
		t.kind, good = SimpleString, bytes.IndexByte(text, '\n') < 0
	case '-':
		t.kind, good = Error, bytes.IndexByte(text, '\n') < 0
	case ':':
		t.kind = Integer
		t.num, good = ParseInt(text)
	case '_':
		t.kind, good = Null, len(text) == 0
	case '#':
		t.kind, good = Boolean, len(text) == 1 && (text[0] == 't' || text[0] == 'f')
		if good && text[0] == 't' {
			t.num = 1
		}
	case ',':
		var f float64
		t.kind = Double
		f, good = parseDouble(text)
		t.num = int64(math.Float64bits(f))
	case '(':
		t.kind, good = BigNumber, isBigNumber(text)
	default:
		return t, &ProtocolError{text: "unknown reply type " + strconv.QuoteToASCII(string([]byte{kind}))}
	}
	if !good {
		return t, protocolError("invalid %s in reply", t.kind)
	}
	return t, nil
}

func parseDouble(text []byte) (float64, bool) {
	switch string(text) {
	case "inf", "+inf":
		return math.Inf(1), true
	case "-inf":
		return math.Inf(-1), true
	case "nan", "-nan":
		return math.NaN(), true
	}
	for _, c := range text {
		if c-'0' > 9 && c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}

func isBigNumber(text []byte) bool {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		text = text[1:]
	}
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return len(text) > 0
}
