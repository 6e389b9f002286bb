package handoff

// Copies and mirrors at the next owner. When a node gives a slot up for a process
// that has copies of it, it says whether they are kept up to date, and which keys
// have changes that may not have arrived: the rest is the latest, and may become
// content beside the window. ADR 13 has the proof.

const (
	// sealKeys and sealBytes bound the keys of one agreement that may be behind. A
	// slot with more gives its copies up.
	sealKeys  = 1024
	sealBytes = 16 << 10
)

// SlotKey is a key of a slot.
type SlotKey struct {
	Slot uint16
	Key  []byte
}

// Sealed is what a member that gives slots up says of the copies that the asker
// has: those of Slots are the latest, but for the keys Behind.
type Sealed struct {
	Slots  []Range
	Behind []SlotKey
}

// Sealer knows what copies of this node's slots another process has. Streams is one.
type Sealer interface {
	// Seal is called when the bits of slots have just been cleared for a process, and
	// before it is told so. It returns those of which the process has copies that are
	// kept up to date, and their keys whose latest value may not be there. From then
	// on nothing of what has changed later may be sent, nor that the copies end.
	Seal(p Peer, slots *Set) (exact Set, behind []SlotKey)
}

// removes is what the slots of a Barrier must implement for copies to be kept
// beside a window.
type removes interface {
	RemoveKeys(slot uint16, keys [][]byte)
}

// sealed is what was said of the copies of a slot, with the cession to one Ask.
type sealed struct {
	ask    uint64
	behind [][]byte
}

// seal notes, with the cessions that were made just now, which copies of the asker
// are the latest.
func (b *Barrier) seal(q *Request, ceded *Set) {
	if b.sealer == nil || ceded.Len() == 0 {
		return
	}
	exact, behind := b.sealer.Seal(Peer{q.From, q.Boot}, ceded)
	exact.Each(func(slot uint16) {
		if c, ok := b.ceded[slot]; ok {
			c.sealed = true
			b.ceded[slot] = c
		}
	})
	for _, k := range behind {
		if c, ok := b.ceded[k.Slot]; ok {
			c.behind = append(c.behind, k.Key)
			b.ceded[k.Slot] = c
		}
	}
}

// Sealed notes what a member, with its agreement, says of the copies that are here.
// It must be called after Offered and before Agreed.
func (b *Barrier) Sealed(a Ask, s Sealed) {
	if !b.isPending(a) || len(s.Slots) == 0 {
		return
	}
	peer, ok := b.cur.peer(a.To)
	if !ok {
		return
	}
	for _, r := range s.Slots {
		for n := int(r.First); n <= int(r.Last) && n < len(b.cur.Owner); n++ {
			slot := uint16(n)
			of, has := b.copies.Of(slot)
			if c := b.offers[slot]; has && of == peer && c.Peer == peer && c.Ask != 0 {
				if b.sealed == nil {
					b.sealed = map[uint16]sealed{}
				}
				b.sealed[slot] = sealed{ask: c.Ask}
			}
		}
	}
	for _, k := range s.Behind {
		if was, ok := b.sealed[k.Slot]; ok && was.ask == b.offers[k.Slot].Ask {
			was.behind = append(was.behind, k.Key)
			b.sealed[k.Slot] = was
		}
	}
}

// dropGivenUp ends the copies of a process that has just agreed, of slots for which it
// has not said that they are the latest: it does not serve these slots any more, perhaps
// by an agreement whose answer was lost, and when it is gone nobody knows what is newer.
func (b *Barrier) dropGivenUp(a Ask, of Peer) {
	for _, r := range a.Ranges {
		for s := int(r.First); s <= int(r.Last); s++ {
			if p, ok := b.copies.Of(uint16(s)); ok && p == of && !b.isExact(uint16(s), of) {
				b.dropCopies(uint16(s))
			}
		}
	}
}

// Behind tells whether a slot has copies whose process has given it up, with keys whose
// latest value it lacks.
func (b *Barrier) Behind(slot uint16) bool { return len(b.sealed[slot].behind) > 0 }

// isExact tells whether a slot that is to be opened has copies of a process that,
// with the cession that is to be taken from, has said that they are the latest.
func (b *Barrier) isExact(slot uint16, of Peer) bool {
	s, ok := b.sealed[slot]
	c := b.offers[slot]
	has, copied := b.copies.Of(slot)
	_, can := b.slots.(removes)
	return ok && can && copied && has == of && b.gained.Has(slot) && c.Peer == of && c.Ask != 0 && c.Ask == s.ask
}

// keepExact makes the copies of a slot content that a window completes: what is
// behind is not there, so it is taken like what was never copied.
func (b *Barrier) keepExact(slot uint16) {
	b.copies.change(slot, 0, func() {
		b.removeKeys(slot, b.sealed[slot].behind)
		b.setSpare(slot, false)
	})
	delete(b.sealed, slot)
	if b.exact == nil {
		b.exact = new(Set)
	}
	b.exact.Add(slot)
	b.kept++
}

func (b *Barrier) removeKeys(slot uint16, keys [][]byte) {
	if r, ok := b.slots.(removes); ok && len(keys) > 0 {
		r.RemoveKeys(slot, keys)
	}
}
