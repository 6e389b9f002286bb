package exec

import (
	"math"
	"strconv"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/glob"
	"github.com/ringcache/ringcache/internal/resp"
)

const (
	defaultScanCount = 10
	// maxScanCount bounds the work of one SCAN; a greater COUNT is taken as
	// this one, which a hint allows.
	maxScanCount = 1 << 16
)

// scan: SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
func scan(c *Call) {
	cursor, ok := parseCursor(c.Args[1])
	if !ok {
		c.W.Error(errInvalidCursor)
		return
	}
	count, pattern, typed := int64(defaultScanCount), []byte("*"), true
	for i := 2; i < len(c.Args); i += 2 {
		if i+1 >= len(c.Args) {
			c.W.Error(errSyntax)
			return
		}
		value := c.Args[i+1]
		switch {
		case is(c.Args[i], "COUNT"):
			if count, ok = c.integer(value); !ok {
				return
			}
			if count < 1 {
				c.W.Error(errSyntax)
				return
			}
		case is(c.Args[i], "MATCH"):
			pattern = value
		case is(c.Args[i], "TYPE"):
			typed = is(value, "STRING")
		default:
			c.W.Error(errSyntax)
			return
		}
	}
	if !patternFits(c, pattern) {
		return
	}
	mark, n, pat := len(c.W.Buf), 0, glob.New(pattern)
	next := c.Eng.Scan(cursor, int(min(count, maxScanCount)), func(key []byte, _ engine.Item) {
		if typed && !c.W.Over(mark) && pat.Match(key) {
			c.W.Bulk(key)
			n++
		}
	})
	if TooLong(c.W, mark) {
		return
	}
	var room [64]byte
	head := resp.Writer{Buf: room[:0], Proto: c.W.Proto}
	head.Array(2)
	var digits [20]byte
	head.Bulk(strconv.AppendUint(digits[:0], next, 10))
	head.Array(n)
	c.W.Insert(mark, head.Buf)
}

// parseCursor reads what C's strtoul reads: an optional sign, digits, and
// nothing for 0. A negative number wraps around.
func parseCursor(b []byte) (uint64, bool) {
	neg := false
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		neg = b[0] == '-'
		if b = b[1:]; len(b) == 0 {
			return 0, false
		}
	}
	var v uint64
	for _, d := range b {
		if !isDigit(d) || v > math.MaxUint64/10 {
			return 0, false
		}
		v *= 10
		if v > math.MaxUint64-uint64(d-'0') {
			return 0, false
		}
		v += uint64(d - '0')
	}
	if neg {
		v = -v
	}
	return v, true
}

// keys: KEYS pattern
func keys(c *Call) {
	if !patternFits(c, c.Args[1]) {
		return
	}
	mark, n, pat := len(c.W.Buf), 0, glob.New(c.Args[1])
	add := func(key []byte, _ engine.Item) {
		if !c.W.Over(mark) && pat.Match(key) {
			c.W.Bulk(key)
			n++
		}
	}
	for next := c.Eng.Scan(0, maxScanCount, add); next != 0 && !c.W.Over(mark); {
		next = c.Eng.Scan(next, maxScanCount, add)
	}
	if TooLong(c.W, mark) {
		return
	}
	var room [24]byte
	head := resp.Writer{Buf: room[:0], Proto: c.W.Proto}
	head.Array(n)
	c.W.Insert(mark, head.Buf)
}

// dbSize: DBSIZE
func dbSize(c *Call) { c.W.Int(c.Eng.Stats().ServedKeys) }

// randomKey: RANDOMKEY
func randomKey(c *Call) {
	mark := c.W.StartBulk()
	buf, ok := c.Eng.RandomKey(c.W.Buf)
	if !ok {
		c.W.CutBulk(mark)
		c.W.Null()
		return
	}
	c.W.Buf = buf
	c.W.EndBulk(mark)
}

// flush: FLUSHALL [ASYNC | SYNC], FLUSHDB [ASYNC | SYNC]; always at once.
func flush(c *Call) {
	if len(c.Args) > 2 || len(c.Args) == 2 && !is(c.Args[1], "ASYNC") && !is(c.Args[1], "SYNC") {
		c.W.Error(errSyntax)
		return
	}
	c.Eng.Flush()
	c.W.Simple("OK")
}

// serverTime: TIME. The clock counts milliseconds, so microseconds end in 000.
func serverTime(c *Call) {
	now := c.Eng.Now()
	var room [20]byte
	c.W.Array(2)
	c.W.Bulk(strconv.AppendInt(room[:0], now/1000, 10))
	c.W.Bulk(strconv.AppendInt(room[:0], now%1000*1000, 10))
}
