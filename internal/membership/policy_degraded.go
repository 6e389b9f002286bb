package membership

import "time"

// A peer may be alive by every heartbeat and serve badly: it says so of itself, or
// requests to it fail. Both are shown and neither kills. They make this node look
// itself, because its dial reaches the data of the peer: if that fails too, the
// ordinary rules take their course.

// saysDegraded takes what a peer's metadata say. Only those that watch it dial: a
// node in trouble needs no crowd.
func (p *policy) saysDegraded(now time.Time, q *peer, degraded bool) {
	if q.degraded == degraded {
		return
	}
	q.degraded, p.dirty = degraded, true
	switch {
	case !p.counts(q):
	case degraded:
		p.act(action{kind: actDegraded, name: q.name, member: q.member, text: "it says so itself"})
		if q.watched {
			p.soon(now, q)
		}
	case !q.failing:
		p.act(action{kind: actRecovered, name: q.name, member: q.member})
	}
}

// troubled handles a request that got no answer.
func (p *policy) troubled(now time.Time, q *peer) {
	keep := q.troubles[:0]
	for _, t := range q.troubles {
		if now.Sub(t) <= troubleWindow {
			keep = append(keep, t)
		}
	}
	if len(keep) == troubleLimit {
		// The oldest stays, so that a burst is told from trouble that lasts.
		keep = keep[:troubleLimit-1]
	}
	q.troubles = append(keep, now)
	if !q.failing && len(q.troubles) == troubleLimit && now.Sub(q.troubles[0]) >= troubleSpread {
		q.failing, p.dirty = true, true
		p.act(action{kind: actDegraded, name: q.name, member: q.member, text: "requests to it get no answer"})
	}
	p.soon(now, q)
}

// recover ends the trouble of a peer to which no request has failed for a while.
func (p *policy) recover(now time.Time, q *peer) {
	if !q.failing || len(q.troubles) > 0 && now.Sub(q.troubles[len(q.troubles)-1]) <= troubleWindow {
		return
	}
	q.failing, q.troubles, p.dirty = false, q.troubles[:0], true
	if !q.degraded {
		p.act(action{kind: actRecovered, name: q.name, member: q.member})
	}
}
