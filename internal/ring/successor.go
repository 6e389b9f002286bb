package ring

// Successors returns for every slot the node that owns it when its present
// owner t[s] is gone: the owner that p gives for the nodes without t[s]. A
// slot without an owner, or without anybody else to take it, has NoOwner.
// Indexes are those of nodes. It costs one placement per owner; the two rings
// hash and sort their tokens only once for all of them.
//
// Pins are the caller's: without the pinned node the placement has the slot here.
func Successors(p Placement, nodes []Node, t *Table) *Table {
	if r, ok := p.(*ring); ok {
		return r.successors(nodes, t)
	}
	next := new(Table)
	next.Clear()
	rest := make([]Node, 0, len(nodes))
	without := new(Table)
	for gone, owns := range ownersOf(nodes, t) {
		if !owns {
			continue
		}
		rest = append(append(rest[:0], nodes[:gone]...), nodes[gone+1:]...)
		p.Place(rest, without)
		for s, i := range t {
			if int(i) != gone || without[s] == NoOwner {
				continue
			}
			next[s] = without[s]
			if int(without[s]) >= gone {
				next[s]++ // rest lacks one node before this one
			}
		}
	}
	return next
}

// ownersOf says which nodes own at least one slot.
func ownersOf(nodes []Node, t *Table) []bool {
	owns := make([]bool, len(nodes))
	for _, i := range t {
		if i != NoOwner {
			owns[i] = true
		}
	}
	return owns
}
