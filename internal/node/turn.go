package node

import (
	"math"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// One node of a cluster changes at a time: it joins, leaves or gets another
// weight. Nobody grants it; all follow one order over what the members say of
// themselves. Whoever has nobody before it may take its next step, the others
// wait. Of any number of nodes one is first, whatever each has heard, so they
// never all wait; two that have begun without knowing of each other go on one
// after the other. A node that dies is no member any more and keeps nobody
// waiting; one that lives and does not get on is passed by, see patience.

// The ranks of that order; within one, the lower ID comes first.
const (
	rankLeaving     = iota // has given slots up, and shall end before its deadline
	rankLeavingNext        // wants to leave
	rankChanging           // has taken its first step of a join, or of a change of weight
	rankWaiting            // wants to take it
	rankNone               // nothing is to change
)

// rankOf ranks a member by its entry.
func rankOf(m *topology.Member) int {
	part := m.Progress > 0 && m.Progress < 1
	switch {
	case m.State == topology.Draining && part:
		return rankLeaving
	case m.State == topology.Draining && m.Progress == 1:
		return rankLeavingNext
	case m.State == topology.Warming && m.Progress == 0:
		return rankWaiting
	case m.State == topology.Warming, m.State == topology.Active && part:
		return rankChanging
	}
	return rankNone
}

// ahead returns a member that takes its steps before self, the first of them;
// nil: it is self's turn. A self that waits without saying so, to change its
// weight, ranks as waiting.
func ahead(members []topology.Member, self topology.NodeID, passed func(*topology.Member) bool) *topology.Member {
	own := rankWaiting
	for i := range members {
		if members[i].ID == self {
			own = min(own, rankOf(&members[i]))
		}
	}
	var first *topology.Member
	best := own
	for i := range members { // by ID
		m := &members[i]
		rank := rankOf(m)
		before := rank < own || rank == own && m.ID.Less(self)
		if m.ID == self || !before || passed(m) || first != nil && rank >= best {
			continue
		}
		first, best = m, rank
	}
	return first
}

// patience passes a member by that has said nothing new for a time: it must not
// keep all others from changing for ever.
type patience struct {
	limit time.Duration
	seen  map[topology.NodeID]standstill // at most one for each member
}

type standstill struct {
	boot, sequence uint64
	since          time.Time
}

// passed notes what a member says and tells whether that is too old.
func (p *patience) passed(m *topology.Member, now time.Time) bool {
	s, ok := p.seen[m.ID]
	if !ok || s.boot != m.Boot || s.sequence != m.Sequence {
		if p.seen == nil || len(p.seen) > topology.MaxMembers {
			p.seen = map[topology.NodeID]standstill{}
		}
		p.seen[m.ID] = standstill{m.Boot, m.Sequence, now}
		return false
	}
	return now.Sub(s.since) >= p.limit
}

// stepUp is the progress after p, of so many steps from 0 to 1. A p between two
// steps, from a time with another number of them, counts as the one below.
func stepUp(p float64, steps int) float64 {
	k := math.Floor(p*float64(steps)+1e-6) + 1
	return min(k/float64(steps), 1)
}

// stepDown is the progress after p on the way from 1 to 0.
func stepDown(p float64, steps int) float64 {
	k := math.Ceil(p*float64(steps)-1e-6) - 1
	return max(k/float64(steps), 0)
}

// others tells what a node that changes needs to know of the other members of a
// View: how many stay in the cluster, and how many of these own slots by now.
func others(v *topology.View, self topology.NodeID) (staying, present int) {
	for _, m := range v.Members() {
		if m.ID == self || m.State >= topology.Draining {
			continue
		}
		staying++
		if m.Presence() > 0 {
			present++
		}
	}
	return staying, present
}
