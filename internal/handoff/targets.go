package handoff

import (
	"github.com/ringcache/ringcache/internal/topology"
)

// NoOwner marks a slot without an owner in Targets.Owner.
const NoOwner = 0xFFFF

// Peer names one process: a node that restarted is another peer.
type Peer struct {
	ID   topology.NodeID
	Boot uint64
}

// Targets is what the barrier needs to know of a View. It is immutable.
type Targets struct {
	View    *topology.View // carried along for the sender; the barrier does not look at it
	Hash    uint64         // two Targets with one hash are equal
	Members []Peer         // live members, the node itself among them
	Owner   []uint16       // per slot an index into Members, or NoOwner
}

// TargetsOf extracts the targets of a View.
func TargetsOf(v *topology.View) *Targets {
	members := v.Members()
	t := &Targets{View: v, Hash: v.Hash(), Members: make([]Peer, len(members)), Owner: make([]uint16, MaxSlots)}
	for i := range members {
		t.Members[i] = Peer{ID: members[i].ID, Boot: members[i].Boot}
	}
	for s := range t.Owner {
		t.Owner[s] = NoOwner
		if o := v.Owner(uint16(s)); o >= 0 {
			t.Owner[s] = uint16(o)
		}
	}
	return t
}

// index returns the position of a member, or -1.
func (t *Targets) index(id topology.NodeID) int {
	for i := range t.Members {
		if t.Members[i].ID == id {
			return i
		}
	}
	return -1
}

// owner returns the owner of a slot.
func (t *Targets) owner(slot uint16) (topology.NodeID, bool) {
	if int(slot) >= len(t.Owner) || t.Owner[slot] == NoOwner {
		return topology.NodeID{}, false
	}
	return t.Members[t.Owner[slot]].ID, true
}

// ownerPeer returns the process that owns a slot.
func (t *Targets) ownerPeer(slot uint16) (Peer, bool) {
	if int(slot) >= len(t.Owner) || t.Owner[slot] == NoOwner {
		return Peer{}, false
	}
	return t.Members[t.Owner[slot]], true
}

// peer returns the process of a member.
func (t *Targets) peer(id topology.NodeID) (Peer, bool) {
	i := t.index(id)
	if i < 0 {
		return Peer{}, false
	}
	return t.Members[i], true
}

// owned returns the slots whose owner is the member at index i.
func (t *Targets) owned(i int) (s Set) {
	if i < 0 {
		return s
	}
	for slot, o := range t.Owner {
		if int(o) == i {
			s.Add(uint16(slot))
		}
	}
	return s
}
