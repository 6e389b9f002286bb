package exec

// Values are composed in the free room of the reply buffer and cut off again
// before the reply is written, so that no other buffer is needed.

// appendValue: APPEND key value
func appendValue(c *Call) {
	key, tail := c.Args[1], c.Args[2]
	it, ok := c.Tx.Peek(key)
	if ok && !fits(c, int64(len(it.Value))+int64(len(tail))) {
		return
	}
	mark := len(c.W.Buf)
	buf := append(append(c.W.Buf, it.Value...), tail...)
	c.setComposed(key, buf, mark, it.Deadline)
}

// setComposed stores buf[mark:], keeps the grown buffer for later replies and
// answers the length of the value.
func (c *Call) setComposed(key, buf []byte, mark int, deadline int64) {
	size := len(buf) - mark
	err := c.Tx.Set(key, buf[mark:], deadline)
	c.W.Buf = buf[:mark]
	if err != nil {
		refused(c, err, key, size)
		return
	}
	c.W.Int(int64(size))
}

// setRange: SETRANGE key offset value. The gap is filled with zero bytes.
func setRange(c *Call) {
	offset, ok := c.integer(c.Args[2])
	if !ok {
		return
	}
	if offset < 0 {
		c.W.Error(errOffset)
		return
	}
	key, part := c.Args[1], c.Args[3]
	it, _ := c.Tx.Peek(key)
	if len(part) == 0 {
		c.W.Int(int64(len(it.Value)))
		return
	}
	// Compared without adding: offset may be the greatest integer.
	if offset > protoMaxBulkLen-int64(len(part)) {
		c.W.Error(errStringTooLong)
		return
	}
	end := int(offset) + len(part)
	size := max(end, len(it.Value))
	if !fits(c, int64(size)) {
		return
	}
	mark := len(c.W.Buf)
	buf := append(c.W.Buf, it.Value...)
	if grow := size - len(it.Value); grow > 0 {
		buf = append(buf, make([]byte, grow)...)
	}
	copy(buf[mark+int(offset):], part)
	c.setComposed(key, buf, mark, it.Deadline)
}

// getRange: GETRANGE key start end, SUBSTR key start end. Both ends count and
// may be negative, from the end.
func getRange(c *Call) {
	start, ok := c.integer(c.Args[2])
	if !ok {
		return
	}
	end, ok := c.integer(c.Args[3])
	if !ok {
		return
	}
	it, _ := c.Tx.Get(c.Args[1])
	n := int64(len(it.Value))
	if start < 0 && end < 0 && start > end {
		c.W.BulkString("")
		return
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if start > end || n == 0 {
		c.W.BulkString("")
		return
	}
	c.W.Bulk(it.Value[start : end+1])
}
