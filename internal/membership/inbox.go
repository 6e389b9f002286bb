package membership

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// Bounds of the inbox. News of nodes and results of dials are never dropped
// below maxNews names; hints and the like are advice and may be.
const (
	maxNews   = 4 * MaxPeers // names with news between two turns of the policy
	maxAdvice = 1024         // hints, failed probes, acks, checks, words of others and troubles each
)

// inbox collects events for the policy goroutine. It never blocks: callbacks
// of memberlist fill it while memberlist holds its locks. News are kept per
// node, the latest state of each, so a burst cannot overflow what is known.
type inbox struct {
	wake chan struct{} // capacity 1: there is something to drain

	mu       sync.Mutex
	news     map[string]event // join, update or leave, by name
	failed   map[string]struct{}
	acks     map[string]time.Duration
	hints    map[hintKey]struct{}
	checks   map[topology.NodeID]struct{}
	outs     map[topology.NodeID]topology.NodeID // who does not count it, the latest
	trouble  map[topology.NodeID]struct{}
	dials    []event // bounded by the dials in flight
	self     *topology.Member
	degraded *bool
	dropped  int
}

type hintKey struct {
	about string
	from  topology.NodeID
}

func newInbox() *inbox {
	return &inbox{
		wake:    make(chan struct{}, 1),
		news:    map[string]event{},
		failed:  map[string]struct{}{},
		acks:    map[string]time.Duration{},
		hints:   map[hintKey]struct{}{},
		checks:  map[topology.NodeID]struct{}{},
		outs:    map[topology.NodeID]topology.NodeID{},
		trouble: map[topology.NodeID]struct{}{},
	}
}

// put runs fill under the lock and wakes the policy.
func (in *inbox) put(fill func()) {
	in.mu.Lock()
	fill()
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default: // it is awake already and will see this too
	}
}

func (in *inbox) putNews(ev event) {
	in.put(func() { putBounded(in, in.news, ev.name, ev, maxNews) })
}

func (in *inbox) putFailed(name string) {
	in.put(func() { putBounded(in, in.failed, name, struct{}{}, maxAdvice) })
}

func (in *inbox) putAck(name string, rtt time.Duration) {
	in.put(func() { putBounded(in, in.acks, name, rtt, maxAdvice) })
}

func (in *inbox) putHint(from topology.NodeID, about string) {
	in.put(func() { putBounded(in, in.hints, hintKey{about, from}, struct{}{}, maxAdvice) })
}

func (in *inbox) putCheck(id topology.NodeID) {
	in.put(func() { putBounded(in, in.checks, id, struct{}{}, maxAdvice) })
}

func (in *inbox) putOut(id, by topology.NodeID) {
	in.put(func() { putBounded(in, in.outs, id, by, maxAdvice) })
}

func (in *inbox) putTrouble(id topology.NodeID) {
	in.put(func() { putBounded(in, in.trouble, id, struct{}{}, maxAdvice) })
}

func (in *inbox) putDegraded(on bool) { in.put(func() { in.degraded = &on }) }

func (in *inbox) putDial(ev event) { in.put(func() { in.dials = append(in.dials, ev) }) }

func (in *inbox) putSelf(m topology.Member) { in.put(func() { in.self = &m }) }

func putBounded[K comparable, V any](in *inbox, m map[K]V, k K, v V, limit int) {
	if _, known := m[k]; !known && len(m) >= limit {
		in.dropped++
		return
	}
	m[k] = v
}

// drain returns what has come in since the last call, news first and in a
// fixed order, and how much was dropped.
func (in *inbox) drain() (evs []event, self *topology.Member, dropped int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(in.news)) {
		evs = append(evs, in.news[name])
	}
	evs = append(evs, in.dials...)
	for name, rtt := range in.acks {
		evs = append(evs, event{kind: evAck, name: name, rtt: rtt})
	}
	for _, name := range slices.Sorted(maps.Keys(in.failed)) {
		evs = append(evs, event{kind: evProbeFailed, name: name})
	}
	for h := range in.hints {
		evs = append(evs, event{kind: evHint, name: h.about, id: h.from})
	}
	for id := range in.checks {
		evs = append(evs, event{kind: evCheck, id: id})
	}
	for id, by := range in.outs {
		evs = append(evs, event{kind: evOut, id: id, by: by})
	}
	for id := range in.trouble {
		evs = append(evs, event{kind: evTrouble, id: id})
	}
	if in.degraded != nil {
		evs = append(evs, event{kind: evDegraded, degraded: *in.degraded})
		in.degraded = nil
	}
	clear(in.news)
	clear(in.acks)
	clear(in.failed)
	clear(in.hints)
	clear(in.checks)
	clear(in.outs)
	clear(in.trouble)
	in.dials = nil
	self, in.self = in.self, nil
	dropped, in.dropped = in.dropped, 0
	return evs, self, dropped
}
