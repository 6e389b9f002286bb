package handoff

import "slices"

// Copies are those of this node.
func (r *Runner) Copies() *Copies { return r.b.copies }

// AcceptCopies is Barrier.AcceptCopies.
func (r *Runner) AcceptCopies(p Peer, slot uint16, second bool) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.AcceptCopies(p, slot, second)
}

// AcceptMirror is Barrier.AcceptMirror.
func (r *Runner) AcceptMirror(p Peer, slot uint16) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.AcceptMirror(p, slot)
}

// Alive tells whether the targets name that process of a member.
func (r *Runner) Alive(p Peer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.alive(p)
}

// Behind is Barrier.Behind.
func (r *Runner) Behind(slot uint16) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Behind(slot)
}

// SealBy says who knows which copies at a taker are the latest. It must be called
// before the first Adopt.
func (r *Runner) SealBy(s Sealer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.sealer = s
}

// Kept counts the slots that kept copies as the latest when they were taken over
// from a process that lives.
func (r *Runner) Kept() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.kept
}

// EndCopies is Barrier.EndCopies.
func (r *Runner) EndCopies(p Peer, slot uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.EndCopies(p, slot)
}

// DropCopies drops the copies of slots for which keep returns false; owned says
// that their process is the owner of the slot in the targets.
func (r *Runner) DropCopies(keep func(slot uint16, of Peer, owned bool) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.DropCopies(func(slot uint16, of Peer) bool { return keep(slot, of, r.b.Owns(of, slot)) })
}

// TakenOver counts the slots whose copies have become their content.
func (r *Runner) TakenOver() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.TakenOver()
}

// RemoveKeys removes entries of a slot that is not served.
func (t *Transfer) RemoveKeys(slot uint16, keys [][]byte) {
	for part := range slices.Chunk(keys, takeHold) {
		tx := t.eng.LockAny(slot)
		for _, k := range part {
			tx.Invalidate(k)
		}
		tx.Unlock()
	}
}

// SetSpare makes the entries of a slot leave first; see Slots.
func (t *Transfer) SetSpare(slot uint16, on bool) { t.eng.SetSpare(slot, on) }
