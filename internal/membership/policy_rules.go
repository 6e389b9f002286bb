package membership

import (
	"fmt"
	"slices"
	"time"
)

// tick runs everything that depends on time alone.
func (p *policy) tick(now time.Time) {
	if now.Sub(p.lastTick) > pauseGap {
		p.paused(now)
	}
	p.lastTick = now
	p.guard(now)
	listed := false
	p.each(func(q *peer) {
		switch {
		case q.dead && !q.deadAt.IsZero() && now.Sub(q.deadAt) >= DeadListed:
			// Listed no longer. What stays is for the rejoin loop, or, if
			// memberlist calls it alive, waits for its data port.
			listed, q.deadAt = true, time.Time{}
		case q.dead && q.gone && now.Sub(q.lastSeen) > recallFor:
			p.remove(q)
			p.reindex(q.member.ID)
		case p.counts(q):
			p.silence(now, q)
			p.recover(now, q)
		}
		p.pump(now, q)
	})
	p.compact()
	if listed {
		p.forget()
		p.dirty = true
	}
	if !now.Before(p.nextRejoin) && !p.leaving {
		p.nextRejoin = now.Add(p.rejoinGap())
		p.turn(now)
	}
}

// paused handles the end of an own pause: whatever looks late or silent may be
// so because we slept. All evidence is dropped and all holds start anew.
func (p *policy) paused(now time.Time) {
	gap := now.Sub(p.lastTick)
	p.pausedAt = now
	if p.doubt == doubtHolding {
		p.doubtUntil = p.doubtUntil.Add(gap)
	}
	p.each(func(q *peer) {
		p.change(q, func() {
			q.fails, q.silent, q.refusals, q.failSince, q.outAt = 0, false, q.refusals[:0], time.Time{}, time.Time{}
			clear(q.reports)
			q.troubles = q.troubles[:0]
			if q.gone && !q.dead {
				q.goneAt = now
			}
		})
		if p.counts(q) {
			p.soon(now, q)
		}
	})
	p.act(action{kind: actPaused, text: gap.Round(time.Millisecond).String()})
}

// soon plans a dial of q as early as dialGap allows.
func (p *policy) soon(now time.Time, q *peer) {
	at := q.lastStart.Add(dialGap)
	if at.Before(now) {
		at = now
	}
	if q.nextDial.IsZero() || at.Before(q.nextDial) {
		q.nextDial = at
	}
	q.forced = true
	p.pump(now, q)
}

// pump starts the dial of q if one is due. A watched peer that has just been
// heard from is not dialled: data replies prove more.
func (p *policy) pump(now time.Time, q *peer) {
	if q.dialing || q.left || p.leaving || q.dead && q.gone && !q.forced {
		return
	}
	if p.counts(q) {
		if (q.watched || q.failing) && q.nextDial.IsZero() {
			q.nextDial = now.Add(time.Duration(p.rng.Float64() * float64(watchEvery)))
		}
		if end := p.holdEnd(q); q.gone && !now.Before(end) && q.lastStart.Before(end) {
			q.nextDial, q.forced = now, true
		}
	}
	if q.nextDial.IsZero() || now.Before(q.nextDial) || p.dials >= maxDials {
		return
	}
	if !q.forced && q.fails == 0 && p.counts(q) {
		if !q.watched && !q.failing {
			q.nextDial = time.Time{}
			return
		}
		if !q.failing && now.Sub(q.lastGood) < watchEvery*3/4 {
			q.nextDial = now.Add(p.jitter(watchEvery, 0.25))
			return
		}
	}
	q.dialing, q.forced, q.lastStart, q.nextDial = true, false, now, time.Time{}
	p.dials++
	p.act(action{kind: actDial, name: q.name, member: q.member})
}

// holdEnd is when the hold of a gone peer is over: a dial begun later decides.
// Self-doubt prolongs it.
func (p *policy) holdEnd(q *peer) time.Time {
	end := q.goneAt.Add(p.hold)
	if p.doubt == doubtHolding && end.Before(p.doubtUntil) {
		return p.doubtUntil
	}
	if end.Before(p.doubtEnd) && q.goneAt.Before(p.doubtEnd) {
		return p.doubtEnd
	}
	return end
}

// judge declares q dead if memberlist did, the hold is over and the dial that
// has just failed was begun after it.
func (p *policy) judge(now time.Time, q *peer) {
	end := p.holdEnd(q)
	if !q.gone || now.Before(end) || q.lastStart.Before(end) || q.silent && !p.trusted(now) {
		return
	}
	why := "gossip reports it dead and its data port refuses connections"
	if q.silent {
		why = "gossip reports it dead and its data port does not answer"
	}
	p.kill(now, q, why)
}

// silence declares q dead for a long silence of its data port alone, which
// gossip may not notice, if half of the other members say the same.
func (p *policy) silence(now time.Time, q *peer) {
	if q.fails < silenceDials || now.Sub(q.failSince) < silenceLimit || q.lastStart.Before(p.doubtEnd) {
		return
	}
	agree, others := 0, 0
	p.each(func(o *peer) {
		if o == q || !p.counts(o) || o.gone {
			return // whom gossip does not reach cannot tell us
		}
		others++
		if at, ok := q.reports[o.member.ID]; ok && now.Sub(at) < silenceLimit {
			agree++
		}
	})
	if 2*agree >= others && p.trusted(now) {
		p.kill(now, q, fmt.Sprintf("its data port is silent for %s, as %d of %d others say",
			now.Sub(q.failSince).Round(time.Second), agree, others))
	}
}

func (p *policy) kill(now time.Time, q *peer, why string) {
	// A last word: when many die together, hints go to dead ones too, and whoever
	// misses all of them learns it from gossip only, seconds later.
	q.hintAt = time.Time{}
	p.tell(now, q)
	q.dead, q.deadAt, q.lastSeen, q.nextDial = true, now, now, time.Time{}
	q.fails, q.silent, q.refusals, q.failSince, q.outAt = 0, false, q.refusals[:0], time.Time{}, time.Time{}
	clear(q.reports)
	if !q.gone {
		q.nextDial = now.Add(deadRedial)
	}
	p.act(action{kind: actDead, name: q.name, member: q.member, text: why})
	p.reindex(q.member.ID)
}

// silentPeers counts the members whose last own dial got no answer. Refusals
// do not count: a refusal is an answer, so our network works.
func (p *policy) silentPeers() (n int) {
	p.each(func(q *peer) {
		if p.counts(q) && q.fails > 0 && q.silent {
			n++
		}
	})
	return n
}

// massLimit is max(2, 30 % of the members, this node included).
func (p *policy) massLimit() int { return max(2, (3*(p.members+1)+9)/10) }

// trusted says whether this node may believe in somebody's silence. If too
// many are silent at once it suspects itself instead.
func (p *policy) trusted(now time.Time) bool {
	if p.doubt == doubtOff {
		if n := p.silentPeers(); n >= p.massLimit() {
			p.doubt, p.dirty = doubtHolding, true
			p.doubtUntil = now.Add(doubtMin + time.Duration(p.rng.Float64()*float64(doubtJitter)))
			p.act(action{kind: actDoubt, text: fmt.Sprintf("%d of %d peers are silent", n, p.members)})
		}
	}
	return p.doubt != doubtHolding
}

// guard moves the mass guard on, and looks at more peers when some are silent,
// so that it judges by many dials and not by the few watched ones.
func (p *policy) guard(now time.Time) {
	n := p.silentPeers()
	switch {
	case p.doubt == doubtHolding && n < p.massLimit():
		p.doubt, p.dirty = doubtOff, true
		p.act(action{kind: actTrust, text: "peers answer again"})
	case p.doubt == doubtHolding && !now.Before(p.doubtUntil):
		p.doubt, p.doubtEnd, p.dirty = doubtSpent, now, true
		p.act(action{kind: actTrust, text: "the hold is over"})
	case p.doubt == doubtSpent && n == 0:
		p.doubt = doubtOff
	}
	if n < 2 || now.Sub(p.surveyAt) < 2*time.Second {
		return
	}
	p.surveyAt = now
	var unsure []*peer
	p.each(func(q *peer) {
		if p.counts(q) && q.fails == 0 && now.Sub(q.lastGood) > 2*time.Second {
			unsure = append(unsure, q)
		}
	})
	p.rng.Shuffle(len(unsure), func(i, j int) { unsure[i], unsure[j] = unsure[j], unsure[i] })
	for _, q := range unsure[:min(len(unsure), 2*p.massLimit())] {
		p.soon(now, q)
	}
}

// turn is one turn of the rejoin loop: one lost peer or the seeds. Lost are
// those that memberlist holds dead, declared so by us or not.
func (p *policy) turn(now time.Time) {
	p.rejoinTurn++
	var lost []*peer
	p.each(func(q *peer) {
		if q.gone && p.current[q.member.ID] == q {
			lost = append(lost, q)
		}
	})
	calm := len(lost) == 0 && p.members > 0
	switch {
	case p.seeds && (len(lost) == 0 || p.rejoinTurn%3 == 0) && (!calm || p.rejoinTurn%seedsEvery == 0):
		p.act(action{kind: actSeeds})
	case len(lost) > 0:
		p.rejoin(now, lost[p.rng.IntN(len(lost))])
	}
}

func (p *policy) rejoin(now time.Time, q *peer) {
	if p.leaving || now.Sub(q.rejoinAt) < 2*time.Second {
		return
	}
	q.rejoinAt = now
	p.act(action{kind: actRejoin, name: q.name, member: q.member})
}

// forget keeps the latest maxRecalled of the dead that only the rejoin loop
// remembers.
func (p *policy) forget() {
	var old []*peer
	p.each(func(q *peer) {
		if q.dead && q.gone && q.deadAt.IsZero() {
			old = append(old, q)
		}
	})
	slices.SortStableFunc(old, func(a, b *peer) int { return b.lastSeen.Compare(a.lastSeen) })
	for _, q := range old[min(len(old), maxRecalled):] {
		p.remove(q)
		p.reindex(q.member.ID)
	}
	p.compact()
}
