package node

import (
	"hash/maphash"
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
	// differsFor is longer than news are on their way in the largest cluster: there
	// thousands answer one node, and few of them may come back to it.
	differsFor = 2 * time.Second
	differsGap = time.Second // without such a question for so long, it is over
)

// exchanger is the part of membership that swaps its whole state with a member at a
// gossip address, in the background; it gives way where many are under way.
type exchanger interface{ Exchange(gossip string) }

// difference is since when a member asks by a View with other entries than this node's.
type difference struct {
	mu          sync.Mutex
	seed        maphash.Seed // made at first use
	view        uint64       // the last such View
	since, last time.Time
}

// lasts notes a question by a View, encoded, that has another entry of somebody, and
// tells whether it has been that View for long; then it begins to count anew.
func (d *difference) lasts(encoded []byte, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		d.seed = maphash.MakeSeed()
	}
	view := maphash.Bytes(d.seed, encoded)
	if view != d.view || now.Sub(d.last) >= differsGap {
		d.since = now // what was missed before has come, or there is something newer
	}
	d.view, d.last = view, now
	if now.Sub(d.since) < differsFor {
		return false
	}
	d.since = now
	return true
}

// catchUp is called with a peer's View, encoded, and its members while it disagrees
// with this node.
func (n *Node) catchUp(from topology.NodeID, encoded []byte, theirs []topology.Member) {
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
	if e, ok := n.membership().(exchanger); ok && differs && gossip != "" && n.differs.lasts(encoded, time.Now()) {
		e.Exchange(gossip)
	}
}
