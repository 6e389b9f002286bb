package exec

import (
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// field is an integer of width bits anywhere in a value.
type field struct {
	at     int64 // its first, highest bit
	width  int64 // 1 to 64, to 63 without sign
	signed bool
}

type fieldVerb uint8

const (
	fieldGet fieldVerb = iota
	fieldSet
	fieldIncr
)

// overflow says what becomes of a result that its field cannot hold.
type overflow uint8

const (
	overflowWrap overflow = iota
	overflowSat
	overflowFail
)

// fieldOp is one operation of BITFIELD.
type fieldOp struct {
	field
	verb   fieldVerb
	policy overflow
	by     int64
}

// bitField: BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL]
// SET type offset value | INCRBY type offset increment ...], and BITFIELD_RO,
// which only has GET.
func bitField(c *Call) {
	// The operations are parsed twice, first to find faults and how far the
	// value will reach, so that nothing is kept in between.
	reach, n, ok := c.checkFields()
	if !ok {
		return
	}
	if reach < 0 {
		it, _ := c.Tx.Get(c.Args[1])
		c.W.Array(n)
		for p := (fields{at: 2}); p.next(c) == fieldFound; {
			c.W.Int(int64(p.op.read(it.Value)))
		}
		return
	}
	if c.Cmd.ID == command.BitFieldRO {
		c.W.Error(errBitFieldRO)
		return
	}
	it, found := c.Tx.Peek(c.Args[1])
	size := max(reach>>3+1, int64(len(it.Value)))
	if !fits(c, size) {
		return
	}
	// The value is composed in front of the reply, which moves to its place
	// once the value is stored.
	changed := size > int64(len(it.Value))
	mark := len(c.W.Buf)
	c.W.Buf = padded(c.W.Buf, it.Value, int(size))
	value := c.W.Buf[mark:]
	reply := len(c.W.Buf)
	c.W.Array(n)
	for p := (fields{at: 2}); p.next(c) == fieldFound; {
		if c.fieldOp(&p.op, value) {
			changed = true
		}
	}
	var err error
	if changed {
		err = c.Tx.Set(c.Args[1], value, deadlineOf(it.Deadline, found))
	}
	if err != nil {
		c.W.Buf = c.W.Buf[:mark]
		refused(c, err, c.Args[1], int(size))
		return
	}
	c.W.Buf = append(c.W.Buf[:mark], c.W.Buf[reply:]...)
}

// fields goes through the operations of BITFIELD.
type fields struct {
	at     int
	policy overflow
	op     fieldOp
}

type fieldState uint8

const (
	fieldFound fieldState = iota // op is the next operation
	fieldEnd
	fieldFault // answered
)

// next parses the next operation.
func (p *fields) next(c *Call) fieldState {
	for p.at < len(c.Args) {
		rest := c.Args[p.at+1:]
		p.op = fieldOp{policy: p.policy}
		used := 3
		switch word := c.Args[p.at]; {
		case is(word, "GET") && len(rest) >= 2:
			used = 2
		case is(word, "SET") && len(rest) >= 3:
			p.op.verb = fieldSet
		case is(word, "INCRBY") && len(rest) >= 3:
			p.op.verb = fieldIncr
		case is(word, "OVERFLOW") && len(rest) >= 1:
			var ok bool
			if p.policy, ok = parseOverflow(rest[0]); !ok {
				c.W.Error(errBitOverflow)
				return fieldFault
			}
			p.at += 2
			continue
		default:
			c.W.Error(errSyntax)
			return fieldFault
		}
		var ok bool
		if p.op.field, ok = c.field(rest[0], rest[1]); !ok {
			return fieldFault
		}
		if p.op.verb != fieldGet {
			if p.op.by, ok = c.integer(rest[2]); !ok {
				return fieldFault
			}
		}
		p.at += 1 + used
		return fieldFound
	}
	return fieldEnd
}

// checkFields returns the last bit that an operation writes, -1 without any,
// and the number of operations. It reports false when it has answered a fault.
func (c *Call) checkFields() (reach int64, n int, ok bool) {
	reach = -1
	p := fields{at: 2}
	for {
		switch p.next(c) {
		case fieldFault:
			return 0, 0, false
		case fieldEnd:
			return reach, n, true
		}
		n++
		if p.op.verb != fieldGet {
			reach = max(reach, p.op.at+p.op.width-1)
		}
	}
}

func parseOverflow(arg []byte) (overflow, bool) {
	switch {
	case is(arg, "WRAP"):
		return overflowWrap, true
	case is(arg, "SAT"):
		return overflowSat, true
	case is(arg, "FAIL"):
		return overflowFail, true
	}
	return 0, false
}

// field parses type and offset and answers if they are wrong.
func (c *Call) field(kind, offset []byte) (f field, ok bool) {
	if len(kind) > 0 && (kind[0] == 'i' || kind[0] == 'u') {
		f.signed = kind[0] == 'i'
		f.width, ok = resp.ParseInt(kind[1:])
	}
	if !ok || f.width < 1 || f.width > 64 || f.width == 64 && !f.signed {
		c.W.Error(errBitFieldType)
		return f, false
	}
	f.at, ok = c.bitOffset(offset, f.width)
	return f, ok
}

// read returns the bits of the field, the sign carried on to 64 bits.
func (f field) read(v []byte) uint64 {
	var n uint64
	for i, end := f.at, f.at+f.width; i < end; {
		// As much of one byte at a time as belongs to the field.
		take := min(8-i&7, end-i)
		var b byte
		if i>>3 < int64(len(v)) {
			b = v[i>>3]
		}
		n = n<<uint(take) | uint64(b>>uint(8-i&7-take))&(1<<uint(take)-1)
		i += take
	}
	if f.signed {
		free := uint(64 - f.width)
		n = uint64(int64(n<<free) >> free)
	}
	return n
}

// write stores the lower bits of n; v is long enough.
func (f field) write(v []byte, n uint64) {
	for end := f.at + f.width; end > f.at; {
		take := min((end-1)&7+1, end-f.at) // from the end of the field
		shift := uint(7 - (end-1)&7)
		mask := byte(1<<uint(take)-1) << shift
		b := &v[(end-1)>>3]
		*b = *b&^mask | byte(n<<shift)&mask
		n >>= uint(take)
		end -= take
	}
}

// sum gives old+by as the field holds it by the policy, and whether the true
// result lies outside.
func (f field) sum(old uint64, by int64, policy overflow) (n uint64, over bool) {
	var low, high uint64
	above, below := false, false
	if f.signed {
		hi := int64(1)<<uint(f.width-1) - 1
		lo := -hi - 1
		low, high = uint64(lo), uint64(hi)
		v := int64(old)
		// hi-v goes round for the lowest values of 64 bits, so SET takes them for
		// too large, as in Redis.
		above = v > hi || by > 0 && v > hi-by || f.width < 64 && by > hi-v
		below = v < lo || by < 0 && v < lo-by
	} else {
		high = 1<<uint(f.width) - 1
		above = old > high || by > 0 && uint64(by) > high-old
		below = by < 0 && uint64(-by) > old
	}
	switch {
	case !above && !below:
		return old + uint64(by), false
	case policy == overflowSat && above:
		return high, true
	case policy == overflowSat:
		return low, true
	}
	n = old + uint64(by)
	free := uint(64 - f.width)
	if f.signed {
		return uint64(int64(n<<free) >> free), true
	}
	return n << free >> free, true
}

// fieldOp executes one operation on value, appends its reply and reports
// whether it changed anything.
func (c *Call) fieldOp(op *fieldOp, value []byte) bool {
	old := op.read(value)
	var n uint64
	var over bool
	switch op.verb {
	case fieldGet:
		c.W.Int(int64(old)) // without a sign it has 63 bits at most
		return false
	case fieldSet:
		n, over = op.sum(uint64(op.by), 0, op.policy)
	default:
		n, over = op.sum(old, op.by, op.policy)
	}
	if over && op.policy == overflowFail {
		c.W.Null()
		return false
	}
	if op.verb == fieldSet {
		c.W.Int(int64(old))
	} else {
		c.W.Int(int64(n))
	}
	op.write(value, n)
	return n != old
}
