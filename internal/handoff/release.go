package handoff

import (
	"fmt"

	"github.com/ringcache/ringcache/internal/topology"
)

// Release answers another member's Ask. It agrees only to everything or
// nothing: a slot given up before the asker may open it would be served by
// nobody in between.
func (b *Barrier) Release(from topology.NodeID, ranges []Range, last bool) Verdict {
	return b.ReleaseFor(Request{From: from, Ranges: ranges, Last: last})
}

// ReleaseFor is Release for a member that may take the content of the slots, or
// has content of its process before.
func (b *Barrier) ReleaseFor(q Request) Verdict {
	v := b.release(&q)
	if !v.Agreed || b.cur == nil || b.retired || len(q.Ranges) == 0 {
		return v
	}
	if q.Return != 0 {
		b.past = b.past.broken(v.Served)
		v.Kept = b.testify(q.From, q.Return, q.Ranges)
	}
	b.yieldCopies(&q, v.Kept)
	b.offer(&q, &v)
	b.tell(&q, &v)
	return v
}

func (b *Barrier) release(q *Request) Verdict {
	switch {
	case b.retired:
		return Verdict{Agreed: true}
	case b.cur == nil:
		return Verdict{Why: "this node has no view yet"}
	case len(q.Ranges) == 0:
		return Verdict{Agreed: true, Asks: b.remind(q.From)}
	}
	var served, pull Set
	for _, r := range q.Ranges {
		for s := int(r.First); s <= int(r.Last); s++ {
			owner, ok := b.cur.owner(uint16(s))
			if !ok || owner != q.From || q.From == b.self {
				return Verdict{Why: fmt.Sprintf("slot %d belongs to %s in view %016x", s, ownerName(owner, ok), b.cur.Hash)}
			}
			if b.slots.Serving(uint16(s)) {
				served.Add(uint16(s))
			}
		}
	}
	if served.Len() > 0 && !q.Last {
		return Verdict{Ready: true}
	}
	pull.addRanges(q.Pull)
	var ceded Set
	served.Each(func(slot uint16) {
		b.shut(slot)
		if pull.Has(slot) && b.cede(slot, q) {
			ceded.Add(slot)
		} else {
			b.slots.DropSlot(slot)
		}
		b.lost.Remove(slot)
	})
	b.seal(q, &ceded)
	return Verdict{Agreed: true, Served: served.Ranges()}
}

func ownerName(id topology.NodeID, ok bool) string {
	if !ok {
		return "nobody"
	}
	return id.String()
}

// remind handles a member that still serves slots of this node: it is asked for
// all of them, unless that is under way.
func (b *Barrier) remind(from topology.NodeID) []Ask {
	if b.cur.index(from) < 0 || from == b.self {
		return nil
	}
	b.strangers[from] = struct{}{}
	if p := b.pending[from]; p.whole && !p.agreed {
		return nil
	}
	owned := b.cur.owned(b.cur.index(b.self))
	if owned.Len() == 0 {
		return nil
	}
	return []Ask{b.ask(from, &owned, true)}
}

// Reminders returns what to send when lost slots stay unclaimed: the owner
// might never have noticed that this node was away and took them over.
func (b *Barrier) Reminders() []Ask {
	if b.lost.Len() == 0 || b.retired {
		return nil
	}
	var asks []Ask
	seen := map[topology.NodeID]struct{}{}
	b.lost.Each(func(slot uint16) {
		owner, _ := b.cur.owner(slot)
		if _, dup := seen[owner]; !dup {
			seen[owner] = struct{}{}
			asks = append(asks, Ask{To: owner, Targets: b.cur, Last: true})
		}
	})
	return asks
}

// Retire gives every slot up for good: another process has taken over this
// node's ID, or the node has left.
func (b *Barrier) Retire() {
	b.retired = true
	b.Disinherit()
	b.dropAway()
	b.forgetMissed()
	b.DropCeded()
	b.DropCopies(func(uint16, Peer) bool { return false })
	clear(b.pending)
	b.gained, b.lost = Set{}, Set{}
	if b.cur == nil {
		return
	}
	for s := range b.cur.Owner {
		if b.slots.Serving(uint16(s)) {
			b.shut(uint16(s))
			b.slots.DropSlot(uint16(s))
		}
	}
}
