package exec

import (
	"bytes"
	"math"

	"github.com/ringcache/ringcache/internal/command"
)

// setOptions are the options of SET and GETEX.
type setOptions struct {
	nx, xx, get, keepTTL, persist bool
	compare                       comparison
	with                          []byte // what the value or its digest is compared with
	expire                        []byte // the argument of EX, PX, EXAT or PXAT
	unit                          expireUnit
}

// expireUnit says how an expiration was given.
type expireUnit uint8

const (
	noExpire expireUnit = iota
	relSeconds
	relMillis
	absSeconds
	absMillis
)

// setKind says which options are allowed.
type setKind uint8

const (
	forSet setKind = iota
	forGetEx
	forMSetEx
)

// parse reads the options from position first on and answers a syntax error.
// As in Redis an option may be repeated, but not contradicted.
func (o *setOptions) parse(c *Call, first int, kind setKind) bool {
	writes := kind != forGetEx
	for i := first; i < len(c.Args); i++ {
		a := c.Args[i]
		var next []byte
		hasNext := i+1 < len(c.Args)
		if hasNext {
			next = c.Args[i+1]
		}
		compare := comparisonOf(a)
		switch unit := unitOf(a); {
		case unit != noExpire && hasNext && !o.keepTTL && !o.persist && (o.unit == noExpire || o.unit == unit):
			o.unit, o.expire = unit, next
			i++
		case kind == forGetEx && is(a, "PERSIST") && o.unit == noExpire:
			o.persist = true
		case writes && is(a, "NX") && !o.xx && o.compare == always:
			o.nx = true
		case writes && is(a, "XX") && !o.nx && o.compare == always:
			o.xx = true
		case kind == forSet && compare != always && hasNext && !o.nx && !o.xx && (o.compare == always || o.compare == compare):
			o.compare, o.with = compare, next
			i++
		case kind == forSet && is(a, "GET"):
			o.get = true
		case writes && is(a, "KEEPTTL") && o.unit == noExpire:
			o.keepTTL = true
		default:
			c.W.Error(errSyntax)
			return false
		}
	}
	return true
}

func unitOf(a []byte) expireUnit {
	switch {
	case is(a, "EX"):
		return relSeconds
	case is(a, "PX"):
		return relMillis
	case is(a, "EXAT"):
		return absSeconds
	case is(a, "PXAT"):
		return absMillis
	}
	return noExpire
}

// deadline turns the expiration into absolute milliseconds, 0 without one, and
// answers if it is invalid.
func (o *setOptions) deadline(c *Call) (int64, bool) {
	if o.unit == noExpire {
		return 0, true
	}
	return c.deadline(o.expire, o.unit)
}

// deadline parses a time to live or a point in time that must be positive.
func (c *Call) deadline(arg []byte, unit expireUnit) (int64, bool) {
	n, ok := c.integer(arg)
	if !ok {
		return 0, false
	}
	seconds := unit == relSeconds || unit == absSeconds
	if n <= 0 || seconds && n > math.MaxInt64/1000 {
		invalidExpire(c)
		return 0, false
	}
	if seconds {
		n *= 1000
	}
	if unit == relSeconds || unit == relMillis {
		now := c.Tx.Now()
		if n > math.MaxInt64-now {
			invalidExpire(c)
			return 0, false
		}
		n += now
	}
	return n, true
}

// set: SET key value [NX | XX | IFEQ v | IFNE v | IFDEQ d | IFDNE d] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL].
// With a deadline in the past the engine removes the key.
func set(c *Call) {
	key, value := c.Args[1], c.Args[2]
	if len(c.Args) == 3 {
		c.store(key, value, 0)
		return
	}
	var o setOptions
	if !o.parse(c, 3, forSet) {
		return
	}
	deadline, ok := o.deadline(c)
	if !ok {
		return
	}
	mark := len(c.W.Buf)
	if o.get {
		writeValue(c, key)
	}
	if o.nx || o.xx || o.compare != always || o.keepTTL {
		it, found := c.Tx.Peek(key)
		holds, ok := o.compare.holds(it.Value, found, o.with)
		if !ok {
			c.W.Buf = c.W.Buf[:mark]
			c.W.Error(errDigest)
			return
		}
		if o.nx && found || o.xx && !found || !holds {
			if !o.get {
				c.W.Null()
			}
			return
		}
		if o.keepTTL && found {
			deadline = it.Deadline
		}
	}
	if err := c.Tx.Set(key, value, deadline); err != nil {
		c.W.Buf = c.W.Buf[:mark]
		refused(c, err, key, len(value))
		return
	}
	if !o.get {
		c.W.Simple("OK")
	}
}

// store sets a key and answers OK or why not.
func (c *Call) store(key, value []byte, deadline int64) {
	if err := c.Tx.Set(key, value, deadline); err != nil {
		refused(c, err, key, len(value))
		return
	}
	c.W.Simple("OK")
}

// setNX: SETNX key value
func setNX(c *Call) {
	if c.Tx.Has(c.Args[1]) {
		c.W.Int(0)
		return
	}
	if err := c.Tx.Set(c.Args[1], c.Args[2], 0); err != nil {
		refused(c, err, c.Args[1], len(c.Args[2]))
		return
	}
	c.W.Int(1)
}

// setEx: SETEX key seconds value, PSETEX key milliseconds value
func setEx(c *Call) {
	unit := relSeconds
	if c.Cmd.ID == command.PSetEx {
		unit = relMillis
	}
	if deadline, ok := c.deadline(c.Args[2], unit); ok {
		c.store(c.Args[1], c.Args[3], deadline)
	}
}

// mset: MSET key value [key value ...]
func mset(c *Call) {
	if c.pairsFit(1, len(c.Args)) && c.setPairs() {
		c.W.Simple("OK")
	}
}

// msetNX: MSETNX key value [key value ...]; a key that is named twice takes
// its last value.
func msetNX(c *Call) {
	if !c.pairsFit(1, len(c.Args)) {
		return
	}
	for i := 1; i < len(c.Args); i += 2 {
		if c.Tx.Has(c.Args[i]) {
			c.W.Int(0)
			return
		}
	}
	if c.setPairs() {
		c.W.Int(1)
	}
}

// pairsFit checks the pairs in args [from, to) before the first is set, so that
// a value above the limit leaves all keys as they were.
func (c *Call) pairsFit(from, to int) bool {
	if (to-from)%2 != 0 {
		WrongArity(c.W, c.Cmd.FullName())
		return false
	}
	maxKey, maxValue := c.Eng.MaxKey(), c.Eng.MaxValue()
	for i := from; i < to; i += 2 {
		if n := len(c.Args[i]); n > maxKey {
			tooLarge(c, "key", n, maxKey, hintKey)
			return false
		}
		if n := len(c.Args[i+1]); n > maxValue {
			tooLarge(c, "value", n, maxValue, hintValue)
			return false
		}
	}
	return true
}

// setPairs sets every pair and answers if one is refused: out of memory under
// noeviction, where the pairs before it stay.
func (c *Call) setPairs() bool {
	for i := 1; i < len(c.Args); i += 2 {
		if err := c.Tx.Set(c.Args[i], c.Args[i+1], 0); err != nil {
			refused(c, err, c.Args[i], len(c.Args[i+1]))
			return false
		}
	}
	return true
}

// delIfEq: DELIFEQ key value
func delIfEq(c *Call) {
	it, ok := c.Tx.Peek(c.Args[1])
	if !ok || !bytes.Equal(it.Value, c.Args[2]) {
		c.W.Int(0)
		return
	}
	c.Tx.Delete(c.Args[1])
	c.W.Int(1)
}
