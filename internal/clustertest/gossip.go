package clustertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/topology"
)

// Rumours is scripted membership: what each node knows of the others changes
// when the test says so. By default news reach everybody at once; a deaf node
// hears nothing until it is told.
type Rumours struct {
	mu      sync.Mutex
	truth   map[topology.NodeID]topology.Member // what each says of itself
	members map[topology.NodeID]*rumourMember
	deaf    map[topology.NodeID]bool
	mute    map[topology.NodeID]bool
	version uint64
	refuse  func(topology.Member) error
}

// NewRumours makes an empty membership.
func NewRumours() *Rumours {
	return &Rumours{truth: map[topology.NodeID]topology.Member{}, members: map[topology.NodeID]*rumourMember{}, deaf: map[topology.NodeID]bool{}, mute: map[topology.NodeID]bool{}}
}

// rumourMember is one node's membership.
type rumourMember struct {
	r     *Rumours
	o     membership.Options
	known map[topology.NodeID]membership.Peer // guarded by r.mu, itself included
	by    *topology.Member                    // who took over this node's ID; guarded by r.mu
}

// Start is what node.Options.StartMembership takes.
func (r *Rumours) Start(o membership.Options) (node.Members, error) {
	o.Self.Gossip = "127.0.0.1:1"
	m := &rumourMember{r: r, o: o, known: map[topology.NodeID]membership.Peer{}}
	r.mu.Lock()
	r.members[o.Self.ID], r.truth[o.Self.ID] = m, o.Self
	m.known[o.Self.ID] = membership.Peer{Member: o.Self}
	r.mu.Unlock()
	return m, nil
}

// Deaf makes a node hear no news and give none, or hear again (Tell brings it
// up to date).
func (r *Rumours) Deaf(id topology.NodeID, on bool) {
	r.mu.Lock()
	r.deaf[id] = on
	r.mu.Unlock()
}

// Refuse makes the entries untellable for which why gives an error, as the limits of
// the metadata do.
func (r *Rumours) Refuse(why func(topology.Member) error) {
	r.mu.Lock()
	r.refuse = why
	r.mu.Unlock()
}

// Mute keeps the news of a node from everybody else.
func (r *Rumours) Mute(id topology.NodeID, on bool) {
	r.mu.Lock()
	r.mute[id] = on
	r.mu.Unlock()
}

// Tell lets one node know the latest of the given members.
func (r *Rumours) Tell(to topology.NodeID, about ...topology.NodeID) {
	r.change(to, func(m *rumourMember) {
		for _, id := range about {
			if entry, ok := r.truth[id]; ok {
				m.known[id] = membership.Peer{Member: entry}
			}
		}
	})
}

// Bury lets one node take others for dead.
func (r *Rumours) Bury(at topology.NodeID, dead ...topology.NodeID) {
	r.change(at, func(m *rumourMember) {
		for _, id := range dead {
			if p, ok := m.known[id]; ok {
				p.Health = membership.Dead
				m.known[id] = p
			}
		}
	})
}

// Forget removes a node for good, everywhere.
func (r *Rumours) Forget(id topology.NodeID) {
	r.mu.Lock()
	delete(r.truth, id)
	delete(r.members, id)
	others := slices.Collect(maps.Keys(r.members))
	r.mu.Unlock()
	for _, o := range others {
		r.change(o, func(m *rumourMember) { delete(m.known, id) })
	}
}

func (r *Rumours) change(at topology.NodeID, fn func(*rumourMember)) {
	r.mu.Lock()
	m := r.members[at]
	if m == nil {
		r.mu.Unlock()
		return
	}
	fn(m)
	snap := m.snapshot()
	r.mu.Unlock()
	m.o.OnChange(snap)
}

// snapshot runs under r.mu.
func (m *rumourMember) snapshot() membership.Snapshot {
	m.r.version++
	s := membership.Snapshot{Version: m.r.version}
	if m.by != nil {
		s.Superseded, s.By = true, *m.by
	}
	for _, p := range m.known {
		s.Members = append(s.Members, p)
	}
	slices.SortFunc(s.Members, func(a, b membership.Peer) int { return a.ID.Compare(b.ID) })
	return s
}

// Join asks the seeds over the data port and exchanges what both sides know.
func (m *rumourMember) Join(ctx context.Context) (int, error) {
	m.r.mu.Lock()
	deaf := m.r.deaf[m.o.Self.ID]
	m.r.mu.Unlock()
	seeds, err := m.o.Discovery.Seeds(ctx)
	if err != nil || deaf {
		return 0, err
	}
	reached := 0
	var last error
	for _, seed := range seeds {
		_, id, err := m.o.Prober.Contact(ctx, seed)
		if err != nil {
			last = err
			continue
		}
		if id == m.o.Self.ID {
			continue
		}
		reached++
		m.r.mu.Lock()
		var theirs []topology.NodeID
		if other := m.r.members[id]; other != nil {
			for k, p := range other.known {
				// Hearsay alone revives nobody, see membership.
				own, known := m.known[k]
				buried := known && own.Health == membership.Dead && own.Boot >= p.Boot
				if p.Health != membership.Dead && !buried {
					theirs = append(theirs, k)
				}
			}
		}
		m.r.mu.Unlock()
		m.r.Tell(m.o.Self.ID, theirs...)
		m.r.spread(m.o.Self.ID)
	}
	if reached == 0 && last != nil {
		return 0, fmt.Errorf("%w: %w", errs.ErrNoSeed, last)
	}
	return reached, nil
}

// spread tells everybody who is not deaf about one node.
func (r *Rumours) spread(about topology.NodeID) {
	r.mu.Lock()
	var to []topology.NodeID
	for id := range r.members {
		if id == about || !r.deaf[id] && !r.deaf[about] && !r.mute[about] {
			to = append(to, id)
		}
	}
	r.mu.Unlock()
	for _, id := range to {
		r.Tell(id, about)
	}
}

func (m *rumourMember) Update(self topology.Member) error {
	m.r.mu.Lock()
	if m.r.refuse != nil {
		if err := m.r.refuse(self); err != nil {
			m.r.mu.Unlock()
			return err
		}
	}
	self.Gossip = m.o.Self.Gossip
	m.r.truth[self.ID] = self
	m.r.mu.Unlock()
	m.r.Tell(self.ID, self.ID)
	m.r.spread(self.ID)
	return nil
}

func (m *rumourMember) Heard(topology.NodeID) {}

func (m *rumourMember) Check(topology.NodeID) {}

func (m *rumourMember) Out(_, _ topology.NodeID) {}

func (m *rumourMember) Snapshot() membership.Snapshot {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	return m.snapshot()
}

func (m *rumourMember) Gossip() string { return m.o.Self.Gossip }

// Messages: rumours are no messages.
func (m *rumourMember) Messages() (sent, received uint64) { return 0, 0 }

func (m *rumourMember) Leave(context.Context) error {
	m.r.Forget(m.o.Self.ID)
	return nil
}

func (m *rumourMember) Close() error { return nil }

// Reappear tells everybody that a later incarnation of a node is joining, of
// which nothing else is ever heard.
func (r *Rumours) Reappear(id topology.NodeID) {
	r.mu.Lock()
	entry := r.truth[id]
	entry.Boot, entry.Sequence, entry.State = entry.Boot+1<<16, 1, topology.Joining
	r.truth[id] = entry
	delete(r.members, id)
	r.mu.Unlock()
	r.spread(id)
}

// Supersede tells a node that a later incarnation of its ID runs at a host.
func (r *Rumours) Supersede(id topology.NodeID, host string) {
	r.mu.Lock()
	m := r.members[id]
	by := r.truth[id]
	by.Boot, by.Host = by.Boot+1<<16, host
	m.by = &by
	snap := m.snapshot()
	r.mu.Unlock()
	m.o.OnChange(snap)
}
