package node

import (
	"maps"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// tenureOf answers RC.TENURE <boot>: for how many ms this node has had the peer's
// process in all of its Views, -1 while it cannot tell because it may have been away
// itself.
func (n *Node) tenureOf(peer topology.NodeID, boot string, w *resp.Writer) {
	if !n.gate.passed() {
		n.gate.look()
		w.Int(-1)
		return
	}
	p := n.pub.Load()
	i, ok := p.view.Index(peer)
	if !ok || strconv.FormatUint(p.view.Member(i).Boot, 10) != boot {
		w.Int(0)
		return
	}
	since := p.since[i]
	if since.IsZero() {
		w.Int(math.MaxInt64)
		return
	}
	w.Int(n.clock.time().Sub(since).Milliseconds())
}

// tenures notes since when each member of v has been in all Views in which this node
// owned slots; zero: in all of them. A process that has just started cannot have
// served anything behind anybody's back.
//
// A process whose ID was there before, as that of another process, counts from the first
// agreement to a RELEASE of it: Views have named it as the owner since then, and the news that
// it is another process may come later than the process counts its own silences from.
func (n *Node) tenures(v *topology.View, old *published) []time.Time {
	since := make([]time.Time, v.Len())
	if old == nil {
		return since
	}
	first := n.agreements.keep(v, old.view)
	self, ok := old.view.Index(n.id)
	owner := ok && old.isSelf(self) && old.view.OwnedBy(self) > 0
	now := n.clock.time()
	for i := range since {
		m := v.Member(i)
		j, known := old.view.Index(m.ID)
		switch {
		case known && old.view.Member(j).Boot == m.Boot:
			since[i] = old.since[j]
		case known && owner && first[m.ID].boot == m.Boot:
			since[i] = first[m.ID].at
		case owner:
			since[i] = now
		}
	}
	return since
}

// agreements are the first ones to each process that is not in the View as such yet.
type agreements struct {
	mu    sync.Mutex
	first map[topology.NodeID]agreementAt
}

type agreementAt struct {
	boot uint64
	at   time.Time
}

// note notes an agreement to a process whose ID the View p has.
func (a *agreements) note(p *published, id topology.NodeID, boot uint64, now time.Time) {
	i, ok := p.view.Index(id)
	if !ok || boot <= p.view.Member(i).Boot {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first[id].boot == boot {
		return
	}
	if a.first == nil {
		a.first = map[topology.NodeID]agreementAt{}
	}
	a.first[id] = agreementAt{boot, now}
}

// keep forgets those to members that a View lacks, and returns a copy of the others. One that
// is noted while a View without the member is being made goes with the next View.
func (a *agreements) keep(v, old *topology.View) map[topology.NodeID]agreementAt {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.first {
		_, now := v.Index(id)
		if _, before := old.Index(id); !now || !before {
			delete(a.first, id)
		}
	}
	return maps.Clone(a.first)
}
