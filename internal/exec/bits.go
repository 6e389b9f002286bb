package exec

import (
	"math/bits"

	"github.com/ringcache/ringcache/internal/resp"
)

// Bit 0 of a value is the highest bit of its first byte; what lies beyond the
// end counts as zero.

// bitOffset parses the place of a bit and answers if there is none. With width
// above 0 an offset of the form #n counts fields of that many bits.
func (c *Call) bitOffset(arg []byte, width int64) (int64, bool) {
	hash := width > 0 && len(arg) > 0 && arg[0] == '#'
	if hash {
		arg = arg[1:]
	}
	n, ok := resp.ParseInt(arg)
	if ok && hash {
		hi, lo := bits.Mul64(uint64(n), uint64(width))
		ok = n >= 0 && hi == 0 && lo < 8*protoMaxBulkLen
		n = int64(lo)
	}
	if !ok || n < 0 || n>>3 >= protoMaxBulkLen {
		c.W.Error(errBitOffset)
		return 0, false
	}
	return n, true
}

// setBit: SETBIT key offset value
func setBit(c *Call) {
	at, ok := c.bitOffset(c.Args[2], 0)
	if !ok {
		return
	}
	on, ok := resp.ParseInt(c.Args[3])
	if !ok || on&^1 != 0 {
		c.W.Error(errBitValue)
		return
	}
	key := c.Args[1]
	it, found := c.Tx.Peek(key)
	index, shift := int(at>>3), 7-uint(at&7)
	var old byte
	if index < len(it.Value) {
		old = it.Value[index] >> shift & 1
		if old == byte(on) {
			c.W.Int(int64(old))
			return
		}
	}
	if !fits(c, max(at>>3+1, int64(len(it.Value)))) {
		return
	}
	mark := len(c.W.Buf)
	buf := padded(c.W.Buf, it.Value, index+1)
	buf[mark+index] = buf[mark+index]&^(1<<shift) | byte(on)<<shift
	if c.storeComposed(key, buf, mark, deadlineOf(it.Deadline, found)) {
		c.W.Int(int64(old))
	}
}

// padded appends value to buf, with zero bytes behind it up to size.
func padded(buf, value []byte, size int) []byte {
	buf = append(buf, value...)
	if more := size - len(value); more > 0 {
		buf = append(buf, make([]byte, more)...)
	}
	return buf
}

func deadlineOf(deadline int64, found bool) int64 {
	if !found {
		return 0
	}
	return deadline
}

// storeComposed stores buf[mark:] and keeps the grown buffer for later replies.
// It reports false when it has answered that the value was refused.
func (c *Call) storeComposed(key, buf []byte, mark int, deadline int64) bool {
	size := len(buf) - mark
	err := c.Tx.Set(key, buf[mark:], deadline)
	c.W.Buf = buf[:mark]
	if err != nil {
		refused(c, err, key, size)
		return false
	}
	return true
}

// getBit: GETBIT key offset
func getBit(c *Call) {
	at, ok := c.bitOffset(c.Args[2], 0)
	if !ok {
		return
	}
	it, _ := c.Tx.Get(c.Args[1])
	if at>>3 >= int64(len(it.Value)) {
		c.W.Int(0)
		return
	}
	c.W.Int(int64(it.Value[at>>3] >> (7 - uint(at&7)) & 1))
}

// bitRange is a part of a value that BITCOUNT and BITPOS look at.
type bitRange struct {
	start, end int64 // both count; of bytes, or of bits
	bit        bool
	endGiven   bool
}

// parse reads [start [end [BYTE | BIT]]] and answers if it is wrong.
func (r *bitRange) parse(c *Call, args [][]byte) bool {
	var ok bool
	if len(args) > 3 {
		c.W.Error(errSyntax)
		return false
	}
	r.end = -1
	if len(args) > 0 {
		if r.start, ok = c.integer(args[0]); !ok {
			return false
		}
	}
	if len(args) > 2 && !r.unit(c, args[2]) {
		return false
	}
	if len(args) > 1 {
		r.endGiven = true
		if r.end, ok = c.integer(args[1]); !ok {
			return false
		}
	}
	return true
}

func (r *bitRange) unit(c *Call, arg []byte) bool {
	switch {
	case is(arg, "BIT"):
		r.bit = true
	case !is(arg, "BYTE"):
		c.W.Error(errSyntax)
		return false
	}
	return true
}

// bits turns the range into bits [from, to) of a value of size bytes; nothing
// is left if from is not below to.
func (r *bitRange) bits(size int64) (from, to int64) {
	if r.bit {
		size *= 8
	}
	start, end := r.start, r.end
	if start < 0 {
		start = max(start+size, 0)
	}
	if end < 0 {
		end = max(end+size, 0)
	}
	end = min(end, size-1)
	if start > end {
		return 0, 0
	}
	if r.bit {
		return start, end + 1
	}
	return start * 8, (end + 1) * 8
}

// bitCount: BITCOUNT key [start end [BYTE | BIT]]
func bitCount(c *Call) {
	it, found := c.Tx.Get(c.Args[1])
	if !found {
		c.W.Int(0)
		return
	}
	args := c.Args[2:]
	if len(args) == 1 || len(args) > 3 {
		c.W.Error(errSyntax)
		return
	}
	r := bitRange{end: -1}
	if len(args) > 0 && !r.parse(c, args[:2]) {
		return
	}
	if len(args) > 0 && r.start < 0 && r.end < 0 && r.start > r.end { // the unit is not looked at then
		c.W.Int(0)
		return
	}
	if len(args) == 3 && !r.unit(c, args[2]) {
		return
	}
	from, to := r.bits(int64(len(it.Value)))
	c.W.Int(countBits(it.Value, from, to))
}

// countBits counts the ones in [from, to).
func countBits(v []byte, from, to int64) int64 {
	if from >= to {
		return 0
	}
	first, last := from>>3, (to-1)>>3
	head := byte(0xff) >> uint(from&7)
	tail := byte(0xff) << uint(7-(to-1)&7)
	if first == last {
		return int64(bits.OnesCount8(v[first] & head & tail))
	}
	n := bits.OnesCount8(v[first]&head) + bits.OnesCount8(v[last]&tail)
	v = v[first+1 : last]
	for ; len(v) >= 8; v = v[8:] {
		n += bits.OnesCount64(word(v))
	}
	for _, b := range v {
		n += bits.OnesCount8(b)
	}
	return int64(n)
}

// bitPos: BITPOS key bit [start [end [BYTE | BIT]]]
func bitPos(c *Call) {
	bit, ok := c.integer(c.Args[2])
	if !ok {
		return
	}
	if bit&^1 != 0 {
		c.W.Error(errBitArgument)
		return
	}
	it, found := c.Tx.Get(c.Args[1])
	if !found { // an endless row of zeros
		c.W.Int(-bit)
		return
	}
	var r bitRange
	if !r.parse(c, c.Args[3:]) {
		return
	}
	size := int64(len(it.Value))
	from, to := r.bits(size)
	if from >= to {
		c.W.Int(-1)
		return
	}
	at := findBit(it.Value, from, to, byte(bit))
	if at < 0 && bit == 0 && !r.endGiven {
		at = size * 8 // the first zero of those that follow the value
	}
	c.W.Int(at)
}

// findBit returns the place of the first bit in [from, to) that is equal to
// bit, or -1.
func findBit(v []byte, from, to int64, bit byte) int64 {
	flip := bit - 1 // all ones when zeros are searched
	i, last := from>>3, (to-1)>>3
	if b := (v[i] ^ flip) & (0xff >> uint(from&7)); b != 0 {
		return within(i*8+int64(bits.LeadingZeros8(b)), to)
	}
	var skip uint64 // eight bytes without such a bit
	if bit == 0 {
		skip = ^uint64(0)
	}
	for i++; i+8 <= last && word(v[i:]) == skip; i += 8 {
	}
	for ; i <= last; i++ {
		if b := v[i] ^ flip; b != 0 {
			return within(i*8+int64(bits.LeadingZeros8(b)), to)
		}
	}
	return -1
}

func within(at, to int64) int64 {
	if at >= to {
		return -1
	}
	return at
}
