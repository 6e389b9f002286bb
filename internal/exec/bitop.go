package exec

import "encoding/binary"

// word reads eight bytes; their order does not matter to those who call it.
func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// bitOp: BITOP AND | OR | XOR | NOT destkey key [key ...]. Shorter values count
// as filled up with zeros. The result is composed in the free room of the
// reply buffer.
func bitOp(c *Call) {
	var op func(dst, src []byte)
	switch name := c.Args[1]; {
	case is(name, "AND"):
		op = bitAnd
	case is(name, "OR"):
		op = bitOr
	case is(name, "XOR"):
		op = bitXor
	case is(name, "NOT"):
		if len(c.Args) != 4 {
			c.W.Error(errBitOpNot)
			return
		}
	default:
		c.W.Error(errSyntax)
		return
	}
	mark := len(c.W.Buf)
	it, _ := c.Tx.Get(c.Args[3])
	buf := append(c.W.Buf, it.Value...)
	if op == nil {
		bitNot(buf[mark:])
	}
	for _, key := range c.Args[4:] {
		it, _ := c.Tx.Get(key)
		buf = padded(buf, nil, len(it.Value)-(len(buf)-mark))
		op(buf[mark:], it.Value)
	}
	dest, size := c.Args[2], len(buf)-mark
	if size == 0 {
		c.Tx.Delete(dest)
		c.W.Int(0)
		return
	}
	if c.storeComposed(dest, buf, mark, 0) {
		c.W.Int(int64(size))
	}
}

// The operations write to dst, which is at least as long as src.

func bitAnd(dst, src []byte) {
	clear(dst[len(src):])
	i := 0
	for ; i+8 <= len(src); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], word(dst[i:])&word(src[i:]))
	}
	for ; i < len(src); i++ {
		dst[i] &= src[i]
	}
}

func bitOr(dst, src []byte) {
	i := 0
	for ; i+8 <= len(src); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], word(dst[i:])|word(src[i:]))
	}
	for ; i < len(src); i++ {
		dst[i] |= src[i]
	}
}

func bitXor(dst, src []byte) {
	i := 0
	for ; i+8 <= len(src); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], word(dst[i:])^word(src[i:]))
	}
	for ; i < len(src); i++ {
		dst[i] ^= src[i]
	}
}

func bitNot(dst []byte) {
	i := 0
	for ; i+8 <= len(dst); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], ^word(dst[i:]))
	}
	for ; i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
}
