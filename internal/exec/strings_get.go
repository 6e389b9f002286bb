package exec

// get: GET key
func get(c *Call) {
	writeValue(c, c.Args[1])
}

// writeValue appends the value of a key, or null, and reports whether there is
// a value.
func writeValue(c *Call, key []byte) bool {
	it, ok := c.Tx.Get(key)
	if !ok {
		c.W.Null()
		return false
	}
	c.W.Bulk(it.Value)
	return true
}

// mget: MGET key [key ...]
func mget(c *Call) {
	mark := len(c.W.Buf)
	c.W.Array(len(c.Args) - 1)
	for _, key := range c.Args[1:] {
		writeValue(c, key)
		if TooLong(c.W, mark) {
			return
		}
	}
}

// getDel: GETDEL key
func getDel(c *Call) {
	if writeValue(c, c.Args[1]) {
		c.Tx.Delete(c.Args[1])
	}
}

// getSet: GETSET key value
func getSet(c *Call) {
	mark := len(c.W.Buf)
	writeValue(c, c.Args[1])
	if err := c.Tx.Set(c.Args[1], c.Args[2], 0); err != nil {
		c.W.Buf = c.W.Buf[:mark]
		refused(c, err, c.Args[1], len(c.Args[2]))
	}
}

// getEx: GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]
func getEx(c *Call) {
	var o setOptions
	if !o.parse(c, 2, forGetEx) {
		return
	}
	key := c.Args[1]
	it, ok := c.Tx.Get(key)
	if !ok {
		c.W.Null()
		return
	}
	deadline, ok := o.deadline(c)
	if !ok {
		return
	}
	c.W.Bulk(it.Value)
	switch {
	case deadline != 0 && deadline <= c.Tx.Now():
		c.Tx.Delete(key)
	case deadline != 0:
		c.Tx.SetDeadline(key, deadline)
	case o.persist && it.Deadline != 0:
		c.Tx.SetDeadline(key, 0)
	}
}

// strLen: STRLEN key
func strLen(c *Call) {
	it, _ := c.Tx.Get(c.Args[1])
	c.W.Int(int64(len(it.Value)))
}
