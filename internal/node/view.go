package node

import (
	"strconv"
	"sync"

	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/topology"
)

// published is everything that requests read about the cluster. It is
// immutable but for the replies, which are encoded at first use and kept.
type published struct {
	view     *topology.View
	previous []*topology.View // earlier Views, newest first, at most keptViews
	snap     membership.Snapshot
	self     topology.NodeID
	boot     uint64
	addrs    []string // host:port per member, as in MOVED and CLUSTER SLOTS
	replies  [numReplies]cachedReply
}

// cachedReply is one CLUSTER reply, encoded once for each View and protocol.
type cachedReply struct {
	once sync.Once
	text []byte
}

// newPublished builds what requests read; old may be nil.
func (n *Node) newPublished(v *topology.View, snap membership.Snapshot, old *published) *published {
	p := &published{view: v, snap: snap, self: n.id, boot: n.boot, addrs: make([]string, v.Len())}
	for i := range p.addrs {
		p.addrs[i] = clientAddr(v.Member(i))
	}
	switch {
	case old == nil:
	case old.view.Hash() == v.Hash():
		p.previous = old.previous
	default:
		p.previous = append(p.previous, old.view)
		p.previous = append(p.previous, old.previous[:min(len(old.previous), keptViews-1)]...)
	}
	return p
}

// clientAddr is the address as Redis writes it: no brackets around IPv6, so
// that MOVED equals host and port of CLUSTER SLOTS byte for byte.
func clientAddr(m *topology.Member) string {
	return m.Host + ":" + strconv.Itoa(int(m.Port))
}

// isSelf tells whether the member is this very process.
func (p *published) isSelf(i int) bool {
	m := p.view.Member(i)
	return m.ID == p.self && m.Boot == p.boot
}

// servers lists the members that may still serve a slot that this node owns:
// its owners in earlier Views, newest first, this process excepted.
func (p *published) servers(slot uint16) []topology.Member {
	var out []topology.Member
next:
	for _, v := range p.previous {
		m := v.OwnerMember(slot)
		if m == nil || m.ID == p.self {
			continue
		}
		i, ok := p.view.Index(m.ID)
		if !ok {
			continue
		}
		for _, have := range out {
			if have.ID == m.ID {
				continue next
			}
		}
		out = append(out, *p.view.Member(i))
	}
	return out
}

// onSnapshot takes news from membership; the latest wins.
func (n *Node) onSnapshot(s membership.Snapshot) {
	n.latest.Store(&s)
	select {
	case n.news <- struct{}{}:
	default: // viewLoop has not taken the last signal yet and will see this one
	}
}

// viewLoop is the single writer of the View. It ends when the node closes.
func (n *Node) viewLoop() {
	for {
		select {
		case <-n.news:
			n.rebuild()
		case <-n.ctx.Done():
			return
		}
	}
}

// rebuild makes a View of the latest snapshot and this node's own entry and
// adopts it.
func (n *Node) rebuild() {
	n.viewMu.Lock()
	defer n.viewMu.Unlock()
	var snap membership.Snapshot
	if s := n.latest.Load(); s != nil {
		snap = *s
	}
	if m := n.membership(); m != nil { // it may know more than it has told
		if s := m.Snapshot(); s.Version > snap.Version {
			snap = s
		}
	}
	if snap.Superseded {
		n.supersede(snap.By)
	}
	members := n.members(snap)
	v, err := topology.NewView(n.o.Params, n.place, members, nil)
	if err != nil {
		n.log.Error("cannot place the slots; keeping the view", "error", err)
		return
	}
	old := n.pub.Load()
	p := n.newPublished(v, snap, old)
	n.barrier.Adopt(handoff.TargetsOf(v), func() { n.pub.Store(p) })
	if old == nil || old.view.Hash() != v.Hash() {
		n.installRoutes(p)
		n.logChange(old, v)
	}
}

// members lists who belongs to the View: the snapshot without the dead, with
// this node's own latest entry.
func (n *Node) members(snap membership.Snapshot) []topology.Member {
	self := n.selfMember()
	var out []topology.Member
	for _, p := range snap.Members {
		switch {
		case p.ID == n.id && p.Boot == self.Boot && p.Sequence >= self.Sequence:
			self = p.Member // exactly what the others see
		case p.ID != n.id && p.Health != membership.Dead:
			out = append(out, p.Member)
		}
	}
	if snap.Superseded {
		self = snap.By
	}
	return append(out, self)
}

func (n *Node) logChange(old *published, v *topology.View) {
	var before *topology.View
	if old != nil {
		before = old.view
	}
	c := topology.Diff(before, v)
	moved := 0
	for _, m := range c.Moves {
		moved += int(m.Last-m.First) + 1
	}
	n.log.Info("new view", "hash", viewHash(v), "members", v.Len(), "joined", len(c.Joined), "left", len(c.Left), "slots_moved", moved)
}

func viewHash(v *topology.View) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	h := v.Hash()
	for i := range b {
		b[15-i] = digits[h&15]
		h >>= 4
	}
	return string(b[:])
}

// supersede gives everything up for a later incarnation of this node's ID.
func (n *Node) supersede(by topology.Member) {
	if n.superseded.Swap(true) {
		return
	}
	n.log.Error("another process has taken over the ID of this node; leaving", "id", n.id.String(), "other", by.Addr())
	n.barrier.Retire()
	n.shutdown("superseded by the node at " + by.Addr())
}

func (n *Node) selfMember() topology.Member {
	n.selfMu.Lock()
	defer n.selfMu.Unlock()
	return n.self
}

// setState changes this node's own entry, tells membership and adopts the View
// that follows from it.
func (n *Node) setState(s topology.State) error {
	var seen uint64
	if n.membership() != nil {
		for _, p := range n.membership().Snapshot().Members {
			seen = max(seen, p.Sequence)
		}
	}
	n.selfMu.Lock()
	n.self.State = s
	n.self.Sequence = max(n.self.Sequence, seen) + 1
	self := n.self
	n.selfMu.Unlock()
	var err error
	if n.membership() != nil {
		err = n.membership().Update(self)
	}
	n.rebuild()
	return err
}
