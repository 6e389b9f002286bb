package handoff

import (
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// cededFor is how long ceded content waits for its taker.
const cededFor = 10 * time.Minute

// Cession is the right of one process to take the content of a slot from the
// process that served the slot last.
type Cession struct {
	Peer Peer   // who may take it; where it is taken: who gives it
	Ask  uint64 // the taker's Ask that was agreed to by ceding; it names the cession between the two
}

// Offer lists slots with content that the asker may take, ceded to one of its
// Asks.
type Offer struct {
	Ask    uint64
	Ranges []Range
}

// Request is an Ask as it comes to the member.
type Request struct {
	From   topology.NodeID
	Ranges []Range
	Last   bool   // see Ask
	Return uint64 // see Ask
	// Process is the boot of the process that asks; 0: it does not say.
	Process uint64
	// Boot, Ask and Pull: the process of this boot will take what the slots Pull
	// hold, by the number of its Ask. Boot 0: it takes nothing.
	Boot, Ask uint64
	Pull      []Range
	// Away and Silence: the process of boot Process was away for that long, and had
	// these members then; see Ask. 0: it was not.
	Away    uint64
	Silence time.Duration
}

// cededSlot is content that this node served and keeps for the next owner.
type cededSlot struct {
	Cession
	until time.Time
	// sealed: the taker's copies are the latest, but for those of the keys behind.
	// It is settled when the slot is given up, so that every answer says the same.
	sealed bool
	behind [][]byte
}

// cede keeps the content of a slot, whose bit was cleared just now, for the
// asker; false if there is none, or nobody to take it.
func (b *Barrier) cede(slot uint16, q *Request) bool {
	if q.Boot == 0 || b.slots.Keys(slot) == 0 {
		return false
	}
	c := Cession{Peer{q.From, q.Boot}, q.Ask}
	if b.ceded == nil {
		b.ceded = map[uint16]cededSlot{}
	}
	b.ceded[slot] = cededSlot{Cession: c, until: b.now().Add(cededFor)}
	b.slots.Cede(slot, c)
	return true
}

// offer adds to an agreement what the asker may take, now and from earlier
// agreements whose answers it may have missed, and drops what was kept for
// anybody else: another process may have served these slots meanwhile.
func (b *Barrier) offer(q *Request, v *Verdict) {
	if len(b.ceded) == 0 {
		return
	}
	var pull Set
	pull.addRanges(q.Pull)
	by := map[uint64]*Set{}
	var exact Set
	for _, r := range q.Ranges {
		for s := int(r.First); s <= int(r.Last); s++ {
			slot := uint16(s)
			c, ok := b.ceded[slot]
			switch {
			case !ok:
			case c.Peer != Peer{q.From, q.Boot} || !pull.Has(slot):
				b.dropCeded(slot)
			default:
				if by[c.Ask] == nil {
					by[c.Ask] = new(Set)
				}
				by[c.Ask].Add(slot)
				v.OfferedKeys += uint64(b.slots.Keys(slot))
				if c.sealed {
					exact.Add(slot)
					for _, k := range c.behind {
						v.Sealed.Behind = append(v.Sealed.Behind, SlotKey{slot, k})
					}
				}
			}
		}
	}
	for ask, slots := range by {
		v.Offers = append(v.Offers, Offer{ask, slots.Ranges()})
	}
	v.Sealed.Slots = exact.Ranges()
}

func (b *Barrier) isCeded(slot uint16) bool {
	_, ok := b.ceded[slot]
	return ok
}

func (b *Barrier) dropCeded(slot uint16) {
	if _, ok := b.ceded[slot]; ok {
		delete(b.ceded, slot)
		b.slots.DropSlot(slot)
	}
}

// dropForeign drops what was ceded to another process than the one that owns
// the slot by t: as long as a cession stands, all targets of this node have
// named its taker, so nobody that this node is connected with has served the
// slot but the taker.
func (b *Barrier) dropForeign(t *Targets) {
	for slot, c := range b.ceded {
		if p, ok := t.ownerPeer(slot); !ok || p != c.Peer {
			b.dropCeded(slot)
		}
	}
}

// Taken drops what is left of slots that a process need not take any more.
func (b *Barrier) Taken(by Peer, ranges []Range) {
	for _, r := range ranges {
		for s := int(r.First); s <= int(r.Last); s++ {
			if c, ok := b.ceded[uint16(s)]; ok && c.Peer == by {
				b.dropCeded(uint16(s))
			}
		}
	}
}

// Expire drops what was not taken in time and reports whether that was anything.
func (b *Barrier) Expire(now time.Time) (dropped bool) {
	for slot, c := range b.ceded {
		if !now.Before(c.until) {
			b.dropCeded(slot)
			dropped = true
		}
	}
	b.expireMissed(now)
	if b.away != nil && !now.Before(b.away.until) {
		b.dropAway()
	}
	return dropped
}

// DropCeded drops all ceded content.
func (b *Barrier) DropCeded() {
	for slot := range b.ceded {
		b.dropCeded(slot)
	}
}

// Ceded is the number of slots whose content is kept for another.
func (b *Barrier) Ceded() int { return len(b.ceded) }

// Offered notes what a member, with its agreement, lets this node take. It must
// be called before Agreed. A cession to an Ask from before this node last served
// the slot is void: the content is older than what was served here.
func (b *Barrier) Offered(a Ask, offers []Offer) {
	if !b.isPending(a) {
		return
	}
	peer, ok := b.cur.peer(a.To)
	for _, o := range offers {
		for _, r := range o.Ranges {
			for s := int(r.First); ok && s <= int(r.Last) && s < len(b.cur.Owner); s++ {
				slot, c := uint16(s), Cession{peer, o.Ask}
				if b.gained.Has(slot) && c.Ask > b.stampOf(slot) {
					b.noteOffer(slot, c)
				} else {
					b.slots.Decline(slot, c)
				}
			}
		}
	}
}

// noteOffer notes who served a slot last. If two say so, they did not know of
// each other, and nobody knows which of them has the latest: nothing is taken.
func (b *Barrier) noteOffer(slot uint16, c Cession) {
	old, ok := b.offers[slot]
	switch {
	case !ok:
		if b.offers == nil {
			b.offers = map[uint16]Cession{}
		}
		b.offers[slot] = c
		// Of copies settleCopies decides, of what this node had before an absence takeAway.
		if of, ok := b.copies.Of(slot); (!ok || of != c.Peer) && !b.hasLog(slot, c.Peer.ID) {
			b.slots.DropSlot(slot) // what this node has of it is older
		}
	case old.Peer.ID != c.Peer.ID:
		b.offers[slot] = Cession{} // equal to nobody's
		for _, c := range []Cession{old, c} {
			if c.Ask != 0 {
				b.slots.Decline(slot, c)
			}
		}
	case c.Ask != 0:
		b.offers[slot] = c
	}
}

// open sets the bit of a slot that all others have agreed to. If its content may
// be taken from somebody, the window is open before the first request is served.
func (b *Barrier) open(slot uint16) {
	kept := b.exact != nil && b.exact.Has(slot)
	switch c := b.offers[slot]; {
	case c.Ask == 0:
	case b.beside != nil && b.beside.Has(slot):
		b.slots.(logs).OpenWindowBeside(slot, c)
	case kept || b.slots.Keys(slot) == 0:
		b.slots.OpenWindow(slot, c)
	}
	b.openLog(slot)
	b.stamp(slot)
	b.slots.SetServing(slot, true)
}

// shut clears the bit of a slot.
func (b *Barrier) shut(slot uint16) {
	b.slots.SetServing(slot, false)
	b.slots.CloseWindow(slot)
	b.endTenure(slot)
	b.stamp(slot)
}

// stamp notes that the slot is served here now: content that was ceded to an Ask
// up to the latest is not newer than what is served from now on.
func (b *Barrier) stamp(slot uint16) {
	if b.stamps == nil {
		b.stamps = make([]uint64, len(b.cur.Owner))
	}
	b.stamps[slot] = b.lastAsk
}

func (b *Barrier) stampOf(slot uint16) uint64 {
	if b.stamps == nil {
		return 0
	}
	return b.stamps[slot]
}
