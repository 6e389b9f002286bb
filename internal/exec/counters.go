package exec

import (
	"math"
	"strconv"

	"github.com/ringcache/ringcache/internal/resp"
)

// incr: INCR key
func incr(c *Call) { c.add(1) }

// decr: DECR key
func decr(c *Call) { c.add(-1) }

// incrBy: INCRBY key increment
func incrBy(c *Call) {
	if by, ok := c.integer(c.Args[2]); ok {
		c.add(by)
	}
}

// decrBy: DECRBY key decrement
func decrBy(c *Call) {
	by, ok := c.integer(c.Args[2])
	if !ok {
		return
	}
	if by == math.MinInt64 { // has no negative
		c.W.Error(errDecrOverflow)
		return
	}
	c.add(-by)
}

// add adds to the integer at the key, an absent key counting as 0, and keeps
// the deadline.
func (c *Call) add(by int64) {
	key := c.Args[1]
	it, found := c.Tx.Peek(key)
	var n int64
	if found {
		var ok bool
		if n, ok = resp.ParseInt(it.Value); !ok {
			c.W.Error(errNotInteger)
			return
		}
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		c.W.Error(errOverflow)
		return
	}
	n += by
	var room [20]byte
	value := strconv.AppendInt(room[:0], n, 10)
	if err := c.Tx.Set(key, value, it.Deadline); err != nil {
		refused(c, err, key, len(value))
		return
	}
	c.W.Int(n)
}

// incrByFloat: INCRBYFLOAT key increment
func incrByFloat(c *Call) {
	key := c.Args[1]
	it, found := c.Tx.Peek(key)
	var old extended
	if found {
		var ok bool
		if old, ok = parseExtended(it.Value); !ok {
			c.W.Error(errNotFloat)
			return
		}
	}
	by, ok := parseExtended(c.Args[2])
	if !ok {
		c.W.Error(errNotFloat)
		return
	}
	sum, ok := old.add(by)
	if !ok {
		c.W.Error(errNaN)
		return
	}
	value := sum.append(nil)
	if err := c.Tx.Set(key, value, it.Deadline); err != nil {
		refused(c, err, key, len(value))
		return
	}
	c.W.Bulk(value)
}
