package membership

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// Timings of the policy. DESIGN.md says why.
const (
	tickEvery      = 100 * time.Millisecond
	pauseGap       = time.Second            // a longer gap between ticks: we were paused
	watchEvery     = time.Second            // own dials of watched peers, +-25 %
	watchedPeers   = 3                      // each node watches the next ones by ID
	dialGap        = 300 * time.Millisecond // between starts of dials of one peer
	silentGap      = 500 * time.Millisecond // after a silent dial
	refusalWindow  = 2 * time.Second
	refusalProof   = 3
	silenceLimit   = 10 * time.Second // own silence that is proof if others agree
	silenceDials   = 5
	doubtMin       = 15 * time.Second // how long we suspect ourselves
	doubtJitter    = 15 * time.Second
	rejoinEvery    = 5 * time.Second // +-20 %
	aloneEvery     = time.Second     // the same while nobody is known and there are seeds
	seedsEvery     = 6               // rejoin turns between looks at the seeds when all is well
	deadRedial     = 2 * time.Second // a dead peer that memberlist calls alive
	recallFor      = time.Hour       // how long the rejoin loop tries a lost peer
	maxRecalled    = 256
	maxDials       = 32 // own dials in flight
	hintEvery      = 900 * time.Millisecond
	maxHintTargets = 8
	rttRefresh     = 5 * time.Second
	troubleWindow  = 10 * time.Second // requests that failed in it count
	troubleLimit   = 3                // so many, spread over troubleSpread, make a peer failing
	troubleSpread  = time.Second
)

// policy decides what to believe. It is a pure state machine: step takes an
// event with its time and returns actions; it starts nothing, waits for
// nothing and reads no clock. With one seed and one list of events it always
// returns the same actions. Not safe for concurrent use.
type policy struct {
	self     topology.Member
	ownName  string
	hold     time.Duration
	seeds    bool // a Discovery is there
	leaving  bool
	degraded bool // this node, as it says itself
	rng      *rand.Rand

	peers   map[string]*peer          // by memberlist name, every incarnation
	order   []*peer                   // by name, and so by ID: the order of every loop
	holes   bool                      // order has removed ones
	watches []*peer                   // those that are watched
	current map[topology.NodeID]*peer // the incarnation that counts, per ID
	members int                       // current peers that are not dead
	dials   int                       // in flight

	lastTick, pausedAt   time.Time
	nextRejoin           time.Time
	rejoinTurn           int
	doubt                doubtState
	doubtUntil, doubtEnd time.Time
	surveyAt             time.Time
	superseded           *peer
	version              uint64
	dirty, rttDirty      bool
	publishedAt          time.Time
	out                  []action
}

// doubtState is the state of the mass guard.
type doubtState uint8

const (
	doubtOff     doubtState = iota
	doubtHolding            // we suspect ourselves
	doubtSpent              // the hold is over: a true death passes
)

// peer is one incarnation of another node.
type peer struct {
	name    string
	member  topology.Member
	removed bool // from the policy
	counted bool // in policy.members

	gone   bool      // memberlist holds it dead
	goneAt time.Time // start of the present hold
	left   bool      // it said that it leaves
	dead   bool      // our verdict
	deadAt time.Time

	fails     int // own dials failed in a row
	silent    bool
	failSince time.Time
	refusals  []time.Time // at most refusalProof, within refusalWindow
	outAt     time.Time   // when another member said last that it does not count q any more
	reports   map[topology.NodeID]time.Time

	lastSeen, lastGood, lastStart time.Time
	nextDial                      time.Time // zero: none planned
	forced, dialing, watched      bool
	hintAt, rejoinAt              time.Time
	rtt, dialRTT                  time.Duration // smoothed; of gossip probes and own dials

	degraded bool        // it says so of itself
	failing  bool        // requests to it fail, whatever its heartbeats say
	troubles []time.Time // such failures, at most troubleLimit, within troubleWindow
}

type eventKind uint8

const (
	evTick        eventKind = iota
	evJoin                  // memberlist: name is alive
	evUpdate                // memberlist: new metadata
	evLeave                 // memberlist: name is dead or has left
	evProbeFailed           // a gossip probe of name got no direct answer
	evAck                   // a gossip probe of name was answered after rtt
	evDial                  // our dial of name, begun at started, ended with result
	evHeard                 // a data reply came from id
	evCheck                 // somebody wants id dialled at once
	evHint                  // id says that its dial of name failed
	evTrouble               // a request to id got no answer
	evDegraded              // this node is degraded, or no longer
	evSelf                  // this node's own entry is another one
	evOut                   // a member, by, counts id no longer
)

type dialResult uint8

const (
	dialNone dialResult = iota // says nothing about the peer
	dialOK
	dialRefused // proof that it is not there
	dialSilent
)

type event struct {
	kind    eventKind
	name    string
	id, by  topology.NodeID
	member  topology.Member
	result  dialResult
	started time.Time
	rtt     time.Duration

	degraded bool // of joins and updates
}

type actionKind uint8

const (
	actDial    actionKind = iota // dial member, answer with evDial
	actHint                      // tell targets that our dial of name failed
	actRejoin                    // push/pull with member's gossip address
	actSeeds                     // look at the seeds and join those unknown
	actPublish                   // a new snapshot, with a change
	actRefresh                   // a new snapshot, round trips only
	actJoined                    // verdicts, for the log:
	actDead                      // member is out, text says why
	actLeft
	actDoubt
	actTrust
	actSuperseded
	actPaused
	actRefused // too many peers
	actDegraded
	actRecovered
)

type action struct {
	kind    actionKind
	name    string
	member  topology.Member
	targets []topology.Member
	text    string
}

func newPolicy(self topology.Member, hold time.Duration, seeds bool, seed uint64, now time.Time) *policy {
	p := &policy{
		self: self, ownName: nodeName(self.ID, self.Boot), hold: hold, seeds: seeds,
		rng:     rand.New(rand.NewPCG(seed, self.Boot)),
		peers:   map[string]*peer{},
		current: map[topology.NodeID]*peer{},
	}
	p.lastTick, p.pausedAt = now, now
	p.nextRejoin = now.Add(p.rejoinGap())
	return p
}

// rejoinGap is the time to the next turn of the rejoin loop. Nodes that start
// at one moment may each find nobody and go on alone: they meet soon.
func (p *policy) rejoinGap() time.Duration {
	if p.seeds && len(p.peers) == 0 {
		return p.jitter(aloneEvery, 0.2)
	}
	return p.jitter(rejoinEvery, 0.2)
}

// step takes one event at time now and returns what to do, valid until the
// next call. Time must not run backwards.
func (p *policy) step(now time.Time, ev event) []action {
	p.out = p.out[:0]
	switch ev.kind {
	case evTick:
		p.tick(now)
	case evJoin, evUpdate:
		p.alive(now, ev)
	case evLeave:
		p.gone(now, ev)
	case evDial:
		p.dialled(now, ev)
	case evHeard:
		if q := p.current[ev.id]; q != nil {
			p.heard(now, q)
		}
	case evCheck:
		if q := p.current[ev.id]; q != nil {
			p.soon(now, q)
		}
	case evOut:
		p.missed(now, ev)
	case evProbeFailed:
		if q := p.peers[ev.name]; q != nil && p.counts(q) {
			p.soon(now, q)
		}
	case evHint:
		p.hinted(now, ev)
	case evSelf:
		p.self, p.leaving, p.dirty = ev.member, ev.member.State == topology.Left, true
	case evDegraded:
		p.degraded, p.dirty = ev.degraded, true
	case evTrouble:
		if q := p.current[ev.id]; q != nil && p.counts(q) {
			p.troubled(now, q)
		}
	case evAck:
		if q := p.peers[ev.name]; q != nil {
			p.measured(&q.rtt, ev.rtt)
		}
	}
	p.flush(now)
	return p.out
}

// flush ends a step with at most one snapshot.
func (p *policy) flush(now time.Time) {
	switch {
	case p.dirty:
		p.act(action{kind: actPublish})
	case p.rttDirty && now.Sub(p.publishedAt) >= rttRefresh:
		p.act(action{kind: actRefresh})
	default:
		return
	}
	p.dirty, p.rttDirty, p.publishedAt = false, false, now
	p.version++
}

func (p *policy) act(a action) { p.out = append(p.out, a) }

// jitter returns d, more or less by up to the share given.
func (p *policy) jitter(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * (1 + share*(2*p.rng.Float64()-1)))
}

// twin says that q is another incarnation of this very node.
func (p *policy) twin(q *peer) bool { return q.member.ID == p.self.ID }

// counts says that q is a member: current, and neither dead nor leaving.
func (p *policy) counts(q *peer) bool {
	return p.current[q.member.ID] == q && !q.dead && !q.left
}

// each visits the peers in the order of their names. visit may remove any of them,
// and add none.
func (p *policy) each(visit func(*peer)) {
	for _, q := range p.order {
		if !q.removed {
			visit(q)
		}
	}
}

// snapshot returns the membership as it is believed now.
func (p *policy) snapshot(now time.Time) Snapshot {
	s := Snapshot{Version: p.version, SelfSuspect: p.doubt == doubtHolding}
	if p.superseded != nil {
		s.Superseded, s.By = true, p.superseded.member
	}
	listed := p.listedDead(now)
	s.Members = make([]Peer, 0, p.members+1+len(listed))
	selfDone := false
	p.each(func(q *peer) {
		if p.current[q.member.ID] != q || q.dead && !listed[q] {
			return
		}
		if !selfDone && p.self.ID.Compare(q.member.ID) < 0 {
			s.Members, selfDone = append(s.Members, Peer{Member: p.self, Degraded: p.degraded}), true
		}
		if q.dead {
			s.Members = append(s.Members, Peer{Member: q.member, Health: Dead})
			return
		}
		s.Members = append(s.Members, Peer{Member: q.member, Health: q.health(), RTT: q.rtt, DialRTT: q.dialRTT,
			Degraded: q.degraded, Failing: q.failing})
	})
	if !selfDone {
		s.Members = append(s.Members, Peer{Member: p.self, Degraded: p.degraded})
	}
	return s
}

// listedDead are the dead that a snapshot shows: the latest MaxDeadListed.
func (p *policy) listedDead(now time.Time) map[*peer]bool {
	if p.members == len(p.current) {
		return nil
	}
	var dead []*peer
	p.each(func(q *peer) {
		if q.dead && p.current[q.member.ID] == q && now.Sub(q.deadAt) < DeadListed {
			dead = append(dead, q)
		}
	})
	slices.SortStableFunc(dead, func(a, b *peer) int { return b.deadAt.Compare(a.deadAt) })
	listed := make(map[*peer]bool, MaxDeadListed)
	for _, q := range dead[:min(len(dead), MaxDeadListed)] {
		listed[q] = true
	}
	return listed
}

func (q *peer) health() Health {
	switch {
	case q.dead:
		return Dead
	case q.fails > 0, q.gone && q.lastGood.Before(q.goneAt):
		return Suspect
	}
	return Alive
}
