package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// The error codes of internal commands.
const (
	codeNotYet      = "RCNOTYET"
	codeNotServing  = "RCNOTSERVING"
	codeUnavailable = "RCUNAVAILABLE"
)

// Words of RC.RELEASE.
const (
	prepare = "PREPARE" // do not give the slots up yet
	ready   = "READY"   // would give them up

	process = "BOOT" // the boot of the process that asks

	returning = "RETURN" // content of an earlier process waits for its proof
	kept      = "KEPT"   // the proof

	wasAway = "AWAY" // content from before an absence waits for its proof
)

// peerSession is the node's state of a session that said RC.HELLO.
type peerSession struct {
	handshake *link.Handshake // nil once it was verified
	id        topology.NodeID
	proven    bool
}

// openLinks makes the links to other nodes. A node without a listener has none.
func (n *Node) openLinks() (err error) {
	n.auth = &link.PeerAuth{Cluster: n.o.Cluster, Secret: n.o.Secret, Self: n.id}
	if n.o.Port == 0 {
		return nil
	}
	o := link.Options{Dialer: n.o.Dialer, Peer: n.auth, Proto: 2}
	if n.peers, err = link.NewPeers(o); err != nil {
		return err
	}
	if n.casts.links, err = link.NewPeers(o); err != nil {
		return err
	}
	if n.copies.links, err = link.NewPeers(o); err != nil {
		return err
	}
	if err = n.takes.open(o); err != nil {
		return err
	}
	// Links of its own: a request that waits at its owner must not stand
	// before a RELEASE.
	n.router, err = link.NewRouter(link.RouterOptions{Link: link.Options{Dialer: n.o.Dialer, Peer: n.auth},
		Manual: true, Timeout: serveWait + serveWait/2})
	return err
}

// strayLinks is how many links are kept that lead to no member: to nodes that left, or
// that are about to come.
const strayLinks = 16

// linkSets are the sets of links to other nodes.
func (n *Node) linkSets() []*link.Peers {
	return []*link.Peers{n.peers, n.casts.links, n.copies.links, n.takes.single, n.takes.many}
}

// dropLinks gives up the links that lead to no member any more, once they are many:
// nodes come and go at ever new addresses, and a set of links has room for so many.
func (n *Node) dropLinks() {
	v := n.View()
	var members map[string]bool
	for _, set := range n.linkSets() {
		if set == nil || set.Len() <= v.Len()+strayLinks {
			continue
		}
		if members == nil {
			members = make(map[string]bool, v.Len())
			for i := range v.Len() {
				members[v.Member(i).Addr()] = true
			}
		}
		for _, addr := range set.Addrs() {
			if !members[addr] {
				set.Forget(addr)
			}
		}
	}
}

// peerCommand executes the internal commands.
func (n *Node) peerCommand(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	st, _ := s.Attachment().(*peerSession)
	switch {
	case cmd.ID == command.RCHello:
		h, err := n.auth.ServerHello(args, w)
		if err != nil {
			n.refusedPeer(s, err)
			return
		}
		n.Forget(s)
		s.SetAttachment(&peerSession{handshake: h})
	case cmd.ID == command.RCAuth:
		n.peerAuth(s, st, args, w)
	case st == nil || !st.proven:
		w.Error("ERR unknown command '" + cmd.Name + "'")
	case cmd.ID == command.RCPing:
		n.ping(len(args) > 1, w)
	case cmd.ID == command.RCView:
		w.Bulk(n.View().AppendBinary(nil))
	case cmd.ID == command.RCTenure:
		n.tenureOf(st.id, string(args[1]), w)
	case cmd.ID == command.RCRelease:
		n.release(st.id, args, w)
	case cmd.ID == command.RCForward:
		n.forwarded(args, w)
	case cmd.ID == command.RCPublish:
		n.heardFromPeer(args, w)
	case cmd.ID == command.RCTake || cmd.ID == command.RCTakeMany || cmd.ID == command.RCTaken || cmd.ID == command.RCHave:
		n.takeCommand(st.id, cmd, args, w)
	case cmd.ID == command.RCPins:
		n.pinsFromPeer(args, w)
	case cmd.ID == command.RCRing:
		n.ringForPeer(args, w)
	case cmd.ID == command.RCStanding:
		n.standingOf(st.id, w)
	case cmd.ID == command.RCCopy:
		n.copyCommand(st.id, args, w)
	}
}

// peerAuth closes the handshake and tells the peer about this node.
func (n *Node) peerAuth(s Session, st *peerSession, args [][]byte, w *resp.Writer) {
	var h *link.Handshake
	if st != nil {
		h, st.handshake = st.handshake, nil
	}
	if err := n.auth.ServerVerify(h, args, w); err != nil {
		n.refusedPeer(s, err)
		return
	}
	st.id, st.proven = h.Peer, true
	s.SetPeer(true)
	self := n.selfMember()
	p := n.o.Params
	fields := []string{
		"node", n.id.String(), "boot", strconv.FormatUint(n.boot, 10), "gossip", self.Gossip,
		"placement", p.Placement, "tokens", strconv.Itoa(p.Tokens), "bound", strconv.FormatFloat(p.Bound, 'g', -1, 64),
		"view", viewHash(n.View()),
	}
	w.Array(len(fields))
	for _, f := range fields {
		w.BulkString(f)
	}
}

// refusedPeer ends the session of a peer that could not prove itself. Anybody
// can cause it, so the log gets one line a second.
func (n *Node) refusedPeer(s Session, err error) {
	s.CloseAfterReply()
	now := n.clock.millis()
	last := n.lastRefusal.Load()
	if now-last < 1000 || !n.lastRefusal.CompareAndSwap(last, now) {
		n.refusals.Add(1)
		return
	}
	n.log.Warn("refused a peer", "remote", s.RemoteAddr(), "error", err, "more_since_the_last_line", n.refusals.Swap(0))
}

// checkParams compares what a peer said of itself with this node.
func (n *Node) checkParams(info resp.Value, addr string) error {
	var other topology.Params
	if v, ok := info.Find("placement"); ok {
		other.Placement = v.Text()
	}
	if v, ok := info.Find("tokens"); ok {
		other.Tokens, _ = strconv.Atoi(v.Text())
	}
	if v, ok := info.Find("bound"); ok {
		other.Bound, _ = strconv.ParseFloat(v.Text(), 64)
	}
	if other.WithDefaults() != n.o.Params {
		return fmt.Errorf("%w: the node at %s has %s, this node has %s; they must be equal in a cluster",
			errs.ErrMismatch, addr, other, n.o.Params)
	}
	return nil
}

// release answers RC.RELEASE <view> <ranges> [<ID of the node that is meant>
// [PREPARE] [BOOT <boot>] [RETURN <boot>] [AWAY <ms> <members>] [PULL <boot> <ask> <ranges>]]: OK,
// READY if PREPARE was given and this node still serves some of the slots, or RCNOTYET. With
// RETURN, an OK has KEPT and the slots that have been the asker's ever since its process of that
// boot; with PULL, CEDED and what the asker's process of that boot may take. With AWAY the answer
// may be an array of the OK and a handoff.Testimony.
func (n *Node) release(from topology.NodeID, args [][]byte, w *resp.Writer) {
	if len(args) > 3 && string(args[3]) != n.id.String() {
		w.Error(codeNotYet + " this is node " + n.id.String())
		return
	}
	ranges, err := handoff.ParseRanges(string(args[2]))
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	q := handoff.Request{From: from, Ranges: ranges, Last: true}
	for i := 4; i < len(args); i++ { // words that are not known are ignored
		switch word := string(args[i]); {
		case word == prepare:
			q.Last = false
		case word == process && i+1 < len(args):
			i++
			q.Process, _ = strconv.ParseUint(string(args[i]), 10, 64) // 0 is nobody's
		case word == returning && i+1 < len(args):
			i++
			q.Return, _ = strconv.ParseUint(string(args[i]), 10, 64) // 0 proves nothing
		case word == wasAway && i+2 < len(args):
			if err = parseAway(&q, args[i+1:i+3]); err != nil {
				w.Error("ERR " + err.Error())
				return
			}
			i += 2
		case word == pulling && i+3 < len(args):
			if err = parsePull(&q, args[i+1:i+4]); err != nil {
				w.Error("ERR " + err.Error())
				return
			}
			i += 3
		}
	}
	p := n.pub.Load()
	v := n.barrier.ReleaseFor(q)
	if (v.Agreed || v.Ready) && len(ranges) > 0 {
		n.agreements.note(p, from, q.Process, n.clock.time())
	}
	if v.Why != "" || len(ranges) == 0 {
		n.compare(from, args[1])
	}
	switch {
	case v.Ready:
		w.Simple(ready)
	case !v.Agreed:
		w.Error(codeNotYet + " " + v.Why)
	case v.Left != nil:
		w.Array(2)
		w.Simple(agreement(&v))
		w.Bulk(v.Left.AppendBinary(nil))
	default:
		text := agreement(&v)
		if len(text) > agreementMost { // single slots, thousands of them
			w.BulkString(text)
			return
		}
		w.Simple(text)
	}
}

// compare looks for what a peer's View knows better: members unknown here are
// contacted, members that it lacks are dialled at once; where its pins differ, they
// are exchanged. It never blocks.
func (n *Node) compare(from topology.NodeID, encoded []byte) {
	if n.membership() == nil {
		return
	}
	_, members, pins, err := topology.DecodeView(encoded)
	if err != nil {
		n.log.Debug("a peer's view", "error", err)
		return
	}
	own := n.View()
	if !slices.Equal(pins, own.Pins()) {
		n.pins.exchangeWith(from)
	}
	n.catchUp(from, encoded, members)
	theirs := make(map[topology.NodeID]bool, len(members))
	for i := range members {
		theirs[members[i].ID] = true
		if _, known := own.Index(members[i].ID); !known {
			n.meet(members[i].Addr())
		}
	}
	for _, m := range own.Members() {
		if !theirs[m.ID] && m.ID != n.id {
			n.membership().Out(m.ID, from)
		}
	}
}

// sendRelease is the barrier's Sender.
func (n *Node) sendRelease(ctx context.Context, a handoff.Ask) (handoff.Answer, error) {
	view := a.Targets.View
	i, ok := view.Index(a.To)
	if !ok || n.peers == nil {
		return handoff.Answer{}, fmt.Errorf("%w: no address of %s", errs.ErrUnavailable, a.To)
	}
	args := [][]byte{[]byte("RC.RELEASE"), view.AppendBinary(nil), []byte(handoff.FormatRanges(a.Ranges)), []byte(a.To.String())}
	if !a.Last {
		args = append(args, []byte(prepare))
	}
	args = append(args, []byte(process), strconv.AppendUint(nil, n.boot, 10))
	if a.Return != 0 {
		args = append(args, []byte(returning), strconv.AppendUint(nil, a.Return, 10))
	}
	if a.Away != 0 {
		args = append(args, []byte(wasAway), decimal(uint64(n.gate.away().Milliseconds()+1)), decimal(a.Away))
	}
	if len(a.Pull) > 0 {
		ranges := handoff.FormatRanges(a.Pull)
		if slices.Equal(a.Pull, a.Ranges) {
			ranges = same
		}
		args = append(args, []byte(pulling), decimal(n.boot), decimal(a.ID), []byte(ranges))
	}
	v, err := n.peers.Do(ctx, view.Member(i).Addr(), resp.AppendCommand(nil, args...))
	if err != nil {
		n.failed(ctx, a.To, err)
		return handoff.Answer{}, err
	}
	n.heard(a.To)
	n.gate.agreed()
	var left *handoff.Testimony
	if v.Kind == resp.Array && len(v.Elems) == 2 {
		if left, err = handoff.ParseTestimony(v.Elems[1].Str); err != nil {
			n.log.Warn("a peer's testimony: what this node held is dropped", "peer", a.To.String(), "error", err)
		}
		v = v.Elems[0]
	}
	text := v.Text()
	switch {
	case v.Kind == resp.Error:
		return handoff.Answer{Why: text}, nil
	case text == ready:
		if len(a.Pull) > 0 { // it serves some of them; what they hold will be asked for in a moment
			n.takes.dial(view.Member(i).Addr())
		}
		return handoff.Answer{Ready: true}, nil
	}
	answer, err := parseAgreement(text)
	answer.Left = left
	return answer, err
}
