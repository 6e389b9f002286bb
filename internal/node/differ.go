package node

import (
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// News of members may miss one of them: gossip sends each piece a number of times to
// members by chance, some of which may be gone. Until the next full exchange of
// membership, seconds later, two members then see different owners, and a slot that
// is to be opened waits for both. Who answers a RELEASE sees that, and when it lasts,
// exchanges everything with who asks.
const (
	differsFor = time.Second // longer than news are on their way
	differsGap = time.Second // without such a question for so long, it is over
)

// exchanger is the part of membership that swaps its whole state with a member at a
// gossip address, in the background; it gives way where many are under way.
type exchanger interface{ Exchange(gossip string) }

// difference is since when members have asked that know other entries than this node.
type difference struct {
	mu          sync.Mutex
	since, last time.Time
}

// lasts notes a question of a member that knows another entry of somebody, and tells
// whether that has been so for long; then it begins to count anew.
func (d *difference) lasts(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.last) >= differsGap {
		d.since = now
	}
	d.last = now
	if now.Sub(d.since) < differsFor {
		return false
	}
	d.since = now
	return true
}

// catchUp is called with the members of a peer's View while it disagrees with this
// node.
func (n *Node) catchUp(from topology.NodeID, theirs []topology.Member) {
	own, gossip, differs := n.View(), "", false
	for i := range theirs {
		m := &theirs[i]
		if m.ID == from {
			gossip = m.Gossip
		}
		if j, known := own.Index(m.ID); known {
			o := own.Member(j)
			differs = differs || o.Boot != m.Boot || o.Sequence != m.Sequence
		}
	}
	if e, ok := n.membership().(exchanger); ok && differs && gossip != "" && n.differs.lasts(time.Now()) {
		e.Exchange(gossip)
	}
}
