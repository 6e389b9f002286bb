package sim

// lirs is LIRS (Jiang and Zhang, SIGMETRICS 2002): objects of low inter-reference
// recency (lir) have 99 % of the capacity; the others pass through a queue of 1 %.
// The stack orders both, and objects that left the queue, by recency; it is
// bounded to twice the capacity.
type lirs struct {
	capacity, lirCap, hirCap int64
	lirBytes                 int64

	objects map[uint64]*node
	stack   *list // its oldest object is lir
	queue   *list // resident objects that are not lir
	gone    *list // objects of the stack that are not resident
}

// What an object of lirs is.
const (
	isLIR = iota
	isHIR
	isGone
)

func newLIRS(capacity int64) Policy {
	hir := max(1, capacity/100)
	return &lirs{
		capacity: capacity, lirCap: capacity - hir, hirCap: hir,
		objects: map[uint64]*node{}, stack: newList(0), queue: newList(1), gone: newList(2),
	}
}

func (c *lirs) Access(key uint64, size int64) bool {
	defer c.limit()
	n := c.objects[key]
	switch {
	case n == nil:
		c.insert(key, size)
		return false
	case n.state == isLIR:
		c.stack.moveFront(n)
		c.prune()
		return true
	case n.state == isGone:
		c.stack.moveFront(n)
		c.gone.remove(n)
		c.promote(n)
		return false
	case c.stack.has(n):
		c.stack.moveFront(n)
		c.queue.remove(n)
		c.promote(n)
		return true
	}
	c.stack.pushFront(n)
	c.queue.moveFront(n)
	return true
}

func (c *lirs) insert(key uint64, size int64) {
	if size > c.lirCap || size > c.hirCap {
		return
	}
	n := &node{key: key, size: size, state: isLIR}
	if c.lirBytes+size <= c.lirCap {
		c.lirBytes += size
	} else {
		c.queueUp(n)
	}
	c.objects[key] = n
	c.stack.pushFront(n)
}

// queueUp makes n the newest object that is resident and not lir.
func (c *lirs) queueUp(n *node) {
	for c.queue.bytes+n.size > c.hirCap {
		old := c.queue.back()
		c.queue.remove(old)
		if c.stack.has(old) {
			old.state = isGone
			c.gone.pushFront(old)
		} else {
			delete(c.objects, old.key)
		}
	}
	n.state = isHIR
	c.queue.pushFront(n)
}

// promote makes n, which is on top of the stack, lir.
func (c *lirs) promote(n *node) {
	for c.lirBytes+n.size > c.lirCap {
		c.demote()
	}
	n.state = isLIR
	c.lirBytes += n.size
	c.prune()
}

// demote moves the oldest lir object to the queue.
func (c *lirs) demote() {
	c.prune()
	n := c.stack.back()
	c.stack.remove(n)
	c.lirBytes -= n.size
	if n.size <= c.hirCap {
		c.queueUp(n)
	} else {
		delete(c.objects, n.key)
	}
	c.prune()
}

// prune removes what is older in the stack than every lir object.
func (c *lirs) prune() {
	for n := c.stack.back(); n != nil && n.state != isLIR; n = c.stack.back() {
		c.stack.remove(n)
		if n.state == isGone {
			c.gone.remove(n)
			delete(c.objects, n.key)
		}
	}
}

// limit bounds the stack by forgetting the objects that left longest ago.
func (c *lirs) limit() {
	for c.stack.bytes > 2*c.capacity {
		n := c.gone.back()
		if n == nil {
			return
		}
		c.gone.remove(n)
		c.stack.remove(n)
		delete(c.objects, n.key)
	}
}
