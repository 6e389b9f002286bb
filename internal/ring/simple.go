package ring

// modulo gives slot s to the node s mod N of those with positive weight, and
// knows no other weights. It stands here to be compared with: nearly every
// slot moves when N changes.
type modulo struct{}

func (modulo) Name() string { return NameModulo }

func (modulo) Place(nodes []Node, t *Table) {
	t.Clear()
	owners := make([]uint16, 0, len(nodes))
	for i := range nodes {
		if weightUnits(nodes[i].Weight) > 0 {
			owners = append(owners, uint16(i))
		}
	}
	if len(owners) == 0 {
		return
	}
	for s := range t {
		t[s] = owners[s%len(owners)]
	}
}

// contiguous gives every node one range, in the order of the nodes and in
// proportion to their weights: the layout that `redis-cli --cluster create`
// makes, with equal weights boundary for boundary.
type contiguous struct{}

func (contiguous) Name() string { return NameContiguous }

func (contiguous) Place(nodes []Node, t *Table) {
	t.Clear()
	var total uint64
	for i := range nodes {
		total += weightUnits(nodes[i].Weight)
	}
	if total == 0 {
		return
	}
	var sum uint64
	first := 0
	for i := range nodes {
		sum += weightUnits(nodes[i].Weight)
		end := int((2*Slots*sum + total) / (2 * total)) // rounded half up
		for s := first; s < end; s++ {
			t[s] = uint16(i)
		}
		first = max(first, end)
	}
}
