package node

import (
	"fmt"
	"sync"

	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/topology"
)

// maxEvents is how many events a node keeps; the oldest give way.
const maxEvents = 1024

// eventLog keeps the latest events of this process.
type eventLog struct {
	mu   sync.Mutex
	last int64                     // ID of the latest
	ring [maxEvents]*operate.Event // by ID modulo maxEvents
}

// add notes an event at a time in ms; m is whom it is about, nil for the cluster.
func (l *eventLog) add(at int64, kind string, m *topology.Member, text string) {
	e := &operate.Event{AtMS: at, Kind: kind, Text: text}
	if m != nil {
		e.Node, e.Addr = m.ID.String(), m.Addr()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.ID = l.last
	l.ring[e.ID%maxEvents] = e
}

// since lists the events behind an ID that are still known, count of them at most,
// the latest; the oldest first.
func (l *eventLog) since(id int64, count int) []operate.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := max(id+1, l.last-maxEvents+1, l.last-int64(count)+1, 1)
	out := []operate.Event{}
	for i := first; i <= l.last; i++ {
		out = append(out, *l.ring[i%maxEvents])
	}
	return out
}

// noteView writes down what a new View and its snapshot say that the ones before
// did not, and has pins exchanged with the processes that are new. old may be nil.
func (n *Node) noteView(old, now *published) {
	if old == nil {
		return
	}
	at := n.clock.millis()
	if old.view.Hash() != now.view.Hash() {
		n.pins.meetAll(newcomers(old.view, now.view, n.id)...)
		n.noteMembers(at, old, now)
	}
	before := map[topology.NodeID]string{}
	for i := range old.snap.Members {
		before[old.snap.Members[i].ID] = healthWord(&old.snap.Members[i])
	}
	for i := range now.snap.Members {
		p := &now.snap.Members[i]
		if was, known := before[p.ID]; known && was != healthWord(p) {
			n.events.add(at, "health", &p.Member, fmt.Sprintf("%s, was %s", healthWord(p), was))
		}
	}
}

// healthWord is the health of a peer as operators see it: one that lives and serves
// badly is degraded.
func healthWord(p *membership.Peer) string {
	if p.Health == membership.Alive && (p.Degraded || p.Failing) {
		return "degraded"
	}
	return p.Health.String()
}

// noteMembers writes down who came, went and changed, and how many slots move.
func (n *Node) noteMembers(at int64, old, now *published) {
	c := topology.Diff(old.view, now.view)
	for _, id := range c.Joined {
		i, _ := now.view.Index(id)
		m := now.view.Member(i)
		n.events.add(at, "member", m, "is a member now, "+m.State.String())
	}
	for _, id := range c.Left {
		i, _ := old.view.Index(id)
		what := "has left"
		if now.health(id) == membership.Dead {
			what = "is out: taken for dead"
		}
		n.events.add(at, "member", old.view.Member(i), what)
	}
	for _, id := range c.Changed {
		i, _ := old.view.Index(id)
		j, _ := now.view.Index(id)
		a, b := old.view.Member(i), now.view.Member(j)
		if a.Boot != b.Boot {
			n.events.add(at, "member", b, "has restarted")
		}
		if a.State != b.State {
			n.events.add(at, "state", b, fmt.Sprintf("%s, was %s", b.State, a.State))
		}
		switch {
		case b.Weighing() && !a.Weighing():
			n.events.add(at, "weight", b, fmt.Sprintf("weight %g, was %g: in steps", b.Weight, b.OldWeight))
		case a.Weighing() && !b.Weighing() && b.State == topology.Active:
			n.events.add(at, "weight", b, fmt.Sprintf("weight %g in all slots", b.Weight))
		case a.Weight != b.Weight:
			n.events.add(at, "weight", b, fmt.Sprintf("weight %g, was %g", b.Weight, a.Weight))
		}
	}
	moved := 0
	for _, m := range c.Moves {
		moved += int(m.Last-m.First) + 1
	}
	if moved > 0 {
		n.events.add(at, "view", nil, fmt.Sprintf("view %s: %d slots change their owner, %d members", viewHash(now.view), moved, now.view.Len()))
	}
}
