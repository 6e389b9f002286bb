package handoff

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// copyHold is how long a slot whose copies this node is offered must not have been
// agreed to for anybody else: longer than an agreement counts (see DESIGN.md), so
// that whoever opens the slot from then on needs another agreement of this node,
// which ends the copies.
const copyHold = 3 * time.Second

// maxCopied is how many processes a node has had copies of in its life; it takes
// none of further ones.
const maxCopied = 1 << 16

// Bits of a tag.
const (
	secondCopy = 1 << 31
	mirrorCopy = 1 << 30 // of keys that were read, and not of others
	copyKinds  = secondCopy | mirrorCopy
)

// spares is what the slots of a Barrier may implement: entries that leave first.
type spares interface {
	SetSpare(slot uint16, on bool)
}

// Copies says which of the slots that this node does not serve hold copies, and
// of whose content. Barrier decides what becomes of them. Of is for any goroutine.
type Copies struct {
	mu    sync.Mutex // held while copies are written, and to change a tag; after the Runner's, before a shard's
	tags  [MaxSlots]atomic.Uint32
	peers atomic.Pointer[[]Peer] // tag - 1 is an index; only grows
}

// Of returns the process whose content a slot holds copies of.
func (c *Copies) Of(slot uint16) (Peer, bool) {
	tag := c.tags[slot%MaxSlots].Load() &^ copyKinds
	if tag == 0 {
		return Peer{}, false
	}
	return (*c.peers.Load())[tag-1], true
}

// second tells whether copies are those of the second successor.
func (c *Copies) second(slot uint16) bool { return c.tags[slot].Load()&secondCopy != 0 }

// Partial tells whether a slot holds copies of some keys only, by intent: those that
// were read where it is served.
func (c *Copies) Partial(slot uint16) bool { return c.tags[slot%MaxSlots].Load()&mirrorCopy != 0 }

// Write runs fn, to which holds tells whether a slot holds copies of p. Until fn
// has returned no slot changes in that.
func (c *Copies) Write(p Peer, fn func(holds func(slot uint16) bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tag := c.find(p)
	fn(func(slot uint16) bool { return tag != 0 && c.tags[slot%MaxSlots].Load()&^copyKinds == tag })
}

// Held returns the slots with copies of p.
func (c *Copies) Held(p Peer) (s Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tag := c.find(p)
	for i := range c.tags {
		if tag != 0 && c.tags[i].Load()&^copyKinds == tag {
			s.Add(uint16(i))
		}
	}
	return s
}

// find returns the tag of p, 0 if there is none. mu is held.
func (c *Copies) find(p Peer) uint32 {
	if all := c.peers.Load(); all != nil {
		for i := len(*all) - 1; i >= 0; i-- { // the latest are the likely ones
			if (*all)[i] == p {
				return uint32(i + 1)
			}
		}
	}
	return 0
}

// tagFor is find that adds p; 0 if there are too many.
func (c *Copies) tagFor(p Peer) uint32 {
	if tag := c.find(p); tag != 0 {
		return tag
	}
	var all []Peer
	if old := c.peers.Load(); old != nil {
		all = *old
	}
	if len(all) == maxCopied {
		return 0
	}
	all = append(all[:len(all):len(all)], p)
	c.peers.Store(&all)
	return uint32(len(all))
}

// change gives a slot another tag, 0 for none, and runs fn with it: nothing is
// written to the copies of the slot in between.
func (c *Copies) change(slot uint16, tag uint32, fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tags[slot].Store(0)
	fn()
	c.tags[slot].Store(tag)
}

// agreement is what this node has agreed to lately for one process.
type agreement struct {
	at    time.Time
	slots Set
}

// noteAgreement remembers an agreement for as long as it can matter.
func (b *Barrier) noteAgreement(asker Peer, ranges []Range) {
	now := b.now()
	for p, a := range b.agreed {
		if now.Sub(a.at) >= copyHold {
			delete(b.agreed, p)
		}
	}
	a := b.agreed[asker]
	if a == nil {
		a = new(agreement)
		b.agreed[asker] = a
	}
	a.at = now
	for _, r := range ranges {
		for s := int(r.First); s <= int(r.Last); s++ {
			a.slots.Add(uint16(s))
		}
	}
}

// agreedLately tells whether somebody else than p may still open the slot by an
// agreement of this node.
func (b *Barrier) agreedLately(p Peer, slot uint16) bool {
	for asker, a := range b.agreed {
		if asker != p && a.slots.Has(slot) && b.now().Sub(a.at) < copyHold {
			return true
		}
	}
	return false
}

// alive tells whether the targets name that process of a member.
func (b *Barrier) alive(p Peer) bool {
	if b.cur == nil {
		return false
	}
	i := b.cur.index(p.ID)
	return i >= 0 && b.cur.Members[i].Boot == p.Boot
}

// AcceptCopies prepares a slot for copies of what p holds, from nothing: whatever
// copies it has are dropped. second says that another node has the first copies. It
// returns why that cannot be, "" if it can.
func (b *Barrier) AcceptCopies(p Peer, slot uint16, second bool) string {
	if second {
		return b.accept(p, slot, secondCopy)
	}
	return b.accept(p, slot, 0)
}

// AcceptMirror is AcceptCopies for copies of keys that are read at p: they are not
// all that is left when p dies.
func (b *Barrier) AcceptMirror(p Peer, slot uint16) string { return b.accept(p, slot, mirrorCopy) }

func (b *Barrier) accept(p Peer, slot uint16, kind uint32) string {
	if b.retired || b.cur == nil {
		return "this node has no place in the cluster"
	}
	switch owner, ok := b.cur.owner(slot); {
	case !ok || owner != p.ID || p.ID == b.self || !b.alive(p):
		return "another process owns the slot"
	case b.slots.Serving(slot):
		return "this node serves the slot"
	case b.inherited != nil && b.inherited.Slots.Has(slot):
		return "the slot has entries of an earlier process"
	case b.away != nil && b.away.slots.Has(slot):
		return "the slot has entries from before an absence"
	case b.isCeded(slot):
		return "what the slot has here is being taken"
	case b.agreedLately(p, slot):
		return "another process may be about to serve the slot"
	}
	tag := b.copies.tagFor(p)
	if tag == 0 {
		return "too many processes"
	}
	delete(b.sealed, slot)
	b.copies.change(slot, tag|kind, func() {
		b.slots.DropSlot(slot)
		b.setSpare(slot, true)
	})
	return ""
}

// EndCopies drops the copies of a slot that are those of p.
func (b *Barrier) EndCopies(p Peer, slot uint16) {
	if of, ok := b.copies.Of(slot); ok && of == p {
		b.dropCopies(slot)
	}
}

// DropCopies drops the copies of all slots for which keep returns false.
func (b *Barrier) DropCopies(keep func(slot uint16, of Peer) bool) (dropped int) {
	for s := range b.copies.tags {
		if of, ok := b.copies.Of(uint16(s)); ok && !keep(uint16(s), of) {
			b.dropCopies(uint16(s))
			dropped++
		}
	}
	return dropped
}

// Owns tells whether the targets name that process the owner of a slot.
func (b *Barrier) Owns(p Peer, slot uint16) bool {
	owner, ok := b.cur.owner(slot)
	return ok && owner == p.ID && b.alive(p)
}

func (b *Barrier) dropCopies(slot uint16) {
	delete(b.sealed, slot)
	b.copies.change(slot, 0, func() {
		b.slots.DropSlot(slot)
		b.setSpare(slot, false)
	})
}

// keepCopies makes the copies of a slot its content, but for what is known to be
// behind what the process that they are of had last.
func (b *Barrier) keepCopies(slot uint16) {
	b.copies.change(slot, 0, func() {
		b.removeKeys(slot, b.sealed[slot].behind)
		b.setSpare(slot, false)
	})
	delete(b.sealed, slot)
	b.takenOver++
}

func (b *Barrier) setSpare(slot uint16, on bool) {
	if s, ok := b.slots.(spares); ok {
		s.SetSpare(slot, on)
	}
}

// yieldCopies ends the copies of slots that this node has just agreed to, unless
// they are the asker's own: from now on somebody else may serve them. While the
// process that they are of lives, it gives its content to the asker itself; if it
// is gone, they are what is left of it, and the asker may take them like content
// that was served here, from the first of two successors. What the asker has kept
// over its restart (kept) is at least as new.
func (b *Barrier) yieldCopies(q *Request, kept []Range) {
	asker := Peer{q.From, q.Process}
	b.noteAgreement(asker, q.Ranges)
	var pull, has Set
	pull.addRanges(q.Pull)
	has.addRanges(kept)
	for _, r := range q.Ranges {
		for s := int(r.First); s <= int(r.Last); s++ {
			slot := uint16(s)
			of, ok := b.copies.Of(slot)
			gone := !b.alive(of) || of.ID == asker.ID && asker.Boot > of.Boot
			switch {
			case !ok || of == asker:
			case gone && !b.copies.second(slot) && !b.copies.Partial(slot) && pull.Has(slot) && !has.Has(slot) && b.cedeCopies(slot, q):
			default:
				b.dropCopies(slot)
			}
		}
	}
}

// cedeCopies lets the asker take the copies of a slot; false if there are none.
func (b *Barrier) cedeCopies(slot uint16, q *Request) bool {
	if q.Boot == 0 || q.Boot != q.Process || b.slots.Keys(slot) == 0 {
		return false
	}
	b.copies.change(slot, 0, func() {
		b.removeKeys(slot, b.sealed[slot].behind)
		b.setSpare(slot, false)
	})
	delete(b.sealed, slot)
	return b.cede(slot, q)
}

// settleCopies decides, just before gained slots are opened, what becomes of their
// copies. Nobody but the process that they are of can have served the slot since
// they were accepted; ADR 12 says why. If it lives, it has given the slot up
// for this node, and knows what is newer than the copies: they stay if it has said
// so. Otherwise they are what is left, unless they are but a mirror: a crash loses
// what it holds, and brings nothing back, where no copies are asked for.
func (b *Barrier) settleCopies() {
	b.exact = nil
	b.gained.Each(func(slot uint16) {
		of, ok := b.copies.Of(slot)
		switch {
		case !ok:
		case b.alive(of) && b.isExact(slot, of):
			b.keepExact(slot)
		case b.alive(of), b.copies.Partial(slot):
			b.dropCopies(slot)
		default:
			b.keepCopies(slot)
		}
	})
}

// TakenOver counts the slots whose copies have become their content.
func (b *Barrier) TakenOver() int { return b.takenOver }

// pullable are the gained slots whose content this node would take over: not those
// of which it has all copies, and nobody can have anything newer.
func (b *Barrier) pullable(to topology.NodeID, asked *Set) []Range {
	pull := b.gained
	if peer, ok := b.cur.peer(to); ok {
		asked.Each(func(slot uint16) {
			if b.slots.Taking(slot) == peer {
				pull.Add(slot) // or the other side would take it for done
			}
		})
	}
	b.gained.Each(func(slot uint16) {
		if of, ok := b.copies.Of(slot); ok && !b.alive(of) && !b.copies.Partial(slot) {
			pull.Remove(slot)
		}
	})
	return pull.Ranges()
}
