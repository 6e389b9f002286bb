package sim

// arc is ARC (Megiddo and Modha, FAST 2003): two LRU lists, of objects seen once
// (t1) and more often (t2), each with a ghost list (b1, b2); a hit in a ghost
// moves the target p of t1.
type arc struct {
	capacity int64
	p        float64
	objects  map[uint64]*node
	lists    [4]*list // by state: t1, t2, b1, b2
}

// Where an object of arc is: an index of lists.
const (
	inT1 = iota
	inT2
	inB1
	inB2
)

func newARC(capacity int64) Policy {
	c := &arc{capacity: capacity, objects: map[uint64]*node{}}
	for i := range c.lists {
		c.lists[i] = newList(0)
	}
	return c
}

func (c *arc) bytes(state int) int64 { return c.lists[state].bytes }

func (c *arc) move(n *node, state uint8) {
	c.lists[n.state].remove(n)
	n.state = state
	c.lists[state].pushFront(n)
}

func (c *arc) drop(n *node) {
	c.lists[n.state].remove(n)
	delete(c.objects, n.key)
}

func (c *arc) Access(key uint64, size int64) bool {
	n := c.objects[key]
	switch {
	case n == nil:
		return c.miss(key, size)
	case n.state == inT1 || n.state == inT2:
		c.move(n, inT2)
		return true
	}
	b1, b2 := float64(c.bytes(inB1)), float64(c.bytes(inB2))
	fromB2 := n.state == inB2
	if fromB2 {
		c.p = max(c.p-max(b1/b2, 1), 0)
	} else {
		c.p = min(c.p+max(b2/b1, 1), float64(c.capacity))
	}
	c.drop(n)
	for c.bytes(inT1)+c.bytes(inT2)+size > c.capacity {
		c.replace(fromB2)
	}
	c.insert(key, size, inT2)
	return false
}

func (c *arc) insert(key uint64, size int64, state uint8) {
	n := &node{key: key, size: size, state: state}
	c.objects[key] = n
	c.lists[state].pushFront(n)
}

// miss is the paper's case IV: the object is in no list.
func (c *arc) miss(key uint64, size int64) bool {
	if size > c.capacity {
		return false
	}
	for c.bytes(inT1)+c.bytes(inT2)+size > c.capacity {
		if l1 := c.bytes(inT1) + c.bytes(inB1); l1+size > c.capacity {
			if n := c.lists[inB1].back(); n != nil {
				c.drop(n)
				c.replace(false)
			} else {
				c.drop(c.lists[inT1].back())
			}
			continue
		}
		if c.bytes(inT1)+c.bytes(inT2)+c.bytes(inB1)+c.bytes(inB2) >= 2*c.capacity {
			if n := c.lists[inB2].back(); n != nil {
				c.drop(n)
			}
		}
		c.replace(false)
	}
	c.insert(key, size, inT1)
	return false
}

// replace moves one object to a ghost list.
func (c *arc) replace(fromB2 bool) {
	t1 := float64(c.bytes(inT1))
	if t1 > 0 && (t1 > c.p || t1 == c.p && fromB2) || c.bytes(inT2) == 0 {
		c.move(c.lists[inT1].back(), inB1)
	} else {
		c.move(c.lists[inT2].back(), inB2)
	}
}
