package handoff

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

// yard is some nodes with engines, whose processes may be away, on a clock that only
// the test moves. The owner of a slot is the first of its order that is a member.
type yard struct {
	tb    testing.TB
	now   time.Time
	nodes []*yardNode
	order [][]int // per slot

	lose func(from, to int) bool // whether an answer is lost

	applying func(slot uint16) // before a log is applied; on several goroutines
	unlogged bool              // broken on purpose: logs are not applied
}

type yardNode struct {
	Peer
	b      *Barrier
	t      *Transfer
	eng    *engine.Engine
	view   []Peer             // latest adopted
	tenure map[Peer]time.Time // since when it has had them in its Views
	asleep bool
	last   time.Time // its last contact, when it went to sleep
	looks  bool      // it has to look around before it executes anything
	lost   time.Time // the last contact before it found its slots lost
}

// yardSlots is a Transfer whose logs may be ignored.
type yardSlots struct {
	*Transfer
	y *yard
}

func (s yardSlots) RemoveLogged(slot uint16, l engine.TouchLog) bool {
	if s.y.applying != nil {
		s.y.applying(slot)
	}
	return s.y.unlogged || s.Transfer.RemoveLogged(slot, l)
}

func newYard(tb testing.TB, order ...[]int) *yard {
	y := &yard{tb: tb, now: time.UnixMilli(1e12), order: order}
	for _, o := range order {
		for _, n := range o {
			for n >= len(y.nodes) {
				y.nodes = append(y.nodes, nil)
			}
		}
	}
	for i := range y.nodes {
		y.nodes[i] = y.newNode(i, 1)
	}
	return y
}

func (y *yard) newNode(i int, boot uint64) *yardNode {
	e, err := engine.New(engine.Options{Now: func() int64 { return y.now.UnixMilli() }, MaxBytes: 4 << 20, Shards: 1, NoBackground: true, Seed: uint64(i+1) + boot<<8})
	if err != nil {
		y.tb.Fatal(err)
	}
	n := &yardNode{Peer: Peer{nodeID(i), boot}, eng: e, t: NewTransfer(TransferOptions{Engine: e, Caller: y})}
	n.t.SetPaused(true)
	n.b = NewBarrier(nodeID(i), yardSlots{n.t, y})
	n.b.now = func() time.Time { return y.now }
	y.tb.Cleanup(func() {
		n.t.Close()
		n.eng.Close()
	})
	return n
}

func (y *yard) of(p Peer) *yardNode {
	for _, n := range y.nodes {
		if n.Peer == p {
			return n
		}
	}
	return nil
}

// Take is that of the process that is asked, if it is awake.
func (y *yard) Take(_ context.Context, from Peer, slot uint16, ask uint64, keys [][]byte) (out []Entry, err error) {
	n := y.of(from)
	if n == nil || n.asleep {
		return nil, errors.New("no answer")
	}
	// Who asks is known by the cession.
	for i := range y.nodes {
		out = out[:0]
		if n.t.Give(slot, Cession{y.nodes[i].Peer, ask}, keys, func(_ int, e Entry) bool { out = append(out, e.clone()); return true }) {
			return out, nil
		}
	}
	return nil, ErrNotCeded
}

func (y *yard) TakeMany(context.Context, Peer, Many) ([]Batch, error) {
	return nil, errors.New("paused")
}
func (y *yard) Have(context.Context, Peer, uint16, uint64, [][]byte) error {
	y.tb.Error("a giver is told of keys that it has never had")
	return nil
}
func (y *yard) Taken(context.Context, Peer, []Range) error { return nil }

// targets are those with these members, in their present processes.
func (y *yard) targets(members ...int) *Targets {
	var ps []Peer
	for _, m := range members {
		ps = append(ps, y.nodes[m].Peer)
	}
	return y.targetsOf(ps)
}

func (y *yard) targetsOf(members []Peer) *Targets {
	slices.SortFunc(members, func(a, b Peer) int { return a.ID.Compare(b.ID) })
	t := &Targets{Members: members, Owner: make([]uint16, len(y.order)), Hash: membersHash(members)}
	for s, order := range y.order {
		t.Owner[s] = NoOwner
		for _, n := range slices.Backward(order) {
			if i := t.index(nodeID(n)); i >= 0 {
				t.Owner[s] = uint16(i)
				t.Hash = t.Hash*31 + uint64(n) + uint64(s)
			}
		}
	}
	return t
}

// adopt lets nodes adopt targets with these members.
func (y *yard) adopt(nodes []int, members ...int) {
	for _, n := range nodes {
		y.adoptOf(y.nodes[n], y.targets(members...))
	}
}

func (y *yard) adoptOf(n *yardNode, t *Targets) {
	n.b.Adopt(t)
	n.t.Adopted(t)
	since := map[Peer]time.Time{}
	for _, p := range t.Members {
		if at, ok := n.tenure[p]; ok {
			since[p] = at
		} else if n.tenure != nil {
			since[p] = y.now
		} else {
			since[p] = time.Time{} // as if for ever
		}
	}
	n.view, n.tenure = t.Members, since
}

// ask sends what nodes still ask, once, and gives them the answers.
func (y *yard) ask(nodes ...int) (progress bool) {
	for _, i := range nodes {
		n := y.nodes[i]
		if n.asleep {
			continue
		}
		var asks []Ask
		for _, p := range n.b.pending {
			asks = append(asks, p.Ask)
		}
		slices.SortFunc(asks, func(a, b Ask) int { return cmp.Compare(a.ID, b.ID) })
		for _, a := range asks {
			a, ok := n.b.Current(a)
			if !ok || n.b.pending[a.To].agreed {
				continue
			}
			to := int(a.To[19]) - 1
			if y.nodes[to].asleep {
				continue
			}
			progress = y.send(i, to, a) || progress
		}
	}
	return progress
}

func (y *yard) send(from, to int, a Ask) bool {
	n, m := y.nodes[from], y.nodes[to]
	q := Request{From: n.ID, Process: n.Boot, Ranges: a.Ranges, Last: a.Last, Boot: n.Boot, Ask: a.ID, Pull: a.Pull, Away: a.Away}
	if a.Away != 0 {
		q.Silence = y.now.Sub(n.lost)
	}
	v := m.b.ReleaseFor(q)
	if y.lose != nil && y.lose(to, from) {
		return true
	}
	if !v.Agreed {
		n.b.Answered(a, v.Ready)
		return v.Ready
	}
	var left *Testimony
	if v.Left != nil {
		var err error
		if left, err = ParseTestimony(v.Left.AppendBinary(nil)); err != nil {
			y.tb.Fatal(err)
		}
	}
	n.b.Told(a, left)
	n.b.Offered(a, v.Offers)
	n.b.Agreed(a, v.Served)
	return true
}

// settle asks until nothing changes.
func (y *yard) settle() {
	all := make([]int, len(y.nodes))
	for i := range all {
		all[i] = i
	}
	for range 10 {
		y.ask(all...)
	}
}

func (y *yard) pass(d time.Duration) { y.now = y.now.Add(d) }

// sleep stops a process.
func (y *yard) sleep(i int) {
	n := y.nodes[i]
	n.asleep, n.last = true, y.now
}

// wake lets it go on; doubt is what follows.
func (y *yard) wake(i int) { y.nodes[i].asleep = false }

func (y *yard) doubt(i int) {
	n := y.nodes[i]
	n.lost = n.last
	n.b.Doubt(y.now.Sub(n.last))
}

func (y *yard) set(node int, slot uint16, key, value string) {
	y.tb.Helper()
	if err := y.nodes[node].eng.Set(slot, []byte(key), []byte(value), 0); err != nil {
		y.tb.Fatalf("node %d, slot %d: %v", node, slot, err)
	}
}

// get reads a key where its slot is served, and takes it over first if it may be
// somewhere else; "" if it is not there.
func (y *yard) get(node int, slot uint16, key string) string {
	n := y.nodes[node]
	for lacks, tries := true, 0; lacks && tries < 100; tries++ { // the machine may be busy for longer than a request waits
		tx, err := n.eng.Lock(slot)
		if err != nil {
			y.tb.Fatalf("node %d, slot %d: %v", node, slot, err)
		}
		lacks = tx.Untouched([]byte(key))
		tx.Unlock()
		w := n.t.Window(slot)
		if w == nil || !lacks || y.of(w.from.Peer) == nil || y.of(w.from.Peer).asleep {
			break
		}
		n.t.Pull(w, [][]byte{[]byte(key)})
	}
	v, _, err := n.eng.Get(slot, []byte(key), nil)
	if err != nil {
		return ""
	}
	return string(v)
}
