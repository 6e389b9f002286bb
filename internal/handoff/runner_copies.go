package handoff

// Copies are those of this node.
func (r *Runner) Copies() *Copies { return r.b.copies }

// AcceptCopies is Barrier.AcceptCopies.
func (r *Runner) AcceptCopies(p Peer, slot uint16, second bool) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.AcceptCopies(p, slot, second)
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

// SetSpare makes the entries of a slot leave first; see Slots.
func (t *Transfer) SetSpare(slot uint16, on bool) { t.eng.SetSpare(slot, on) }
