package ring

// Pin gives one slot to one node, whatever the placement says.
type Pin struct {
	Slot uint16
	Node string // node ID, 40 hex digits
}

// Apply lays pins over a placement. A pin whose node is not among nodes, or
// whose slot does not exist, is ignored; of several pins for one slot the last
// one counts. Pins do not change where other slots lie, so a pinned node may
// exceed its bound.
func Apply(t *Table, nodes []Node, pins []Pin) {
	if len(pins) == 0 {
		return
	}
	index := indexByID(nodes)
	for _, p := range pins {
		if i, ok := index[p.Node]; ok && p.Slot < Slots {
			t[p.Slot] = i
		}
	}
}

func indexByID(nodes []Node) map[string]uint16 {
	index := make(map[string]uint16, len(nodes))
	for i := range nodes {
		index[nodes[i].ID] = uint16(i)
	}
	return index
}
