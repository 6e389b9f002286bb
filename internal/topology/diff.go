package topology

import "github.com/ringcache/ringcache/internal/ring"

// Move says that the slots First to Last, inclusive, go From one node To
// another; the zero ID stands for nobody.
type Move struct {
	First, Last uint16
	From, To    NodeID
}

// Change is the difference between two views. IDs are in ascending order.
type Change struct {
	Joined  []NodeID // members of the new view only
	Left    []NodeID // members of the old view only
	Changed []NodeID // members of both that differ in any field
	Moves   []Move   // exactly the slots whose owner differs, in slot order
}

// Diff returns what changes from the view old to the view now; a nil view is
// one without members.
func Diff(old, now *View) Change {
	if old == nil {
		old = emptyView()
	}
	if now == nil {
		now = emptyView()
	}
	var c Change
	i, j := 0, 0
	for i < len(old.members) || j < len(now.members) {
		switch {
		case j == len(now.members) || i < len(old.members) && old.members[i].ID.Less(now.members[j].ID):
			c.Left = append(c.Left, old.members[i].ID)
			i++
		case i == len(old.members) || now.members[j].ID.Less(old.members[i].ID):
			c.Joined = append(c.Joined, now.members[j].ID)
			j++
		default:
			if old.members[i] != now.members[j] {
				c.Changed = append(c.Changed, now.members[j].ID)
			}
			i, j = i+1, j+1
		}
	}
	for _, r := range ring.Affected(old.nodes(), &old.owners, now.nodes(), &now.owners) {
		c.Moves = append(c.Moves, Move{First: r.First, Last: r.Last, From: old.OwnerID(r.First), To: now.OwnerID(r.First)})
	}
	return c
}

func emptyView() *View {
	v := new(View)
	v.owners.Clear()
	return v
}

// nodes returns all members by ID, in the order of the owner table's indexes.
func (v *View) nodes() []ring.Node {
	nodes := make([]ring.Node, len(v.members))
	for i := range v.members {
		nodes[i].ID = v.members[i].ID.String()
	}
	return nodes
}
