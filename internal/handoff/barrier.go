package handoff

import (
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// Slots are the serving bits and contents of the node's slots. Transfer
// implements it; each call takes the slot's shard lock, so that a request that
// holds the lock has finished before a bit is cleared.
type Slots interface {
	Serving(slot uint16) bool
	SetServing(slot uint16, on bool)
	// DropSlot removes the entries, and ends a cession or a window of the slot.
	DropSlot(slot uint16) int
	Keys(slot uint16) int64 // entries
	// Cede lets the process c.Peer take the entries of a slot that is not served.
	Cede(slot uint16, c Cession)
	// OpenWindow lets requests take entries from c.Peer; see Transfer.
	OpenWindow(slot uint16, c Cession)
	CloseWindow(slot uint16)
	// Taking is whom the window of a slot takes from; zero if none is open.
	Taking(slot uint16) Peer
	// Decline lets c.Peer know that nothing will be taken of its slot.
	Decline(slot uint16, c Cession)
}

// Ask is one question to a member: will you give these slots up for me? No
// ranges at all is a reminder instead: "I still serve slots that are yours,
// ask me for them"; nobody waits for its answer.
type Ask struct {
	ID      uint64 // unique within the Barrier; an answer to an older one is void
	To      topology.NodeID
	Targets *Targets
	Ranges  []Range
	// Last says that nobody else is left to convince: a member that serves the
	// slots gives them up now. Before, it only says that it is ready and goes
	// on serving, so that a slot is without a server for one round trip and not
	// until the slowest member has answered.
	Last bool
	// Pull are those of the slots whose content this node would take over, or is
	// taking over.
	Pull []Range
	// Return is the boot of the process before, while there is content of its
	// slots to be proven; 0 = none.
	Return uint64
	// Away names the members that this node had when it was away, while there is
	// content from before that; 0: there is none.
	Away uint64
}

// Verdict is a member's answer to an Ask.
type Verdict struct {
	Agreed bool       // the member serves none of the slots any more
	Ready  bool       // it would agree to a Last Ask
	Why    string     // why it does neither
	Served []Range    // slots that the member served until this moment
	Kept   []Range    // of the slots: see ReleaseTo
	Offers []Offer    // what the asker may take
	Asks   []Ask      // what the member itself has to send in consequence
	Sealed Sealed     // of Offers: which of the asker's copies are the latest
	Left   *Testimony // of the time when the asker was away; nil: nothing

	OfferedKeys uint64 // how many entries Offers are
}

// Barrier is one node's side of the RELEASE protocol, as a pure state machine:
// events in, Asks out, serving bits set and cleared through Slots.
//
// Invariant: a bit goes on only in open, and open runs only when every other
// member of the current Targets has agreed to an Ask that was issued after
// these Targets were adopted.
type Barrier struct {
	self    topology.NodeID
	slots   Slots
	cur     *Targets
	lastAsk uint64
	pending map[topology.NodeID]pendingAsk
	gained  Set // owned by cur, bit still off
	lost    Set // bit still on, owned by another member of cur
	// strangers are members that came (back) into cur without having agreed
	// since to the slots that this node serves: they may serve them as well,
	// from the time when neither side knew of the other.
	strangers map[topology.NodeID]struct{}
	retired   bool

	ceded  map[uint16]cededSlot // content that is kept for other nodes; none of these bits is on
	offers map[uint16]Cession   // of the gained slots: what agreements to Asks of cur let this node take
	stamps []uint64             // per slot: lastAsk when the slot was last served here
	now    func() time.Time
	// opening is called now and then while slots are being opened, which may take long.
	opening func()

	past      history
	proven    int // slots of the inheritance that have kept their content
	unproven  int
	inherited *Inheritance            // nil once it is settled
	confirmed map[topology.NodeID]Set // of the inheritance, by agreements to Asks of cur

	copies    *Copies
	sealer    Sealer              // nil: copies at a taker are never known to be the latest
	sealed    map[uint16]sealed   // of slots with copies: what their process has said of them when it gave the slot up
	exact     *Set                // of the slots that are being opened: those that keep their copies
	agreed    map[Peer]*agreement // those of the last copyHold, and some older ones
	takenOver int
	kept      int // slots with copies that were the latest when they were taken over

	born   time.Time // second counts from here
	tenure []uint32  // per slot: the second since which it has been the owner's of cur, and this node has not served it for another
	missed []*missed // processes that cur lacks, or lacked, the latest last
	formed time.Time // since when cur has had these members
	away   *away     // nil: this node has nothing from before an absence
	beside *Set      // of the slots that are being opened: those that keep what they had before an absence

	returned, unreturned int // slots that have kept it, and lost it
}

type pendingAsk struct {
	Ask
	opens bool // the gained slots wait for it
	whole bool // it covers every owned slot, not only the gained ones
	ready bool
	// agreed stays until every other member has agreed too. It may be old by
	// then: see Renew.
	agreed bool
}

// NewBarrier returns the barrier of a node that serves nothing yet.
func NewBarrier(self topology.NodeID, slots Slots) *Barrier {
	return &Barrier{
		self: self, slots: slots,
		pending:   map[topology.NodeID]pendingAsk{},
		strangers: map[topology.NodeID]struct{}{},
		now:       time.Now, opening: func() {}, copies: new(Copies), agreed: map[Peer]*agreement{},
	}
}

// Adopt takes new targets. Every Ask of earlier targets is void from here on.
// Without anybody to ask, the gained slots are served at once.
func (b *Barrier) Adopt(t *Targets) []Ask {
	if b.retired || b.cur != nil && b.cur.Hash == t.Hash {
		return nil
	}
	b.meet(t)
	b.dropForeign(t)
	b.followOwners(t)
	b.noteMembers(t)
	b.keepAway(t)
	b.past = b.past.record(b.cur, t)
	b.cur, b.confirmed, b.offers = t, nil, nil
	clear(b.pending)
	b.gained, b.lost = Set{}, Set{}
	owned := t.owned(t.index(b.self))
	for s := range t.Owner {
		slot := uint16(s)
		on := b.slots.Serving(slot)
		switch {
		case owned.Has(slot) && !on:
			b.gained.Add(slot)
		case on && !owned.Has(slot) && t.Owner[s] != NoOwner:
			b.lost.Add(slot)
		}
	}
	var asks []Ask
	for _, m := range t.Members {
		if m.ID == b.self {
			continue
		}
		_, whole := b.strangers[m.ID]
		want := &b.gained
		if whole {
			want = &owned
		}
		if want.Len() > 0 {
			asks = append(asks, b.ask(m.ID, want, whole))
		}
	}
	b.openIfAgreed()
	return asks
}

// meet notes the members of t that the current targets lack.
func (b *Barrier) meet(t *Targets) {
	for _, m := range t.Members {
		known := false
		if b.cur != nil {
			i := b.cur.index(m.ID)
			known = i >= 0 && b.cur.Members[i].Boot == m.Boot
		}
		if !known && m.ID != b.self {
			b.strangers[m.ID] = struct{}{}
		}
	}
	for id := range b.strangers {
		if t.index(id) < 0 {
			delete(b.strangers, id)
		}
	}
}

func (b *Barrier) ask(to topology.NodeID, want *Set, whole bool) Ask {
	b.lastAsk++
	opens := b.gained.Len() > 0
	a := Ask{ID: b.lastAsk, To: to, Targets: b.cur, Ranges: want.Ranges(), Last: !opens, Pull: b.pullable(to, want)}
	if b.inherited != nil {
		a.Return = b.inherited.Boot
	}
	if b.away != nil {
		a.Away = b.away.hash
	}
	b.pending[to] = pendingAsk{Ask: a, opens: opens, whole: whole}
	return a
}

func (b *Barrier) isPending(a Ask) bool { return b.pending[a.To].ID == a.ID && a.ID != 0 }

// Current returns the form in which an Ask has to be sent now; false if it is
// void or done.
func (b *Barrier) Current(a Ask) (Ask, bool) {
	if !b.isPending(a) {
		return a, false
	}
	a.Last = true
	if b.pending[a.To].opens {
		for _, p := range b.pending {
			a.Last = a.Last && (p.ready || p.agreed || !p.opens)
		}
	}
	return a, true
}

// Renew takes an agreement back that has grown old while others are still
// asked, and returns the Ask to repeat; false if it is not needed any more. The
// member may have taken this node for dead since and be back: its promise does
// not outlast that. So an agreement must never be older, when slots are opened,
// than the time that membership holds a death back.
func (b *Barrier) Renew(a Ask) (Ask, bool) {
	if !b.isPending(a) || !b.pending[a.To].agreed {
		return a, false
	}
	p := b.pending[a.To]
	p.agreed, p.ready = false, false
	b.pending[a.To] = p
	return b.Current(a)
}

// Answered notes that a member did not agree yet: it is ready, or not even that.
func (b *Barrier) Answered(a Ask, ready bool) {
	if p := b.pending[a.To]; b.isPending(a) && !p.agreed {
		p.ready = ready
		b.pending[a.To] = p
	}
}

// Agreed takes a member's agreement to an Ask and reports whether slots were
// opened by it. served lists slots that the member served until it agreed: what
// this node holds of them from before is dropped, because the other side may
// have taken newer writes.
func (b *Barrier) Agreed(a Ask, served []Range) (opened bool) {
	if !b.isPending(a) {
		return false
	}
	p := b.pending[a.To]
	if p.agreed {
		return false
	}
	if p.agreed = true; p.opens {
		b.pending[a.To] = p
	} else {
		delete(b.pending, a.To)
	}
	if p.whole {
		delete(b.strangers, a.To)
	}
	peer, member := b.cur.peer(a.To)
	b.dropGivenUp(a, peer)
	for _, r := range served {
		for s := int(r.First); s <= int(r.Last) && s < len(b.cur.Owner); s++ {
			if id, ok := b.cur.owner(uint16(s)); ok && id == b.self && !b.isExact(uint16(s), peer) && !b.hasLog(uint16(s), a.To) {
				b.dropCopies(uint16(s)) // and the content
			}
			if member && b.gained.Has(uint16(s)) {
				b.noteOffer(uint16(s), Cession{Peer: peer})
			}
		}
	}
	return b.openIfAgreed()
}

// openIfAgreed sets the serving bits of the gained slots if nobody is left to
// agree. It is the only place that sets a bit.
func (b *Barrier) openIfAgreed() bool {
	if b.gained.Len() == 0 {
		return false
	}
	for _, p := range b.pending {
		if p.opens && !p.agreed {
			return false
		}
	}
	for id, p := range b.pending {
		if p.opens {
			delete(b.pending, id)
		}
	}
	b.takeInheritance()
	logs := b.takeAway()
	b.settleCopies()
	b.gained.Each(func(slot uint16) {
		if _, waits := logs[slot]; !waits {
			b.open(slot)
		}
	})
	b.openAway(logs)
	b.gained, b.offers, b.exact, b.beside = Set{}, nil, nil, nil
	return true
}

// Lost is the number of slots that this node still serves for another owner.
func (b *Barrier) Lost() int { return b.lost.Len() }

// Gained is the number of slots that wait for agreement.
func (b *Barrier) Gained() int { return b.gained.Len() }
