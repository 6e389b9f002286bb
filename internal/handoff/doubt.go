package handoff

import (
	"context"
	"time"
)

// Doubt is for a node that was away for so long, silence, that others have taken its
// slots over: it stops serving and asks every member for its slots anew. What it holds
// may be older than what the others have by now: it is kept aside until the members
// have testified (away.go), and dropped at once if they cannot. It returns what to send
// and how many slots were served until now.
func (b *Barrier) Doubt(silence time.Duration) (asks []Ask, served int) {
	if b.retired || b.cur == nil {
		return nil, 0
	}
	var left *away
	if b.keep(silence) {
		left = &away{members: b.cur.Members, hash: membersHash(b.cur.Members), until: b.now().Add(awayFor)}
	}
	b.Disinherit()
	b.dropAway()
	b.forgetMissed()
	b.DropCeded()
	b.DropCopies(func(uint16, Peer) bool { return false })
	clear(b.pending)
	b.confirmed, b.offers = nil, nil
	owned := b.cur.owned(b.cur.index(b.self))
	keys := int64(0)
	for s := range b.cur.Owner {
		slot := uint16(s)
		if !b.slots.Serving(slot) {
			continue
		}
		b.shut(slot)
		served++
		if n := b.slots.Keys(slot); left != nil && owned.Has(slot) && keys+n <= awayMost {
			left.slots.Add(slot)
			keys += n
		} else {
			b.slots.DropSlot(slot)
		}
	}
	if left != nil && left.slots.Len() > 0 {
		b.away = left
	}
	b.gained, b.lost = owned, Set{}
	for _, m := range b.cur.Members {
		if m.ID == b.self {
			continue
		}
		b.strangers[m.ID] = struct{}{}
		if owned.Len() > 0 {
			asks = append(asks, b.ask(m.ID, &owned, true))
		}
	}
	b.openIfAgreed()
	return asks, served
}

// Doubt is Barrier.Doubt.
func (r *Runner) Doubt(silence time.Duration) (served int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0
	}
	r.void()
	r.askCtx, r.void = context.WithCancel(r.ctx)
	asks, served := r.b.Doubt(silence)
	r.wake()
	r.start(asks)
	return served
}

// Returned is Barrier.Returned.
func (r *Runner) Returned() (waiting, kept, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Returned()
}

// logReturned says what has become of what this node held before it was away; before
// are the counts of Returned from before the slots were opened. mu is held.
func (r *Runner) logReturned(keptBefore, lostBefore int) {
	if _, kept, lost := r.b.Returned(); kept+lost > keptBefore+lostBefore {
		r.o.Logger.Info("slots with entries from before the absence: kept what nobody but one other owner can have changed, and that one has not touched; dropped the others",
			"kept", kept-keptBefore, "dropped", lost-lostBefore)
	}
}
