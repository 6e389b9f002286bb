package node

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// nudges make clients learn the slots anew after an owner has died. Some, such
// as go-redis, do that on MOVED only, or once a minute: as long as they ask the
// dead node for the slots that it had, and the survivors for theirs, nobody
// tells them. So each session that is older than the death gets one MOVED, to
// this same node: it was not executed, the client repeats it here and fetches
// the slots. Sessions that begin later ask for the slots at their start. The
// sessions of one host get theirs one after the other, since the repetition
// comes by any of them and clients follow few redirects.
type nudges struct {
	round atomic.Uint64 // deaths so far
	last  atomic.Uint64 // the latest session at the last of them

	mu    sync.Mutex
	hosts map[netip.Addr]int64 // when a session of a host was nudged in this round, ms; as many as there are sessions at most
}

// nudgeEvery is the least time between two nudges of one host, in ms.
const nudgeEvery = 50

// begin starts a round for the sessions up to an ID.
func (g *nudges) begin(last uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hosts = map[netip.Addr]int64{}
	g.last.Store(last)
	g.round.Add(1)
}

// due tells whether a session of this host may be nudged now, and notes it.
func (g *nudges) due(from net.Addr, now int64) bool {
	var host netip.Addr
	if a, ok := from.(*net.TCPAddr); ok {
		host = a.AddrPort().Addr()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, ok := g.hosts[host]; ok && now-at < nudgeEvery {
		return false
	}
	g.hosts[host] = now
	return true
}

// ownerDied tells whether an owner of old is no member of now. One that left in
// good order owned nothing any more.
func ownerDied(old, now *topology.View) bool {
	for i := range old.Len() {
		if old.OwnedBy(i) == 0 {
			continue
		}
		if _, ok := now.Index(old.Member(i).ID); !ok {
			return true
		}
	}
	return false
}

// nudge answers MOVED in place of a command on a slot of this node, once per
// session and round.
func (n *Node) nudge(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	round := n.nudges.round.Load()
	if round == 0 || s.ID() > n.nudges.last.Load() {
		return false
	}
	if _, peer := s.Attachment().(*peerSession); peer {
		return false // it hears of Views by gossip
	}
	if st := stateOf(s); st != nil && (st.nudged >= round || st.watch.Keys() > 0) {
		return false // what is watched here would be lost by a client that goes elsewhere
	}
	var room [32]int
	keys := cmd.AppendKeys(room[:0], args)
	if len(keys) == 0 {
		return false
	}
	slot := ring.Slot(args[keys[0]])
	p := n.pub.Load()
	owner := p.view.Owner(slot)
	if owner < 0 || !p.isSelf(owner) || !n.eng.Serving(slot) {
		return false // it gets its MOVED from elsewhere, or waits
	}
	if !n.nudges.due(s.RemoteAddr(), n.clock.millis()) {
		return false
	}
	openState(s).nudged = round
	w.Error("MOVED " + strconv.Itoa(int(slot)) + " " + p.addrs[owner])
	return true
}
