package resp

import (
	"bytes"
	"encoding/binary"
)

// maxDrain is the greatest size of a command that is skipped because of a
// TooLargeError, Redis's default client-query-buffer-limit. Beyond it the
// stream is given up.
const maxDrain = 1 << 30

// keepArgs is the number of arguments for which Trim keeps room.
const keepArgs = 64

// span is one argument, as offset and length from the start of the buffer: the
// buffer may move between two calls, so no slice may be kept.
type span struct{ off, len int }

// Parser reads the commands that a client sends, RESP arrays and inline
// commands alike. What it learned of an unfinished command survives until the
// next call, so that neither a large argument nor a long list of arguments is
// looked at twice. The zero value is ready for use.
type Parser struct {
	args  [][]byte
	spans []span

	// left counts the arguments of the current command that are still to come;
	// 0 says that a new command begins.
	left int
	// pos is the offset of the first byte that is not parsed yet. While
	// skipping it is always 0.
	pos int
	// scan is how many bytes from pos on hold no line end.
	scan int
	// body tells that the header of the current argument was read; bulk is its
	// length.
	body bool
	bulk int
	// have is the length of the buffer at the last call.
	have int

	// over is set while a command is skipped: then bulk counts what remains of
	// the current argument, and drained the bytes of the command consumed by
	// earlier calls.
	over    *TooLargeError
	drained int64
}

// Next parses one command from buf, which holds all bytes that are not consumed
// yet, and returns its arguments and how many bytes it took.
//
//   - n == 0, err == nil: the command is incomplete. Call again with the same
//     bytes and more behind them; they may have moved.
//   - n > 0, no arguments, err == nil: bytes that ask for nothing (an empty line,
//     an empty array, a part of a command that is being skipped). Go on behind
//     them.
//   - err is a *TooLargeError: the command ended at n, was not kept and should be
//     answered by an error. Go on behind it.
//   - err is a *ProtocolError: the stream is unreadable.
//
// The arguments are borrowed from buf until its bytes change; the slice that
// holds them is used again by the next call. Inline commands are unquoted in
// place. Limits may change between commands, not within one.
func (p *Parser) Next(buf []byte, lim *Limits) (args [][]byte, n int, err error) {
	if p.over != nil {
		n, err = p.drain(buf, lim)
		return nil, n, err
	}
	if p.left == 0 {
		if len(buf) == 0 {
			return nil, 0, nil
		}
		if buf[0] != '*' {
			return p.inline(buf, lim)
		}
		n, err = p.begin(buf, lim)
		if p.left == 0 {
			return nil, n, err
		}
	}
	return p.resume(buf, lim)
}

// Need returns how many bytes the current command lacks at least, as far as its
// headers tell, or 0 if it is being skipped and needs no room. It is what a
// client announced, not what it sent: a buffer may grow towards it, but only in
// proportion to the bytes received.
func (p *Parser) Need() int {
	switch {
	case p.over != nil:
		return 0
	case p.body:
		return max(1, p.pos+p.bulk+2-p.have)
	}
	return 1
}

// Trim gives back the memory that a command with many arguments left behind.
// Arguments that were returned become invalid.
func (p *Parser) Trim() {
	if p.left != 0 || cap(p.args) <= keepArgs && cap(p.spans) <= keepArgs {
		return
	}
	p.args, p.spans = nil, nil
}

// Lists is room for the arguments of a command. Parsers that are used one after
// the other may share it, so that one that waits for a command costs nothing. The
// zero value is ready for use.
type Lists struct {
	args  [][]byte
	spans []span
}

// Lend gives a parser that has no room of its own that of l, until Return.
func (p *Parser) Lend(l *Lists) {
	if p.spans == nil && p.args == nil {
		p.args, p.spans = l.args[:0], l.spans[:0]
		l.args, l.spans = nil, nil
	}
}

// Return moves the parser's room to l, unless it is within a command. Arguments
// that were returned stay valid until l is lent again.
func (p *Parser) Return(l *Lists) {
	if p.left != 0 || p.spans == nil && p.args == nil {
		return
	}
	if cap(p.args) <= keepArgs && cap(p.spans) <= keepArgs {
		l.args, l.spans = p.args, p.spans
	}
	p.args, p.spans = nil, nil
}

// The bytes "*N\r\n$L\r\n" with one-digit numbers start nearly all commands.
// shortMask keeps of each digit the upper half of its byte.
const (
	shortHead = uint64('*') | '0'<<8 | '\r'<<16 | '\n'<<24 | '$'<<32 | '0'<<40 | '\r'<<48 | '\n'<<56
	shortMask = ^uint64(0x0f<<8 | 0x0f<<40)
)

// begin reads the header of an array. It leaves left at 0 if the header is
// incomplete (0, nil), wrong, or of an empty array.
func (p *Parser) begin(buf []byte, lim *Limits) (int, error) {
	p.spans = p.spans[:0]
	if len(buf) >= 8 {
		head := binary.LittleEndian.Uint64(buf)
		count, length := int(head>>8&0x0f), int(head>>40&0x0f)
		if head&shortMask == shortHead && count > 0 && count < 10 && length < 10 &&
			count <= lim.MaxArgs && length <= lim.MaxBulk && length+10 <= lim.MaxQuery {
			p.left, p.pos, p.scan, p.body, p.bulk = count, 8, 0, true, length
			return 0, nil
		}
	}
	end, err := p.line(buf, lim.MaxInline, "mbulk")
	if end < 0 {
		return 0, err
	}
	count, ok := ParseInt(buf[1:end])
	switch {
	case !ok || buf[end+1] != '\n':
		return 0, protocolError("invalid multibulk length")
	case lim.Unauthenticated && count > int64(lim.MaxArgs):
		return 0, protocolError("unauthenticated multibulk length")
	case count > int64(lim.MaxArgs):
		return 0, protocolError("invalid multibulk length")
	case count <= 0:
		return end + 2, nil
	}
	p.left, p.pos, p.body = int(count), end+2, false
	return 0, nil
}

// resume reads arguments from pos on.
func (p *Parser) resume(buf []byte, lim *Limits) ([][]byte, int, error) {
	pos := p.pos
	for p.left > 0 {
		if !p.body {
			p.pos = pos
			length, size, err := p.bulkHeader(buf, lim)
			if size == 0 {
				p.have = len(buf)
				return nil, 0, err
			}
			pos += size
			if length > lim.MaxBulk || pos+length+2 > lim.MaxQuery {
				return p.tooLarge(buf, pos, length, lim)
			}
			p.body, p.bulk = true, length
		}
		end := pos + p.bulk
		if end+2 > len(buf) {
			p.pos, p.have = pos, len(buf)
			return nil, 0, nil
		}
		if buf[end] != '\r' || buf[end+1] != '\n' {
			return nil, 0, protocolError("bulk string not followed by CRLF")
		}
		p.spans = append(p.spans, span{pos, p.bulk})
		pos = end + 2
		p.body = false
		p.left--
	}
	args := p.args[:0]
	for _, s := range p.spans {
		args = append(args, buf[s.off:s.off+s.len:s.off+s.len])
	}
	p.args, p.pos = args, 0
	return args, pos, nil
}

// bulkHeader reads the header of an argument at pos and returns the length it
// announces and its own size, which is 0 if it is incomplete or wrong.
func (p *Parser) bulkHeader(buf []byte, lim *Limits) (length, size int, err error) {
	b := buf[p.pos:]
	if len(b) >= 5 && b[0] == '$' { // one or two digits
		d0, d1 := int(b[1])-'0', int(b[2])-'0'
		if b[2] == '\r' && b[3] == '\n' && d0 >= 0 && d0 < 10 {
			p.scan = 0
			return d0, 4, nil
		}
		if b[3] == '\r' && b[4] == '\n' && d0 > 0 && d0 < 10 && d1 >= 0 && d1 < 10 {
			p.scan = 0
			return d0*10 + d1, 5, nil
		}
	}
	end, err := p.line(buf, lim.MaxInline, "bulk")
	if end < 0 {
		return 0, 0, err
	}
	if buf[p.pos] != '$' {
		return 0, 0, &ProtocolError{text: "expected '$', got '" + string(buf[p.pos:p.pos+1]) + "'"}
	}
	n, ok := ParseInt(buf[p.pos+1 : end])
	switch {
	case !ok || n < 0 || n > MaxProtoBulk || buf[end+1] != '\n':
		return 0, 0, protocolError("invalid bulk length")
	case lim.Unauthenticated && n > int64(lim.MaxBulk):
		return 0, 0, protocolError("unauthenticated bulk length")
	}
	return int(n), end + 2 - p.pos, nil
}

// line finds the end of the header line at pos: the offset of its CR once the
// byte behind it is there too, otherwise -1.
func (p *Parser) line(buf []byte, limit int, what string) (int, error) {
	window := buf[p.pos:min(len(buf), p.pos+limit+1)]
	i := bytes.IndexByte(window[p.scan:], '\r')
	if i < 0 {
		p.scan = len(window)
		if len(window) > limit {
			return -1, protocolError("too big %s count string", what)
		}
		return -1, nil
	}
	end := p.pos + p.scan + i
	if end+1 >= len(buf) {
		p.scan += i
		return -1, nil
	}
	p.scan = 0
	return end, nil
}

// tooLarge begins to skip the current command: its argument of the given
// length, which begins at pos, breaks a limit.
func (p *Parser) tooLarge(buf []byte, pos, length int, lim *Limits) ([][]byte, int, error) {
	if lim.Unauthenticated {
		return nil, 0, protocolError("unauthenticated bulk length")
	}
	p.over = &TooLargeError{Size: int64(length), Limit: lim.MaxBulk}
	if length <= lim.MaxBulk {
		p.over.Query, p.over.Limit = true, lim.MaxQuery
	}
	if len(p.spans) > 0 {
		name := p.spans[0]
		p.over.Command = string(buf[name.off : name.off+min(name.len, 32)])
	}
	p.body, p.bulk, p.pos, p.drained = true, length, 0, int64(pos)
	n, err := p.drain(buf[pos:], lim)
	return nil, pos + n, err
}

// drain drops bytes of a command that is being skipped and returns how many. The
// error is the TooLargeError when the command ends.
func (p *Parser) drain(buf []byte, lim *Limits) (n int, err error) {
	for p.left > 0 {
		if !p.body {
			length, size, err := p.bulkHeader(buf[n:], lim)
			if size == 0 {
				p.drained += int64(n)
				return n, err
			}
			n += size
			if p.drained+int64(n)+int64(length) > maxDrain {
				return n, protocolError("command above %d bytes", maxDrain)
			}
			p.body, p.bulk = true, length
		}
		dropped := min(p.bulk, len(buf)-n)
		n += dropped
		p.bulk -= dropped
		if p.bulk > 0 || len(buf)-n < 2 {
			p.drained += int64(n)
			return n, nil
		}
		if buf[n] != '\r' || buf[n+1] != '\n' {
			return n, protocolError("bulk string not followed by CRLF")
		}
		n += 2
		p.body = false
		p.left--
	}
	over := p.over
	if over.Query {
		over.Size = p.drained + int64(n)
	}
	p.over, p.drained = nil, 0
	return n, over
}
