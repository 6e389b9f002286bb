package sim

// lru evicts what was not used for longest.
type lru struct {
	capacity int64
	objects  map[uint64]*node
	queue    *list
}

func newLRU(capacity int64) Policy {
	return &lru{capacity: capacity, objects: map[uint64]*node{}, queue: newList(0)}
}

func (c *lru) Access(key uint64, size int64) bool {
	if n := c.objects[key]; n != nil {
		c.queue.moveFront(n)
		return true
	}
	if size > c.capacity {
		return false
	}
	for c.queue.bytes+size > c.capacity {
		n := c.queue.back()
		c.queue.remove(n)
		delete(c.objects, n.key)
	}
	n := &node{key: key, size: size}
	c.objects[key] = n
	c.queue.pushFront(n)
	return false
}

// sieve is SIEVE: a FIFO whose hand goes from the oldest to the newest, spares
// what was read since it last came by, and evicts the first that was not (Zhang
// and others, NSDI 2024).
type sieve struct {
	capacity int64
	objects  map[uint64]*node
	queue    *list
	hand     *node
}

func newSieve(capacity int64) Policy {
	return &sieve{capacity: capacity, objects: map[uint64]*node{}, queue: newList(0)}
}

func (c *sieve) Access(key uint64, size int64) bool {
	if n := c.objects[key]; n != nil {
		n.freq = 1
		return true
	}
	if size > c.capacity {
		return false
	}
	for c.queue.bytes+size > c.capacity {
		c.evict()
	}
	n := &node{key: key, size: size}
	c.objects[key] = n
	c.queue.pushFront(n)
	return false
}

func (c *sieve) evict() {
	n := c.hand
	if n == nil {
		n = c.queue.back()
	}
	for n.freq > 0 {
		n.freq = 0
		if n = c.queue.newer(n); n == nil {
			n = c.queue.back()
		}
	}
	c.hand = c.queue.newer(n)
	c.queue.remove(n)
	delete(c.objects, n.key)
}
