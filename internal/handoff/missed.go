package handoff

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/topology"
)

// What a member remembers of processes that its targets lack, for the case that they
// come back with what they held: who has owned their slots meanwhile and, of the slots
// that it owned itself, which keys were touched. ADR 14 has the proof.

// Bounds of what is remembered.
const (
	missedFor  = 5 * time.Minute  // from the time when the process was missed
	toldFor    = 10 * time.Second // from the first time that it was told
	missedMost = 16               // processes; the one missed first gives way
	logMost    = 1 << 18          // fingerprints in one agreement; slots beyond are left out
	// tenureMargin is how much longer than a process says that it was away it must have
	// been the owner before: as long as an agreement to somebody else may count (2 s),
	// and as a question may be under way (1 s), and as much again.
	tenureMargin = 6 * time.Second
)

// logs is what the Slots of a Barrier may implement: touch logs.
type logs interface {
	// OpenLog begins to note the keys of a slot that are touched or looked for.
	OpenLog(slot uint16)
	// TakeLog ends that; false: it was not complete.
	TakeLog(slot uint16) (engine.TouchLog, bool)
	// NoTouches is a log that names nothing.
	NoTouches() engine.TouchLog
	// RemoveLogged removes the entries that a log may name; false: it cannot be read.
	RemoveLogged(slot uint16, l engine.TouchLog) bool
	// OpenWindowBeside is OpenWindow for a slot with entries of which c.Peer has none.
	OpenWindowBeside(slot uint16, c Cession)
}

// missed is a process that the targets lacked, or lack.
type missed struct {
	of      Peer
	members []Peer // of the last targets with it
	with    uint64 // their hash
	until   time.Time
	heirs   []Peer
	slots   []missedSlot // those that it owned, in rising order
}

// missedSlot is a slot whose owners have been: the process, since a time; one heir;
// and, once back is set, the process again. It goes when anything else happens.
type missedSlot struct {
	slot   uint16
	heir   uint16 // index of heirs
	since  uint32 // see Barrier.tenure
	back   bool
	opened bool             // here, where this node is the heir
	log    *engine.TouchLog // since then, once the slot has been given back
	void   bool
}

// Heir says who has owned slots while a process was missed.
type Heir struct {
	Peer   Peer
	Ranges []Range
}

// SlotLog says which keys of a slot were touched by its only owner meanwhile.
type SlotLog struct {
	Slot   uint16
	Prints []uint32
}

// Testimony is what a member says to a process that was missed: who has owned its
// slots, and what has been touched in those that the member has owned itself.
type Testimony struct {
	Heirs       []Heir
	Seed, Check uint64 // of Logs; see engine.TouchLog
	Logs        []SlotLog
}

// membersHash names a set of processes, which is sorted as that of a View. It is
// never 0.
func membersHash(members []Peer) uint64 {
	b := make([]byte, 0, len(members)*(len(topology.NodeID{})+8))
	for i := range members {
		b = append(b, members[i].ID[:]...)
		b = binary.BigEndian.AppendUint64(b, members[i].Boot)
	}
	sum := sha256.Sum256(b)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// among tells whether a process is one of members, which are sorted.
func among(members []Peer, p Peer) bool {
	i, ok := slices.BinarySearchFunc(members, p.ID, func(m Peer, id topology.NodeID) int { return m.ID.Compare(id) })
	return ok && members[i] == p
}

// second is the time as seconds of this barrier's life, rounded up.
func (b *Barrier) second() uint32 {
	if b.born.IsZero() {
		b.born = b.now()
	}
	return uint32((b.now().Sub(b.born) + time.Second - 1) / time.Second)
}

// followOwners notes, before new targets are adopted, who is missed and who is back.
func (b *Barrier) followOwners(t *Targets) {
	now := b.second()
	if b.tenure == nil {
		b.tenure = make([]uint32, len(t.Owner))
	}
	for _, x := range b.missed {
		for _, m := range t.Members {
			if !among(x.members, m) { // it may have served anything before it met this node
				b.forget(x)
				break
			}
		}
		for i := range x.slots {
			e := &x.slots[i]
			switch p, ok := t.ownerPeer(e.slot); {
			case ok && p == x.of:
				e.back = true
			case !ok || e.back || p != x.heirs[e.heir]:
				b.void(e)
			}
		}
	}
	if b.cur != nil {
		for _, m := range b.cur.Members {
			if p, ok := t.peer(m.ID); m.ID != b.self && (!ok || p != m) {
				b.miss(m, t)
			}
		}
	}
	b.trimMissed()
	for s := range t.Owner {
		before, had := Peer{}, false
		if b.cur != nil {
			before, had = b.cur.ownerPeer(uint16(s))
		}
		if p, ok := t.ownerPeer(uint16(s)); !had || !ok || p != before {
			b.tenure[s] = now
		}
	}
}

// miss notes a process that new targets do not have any more.
func (b *Barrier) miss(p Peer, t *Targets) {
	for _, old := range b.missed {
		if old.of == p {
			b.forget(old)
		}
	}
	for _, m := range t.Members {
		if !among(b.cur.Members, m) {
			return
		}
	}
	x := &missed{of: p, members: b.cur.Members, with: membersHash(b.cur.Members), until: b.now().Add(missedFor)}
	for s := range b.cur.Owner {
		slot := uint16(s)
		if owner, ok := b.cur.ownerPeer(slot); !ok || owner != p || b.slots.Serving(slot) {
			continue
		}
		heir, ok := t.ownerPeer(slot)
		if !ok {
			continue
		}
		i := slices.Index(x.heirs, heir)
		if i < 0 {
			i = len(x.heirs)
			x.heirs = append(x.heirs, heir)
		}
		x.slots = append(x.slots, missedSlot{slot: slot, heir: uint16(i), since: b.tenure[s]})
	}
	if len(x.slots) > 0 {
		b.missed = append(b.missed, x)
	}
}

// forget ends all that is remembered of a process.
func (b *Barrier) forget(x *missed) {
	for i := range x.slots {
		b.void(&x.slots[i])
	}
	x.slots = nil
}

// forgetMissed ends all that is remembered.
func (b *Barrier) forgetMissed() {
	for _, x := range b.missed {
		b.forget(x)
	}
	b.missed = nil
}

// void says that nothing can be said of a slot any more.
func (b *Barrier) void(e *missedSlot) {
	if l, ok := b.slots.(logs); ok && e.opened && e.log == nil && !e.void {
		l.TakeLog(e.slot)
	}
	e.void, e.log = true, nil
}

// trimMissed drops what is void, and the first where there are too many.
func (b *Barrier) trimMissed() {
	if len(b.missed) > missedMost {
		for _, x := range b.missed[:len(b.missed)-missedMost] {
			b.forget(x)
		}
	}
	for _, x := range b.missed {
		x.slots = slices.DeleteFunc(x.slots, func(e missedSlot) bool { return e.void })
	}
	b.missed = slices.DeleteFunc(b.missed, func(x *missed) bool { return len(x.slots) == 0 })
}

// expireMissed forgets what is too old.
func (b *Barrier) expireMissed(now time.Time) {
	for _, x := range b.missed {
		if !now.Before(x.until) {
			b.forget(x)
		}
	}
	b.trimMissed()
}

// eachMissed calls fn for what is remembered of a slot; own: this node is the heir.
func (b *Barrier) eachMissed(slot uint16, fn func(e *missedSlot, own bool)) {
	for _, x := range b.missed {
		i, ok := slices.BinarySearchFunc(x.slots, slot, func(e missedSlot, slot uint16) int { return int(e.slot) - int(slot) })
		if ok && !x.slots[i].void {
			fn(&x.slots[i], x.heirs[x.slots[i].heir].ID == b.self)
		}
	}
}

// openLog begins the log of a slot that is about to be served in place of a process
// that is missed, if nobody has served it since.
func (b *Barrier) openLog(slot uint16) {
	b.eachMissed(slot, func(e *missedSlot, own bool) {
		l, ok := b.slots.(logs)
		_, offered := b.offers[slot]
		if !ok || !own || e.opened || e.back || offered || b.slots.Keys(slot) > 0 {
			b.void(e)
			return
		}
		e.opened = true
		l.OpenLog(slot)
	})
}

// endTenure follows the end of a serving bit: a slot that is given back to the
// process that was missed leaves its log; what else it may be, nothing is proved.
func (b *Barrier) endTenure(slot uint16) {
	if b.tenure != nil {
		b.tenure[slot] = b.second()
	}
	b.eachMissed(slot, func(e *missedSlot, own bool) {
		l, can := b.slots.(logs)
		if !can || !own || !e.back || !e.opened || e.log != nil {
			b.void(e)
			return
		}
		log, ok := l.TakeLog(slot)
		if e.log = &log; !ok {
			b.void(e)
		}
	})
}

// tell adds to an agreement what this node knows of the slots of a process that was
// missed: nothing, unless it had the same members as that process, and the process had
// owned the slots for longer than it has been away.
func (b *Barrier) tell(q *Request, v *Verdict) {
	i := slices.IndexFunc(b.missed, func(x *missed) bool { return x.of == Peer{q.From, q.Process} })
	if q.Away == 0 || i < 0 || b.missed[i].with != q.Away {
		return
	}
	x := b.missed[i]
	var asked Set
	asked.addRanges(q.Ranges)
	by := make([]Set, len(x.heirs))
	t, prints := new(Testimony), 0
	for i := range x.slots {
		e := &x.slots[i]
		age := b.now().Sub(b.born) - time.Duration(e.since)*time.Second
		if e.void || !e.back || !asked.Has(e.slot) || age < q.Silence+tenureMargin {
			continue
		}
		if x.heirs[e.heir].ID != b.self {
			by[e.heir].Add(e.slot)
			continue
		}
		l, can := b.slots.(logs)
		if !can || b.slots.Serving(e.slot) || e.opened && e.log == nil {
			continue
		}
		log := l.NoTouches()
		if e.opened {
			log = *e.log
		}
		if prints += len(log.Prints); prints <= logMost {
			t.Seed, t.Check = log.Seed, log.Check
			t.Logs = append(t.Logs, SlotLog{e.slot, log.Prints})
		}
	}
	for i := range by {
		if by[i].Len() > 0 {
			t.Heirs = append(t.Heirs, Heir{x.heirs[i], by[i].Ranges()})
		}
	}
	if len(t.Heirs)+len(t.Logs) > 0 {
		v.Left = t
		x.until = minTime(x.until, b.now().Add(toldFor))
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
