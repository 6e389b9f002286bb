package node

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
	addrs    []string    // host:port per member, as in MOVED and CLUSTER SLOTS
	since    []time.Time // per member, see tenures
	replicas int         // copies of each slot
	replies  [numReplies]cachedReply
	info     func() string // infoText, made once
}

// cachedReply is one CLUSTER reply, encoded once for each View and protocol.
type cachedReply struct {
	once sync.Once
	text []byte
}

// newPublished builds what requests read; old may be nil.
func (n *Node) newPublished(v *topology.View, snap membership.Snapshot, old *published) *published {
	p := &published{view: v, snap: snap, self: n.id, boot: n.boot, replicas: n.o.Replicas, addrs: make([]string, v.Len()), since: n.tenures(v, old)}
	p.info = sync.OnceValue(p.infoText)
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

// joining tells whether this process is on its way into the cluster.
func (p *published) joining() bool {
	i, ok := p.view.Index(p.self)
	return ok && p.isSelf(i) && p.view.Member(i).State == topology.Joining
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

// viewLoop makes Views of news, a burst at a time. It ends when the node closes.
func (n *Node) viewLoop() {
	t := time.NewTimer(time.Hour)
	t.Stop()
	defer t.Stop()
	gathering := false
	for {
		select {
		case <-n.news:
			if !gathering {
				gathering = true
				t.Reset(newsWait)
			}
		case <-t.C:
			gathering = false
			if next := n.rebuild(); next > 0 {
				t.Reset(next)
			}
		case <-n.ctx.Done():
			return
		}
	}
}

// rebuild makes a View of the latest snapshot and this node's own entry and
// adopts it. It returns after what time it has to be repeated without any news;
// 0: need not.
func (n *Node) rebuild() (again time.Duration) {
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
	old := n.pub.Load()
	members, again := n.members(snap, old)
	v, err := n.viewOf(members, old)
	if err != nil {
		n.log.Error("cannot place the slots; keeping the view", "error", err)
		return again
	}
	if v.Len() > 1 {
		n.met.Store(true)
	}
	p := n.newPublished(v, snap, old)
	t := handoff.TargetsOf(v)
	n.barrier.Adopt(t, func() { n.pub.Store(p) })
	n.transfer.Adopted(t)
	n.noteView(old, p)
	n.gate.arm(v.Len() > 1 && n.peers != nil)
	if old == nil || old.view.Hash() != v.Hash() {
		if old != nil && ownerDied(old.view, v) {
			n.nudges.begin(n.frontStats().Total)
		}
		n.installRoutes(p)
		n.logChange(old, v)
	}
	return again
}

// viewOf makes a View, or takes the present one if neither members nor pins are
// news, but somebody's health.
func (n *Node) viewOf(members []topology.Member, old *published) (*topology.View, error) {
	slices.SortFunc(members, func(a, b topology.Member) int { return a.ID.Compare(b.ID) })
	pins := n.pinsOf(members)
	if old != nil && slices.Equal(members, old.view.Members()) && slices.Equal(pins, old.view.Pins()) {
		return old.view, nil
	}
	return topology.NewView(n.o.Params, n.place, members, pins)
}

// members lists who belongs to the View: the snapshot without the dead, with
// this node's own latest entry. again is when a kept place ends.
func (n *Node) members(snap membership.Snapshot, old *published) (out []topology.Member, again time.Duration) {
	self := n.selfMember()
	now := time.Now()
	for _, p := range snap.Members {
		switch {
		case p.ID == n.id && p.Boot == self.Boot && p.Sequence >= self.Sequence:
			self = p.Member // exactly what the others see
		case p.ID != n.id && p.Health != membership.Dead:
			m, left := n.keepPlace(p.Member, old, now)
			if left > 0 && (again == 0 || left < again) {
				again = left
			}
			out = append(out, m)
		}
	}
	if snap.Superseded {
		self = snap.By
	}
	for id := range n.held {
		if !slices.ContainsFunc(out, func(m topology.Member) bool { return m.ID == id }) {
			delete(n.held, id) // it has died again before it was back
		}
	}
	return append(out, self), again
}

// heldTill is how long the place of a restarted member is kept.
type heldTill struct {
	boot uint64 // of the new incarnation
	end  time.Time
}

// keepPlace gives the entry under which a member stands in the View. A process
// that died and came back before anybody took it for dead comes as joining,
// owns nothing yet, and will own the same slots in a moment. Without its place
// they would move to the others and back, and with them slots between others:
// keys would be lost on nodes that never failed. So its old entry stays until
// it owns slots again, for restartHold at most (left is what remains of that). It
// makes requests wait meanwhile, see elsewhere, and takes its place as it was, see
// standing.
func (n *Node) keepPlace(m topology.Member, old *published, now time.Time) (_ topology.Member, left time.Duration) {
	var before *topology.Member
	if old != nil {
		if i, ok := old.view.Index(m.ID); ok {
			before = old.view.Member(i)
		}
	}
	back := m.State > topology.Warming || m.Presence() > 0
	if before == nil || before.Presence() == 0 || back || m.Boot <= before.Boot {
		delete(n.held, m.ID)
		return m, 0
	}
	h, ok := n.held[m.ID]
	if !ok || h.boot != m.Boot {
		h = heldTill{m.Boot, now.Add(restartHold)}
		if n.held == nil {
			n.held = map[topology.NodeID]heldTill{}
		}
		n.held[m.ID] = h
		n.log.Info("a member has restarted; it keeps its slots while it joins", "peer", m.Addr(), "limit", restartHold.String())
	}
	if left = h.end.Sub(now); left <= 0 {
		return m, 0 // the entry of held goes when it is active or gone
	}
	return *before, left
}

// maxNamed bounds the members named in one line of the log.
const maxNamed = 8

func (n *Node) logChange(old *published, v *topology.View) {
	if old == nil {
		return
	}
	c := topology.Diff(old.view, v)
	moved := 0
	for _, m := range c.Moves {
		moved += int(m.Last-m.First) + 1
	}
	owners := 0
	for i := range v.Len() {
		if v.OwnedBy(i) > 0 {
			owners++
		}
	}
	args := []any{"hash", viewHash(v), "members", v.Len(), "owners", owners}
	names := func(word string, ids []topology.NodeID, in *topology.View) {
		var list []string
		for _, id := range ids[:min(len(ids), maxNamed)] {
			if i, ok := in.Index(id); ok {
				list = append(list, in.Member(i).Addr())
			}
		}
		if len(ids) > maxNamed {
			list = append(list, fmt.Sprintf("and %d more", len(ids)-maxNamed))
		}
		if len(list) > 0 {
			args = append(args, word, strings.Join(list, ","))
		}
	}
	names("joined", c.Joined, v)
	names("gone", c.Left, old.view)
	if moved > 0 {
		args = append(args, "slots_moved", moved)
	}
	level := slog.LevelInfo
	if len(c.Joined)+len(c.Left)+moved == 0 {
		level = slog.LevelDebug // somebody's own entry is new
	}
	n.log.Log(n.ctx, level, "new view", args...)
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
	return n.announce(func(m *topology.Member) { m.State, m.Progress, m.OldWeight = s, 0, 0 })
}

// announce is setState for any change of the own entry. change runs under selfMu.
func (n *Node) announce(change func(*topology.Member)) error {
	var seen uint64
	if n.membership() != nil {
		for _, p := range n.membership().Snapshot().Members {
			seen = max(seen, p.Sequence)
		}
	}
	n.selfMu.Lock()
	change(&n.self)
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
