package handoff

import "context"

// Doubt is for a node that was away for so long that others have taken its slots
// over: it stops serving, drops what it holds, which may be older than what the
// others have by now, and asks every member for its slots anew. It returns what to
// send and how many slots were served until now.
func (b *Barrier) Doubt() (asks []Ask, served int) {
	if b.retired || b.cur == nil {
		return nil, 0
	}
	b.Disinherit()
	b.DropCeded()
	b.DropCopies(func(uint16, Peer) bool { return false })
	clear(b.pending)
	b.confirmed, b.offers = nil, nil
	for s := range b.cur.Owner {
		if slot := uint16(s); b.slots.Serving(slot) {
			b.shut(slot)
			b.slots.DropSlot(slot)
			served++
		}
	}
	owned := b.cur.owned(b.cur.index(b.self))
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

// Doubt gives every slot up and asks for it anew; it returns how many were served.
func (r *Runner) Doubt() (served int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0
	}
	r.void()
	r.askCtx, r.void = context.WithCancel(r.ctx)
	asks, served := r.b.Doubt()
	r.wake()
	r.start(asks)
	return served
}
