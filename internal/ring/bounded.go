package ring

// ring places slots on the circle of tokens. A slot belongs to the first token
// clockwise (at its own position or after it) whose node is below its bound.
//
// The bound is that of Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing
// with Bounded Loads" (2018), which leaves open who comes first when a node has
// no room for all. Here slots are served in the order of their distance to the
// token, nearest first, and a slot that finds a node full queues again with the
// distance to the next token. So a node at its bound gives up the far ends of
// its arcs, which is also the part of an arc that the token of a joining node
// takes. With the same balance this moves fewer slots between old nodes on a
// join than slots served by number, by hash or token by token, and no more than
// deferred acceptance: at 20 nodes and 160 tokens 0.10 of the ideal number of
// moves against 0.12 to 0.13, at 50 nodes 0.18 against 0.21 to 0.22.
type ring struct {
	name   string
	tokens int
	bound  uint64 // in weightUnits of the fair share; 0 is no bound
}

func (r *ring) Name() string { return r.name }

func (r *ring) Place(nodes []Node, t *Table) {
	newCircle(nodes, r.tokens).place(t, r.bound, -1)
}

// successors computes the same as Successors, with the tokens hashed and sorted
// once: a node without room is passed over just like one that is not there.
func (r *ring) successors(nodes []Node, t *Table) *Table {
	next := new(Table)
	next.Clear()
	c := newCircle(nodes, r.tokens)
	without := new(Table)
	for gone, owns := range ownersOf(nodes, t) {
		if !owns {
			continue
		}
		c.place(without, r.bound, gone)
		for s, i := range t {
			if int(i) == gone {
				next[s] = without[s]
			}
		}
	}
	return next
}

// nobody ends a queue of slots; no slot has this number.
const nobody = 0xFFFF

// circle is the tokens of some nodes and the scratch memory of one placement
// at a time.
type circle struct {
	nodes  []Node
	tokens []token           // in the order of the circle
	first  *[Slots + 1]int32 // position -> first token there or later
	caps   []int             // slots that a node may own
	load   []int             // slots that a node owns so far
	want   [Slots]int32      // slot -> the token that it asks next
	queue  [Slots]slotQueue  // distance -> slots that ask a token so far away
	link   [Slots]uint16     // slot -> the one behind it in its queue
}

// slotQueue is a list of slots, first in first out, linked through circle.link.
type slotQueue struct{ head, tail uint16 }

func newCircle(nodes []Node, tokens int) *circle {
	c := &circle{nodes: nodes, caps: make([]int, len(nodes)), load: make([]int, len(nodes))}
	c.tokens, c.first = sortTokens(hashTokens(nodes, tokens), nodes)
	return c
}

// place fills t as if the node `without` (-1 for none) did not exist. Every
// slot finds an owner as soon as one node has weight: the caps add up to Slots
// at least, and a node with a cap has a token.
func (c *circle) place(t *Table, bound uint64, without int) {
	t.Clear()
	capacities(c.caps, c.nodes, bound, without)
	var room int
	for i, n := range c.caps {
		room += n
		c.load[i] = 0
	}
	if room == 0 {
		return
	}
	for d := range c.queue {
		c.queue[d] = slotQueue{nobody, nobody}
	}
	for s := range uint16(Slots) {
		c.enqueue(s, c.withRoom(c.first[s]))
	}
	left := Slots
	for d := 0; left > 0; d++ {
		// A slot that queues again does so at a greater distance.
		for s := c.queue[d].head; s != nobody; {
			following := c.link[s]
			k := c.withRoom(c.want[s])
			if c.distance(s, k) > d {
				c.enqueue(s, k)
			} else {
				node := c.tokens[k].node
				c.load[node]++
				t[s] = node
				left--
			}
			s = following
		}
	}
}

// withRoom returns the first token from k on, around the circle, whose node is
// below its cap; there must be one.
func (c *circle) withRoom(k int32) int32 {
	for {
		if int(k) == len(c.tokens) {
			k = 0
		}
		if node := c.tokens[k].node; c.load[node] < c.caps[node] {
			return k
		}
		k++
	}
}

// distance is the number of steps clockwise from a slot to a token.
func (c *circle) distance(s uint16, k int32) int {
	return (c.tokens[k].position() - int(s) + Slots) % Slots
}

// enqueue puts a slot at the end of the queue for its distance to token k.
func (c *circle) enqueue(s uint16, k int32) {
	q := &c.queue[c.distance(s, k)]
	if q.head == nobody {
		q.head = s
	} else {
		c.link[q.tail] = s
	}
	q.tail = s
	c.link[s] = nobody
	c.want[s] = k
}
