package resp

import "bytes"

// inline parses a command given as a plain line. The line ends with LF or CRLF.
func (p *Parser) inline(buf []byte, lim *Limits) ([][]byte, int, error) {
	window := buf[:min(len(buf), lim.MaxInline+1)]
	i := bytes.IndexByte(window[p.scan:], '\n')
	if i < 0 {
		p.scan, p.have = len(window), len(buf)
		if len(window) > lim.MaxInline {
			return nil, 0, protocolError("too big inline request")
		}
		return nil, 0, nil
	}
	end := p.scan + i
	p.scan = 0
	line := buf[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	args, ok := splitInline(p.args[:0], line)
	if !ok {
		return nil, 0, protocolError("unbalanced quotes in request")
	}
	p.args = args
	if len(args) > lim.MaxArgs {
		if lim.Unauthenticated {
			return nil, 0, protocolError("unauthenticated multibulk length")
		}
		return nil, 0, protocolError("invalid multibulk length")
	}
	return args, end + 1, nil
}

// splitInline appends the words of a line to args, by the rules of Redis's
// sdssplitargs: words are separated by white space; double quotes know the
// escapes \n \r \t \b \a \xHH and \ before any other byte; single quotes know \'
// only; a closing quote must be followed by white space or the end. It reports
// false for unbalanced quotes. Words are unquoted in place: the result never
// grows.
func splitInline(args [][]byte, line []byte) ([][]byte, bool) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return args, true
		}
		start, out := i, i // the word is line[start:out]
		for i < len(line) && !endsWord(line[i]) {
			if c := line[i]; c != '"' && c != '\'' {
				line[out] = c
				out++
				i++
				continue
			}
			var ok bool
			if i, out, ok = unquote(line, i, out); !ok {
				return args, false
			}
		}
		args = append(args, line[start:out:out])
	}
}

// unquote copies the quoted text that begins at line[i] to line[out:] and
// returns the offsets behind both.
func unquote(line []byte, i, out int) (int, int, bool) {
	quote := line[i]
	for i++; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			i++
			return i, out, i == len(line) || isSpace(line[i])
		case c != '\\' || i+1 == len(line):
		case quote == '"' && line[i+1] == 'x' && i+3 < len(line) && isHex(line[i+2]) && isHex(line[i+3]):
			c = hexDigit(line[i+2])<<4 | hexDigit(line[i+3])
			i += 3
		case quote == '"':
			i++
			c = unescape(line[i])
		case line[i+1] == '\'':
			i++
			c = '\''
		}
		line[out] = c
		out++
	}
	return i, out, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// isSpace is C's isspace in the C locale.
func isSpace(c byte) bool { return c == ' ' || c-'\t' < 5 }

// endsWord tells which bytes end an unquoted word: Redis takes fewer bytes here
// than it skips before a word.
func endsWord(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isHex(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 6 }

func hexDigit(c byte) byte {
	if c-'0' < 10 {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
