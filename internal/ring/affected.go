package ring

// Range is a run of slots that one change treats alike. First and Last are
// inclusive. From is an index into the old nodes and To one into the new
// nodes; NoOwner stands for nobody.
type Range struct {
	First, Last uint16
	From, To    uint16
}

// Affected returns exactly the slots whose owner differs between two tables,
// as maximal ranges in slot order. Owners are compared by node ID, so the
// indexes of a node in oldNodes and newNodes may differ.
func Affected(oldNodes []Node, old *Table, newNodes []Node, now *Table) []Range {
	index := indexByID(newNodes)
	same := make([]uint16, len(oldNodes)) // old index -> new index
	for i := range oldNodes {
		same[i] = NoOwner
		if j, ok := index[oldNodes[i].ID]; ok {
			same[i] = j
		}
	}
	var out []Range
	for s := range old {
		from, to := old[s], now[s]
		if from == NoOwner && to == NoOwner || from != NoOwner && to != NoOwner && same[from] == to {
			continue
		}
		if n := len(out); n > 0 && int(out[n-1].Last)+1 == s && out[n-1].From == from && out[n-1].To == to {
			out[n-1].Last = uint16(s)
			continue
		}
		out = append(out, Range{First: uint16(s), Last: uint16(s), From: from, To: to})
	}
	return out
}
