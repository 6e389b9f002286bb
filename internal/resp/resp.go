// Package resp turns bytes into Redis protocol (RESP2 and RESP3) values and
// back. It owns both directions of both sides: Parser reads the commands that a
// client sends, Writer appends replies, AppendCommand encodes requests and
// ReplyParser reads replies.
//
// It never touches a connection and knows no command. It never trusts a length:
// no memory is reserved because a header announces something; state grows only
// with bytes that arrived, up to the limits that the caller gives.
//
// Nothing here is safe for concurrent use: each Parser, Writer and ReplyParser
// belongs to one session or one link at a time.
package resp

import (
	"fmt"
	"math"
	"strconv"
)

// MaxProtoBulk is the greatest bulk length of the protocol, Redis's default
// proto-max-bulk-len: 512 MiB. A longer one is a protocol error.
const MaxProtoBulk = 512 << 20

// Limits bounds one incoming command. Every field must be positive; all sizes
// are bytes.
type Limits struct {
	// MaxArgs is the greatest number of arguments, the command name included.
	// More is a protocol error.
	MaxArgs int
	// MaxBulk is the longest argument that is buffered. A longer one, up to
	// MaxProtoBulk, is skipped and reported by a TooLargeError.
	MaxBulk int
	// MaxInline is the longest inline command and the longest header line,
	// without its line end; at least 32.
	MaxInline int
	// MaxQuery is the greatest size of a whole command as sent. A command that
	// would exceed it is skipped and reported by a TooLargeError.
	MaxQuery int
	// Unauthenticated makes arguments above MaxArgs, MaxBulk and MaxQuery
	// protocol errors with Redis's texts for clients that did not
	// authenticate, so that nothing of theirs is drained.
	Unauthenticated bool
}

// DefaultLimits returns the limits of an authenticated session whose longest
// argument is maxBulk bytes: 64 Ki arguments, inline commands of 64 KiB and
// whole commands of 64 MiB (never less than one longest argument).
func DefaultLimits(maxBulk int) Limits {
	return Limits{
		MaxArgs:   64 << 10,
		MaxBulk:   maxBulk,
		MaxInline: 64 << 10,
		MaxQuery:  max(64<<20, maxBulk+64<<10),
	}
}

// PreAuthLimits returns the limits of a session that has not authenticated yet:
// 10 arguments of at most 16 KiB, and 1 MiB for a whole command.
func PreAuthLimits() Limits {
	return Limits{
		MaxArgs:         10,
		MaxBulk:         16 << 10,
		MaxInline:       16 << 10,
		MaxQuery:        1 << 20,
		Unauthenticated: true,
	}
}

// ProtocolError says that the bytes are not valid RESP or break a hard limit.
// The stream cannot be read any further. Error returns Redis's text, without
// the error code "ERR".
type ProtocolError struct{ text string }

// Error returns Redis's text, for example "Protocol error: invalid bulk length".
func (e *ProtocolError) Error() string { return "Protocol error: " + e.text }

func protocolError(format string, a ...any) *ProtocolError {
	return &ProtocolError{text: fmt.Sprintf(format, a...)}
}

// TooLargeError says that a well-formed command was read to its end but thrown
// away, because an argument or the whole command is above its limit. The stream
// goes on after it.
type TooLargeError struct {
	// Command is the command name as sent, cut to 32 bytes; empty if it was
	// itself too long.
	Command string
	// Size is the length of the first argument above the limit, or of the
	// whole command if Query is set.
	Size int64
	// Limit is Limits.MaxBulk, or Limits.MaxQuery if Query is set.
	Limit int
	// Query tells that the command as a whole is too large.
	Query bool
}

// Error names size and limit in bytes.
func (e *TooLargeError) Error() string {
	what := "value"
	if e.Query {
		what = "command"
	}
	return fmt.Sprintf("%s is %d bytes, limit %d", what, e.Size, e.Limit)
}

// AppendCommand appends a command in RESP (an array of bulk strings) to dst.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	dst = appendHeader(dst, '*', len(args))
	for _, a := range args {
		dst = appendHeader(dst, '$', len(a))
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// AppendCommandStrings is AppendCommand for strings.
func AppendCommandStrings(dst []byte, args ...string) []byte {
	dst = appendHeader(dst, '*', len(args))
	for _, a := range args {
		dst = appendHeader(dst, '$', len(a))
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// appendHeader appends a type byte, a number and CRLF.
func appendHeader(dst []byte, kind byte, n int) []byte {
	if uint(n) < 10 {
		return append(dst, kind, byte('0'+n), '\r', '\n')
	}
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// ParseInt reads a decimal integer exactly as Redis's string2ll does: no plus
// sign, no leading zeros, no spaces, no "-0", within 64 bits.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	if len(b) == 1 && b[0] == '0' {
		return 0, true
	}
	neg := b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		d := c - '0'
		if d > 9 || v > (math.MaxUint64-9)/10 {
			return 0, false
		}
		v = v*10 + uint64(d)
	}
	switch {
	case neg && v <= 1<<63:
		return -int64(v), true
	case !neg && v < 1<<63:
		return int64(v), true
	}
	return 0, false
}
