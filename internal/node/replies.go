package node

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// The CLUSTER replies that are encoded once for each View and protocol.
const (
	replySlots = iota
	replyShards
	replyNodes
	replyCopies // CLUSTER SLOTS for clients that take copies
	replyKinds

	numReplies = 2 * replyKinds // RESP2, then RESP3
)

// reply returns one of the encoded replies; the bytes are shared.
func (p *published) reply(kind, proto int) []byte {
	slot := kind
	if proto == 3 {
		slot += replyKinds
	}
	r := &p.replies[slot]
	r.once.Do(func() {
		w := resp.Writer{Proto: proto}
		switch kind {
		case replySlots:
			p.writeSlots(&w)
		case replyShards:
			p.writeShards(&w)
		case replyNodes:
			w.Verbatim("txt", p.nodesText())
		case replyCopies:
			p.writeCopies(&w)
		}
		r.text = w.Buf
	})
	return r.text
}

// ranges are the slots with their owners as clients see them: without holes.
// While no member owns slots yet (the first one is starting), this node stands
// for all of them: requests wait here until somebody serves.
func (p *published) ranges() []topology.OwnedRange {
	if r := p.view.Ranges(); len(r) > 0 {
		return r
	}
	self, _ := p.view.Index(p.self)
	return []topology.OwnedRange{{First: 0, Last: ring.Slots - 1, Owner: self}}
}

// writeSlots writes CLUSTER SLOTS: [first, last, [host, port, id, metadata]].
func (p *published) writeSlots(w *resp.Writer) {
	ranges := p.ranges()
	w.Array(len(ranges))
	for _, r := range ranges {
		w.Array(3)
		w.Int(int64(r.First))
		w.Int(int64(r.Last))
		writeSlotNode(w, p.view.Member(r.Owner))
	}
}

func writeSlotNode(w *resp.Writer, m *topology.Member) {
	w.Array(4)
	w.BulkString(m.Host)
	w.Int(int64(m.Port))
	w.BulkString(m.ID.String())
	w.Array(0)
}

// writeCopies is writeSlots with the nodes that keep copies behind the owners.
func (p *published) writeCopies(w *resp.Writer) {
	type run struct {
		first, last uint16
		nodes       []int
	}
	var runs []run
	for _, r := range p.ranges() {
		for slot := int(r.First); slot <= int(r.Last); slot++ {
			nodes := p.view.Successors([]int{r.Owner}, uint16(slot), p.replicas)
			if n := len(runs); n > 0 && int(runs[n-1].last)+1 == slot && slices.Equal(runs[n-1].nodes, nodes) {
				runs[n-1].last = uint16(slot)
				continue
			}
			runs = append(runs, run{uint16(slot), uint16(slot), nodes})
		}
	}
	w.Array(len(runs))
	for _, r := range runs {
		w.Array(2 + len(r.nodes))
		w.Int(int64(r.first))
		w.Int(int64(r.last))
		for _, i := range r.nodes {
			writeSlotNode(w, p.view.Member(i))
		}
	}
}

// owned groups the ranges by member index.
func (p *published) owned() [][]topology.OwnedRange {
	by := make([][]topology.OwnedRange, p.view.Len())
	for _, r := range p.ranges() {
		by[r.Owner] = append(by[r.Owner], r)
	}
	return by
}

// writeShards writes CLUSTER SHARDS: one shard for each owner.
func (p *published) writeShards(w *resp.Writer) {
	by := p.owned()
	count := 0
	for _, rs := range by {
		if len(rs) > 0 {
			count++
		}
	}
	w.Array(count)
	for i, rs := range by {
		if len(rs) == 0 {
			continue
		}
		w.Map(2)
		w.BulkString("slots")
		w.Array(2 * len(rs))
		for _, r := range rs {
			w.Int(int64(r.First))
			w.Int(int64(r.Last))
		}
		w.BulkString("nodes")
		w.Array(1)
		p.writeShardNode(w, p.view.Member(i))
	}
}

func (p *published) writeShardNode(w *resp.Writer, m *topology.Member) {
	name := net.ParseIP(m.Host) == nil
	fields := 7
	if name {
		fields++
	}
	w.Map(fields)
	pair := func(k, v string) {
		w.BulkString(k)
		w.BulkString(v)
	}
	pair("id", m.ID.String())
	w.BulkString("port")
	w.Int(int64(m.Port))
	pair("ip", m.Host)
	pair("endpoint", m.Host)
	if name {
		pair("hostname", m.Host)
	}
	pair("role", "master")
	w.BulkString("replication-offset")
	w.Int(0)
	pair("health", "online")
}

// nodesText is CLUSTER NODES: a line for each member that clients may know,
// members that died lately included, each line ended.
func (p *published) nodesText() string {
	var b strings.Builder
	by := p.owned()
	for i := range p.view.Len() {
		m := p.view.Member(i)
		if m.State == topology.Joining && !p.isSelf(i) {
			continue
		}
		flags, linked := "master", "connected"
		switch {
		case p.isSelf(i):
			flags = "myself,master"
		case p.health(m.ID) == membership.Suspect:
			flags = "master,fail?"
		}
		p.nodeLine(&b, m, flags, linked, by[i])
	}
	for _, d := range p.snap.Members {
		if _, listed := p.view.Index(d.ID); d.Health == membership.Dead && !listed {
			p.nodeLine(&b, &d.Member, "master,fail", "disconnected", nil)
		}
	}
	return b.String()
}

func (p *published) nodeLine(b *strings.Builder, m *topology.Member, flags, linked string, owned []topology.OwnedRange) {
	bus := "0"
	if _, port, err := net.SplitHostPort(m.Gossip); err == nil {
		bus = port
	}
	fmt.Fprintf(b, "%s %s@%s", m.ID, clientAddr(m), bus)
	if net.ParseIP(m.Host) == nil {
		b.WriteString("," + m.Host)
	}
	fmt.Fprintf(b, " %s - 0 0 %d %s", flags, m.Sequence, linked)
	for _, r := range owned {
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(int(r.First)))
		if r.First != r.Last {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(r.Last)))
		}
	}
	b.WriteByte('\n')
}

func (p *published) health(id topology.NodeID) membership.Health {
	if peer := p.peer(id); peer != nil {
		return peer.Health
	}
	return membership.Alive
}

// peer is what membership says of a member; nil: nothing.
func (p *published) peer(id topology.NodeID) *membership.Peer {
	i := slices.IndexFunc(p.snap.Members, func(m membership.Peer) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &p.snap.Members[i]
}

// infoText is CLUSTER INFO, apart from what does not follow from the View. The state is
// always ok: a part of a split cluster keeps serving all slots.
func (p *published) infoText() string {
	size, suspect := 0, 0
	for i := range p.view.Len() {
		if p.view.OwnedBy(i) > 0 {
			size++
			if p.health(p.view.Member(i).ID) == membership.Suspect {
				suspect += p.view.OwnedBy(i)
			}
		}
	}
	var my uint64
	if i, ok := p.view.Index(p.self); ok {
		my = p.view.Member(i).Sequence
	}
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value any
	}{
		{"cluster_state", "ok"}, {"cluster_slots_assigned", ring.Slots}, {"cluster_slots_ok", ring.Slots - suspect},
		{"cluster_slots_pfail", suspect}, {"cluster_slots_fail", 0}, {"cluster_known_nodes", p.view.Len()},
		{"cluster_size", max(size, 1)}, {"cluster_current_epoch", uint64(p.view.Epoch())}, {"cluster_my_epoch", my},
		{"total_cluster_links_buffer_limit_exceeded", 0}, {"ringcache_view", viewHash(p.view)},
	} {
		fmt.Fprintf(&b, "%s:%v\r\n", f.name, f.value)
	}
	return b.String()
}
