package exec

import (
	"math"

	"github.com/ringcache/ringcache/internal/command"
)

// expireFlags are the conditions of EXPIRE and its relatives.
type expireFlags struct{ nx, xx, gt, lt bool }

func (f *expireFlags) parse(c *Call) bool {
	for _, a := range c.Args[3:] {
		switch {
		case is(a, "NX"):
			f.nx = true
		case is(a, "XX"):
			f.xx = true
		case is(a, "GT"):
			f.gt = true
		case is(a, "LT"):
			f.lt = true
		default:
			unsupportedOption(c, a)
			return false
		}
	}
	switch {
	case f.nx && (f.xx || f.gt || f.lt):
		c.W.Error(errExpireNX)
		return false
	case f.gt && f.lt:
		c.W.Error(errExpireGTLT)
		return false
	}
	return true
}

// allow decides with the present deadline; none counts as infinitely far.
func (f *expireFlags) allow(present, wanted int64) bool {
	none := present == 0
	switch {
	case f.nx && !none, f.xx && none:
		return false
	case f.gt && (none || wanted <= present):
		return false
	case f.lt && !none && wanted >= present:
		return false
	}
	return true
}

// expire: EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT key time [NX | XX | GT | LT].
// A time in the past deletes the key.
func expire(c *Call) {
	var f expireFlags
	if !f.parse(c) {
		return
	}
	when, ok := c.when()
	if !ok {
		return
	}
	key := c.Args[1]
	if f != (expireFlags{}) {
		it, found := c.Tx.Peek(key)
		if !found || !f.allow(it.Deadline, when) {
			c.W.Int(0)
			return
		}
	}
	done := false
	if when <= c.Tx.Now() {
		done = c.Tx.Delete(key)
	} else {
		if done = c.Tx.SetDeadline(key, when); !done && c.Tx.Has(key) {
			c.W.Error(errNoMemory) // the key's first deadline takes room; see Txn.SetDeadline
			return
		}
	}
	c.writeBool(done)
}

// when parses the time argument into absolute milliseconds; unlike SET's it may
// be 0 or negative.
func (c *Call) when() (int64, bool) {
	n, ok := c.integer(c.Args[2])
	if !ok {
		return 0, false
	}
	seconds := c.Cmd.ID == command.Expire || c.Cmd.ID == command.ExpireAt
	if seconds {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			invalidExpire(c)
			return 0, false
		}
		n *= 1000
	}
	if c.Cmd.ID == command.Expire || c.Cmd.ID == command.PExpire {
		now := c.Tx.Now()
		if n > math.MaxInt64-now {
			invalidExpire(c)
			return 0, false
		}
		n += now
	}
	return n, true
}

// ttl: TTL, PTTL, EXPIRETIME, PEXPIRETIME key. -2 without the key, -1 without a
// deadline; seconds are rounded to the nearest.
func ttl(c *Call) {
	it, ok := c.Tx.Peek(c.Args[1])
	switch {
	case !ok:
		c.W.Int(-2)
		return
	case it.Deadline == 0:
		c.W.Int(-1)
		return
	}
	left := max(it.Deadline-c.Tx.Now(), 0)
	switch c.Cmd.ID {
	case command.TTL:
		c.W.Int(seconds(left))
	case command.PTTL:
		c.W.Int(left)
	case command.ExpireTime:
		c.W.Int(seconds(it.Deadline))
	default:
		c.W.Int(it.Deadline)
	}
}

// seconds rounds milliseconds to the nearest second without overflow.
func seconds(ms int64) int64 { return ms/1000 + (ms%1000+500)/1000 }

// persist: PERSIST key
func persist(c *Call) {
	it, ok := c.Tx.Peek(c.Args[1])
	c.writeBool(ok && it.Deadline != 0 && c.Tx.SetDeadline(c.Args[1], 0))
}

func (c *Call) writeBool(b bool) {
	if b {
		c.W.Int(1)
		return
	}
	c.W.Int(0)
}
