package node

import (
	"fmt"
	"time"

	"github.com/ringcache/ringcache/internal/membership"
)

// maxInfoPeers bounds the peers that INFO lists; CLUSTER NODES lists all.
const maxInfoPeers = 128

// infoPeers writes a line for each other member: what this node thinks of it, and
// its round trips in microseconds.
func infoPeers(n *Node, t *infoText) {
	p := n.pub.Load()
	listed := 0
	for i := range p.snap.Members {
		m := &p.snap.Members[i]
		if m.ID == n.id {
			continue
		}
		if listed++; listed > maxInfoPeers {
			continue
		}
		t.add(fmt.Sprintf("peer%d", listed-1), fmt.Sprintf("id=%s,addr=%s,state=%s,health=%s,degraded=%s,rtt_usec=%d,dial_rtt_usec=%d",
			m.ID, m.Addr(), m.State, m.Health, degradedWord(m), m.RTT/time.Microsecond, m.DialRTT/time.Microsecond))
	}
	if listed > maxInfoPeers {
		t.add("peers_not_listed", listed-maxInfoPeers)
	}
}

// degradedWord says in whose eyes a peer is degraded.
func degradedWord(m *membership.Peer) string {
	switch {
	case m.Degraded && m.Failing:
		return "both"
	case m.Degraded:
		return "self"
	case m.Failing:
		return "requests"
	}
	return "no"
}
