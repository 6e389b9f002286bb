package membership

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/topology"
)

// run owns the policy: it feeds events with their time and carries out the
// actions. It ends at Close.
func (m *Membership) run() {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.in.wake:
			m.turn()
		case <-tick.C:
			for id, f := range *m.flags.Load() {
				if f.Load() {
					f.Store(false)
					m.do(m.step(event{kind: evHeard, id: id}))
				}
			}
			m.turn()
			m.do(m.step(event{kind: evTick}))
		}
		m.publish()
	}
}

// step feeds one event to the policy.
func (m *Membership) step(ev event) []action {
	now := m.o.Now()
	actions := m.policy.step(now, ev)
	if m.o.record != nil {
		m.o.record(now, ev, actions)
	}
	return actions
}

// turn feeds what the inbox holds.
func (m *Membership) turn() {
	evs, self, dropped := m.in.drain()
	if self != nil {
		m.do(m.step(event{kind: evSelf, member: *self}))
	}
	for _, ev := range evs {
		if ev.kind == evDial {
			m.heardBefore(ev.name)
		}
		m.do(m.step(ev))
	}
	if dropped > 0 {
		m.log.Warn("membership events dropped, the inbox was full", "dropped", dropped, "limit", maxNews)
	}
}

// heardBefore feeds what was heard of a peer before its dial ended: left to the next
// tick, it would undo what the dial has found since.
func (m *Membership) heardBefore(name string) {
	q := m.policy.peers[name]
	if q == nil {
		return
	}
	if f := (*m.flags.Load())[q.member.ID]; f != nil && f.Swap(false) {
		m.do(m.step(event{kind: evHeard, id: q.member.ID}))
	}
}

// do carries out actions; nothing here blocks.
func (m *Membership) do(actions []action) {
	for _, a := range actions {
		peer := slog.Group("peer", "id", a.member.ID.String()[:8], "addr", a.member.Addr())
		switch a.kind {
		case actDial:
			m.wg.Go(func() { m.dial(a.name, a.member) })
		case actHint:
			m.background(m.hints, func() { m.hint(a.name, a.targets) })
		case actRejoin:
			m.background(m.rejoins, func() { m.rejoin(a.member.Gossip) })
		case actSeeds:
			m.background(m.rejoins, m.rejoinSeeds)
		case actPublish:
			m.unpublished, m.untold = true, true
		case actRefresh:
			m.unpublished = true
		case actJoined:
			m.log.Debug("peer is alive", peer) // the View that follows says so too
		case actDead:
			m.log.Warn("peer is dead", peer, "why", a.text)
		case actLeft:
			m.log.Info("peer has left", peer)
		case actDoubt:
			m.log.Warn("suspecting this node itself: nobody is declared dead for a while", "why", a.text)
		case actTrust:
			m.log.Warn("no longer suspecting this node", "why", a.text)
		case actSuperseded:
			m.log.Error("a later incarnation of this node's ID is alive elsewhere", peer)
		case actPaused:
			m.log.Warn("this node was paused; evidence against peers is dropped", "pause", a.text)
		case actDegraded:
			m.log.Warn("peer is degraded; it stays a member while its data port answers", peer, "why", a.text)
		case actRecovered:
			m.log.Info("peer is well again", peer)
		case actRefused:
			m.log.Error("peer refused: too many members", peer, "limit", MaxPeers)
		}
	}
}

// publish makes a snapshot if one is due: once for a batch of events.
func (m *Membership) publish() {
	if !m.unpublished {
		return
	}
	notify := m.untold
	m.unpublished, m.untold = false, false
	s := m.policy.snapshot(m.o.Now())
	m.snapshot.Store(&s)
	old := *m.flags.Load()
	flags := make(map[topology.NodeID]*atomic.Bool, len(m.policy.current))
	for id := range m.policy.current {
		if flags[id] = old[id]; flags[id] == nil {
			flags[id] = new(atomic.Bool)
		}
	}
	m.flags.Store(&flags)
	if notify {
		signal(m.changed)
	}
}

// background runs f if the semaphore has room; else nothing happens, since the
// policy repeats what it wants.
func (m *Membership) background(semaphore chan struct{}, f func()) {
	select {
	case semaphore <- struct{}{}:
		m.wg.Go(func() {
			defer func() { <-semaphore }()
			f()
		})
	default:
	}
}

// dial probes a peer's data port; the policy bounds how many run.
func (m *Membership) dial(name string, peer topology.Member) {
	ctx, cancel := context.WithTimeout(m.ctx, m.o.dialTimeout())
	defer cancel()
	started := m.o.Now()
	err := m.o.Prober.Probe(ctx, peer)
	if m.ctx.Err() != nil {
		return
	}
	if err != nil {
		m.log.Debug("peer's data port did not answer", "addr", peer.Addr(), "error", err)
	}
	m.in.putDial(event{kind: evDial, name: name, started: started, result: classify(err), rtt: m.o.Now().Sub(started)})
}

// hint sends one packet per target, best effort.
func (m *Membership) hint(about string, targets []topology.Member) {
	msg := appendHint(nil, m.o.Self.ID, about)
	for _, t := range targets {
		to := memberlist.Address{Addr: t.Gossip, Name: nodeName(t.ID, t.Boot)}
		if err := m.list.SendToAddress(to, msg); err != nil {
			m.log.Debug("hint not sent", "to", t.Gossip, "error", err)
		}
	}
}
