package sim

// s3fifo is S3-FIFO (Yang and others, SOSP 2023): new objects enter a small
// FIFO of a tenth of the capacity; what was read often enough there moves to
// the main FIFO, the rest leaves and is remembered in a ghost FIFO of nine
// tenths. A miss that the ghost remembers enters the main FIFO at once, which
// reinserts what was read since, up to three times. An object that is not
// smaller than the small queue is not admitted.
//
// Published figures come from two forms: libCacheSim's wants two reads in the
// small queue; several libraries want one, and have a ghost as large as the
// cache.
type s3fifo struct {
	capacity, smallCap, mainCap, ghostCap int64
	promote                               uint8

	objects            map[uint64]*node
	small, main, ghost *list
}

// Where an object of s3fifo is.
const (
	inSmall = iota
	inMain
	inGhost
)

func newS3FIFO(capacity int64) Policy  { return makeS3FIFO(capacity, capacity-capacity/10, 2) }
func newS3FIFO1(capacity int64) Policy { return makeS3FIFO(capacity, capacity, 1) }

func makeS3FIFO(capacity, ghost int64, promote uint8) *s3fifo {
	small := capacity / 10
	return &s3fifo{
		capacity: capacity, smallCap: small, mainCap: capacity - small, ghostCap: ghost, promote: promote,
		objects: map[uint64]*node{}, small: newList(0), main: newList(0), ghost: newList(0),
	}
}

func (c *s3fifo) Access(key uint64, size int64) bool {
	n := c.objects[key]
	if n != nil && n.state != inGhost {
		n.freq = min(n.freq+1, 100)
		return true
	}
	remembered := n != nil
	if remembered {
		c.ghost.remove(n)
		delete(c.objects, key)
	}
	if size > c.capacity || !remembered && size >= c.smallCap {
		return false
	}
	for c.small.bytes+c.main.bytes+size > c.capacity {
		if c.main.bytes > c.mainCap || c.small.bytes == 0 {
			c.evictMain()
		} else {
			c.evictSmall()
		}
	}
	n = &node{key: key, size: size, state: inSmall}
	c.objects[key] = n
	if remembered {
		n.state = inMain
		c.main.pushFront(n)
	} else {
		c.small.pushFront(n)
	}
	return false
}

func (c *s3fifo) evictSmall() {
	for n := c.small.back(); n != nil; n = c.small.back() {
		c.small.remove(n)
		if n.freq >= c.promote {
			n.freq, n.state = 0, inMain
			c.main.pushFront(n)
			continue
		}
		c.remember(n)
		return
	}
}

func (c *s3fifo) remember(n *node) {
	if n.size > c.ghostCap {
		delete(c.objects, n.key)
		return
	}
	for c.ghost.bytes+n.size > c.ghostCap {
		old := c.ghost.back()
		c.ghost.remove(old)
		delete(c.objects, old.key)
	}
	n.state = inGhost
	c.ghost.pushFront(n)
}

func (c *s3fifo) evictMain() {
	for n := c.main.back(); n != nil; n = c.main.back() {
		c.main.remove(n)
		if n.freq == 0 {
			delete(c.objects, n.key)
			return
		}
		n.freq = min(n.freq, 3) - 1
		c.main.pushFront(n)
	}
}
