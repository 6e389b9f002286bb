package handoff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// life is a cluster in which nodes die, start again, and learn of each other late,
// while copies of slots are made. Nobody is taken for dead who lives. A message
// takes up to a second, an agreement counts for one more; see Renew.
type life struct {
	r     *rand.Rand
	now   time.Time
	nodes [lifeNodes]*lifeNode
	net   []lifeMessage
	tabs  tables
	table int // that all nodes are about to agree on
	step  int
	// served is the step at which a process served a slot last, known to another
	// one: whoever does not know of a process cannot ask it.
	served    [lifeSlots]map[[2]Peer]int
	takeovers int
	pulls     int // slots that were opened with the right to take copies from another node

	noBoot   bool // broken on purpose: who asks is taken for the process that is known
	violated string
}

const lifeNodes, lifeSlots = walkNodes, walkSlots

type lifeNode struct {
	self  Peer
	up    bool
	b     *Barrier
	s     *copySlots
	knows [lifeNodes]uint64 // boot by which it knows the others; 0: dead, or not heard of
	since map[uint64]time.Time
	at    [lifeSlots]int // step at which the copies of a slot were accepted
}

type lifeMessage struct {
	at     time.Time
	from   Peer
	to     int
	ask    Ask
	answer *Verdict
}

func newLife(r *rand.Rand) *life {
	l := &life{r: r, now: time.Unix(1000, 0), tabs: randomTables(r)}
	for s := range l.served {
		l.served[s] = map[[2]Peer]int{}
	}
	for i := range l.nodes {
		l.start(i, 1)
	}
	for _, n := range l.nodes {
		for i := range n.knows {
			n.knows[i] = 1
		}
	}
	for i := range l.nodes {
		l.adopt(i)
	}
	return l
}

func (l *life) start(i int, boot uint64) {
	n := &lifeNode{self: Peer{nodeID(i), boot}, up: true, s: newCopySlots(lifeSlots), since: map[uint64]time.Time{}}
	n.b = NewBarrier(n.self.ID, n.s)
	n.b.now = func() time.Time { return l.now }
	for j, o := range l.nodes {
		if o != nil && o.up { // it joins before it takes anything
			n.knows[j] = o.self.Boot
		}
	}
	n.knows[i] = boot
	l.nodes[i] = n
}

func (l *life) post(from int, asks []Ask) {
	for _, a := range asks {
		if slices.ContainsFunc(l.net, func(m lifeMessage) bool {
			return m.answer == nil && m.from == l.nodes[from].self && m.ask.ID == a.ID && m.ask.Last == a.Last && m.ask.To == a.To
		}) {
			continue
		}
		l.net = append(l.net, lifeMessage{at: l.now, from: l.nodes[from].self, to: int(a.To[19]) - 1, ask: a})
	}
}

// adopt lets a node adopt a table over those that it takes for alive.
func (l *life) adopt(i int) {
	n := l.nodes[i]
	t := &Targets{Hash: l.r.Uint64()}
	var in []int
	for j, boot := range n.knows {
		if boot != 0 {
			in = append(in, j)
			t.Members = append(t.Members, Peer{nodeID(j), boot})
		}
	}
	for _, o := range l.tabs[l.table] {
		at := slices.Index(in, o)
		if at < 0 {
			at = (o + len(in)) % len(in)
		}
		t.Owner = append(t.Owner, uint16(at))
	}
	l.post(i, n.b.Adopt(t))
}

func (l *life) deliver(m lifeMessage) {
	n := l.nodes[m.to]
	if !n.up || m.answer == nil && m.ask.To != n.self.ID {
		return
	}
	if m.answer == nil {
		asker := m.from
		if l.noBoot {
			if n.b.cur != nil {
				if p, ok := n.b.cur.peer(asker.ID); ok {
					asker = p
				}
			}
		}
		v := n.b.ReleaseFor(Request{From: asker.ID, Process: asker.Boot, Ranges: m.ask.Ranges, Last: m.ask.Last,
			Boot: asker.Boot, Ask: m.ask.ID, Pull: m.ask.Pull})
		l.post(m.to, v.Asks)
		if m.ask.ID != 0 {
			l.net = append(l.net, lifeMessage{at: l.now, from: n.self, to: int(m.from.ID[19]) - 1, ask: m.ask, answer: &v})
		}
		return
	}
	if p := n.b.pending[m.from.ID]; p.ID != m.ask.ID || p.Targets != m.ask.Targets {
		return
	}
	if m.answer.Agreed {
		n.since[m.ask.ID] = l.now
		n.b.Offered(m.ask, m.answer.Offers)
		n.b.Agreed(m.ask, m.answer.Served)
	} else {
		n.b.Answered(m.ask, m.answer.Ready)
	}
}

// repeat sends what is unanswered, and takes old agreements back.
func (l *life) repeat(i int) {
	n := l.nodes[i]
	for _, p := range n.b.pending {
		if a, ok := n.b.Current(p.Ask); ok && !p.agreed {
			l.post(i, []Ask{a})
		}
	}
	l.post(i, n.b.Reminders())
}

// pass lets time go by: what is too old does not count any more.
func (l *life) pass(d time.Duration) {
	l.now = l.now.Add(d)
	l.net = slices.DeleteFunc(l.net, func(m lifeMessage) bool { return l.now.Sub(m.at) > time.Second })
	for i, n := range l.nodes {
		if !n.up {
			continue
		}
		for _, p := range n.b.pending {
			if p.agreed && l.now.Sub(n.since[p.ID]) >= time.Second {
				if a, ok := n.b.Renew(p.Ask); ok {
					l.post(i, []Ask{a})
				}
			}
		}
	}
}

// event is one thing that happens.
func (l *life) event() {
	i := l.r.IntN(lifeNodes)
	n := l.nodes[i]
	switch k := l.r.IntN(200); {
	case k < 3 && n.up && l.upCount() > 1:
		n.up = false
	case k < 6 && !n.up:
		l.start(i, n.self.Boot+1)
	case k < 26 && n.up: // it hears of another
		j := l.r.IntN(lifeNodes)
		o := l.nodes[j]
		switch {
		case o.up && n.knows[j] != o.self.Boot:
			n.knows[j] = o.self.Boot
		case !o.up && n.knows[j] != 0:
			n.knows[j] = 0
		default:
			return
		}
		l.adopt(i)
	case k < 32 && n.up:
		if l.r.IntN(4) == 0 {
			l.table = l.r.IntN(walkTables)
		}
		l.adopt(i)
	case k < 52 && n.up:
		l.repeat(i)
	case k < 90:
		l.copy()
	case k < 100:
		l.pass(time.Duration(l.r.IntN(900)) * time.Millisecond)
	case len(l.net) > 0:
		for range min(len(l.net), 6) {
			at := l.r.IntN(len(l.net))
			m := l.net[at]
			if l.r.IntN(8) > 0 {
				l.net = slices.Delete(l.net, at, at+1)
			}
			if l.deliver(m); len(l.net) == 0 {
				break
			}
		}
	}
}

func (l *life) upCount() (n int) {
	for _, x := range l.nodes {
		n += b2i(x.up)
	}
	return n
}

// copy lets a node that serves a slot give another one copies of it. They are read
// after the other one has accepted.
func (l *life) copy() {
	from, to, slot := l.nodes[l.r.IntN(lifeNodes)], l.nodes[l.r.IntN(lifeNodes)], uint16(l.r.IntN(lifeSlots))
	if !from.up || !to.up || from == to || !from.s.on[slot] {
		return
	}
	if to.b.AcceptCopies(from.self, slot, false) == "" {
		to.at[slot] = l.step
		to.s.content[slot] = int(from.self.ID[19])*1000 + int(from.self.Boot)
	}
}

// look compares who serves with what there was before.
func (l *life) look(before [lifeNodes]int) {
	for i, n := range l.nodes {
		if !n.up {
			continue
		}
		for s := range n.s.on {
			if !n.s.on[s] {
				continue
			}
			if n.b.TakenOver() > before[i] && n.s.content[s] >= 1000 {
				of := Peer{nodeID(n.s.content[s]/1000 - 1), uint64(n.s.content[s] % 1000)}
				l.takeovers++
				l.check(i, s, of, n, "its")
			}
			if c := n.s.cell(uint16(s)); c.open {
				c.open = false
				l.mayTake(i, s, c.from)
			}
			n.s.content[s] = 1 // its own from now on
			for j, boot := range n.knows {
				l.served[s][[2]Peer{n.self, {nodeID(j), boot}}] = l.step
			}
		}
	}
}

// check notes if somebody else has served a slot since a node got its copies.
func (l *life) check(i, s int, of Peer, holder *lifeNode, whose string) {
	for p, at := range l.served[s] {
		if p[0] != of && p[1] == holder.self && at > holder.at[s] && l.violated == "" {
			l.violated = fmt.Sprintf("node %d took slot %d over with %s copies of %v made at step %d, but %v served it at step %d", i, s, whose, of, holder.at[s], p[0], at)
		}
	}
}

// mayTake looks at copies that a node may take from another one.
func (l *life) mayTake(i, s int, from Cession) {
	src := l.nodes[int(from.Peer.ID[19])-1]
	if !src.up || src.self != from.Peer || src.s.content[s] < 1000 || !src.s.cell(uint16(s)).ceded {
		return
	}
	l.pulls++
	l.check(i, s, Peer{nodeID(src.s.content[s]/1000 - 1), uint64(src.s.content[s] % 1000)}, src, "another's")
}

func (l *life) live(steps int) {
	for l.step = 1; l.step <= steps && l.violated == ""; l.step++ {
		var before [lifeNodes]int
		for i, n := range l.nodes {
			before[i] = n.b.TakenOver()
		}
		l.event()
		l.look(before)
	}
}

// TestCopiesInRandomLives: whatever happens, copies become content only where
// nobody but the process that they are of has served the slot since.
func TestCopiesInRandomLives(t *testing.T) {
	oneGoroutine(t)
	lives := uint64(1500)
	if testing.Short() {
		lives = 300
	}
	takeovers, pulls := 0, 0
	for seed := range lives {
		l := newLife(rand.New(rand.NewPCG(seed, 3)))
		l.live(400)
		if l.violated != "" {
			t.Fatalf("seed %d: %s", seed, l.violated)
		}
		takeovers, pulls = takeovers+l.takeovers, pulls+l.pulls
	}
	if takeovers < int(lives)/20 || pulls < int(lives)/50 {
		t.Errorf("only %d takeovers and %d pulls in %d lives", takeovers, pulls, lives)
	}
	t.Logf("%d takeovers, %d pulls", takeovers, pulls)
}

// TestRandomLivesCanFail shows that the lives find broken rules.
func TestRandomLivesCanFail(t *testing.T) {
	oneGoroutine(t)
	for _, tc := range []struct {
		name   string
		break_ func(l *life)
	}{
		{"a restarted process is taken for the one before", func(l *life) { l.noBoot = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(4000) {
				l := newLife(rand.New(rand.NewPCG(seed, 3)))
				tc.break_(l)
				if l.live(400); l.violated != "" {
					t.Logf("seed %d: %s", seed, l.violated)
					return
				}
			}
			t.Fatal("it went unnoticed")
		})
	}
}
