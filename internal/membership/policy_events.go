package membership

import (
	"slices"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// alive handles a join or an update: memberlist holds ev.name alive.
func (p *policy) alive(now time.Time, ev event) {
	q := p.peers[ev.name]
	if q == nil {
		if ev.member.State == topology.Left {
			return
		}
		if p.current[ev.member.ID] == nil && p.members+1 >= MaxPeers || len(p.peers) >= 2*MaxPeers {
			p.act(action{kind: actRefused, name: ev.name, member: ev.member})
			return
		}
		q = &peer{name: ev.name, lastSeen: now}
		q.member = ev.member
		p.add(q)
		p.replace(q)
		p.reindex(q.member.ID)
		if p.twin(q) {
			p.look(now, q)
		} else if p.counts(q) {
			p.act(action{kind: actJoined, name: q.name, member: q.member})
		}
	}
	if q.member != ev.member {
		q.member, p.dirty = ev.member, true
	}
	p.saysDegraded(now, q, ev.degraded)
	if left := ev.member.State == topology.Left; left != q.left {
		q.left = left
		if left {
			p.act(action{kind: actLeft, name: q.name, member: q.member})
		}
		p.reindex(q.member.ID)
	}
	p.change(q, func() { q.gone = false })
	q.lastSeen = now
	if q.dead || q.fails > 0 {
		p.soon(now, q) // gossip alone does not bring it back
	}
	p.pump(now, q)
}

// replace drops incarnations that the new one proves dead: those of the same
// ID with an earlier boot whose data address the new one has taken over.
func (p *policy) replace(q *peer) {
	i, _ := slices.BinarySearchFunc(p.order, q.member.ID.String(), byName)
	for ; i < len(p.order) && p.order[i].member.ID == q.member.ID; i++ {
		if old := p.order[i]; old.member.Boot < q.member.Boot && (old.dead || old.member.Addr() == q.member.Addr()) {
			p.remove(old)
		}
	}
}

// gone handles memberlist's verdict that ev.name is dead or has left.
func (p *policy) gone(now time.Time, ev event) {
	q := p.peers[ev.name]
	if q == nil {
		return
	}
	q.member = ev.member
	switch {
	case ev.member.State == topology.Left:
		if !q.left {
			p.act(action{kind: actLeft, name: q.name, member: q.member})
		}
		p.drop(q)
	case p.twin(q), !q.dead && !p.counts(q):
		p.drop(q) // an old incarnation, or a twin: nobody counts on it
	case !q.gone:
		p.change(q, func() { q.gone, q.goneAt = true, now })
		if !q.dead {
			p.soon(now, q)
		}
	}
}

func (p *policy) drop(q *peer) {
	p.remove(q)
	if p.superseded == q {
		p.superseded = nil
	}
	p.reindex(q.member.ID)
}

// dialled handles the end of an own dial.
func (p *policy) dialled(now time.Time, ev event) {
	p.dials--
	q := p.peers[ev.name]
	if q == nil || !q.dialing {
		return
	}
	q.dialing = false
	if ev.result == dialOK {
		p.measured(&q.dialRTT, ev.rtt)
		if ev.started.After(q.outAt) {
			q.outAt = time.Time{} // whoever does not count it has seen less
		}
	}
	switch {
	case p.twin(q):
		p.twinDialled(now, q, ev.result)
	case ev.result == dialOK:
		p.answered(now, q)
	case ev.result == dialNone, ev.started.Before(p.pausedAt):
		q.nextDial, q.forced = now.Add(silentGap), true
	case q.dead:
		q.nextDial = now.Add(deadRedial)
	default:
		p.failed(now, q, ev)
	}
}

// twinDialled decides whether a later incarnation of this node is real: it
// answers at an address of its own. One that shares our data address is our
// predecessor, whatever its boot time says, and fails this dial.
func (p *policy) twinDialled(now time.Time, q *peer, r dialResult) {
	later := q.member.Boot > p.self.Boot && r == dialOK
	if later && p.superseded != q {
		p.superseded, p.dirty = q, true
		p.act(action{kind: actSuperseded, name: q.name, member: q.member})
	}
	p.look(now.Add(rejoinEvery), q)
}

// look plans the dial of a later twin.
func (p *policy) look(at time.Time, q *peer) {
	if q.member.Boot > p.self.Boot {
		q.forced, q.nextDial = true, at
	}
}

// heard handles a data reply. It keeps a peer and cancels a hold; a dead one
// comes back only by our own dial, since the reply may be older.
func (p *policy) heard(now time.Time, q *peer) {
	if q.dead {
		p.soon(now, q)
		return
	}
	p.clear(now, q)
}

// answered handles a successful own dial.
func (p *policy) answered(now time.Time, q *peer) {
	if !q.forced { // else somebody asked meanwhile: this dial may be older than the trouble
		q.nextDial = time.Time{}
	}
	if q.dead && !q.gone {
		q.dead = false
		p.act(action{kind: actJoined, name: q.name, member: q.member})
		p.reindex(q.member.ID)
	}
	p.clear(now, q)
	if (q.watched || q.failing) && !q.forced {
		q.nextDial = now.Add(p.jitter(watchEvery, 0.25))
	}
	if q.gone {
		p.rejoin(now, q) // memberlist must learn that it lives
	}
}

// clear forgets all evidence against q. If memberlist still holds it dead, the
// hold starts anew: it ends with another dial.
func (p *policy) clear(now time.Time, q *peer) {
	p.change(q, func() {
		q.fails, q.silent, q.refusals, q.failSince = 0, false, q.refusals[:0], time.Time{}
		q.lastGood, q.lastSeen = now, now
		if q.gone && !q.dead {
			q.goneAt = now
		}
	})
}

// failed handles a failed own dial of a living peer.
func (p *policy) failed(now time.Time, q *peer, ev event) {
	p.change(q, func() {
		if q.fails++; q.fails == 1 {
			q.failSince = ev.started
		}
		q.silent = ev.result == dialSilent
	})
	p.tell(now, q)
	if !p.counts(q) {
		if ev.result == dialRefused {
			p.drop(q) // an old incarnation that nobody counts on
		}
		return
	}
	if ev.result == dialSilent {
		q.nextDial = now.Add(silentGap)
		p.judge(now, q)
		return
	}
	q.nextDial = q.lastStart.Add(dialGap)
	keep := q.refusals[:0]
	for _, t := range q.refusals {
		if now.Sub(t) <= refusalWindow {
			keep = append(keep, t)
		}
	}
	q.refusals = append(keep, now)
	if !p.proven(now, q) {
		p.judge(now, q)
	}
}

// proven declares q dead by the refusals of its port: one is enough while another member
// does not count q any more. That one has seen it refuse for longer, and until all say
// the same, nobody serves what q had.
func (p *policy) proven(now time.Time, q *peer) bool {
	n := len(q.refusals)
	if n == 0 || n < refusalProof && now.Sub(q.outAt) > refusalWindow {
		return false
	}
	p.kill(now, q, "its data port refuses connections")
	return true
}

// missed handles the word of a member that it does not count another any more. Our own
// dial decides: one that was refused lately, or the next.
func (p *policy) missed(now time.Time, ev event) {
	q, by := p.current[ev.id], p.current[ev.by]
	if q == nil || by == nil || q == by || !p.counts(q) || !p.counts(by) {
		return
	}
	q.outAt = now
	if n := len(q.refusals); n > 0 && now.Sub(q.refusals[n-1]) <= refusalWindow && p.proven(now, q) {
		return
	}
	p.soon(now, q)
}

// hinted handles another node's report. It makes us look and is counted; it
// decides nothing.
func (p *policy) hinted(now time.Time, ev event) {
	q, from := p.peers[ev.name], p.current[ev.id]
	if q == nil || from == nil || !p.counts(q) || !p.counts(from) {
		return
	}
	if q.reports == nil {
		q.reports = map[topology.NodeID]time.Time{}
	}
	q.reports[ev.id] = now // bounded: reporters are members
	p.soon(now, q)
}

// measured smooths a round trip: each new one counts for a quarter.
func (p *policy) measured(smooth *time.Duration, rtt time.Duration) {
	if *smooth == 0 {
		*smooth = rtt
	} else {
		*smooth += (rtt - *smooth) / 4
	}
	p.rttDirty = true
}

// tell hints other members that our dial of q failed.
func (p *policy) tell(now time.Time, q *peer) {
	if p.leaving || now.Sub(q.hintAt) < hintEvery {
		return
	}
	var targets []topology.Member
	p.each(func(o *peer) {
		if o != q && p.counts(o) && o.fails == 0 {
			targets = append(targets, o.member)
		}
	})
	if len(targets) == 0 {
		return
	}
	q.hintAt = now
	p.rng.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	p.act(action{kind: actHint, name: q.name, member: q.member, targets: targets[:min(len(targets), maxHintTargets)]})
}

// change applies f and remembers whether q's health is another one afterwards.
func (p *policy) change(q *peer, f func()) {
	before := q.health()
	f()
	if q.health() != before {
		p.dirty = true
	}
}
