package exec

import (
	"errors"
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// The error texts of Redis, word by word: clients match them.
const (
	errSyntax         = "ERR syntax error"
	errNotInteger     = "ERR value is not an integer or out of range"
	errNotFloat       = "ERR value is not a valid float"
	errOverflow       = "ERR increment or decrement would overflow"
	errDecrOverflow   = "ERR decrement would overflow"
	errNaN            = "ERR increment would produce NaN or Infinity"
	errNoSuchKey      = "ERR no such key"
	errSameObject     = "ERR source and destination objects are the same"
	errOffset         = "ERR offset is out of range"
	errStringTooLong  = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errNoMemory       = "OOM command not allowed when used memory > 'maxmemory'."
	errInvalidCursor  = "ERR invalid cursor"
	errExpireNX       = "ERR NX and XX, GT or LT options at the same time are not compatible"
	errExpireGTLT     = "ERR GT and LT options at the same time are not compatible"
	errDBIndex        = "ERR DB index is out of range"
	errCopyDB         = "ERR Copying to another database is not allowed in cluster mode"
	errIntRange       = "ERR value is out of range, value must between -2147483648 and 2147483647"
	errFreqNotTracked = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. " +
		"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	errBitOffset      = "ERR bit offset is not an integer or out of range"
	errBitValue       = "ERR bit is not an integer or out of range"
	errBitArgument    = "ERR The bit argument must be 1 or 0."
	errBitOpNot       = "ERR BITOP NOT must be called with a single source key."
	errBitFieldType   = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
	errBitOverflow    = "ERR Invalid OVERFLOW type specified"
	errBitFieldRO     = "ERR BITFIELD_RO only supports the GET subcommand"
	errLCSBoth        = "ERR If you want both the length and indexes, please just use IDX."
	errDigest         = "ERR must be exactly 16 hexadecimal characters"
	errCondition      = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
	errNumKeys        = "ERR invalid numkeys value"
	errPairs          = "ERR wrong number of key-value pairs"
	errIdleNotTracked = "ERR An LFU maxmemory policy is selected, idle time not tracked. " +
		"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
)

// protoMaxBulkLen is Redis's default limit of one string. Values end earlier,
// at the engine's limit, but beyond this one the text is Redis's.
const protoMaxBulkLen = 512 << 20

// maxEcho bounds how much of an argument an error text repeats.
const maxEcho = 128

func echo(b []byte) string { return string(b[:min(len(b), maxEcho)]) }

// TooLong replaces the reply since mark by an error if it is above the limit of
// the session.
func TooLong(w *resp.Writer, mark int) bool {
	if !w.Over(mark) {
		return false
	}
	w.Buf = w.Buf[:mark]
	w.Error("RCTOOLARGE the reply is above " + strconv.Itoa(w.Limit) +
		" bytes, the output limit of a session; ask for fewer keys at once, or raise output-limit")
	return true
}

// invalidExpire answers a time to live that is no time to live.
func invalidExpire(c *Call) {
	c.W.Error("ERR invalid expire time in '" + c.Cmd.FullName() + "' command")
}

func unsupportedOption(c *Call, option []byte) {
	c.W.Error("ERR Unsupported option " + echo(option))
}

// WrongArity writes Redis's answer to a wrong number of arguments; name is the
// full name as in "object|encoding".
func WrongArity(w *resp.Writer, name string) {
	w.Error("ERR wrong number of arguments for '" + name + "' command")
}

// UnknownSubcommand writes Redis's answer to an unknown subcommand.
func UnknownSubcommand(w *resp.Writer, container *command.Command, sub []byte) {
	w.Error("ERR unknown subcommand '" + echo(sub) + "'. Try " + upper(container.Name) + " HELP.")
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
	return string(b)
}

// tooLarge answers a key, value or pattern that is above its limit.
func tooLarge(c *Call, what string, size, limit int, hint string) {
	c.W.Error("RCTOOLARGE " + what + " is " + strconv.Itoa(size) + " bytes, limit " + strconv.Itoa(limit) + "; " + hint)
}

const (
	hintValue   = "raise max-value on every node or store the value in parts"
	hintKey     = "use a shorter key"
	hintPattern = "use a shorter pattern"
)

// refused answers an error of Txn.Set. The reply of the command must not have
// been begun, or must have been cut off.
func refused(c *Call, err error, key []byte, size int) {
	switch {
	case errors.Is(err, errs.ErrTooLarge) && len(key) > c.Eng.MaxKey():
		tooLarge(c, "key", len(key), c.Eng.MaxKey(), hintKey)
	case errors.Is(err, errs.ErrTooLarge):
		tooLarge(c, "value", size, c.Eng.MaxValue(), hintValue)
	case errors.Is(err, errs.ErrNoMemory):
		c.W.Error(errNoMemory)
	default:
		c.W.Error("ERR " + err.Error())
	}
}

// fits checks a size of a value that is not built yet, and answers if it is
// too large. size is at least 0 and may be far beyond memory.
func fits(c *Call, size int64) bool {
	if size > protoMaxBulkLen {
		c.W.Error(errStringTooLong)
		return false
	}
	if limit := c.Eng.MaxValue(); size > int64(limit) {
		tooLarge(c, "value", int(size), limit, hintValue)
		return false
	}
	return true
}
