package handoff

import (
	"github.com/ringcache/ringcache/internal/topology"
)

// Inheritance is what a node found of the process that ran here before: the
// content of slots that it served when it ended in good order.
type Inheritance struct {
	Boot      uint64 // of that process
	Slots     Set
	Witnesses []Peer // the other members of its last View
}

// Inherit tells the barrier about content of slots that are not served yet. It
// must be called before the first Adopt. A slot keeps it only if it is opened
// with the proof that nobody else may have served it meanwhile; see DESIGN.md.
// Everything else of it is dropped before the first slot is opened.
func (b *Barrier) Inherit(in Inheritance) { b.inherited = &in }

// Inherited is the number of slots whose content waits for that proof, and how
// many have kept it and lost it since.
func (b *Barrier) Inherited() (waiting, kept, lost int) {
	if b.inherited != nil {
		waiting = b.inherited.Slots.Len()
	}
	return waiting, b.proven, b.unproven
}

// Disinherit drops what is left of the inheritance: this node owns no slot, or
// there is nobody who could prove anything.
func (b *Barrier) Disinherit() {
	if b.inherited != nil {
		b.inherited.Slots.Each(func(slot uint16) { b.slots.DropSlot(slot) })
		b.unproven += b.inherited.Slots.Len()
		b.inherited = nil
	}
}

// Confirmed notes for which slots a member, with its agreement, has said that in
// its Views they have been this node's ever since the process before.
func (b *Barrier) Confirmed(a Ask, kept []Range) {
	if b.inherited == nil || !b.isPending(a) {
		return
	}
	var set Set
	for _, r := range kept {
		for s := int(r.First); s <= int(r.Last) && s < len(b.cur.Owner); s++ {
			set.Add(uint16(s))
		}
	}
	if b.confirmed == nil {
		b.confirmed = map[topology.NodeID]Set{}
	}
	b.confirmed[a.To] = set
}

// takeInheritance drops, just before the gained slots are opened, what nobody
// has proved to be the latest. The other members have agreed by now.
func (b *Barrier) takeInheritance() {
	in := b.inherited
	if in == nil {
		return
	}
	proven := b.provenSlots(in)
	in.Slots.Each(func(slot uint16) {
		if b.gained.Has(slot) && proven.Has(slot) {
			b.proven++
			return
		}
		b.unproven++
		b.slots.DropSlot(slot)
	})
	b.inherited, b.confirmed = nil, nil
}

// provenSlots are those that every witness has confirmed; a witness that is gone,
// or is another process, confirms nothing. Whoever had no witness must be alone
// again.
func (b *Barrier) provenSlots(in *Inheritance) Set {
	proven := in.Slots
	if len(in.Witnesses) == 0 && len(b.cur.Members) > 1 {
		return Set{}
	}
	for _, w := range in.Witnesses {
		i := b.cur.index(w.ID)
		if i < 0 || b.cur.Members[i].Boot != w.Boot {
			return Set{}
		}
		said := b.confirmed[w.ID]
		in.Slots.Each(func(slot uint16) {
			if !said.Has(slot) {
				proven.Remove(slot)
			}
		})
	}
	return proven
}

// history is what a member can testify about the owners that its Views named.
// It is replaced, never changed in place.
type history struct {
	gen   uint64   // counts the Views
	since []uint64 // per slot: from which on its owner has been the same ID
	seen  map[topology.NodeID]presence
}

// presence is when the processes of a member were last in a View.
type presence struct{ now, before incarnation }

type incarnation struct{ boot, last uint64 }

// record notes the owners and members of new targets; cur are those before.
func (h history) record(cur, t *Targets) history {
	n := history{gen: h.gen + 1, since: make([]uint64, len(t.Owner)), seen: make(map[topology.NodeID]presence, len(t.Members))}
	for s := range t.Owner {
		owner, _ := t.owner(uint16(s))
		n.since[s] = n.gen
		if cur != nil && s < len(h.since) {
			if before, ok := cur.owner(uint16(s)); ok && before == owner {
				n.since[s] = h.since[s]
			}
		}
	}
	for _, m := range t.Members {
		p := h.seen[m.ID]
		if p.now.boot != m.Boot {
			p.before = p.now
		}
		p.now = incarnation{m.Boot, n.gen}
		n.seen[m.ID] = p
	}
	return n
}

// broken notes that this node has served slots until now that its Views give to
// another: they have not been the other's alone.
func (h history) broken(served []Range) history {
	if len(served) == 0 {
		return h
	}
	n := history{gen: h.gen, since: append([]uint64(nil), h.since...), seen: h.seen}
	for _, r := range served {
		for s := int(r.First); s <= int(r.Last); s++ {
			n.since[s] = h.gen + 1
		}
	}
	return n
}

// ReleaseTo is Release for a member that has content of its process of that boot:
// an agreement says for which slots that is still good. A slot that this node
// has served until now is not, and stays so: the answer may be lost.
func (b *Barrier) ReleaseTo(from topology.NodeID, boot uint64, ranges []Range, last bool) Verdict {
	return b.ReleaseFor(Request{From: from, Return: boot, Ranges: ranges, Last: last})
}

// testify returns those of the slots that have been the member's, in all Views of
// this node, ever since its process of that boot was in one.
func (b *Barrier) testify(member topology.NodeID, boot uint64, ranges []Range) []Range {
	p := b.past.seen[member]
	last := p.now.last
	switch boot {
	case 0:
		return nil
	case p.now.boot:
	case p.before.boot:
		last = p.before.last
	default:
		return nil
	}
	var kept Set
	for _, r := range ranges {
		for s := int(r.First); s <= int(r.Last) && s < len(b.past.since); s++ {
			if owner, ok := b.cur.owner(uint16(s)); ok && owner == member && b.past.since[s] <= last {
				kept.Add(uint16(s))
			}
		}
	}
	return kept.Ranges()
}
