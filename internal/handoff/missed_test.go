package handoff

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

// absence is the story of node 0: it serves slots 0 and 1, is stopped for 20 s while
// node 1 takes slot 0 over and node 2 slot 1, and comes back. Each step may be spoilt.
type absence struct {
	*yard
	before, gone, taken, woken, back func(a *absence)
}

const (
	untouched = "untouched"
	touched   = "touched"
)

func (a *absence) step(fn func(a *absence)) {
	if fn != nil {
		fn(a)
	}
}

// run tells the story, and returns what node 0 has of slot 0 in the end.
func (a *absence) run(t *testing.T) (quiet, used string) {
	t.Helper()
	a.yard = newYard(t, []int{0, 1, 2, 3}, []int{0, 2, 1, 3}, []int{1, 2, 0, 3}, []int{2, 0, 1, 3}, []int{3, 1, 2, 0}, []int{0, 1, 2, 3})
	a.adopt([]int{0, 1, 2}, 0, 1, 2)
	a.settle()
	a.pass(time.Minute)
	for slot := range uint16(2) {
		for _, k := range []string{untouched, touched} {
			a.set(0, slot, k, "old")
		}
	}
	a.step(a.before)
	a.sleep(0)
	a.pass(10 * time.Second)
	a.step(a.gone)
	a.adopt([]int{1, 2}, 1, 2)
	a.settle()
	if a.taken == nil {
		a.set(1, 0, touched, "new")
		a.set(2, 1, touched, "new")
	}
	a.step(a.taken)
	a.pass(10 * time.Second)
	a.wake(0)
	a.step(a.woken)
	a.doubt(0)
	if a.nodes[0].eng.Serving(0) || a.nodes[0].eng.Serving(1) {
		t.Fatal("it still serves")
	}
	a.step(a.back)
	a.adopt([]int{1, 2}, 0, 1, 2)
	a.settle()
	if !a.nodes[0].eng.Serving(0) || a.nodes[1].eng.Serving(0) {
		t.Fatal("slot 0 is not served by its owner")
	}
	return a.get(0, 0, untouched), a.get(0, 0, touched)
}

// absenceCase is an absence and its end.
type absenceCase struct {
	name  string
	a     absence
	quiet string // what is left of a key that nobody touched; "" = nothing
	used  string // of one that node 1 has written
}

func (tc *absenceCase) test(t *testing.T) {
	a := tc.a
	quiet, used := a.run(t)
	if quiet != tc.quiet || used != tc.used {
		t.Errorf("untouched %q, want %q; touched %q, want %q", quiet, tc.quiet, used, tc.used)
	}
	for i, n := range a.nodes {
		if waiting, _, _ := n.b.Returned(); waiting > 0 {
			t.Errorf("node %d still waits for %d proofs", i, waiting)
		}
	}
}

// With one other owner, what that one has not touched is kept, and what it has is taken
// from it.
func TestAbsenceOneOwner(t *testing.T) {
	for _, tc := range []absenceCase{
		{"one owner meanwhile", absence{}, "old", "new"},
		{"nobody has opened the slot", absence{taken: func(*absence) {}}, "old", "old"},
		{"the answer with the log is lost at first", absence{back: func(a *absence) {
			n := 0
			a.lose = func(from, _ int) bool { n++; return from == 1 && n < 6 }
		}}, "old", "new"},
		{"a key that node 1 has written and evicted", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.nodes[1].eng.SetMaxBytes(1)
			a.nodes[1].eng.SetMaxBytes(4 << 20)
		}}, "old", ""},
		{"a key that was looked for", absence{taken: func(a *absence) { a.get(1, 0, touched) }}, "old", ""},
		{"a key that was deleted there", absence{taken: func(a *absence) { a.nodes[1].eng.Delete(0, []byte(touched)) }}, "old", ""},
	} {
		t.Run(tc.name, tc.test)
	}
}

// A slot is served as soon as its own log is applied, whatever the others still need,
// and who waits for it is told.
func TestSlotsOpenWhileLogsAreApplied(t *testing.T) {
	told := false
	a := absence{back: func(a *absence) {
		e := a.nodes[0].eng
		a.applying = func(slot uint16) {
			if slot != 1 {
				return
			}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for end := time.After(30 * time.Second); !e.Serving(0); {
				select {
				case <-tick.C:
				case <-end:
					t.Error("slot 0 waits for slot 1")
					return
				}
			}
		}
		a.nodes[0].b.opening = func() { told = told || e.Serving(0) && !e.Serving(1) }
	}}
	if quiet, used := a.run(t); quiet != "old" || used != "new" {
		t.Errorf("untouched %q, touched %q", quiet, used)
	}
	if !told {
		t.Error("nobody was told of slot 0 before slot 1 was open")
	}
}

// In every other case everything goes: something has happened in the slot.
func TestAbsenceOfOwners(t *testing.T) {
	for _, tc := range []absenceCase{
		{"a flush at node 1", absence{taken: func(a *absence) { a.set(1, 0, touched, "new"); a.nodes[1].eng.Flush() }}, "", ""},
		{"more keys touched than a log names", absence{taken: func(a *absence) {
			for i := range engine.MaxLogKeys + 1 {
				a.nodes[1].eng.Delete(0, fmt.Append(nil, i))
			}
		}}, "", ""},
		{"node 2 has served it first", absence{gone: func(a *absence) {
			a.adopt([]int{2}, 2)
			a.set(2, 0, untouched, "newer")
		}}, "", "new"},
		{"node 2 has owned the slot for a moment", absence{gone: func(a *absence) {
			a.order[0] = []int{0, 2, 1}
			a.adopt([]int{2}, 1, 2)
			a.order[0] = []int{0, 1, 2}
		}}, "", "new"},
		{"node 2 has owned it since", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.order[0] = []int{0, 2, 1}
			a.adopt([]int{1, 2}, 1, 2)
			a.settle()
			a.order[0] = []int{0, 1, 2}
			a.adopt([]int{1, 2}, 1, 2)
			a.settle()
		}}, "", ""},
	} {
		t.Run(tc.name, tc.test)
	}
}

// Or members are not what they were.
func TestAbsenceOfMembers(t *testing.T) {
	for _, tc := range []absenceCase{
		{"node 1 was away itself", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.nodes[1].last = a.now
			a.doubt(1)
			a.settle()
		}}, "", ""},
		{"node 2 was away itself", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.nodes[2].last = a.now
			a.doubt(2)
			a.settle()
		}}, "", "new"},
		{"node 2 is another process", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.nodes[2] = a.newNode(2, 2)
			a.adopt([]int{1, 2}, 1, 2)
			a.settle()
		}, woken: func(a *absence) { a.adopt([]int{0}, 0, 1, 2) }}, "", "new"},
		{"node 2 is another process, and node 0 hears of it late", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.nodes[2] = a.newNode(2, 2)
			a.adopt([]int{1, 2}, 1, 2)
			a.settle()
		}, back: func(a *absence) { a.adopt([]int{0}, 0, 1, 2) }}, "", "new"},
		{"a node that came in between, and is gone", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.adopt([]int{1, 2, 3}, 1, 2, 3)
			a.settle()
			a.adopt([]int{1, 2}, 1, 2)
			a.settle()
		}}, "", "new"},
		{"a node that only node 0 knows", absence{back: func(a *absence) {
			a.adopt([]int{0, 3}, 0, 1, 2, 3)
		}}, "", "new"},
		{"a node that node 0 misses while it waits", absence{back: func(a *absence) {
			a.adopt([]int{0, 1}, 0, 1)
			a.settle()
		}}, "", "new"},
		{"a node that node 0 has never heard of", absence{before: func(a *absence) {
			a.adopt([]int{1, 2, 3}, 0, 1, 2, 3)
			a.settle()
			a.pass(time.Minute)
		}}, "", "new"},
		{"node 0 has lost a member since, and has it again", absence{woken: func(a *absence) {
			a.adopt([]int{0}, 0, 1)
			a.adopt([]int{0}, 0, 1, 2)
			clear(a.nodes[0].b.strangers)
		}}, "", "new"},
	} {
		t.Run(tc.name, tc.test)
	}
}

// Or it took too long, or began too early.
func TestAbsenceInTime(t *testing.T) {
	for _, tc := range []absenceCase{
		{"node 0 waits for a member that may have served", absence{before: func(a *absence) { a.nodes[0].b.remind(nodeID(2)) }}, "", "new"},
		{"node 0 has had the slot for a short time", absence{before: func(a *absence) {
			a.order[0] = []int{1, 0, 2}
			a.adopt([]int{0, 1, 2}, 0, 1, 2)
			a.settle()
			a.order[0] = []int{0, 1, 2}
			a.adopt([]int{0, 1, 2}, 0, 1, 2)
			a.settle()
			a.set(0, 0, untouched, "old")
			a.set(0, 0, touched, "old")
			a.pass(tenureMargin - time.Second)
		}}, "", "new"},
		{"node 0 has had it long enough", absence{before: func(a *absence) {
			a.order[0] = []int{1, 0, 2}
			a.adopt([]int{0, 1, 2}, 0, 1, 2)
			a.settle()
			a.order[0] = []int{0, 1, 2}
			a.adopt([]int{0, 1, 2}, 0, 1, 2)
			a.settle()
			a.set(0, 0, untouched, "old")
			a.set(0, 0, touched, "old")
			a.pass(tenureMargin + time.Second)
		}}, "old", "new"},
		{"node 1 has held entries when it opened the slot", absence{gone: func(a *absence) {
			a.nodes[1].eng.SetServing(0, true)
			a.set(1, 0, "more", "v")
			a.nodes[1].eng.SetServing(0, false)
		}}, "", "new"},
		{"node 2 has served the slot until it gave it up, unheard", absence{gone: func(a *absence) {
			a.nodes[2].eng.SetServing(0, true)
			a.nodes[2].b.shut(0)
		}}, "", "new"},
		{"node 2 still served the slot", absence{gone: func(a *absence) { a.nodes[2].eng.SetServing(0, true) },
			taken: func(a *absence) { a.set(1, 0, touched, "new") }}, "", "new"},
		{"too long", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.pass(missedFor)
			a.nodes[1].b.Expire(a.now)
			a.nodes[2].b.Expire(a.now)
		}, before: func(a *absence) { a.pass(2 * missedFor) }}, "", "new"},
		{"no answer for too long", absence{before: func(a *absence) { a.pass(time.Hour) }, back: func(a *absence) {
			a.pass(awayFor)
			a.nodes[0].b.Expire(a.now)
		}}, "", "new"},
		{"missed twice", absence{taken: func(a *absence) {
			a.set(1, 0, touched, "new")
			a.adopt([]int{1, 2}, 0, 1, 2) // as if it was back
			a.adopt([]int{1, 2}, 1, 2)
			a.settle()
		}}, "", "new"},
	} {
		t.Run(tc.name, tc.test)
	}
}

// What the others say is believed only if it is one story.
func TestAbsenceProof(t *testing.T) {
	one, two := Peer{nodeID(1), 1}, Peer{nodeID(2), 1}
	slot := []Range{{0, 0}}
	for _, tc := range []struct {
		name   string
		n1, n2 func(log *Testimony) *Testimony
		served []Range // by node 2
		kept   bool
	}{
		{"one heir", func(l *Testimony) *Testimony { return l }, func(*Testimony) *Testimony { return &Testimony{Heirs: []Heir{{one, slot}}} }, nil, true},
		{"nobody says anything", nil, nil, nil, false},
		{"two heirs", func(l *Testimony) *Testimony { return l }, func(l *Testimony) *Testimony { return l }, nil, false},
		{"another heir", func(l *Testimony) *Testimony { return l }, func(*Testimony) *Testimony { return &Testimony{Heirs: []Heir{{two, slot}}} }, nil, false},
		{"another process", func(l *Testimony) *Testimony { return l }, func(*Testimony) *Testimony { return &Testimony{Heirs: []Heir{{Peer{one.ID, 2}, slot}}} }, nil, false},
		{"no log", nil, func(*Testimony) *Testimony { return &Testimony{Heirs: []Heir{{one, slot}}} }, nil, false},
		{"one says nothing", func(l *Testimony) *Testimony { return l }, nil, nil, false},
		{"of another slot", func(l *Testimony) *Testimony { return l }, func(*Testimony) *Testimony { return &Testimony{Heirs: []Heir{{one, []Range{{1, 1}}}}} }, nil, false},
		{"the other has served", func(l *Testimony) *Testimony { return l }, func(*Testimony) *Testimony { return &Testimony{Heirs: []Heir{{one, slot}}} }, slot, false},
		{"another hash", func(l *Testimony) *Testimony { l.Check++; return l }, func(*Testimony) *Testimony { return &Testimony{Heirs: []Heir{{one, slot}}} }, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			y := newYard(t, []int{0, 1, 2}, []int{1, 2, 0}, []int{2, 0, 1})
			y.adopt([]int{0, 1, 2}, 0, 1, 2)
			y.settle()
			y.set(0, 0, untouched, "old")
			y.pass(time.Minute)
			n := y.nodes[0]
			n.b.Doubt(time.Second)
			none := y.nodes[1].eng.NoTouches()
			log := &Testimony{Seed: none.Seed, Check: none.Check, Logs: []SlotLog{{0, nil}}}
			for i, say := range []func(*Testimony) *Testimony{tc.n1, tc.n2} {
				var said *Testimony
				if say != nil {
					said = say(log)
				}
				a := n.b.pending[nodeID(i+1)].Ask
				n.b.Told(a, said)
				if i == 1 {
					n.b.Agreed(a, tc.served)
				} else {
					n.b.Agreed(a, nil)
				}
			}
			if kept := y.get(0, 0, untouched) == "old"; kept != tc.kept {
				t.Errorf("kept: %v, want %v", kept, tc.kept)
			}
		})
	}
}

// A log is told as long as it may be needed, and no longer.
func TestAbsenceIsForgotten(t *testing.T) {
	a := absence{}
	a.run(t)
	for i := 1; i <= 2; i++ {
		if n := len(a.nodes[i].b.missed); n != 1 {
			t.Fatalf("node %d remembers %d", i, n)
		}
	}
	a.pass(toldFor)
	for _, n := range a.nodes[1:] {
		n.b.Expire(a.now)
		if len(n.b.missed) > 0 || n.eng.Stats().WindowBytes > 0 {
			t.Errorf("node %v remembers it", n.ID)
		}
	}
}

// What is remembered is bounded.
func TestMissedIsBounded(t *testing.T) {
	order := make([]int, missedMost+10)
	for i := range order {
		order[i] = i
	}
	orders := make([][]int, len(order)) // all are followed by the last one
	for s := range orders {
		orders[s] = []int{s, len(order) - 1}
	}
	y := newYard(t, orders...)
	last := len(order) - 1
	y.adopt([]int{last}, order...)
	y.ask(last)
	for i := range last {
		y.adopt([]int{last}, order[i+1:]...)
	}
	if x := y.nodes[last].b.missed; len(x) != missedMost || x[missedMost-1].of != y.nodes[last-1].Peer {
		t.Errorf("%d are remembered, limit %d", len(x), missedMost)
	}
}

// Content that waits for its proof is not replaced by copies, and goes with the node.
func TestAwayContent(t *testing.T) {
	for name, end := range map[string]func(y *yard){
		"retired":       func(y *yard) { y.nodes[0].b.Retire() },
		"away again":    func(y *yard) { y.nodes[0].b.Doubt(time.Hour) },
		"owner no more": func(y *yard) { y.order[0] = []int{1}; y.adopt([]int{0}, 0, 1) },
		"no proof":      func(y *yard) { y.pass(awayFor); y.nodes[0].b.Expire(y.now) },
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, []int{0, 1}, []int{1, 0})
			y.adopt([]int{0, 1}, 0, 1)
			y.settle()
			y.set(0, 0, "k", "old")
			y.pass(time.Minute)
			y.sleep(0)
			y.pass(20 * time.Second)
			y.wake(0)
			y.doubt(0)
			n := y.nodes[0]
			if waiting, _, _ := n.b.Returned(); waiting != 1 || n.eng.Stats().Keys != 1 {
				t.Fatalf("%d slots wait, with %d keys", waiting, n.eng.Stats().Keys)
			}
			y.order[0] = []int{1, 0}
			n.b.cur = y.targets(0, 1)
			if why := n.b.AcceptCopies(y.nodes[1].Peer, 0, false); why == "" {
				t.Error("copies are accepted")
			}
			y.order[0] = []int{0, 1}
			n.b.cur = y.targets(0, 1)
			end(y)
			if waiting, _, lost := n.b.Returned(); waiting != 0 || lost != 1 || n.eng.Stats().Keys != 0 {
				t.Errorf("%d slots wait, %d are lost, %d keys are left", waiting, lost, n.eng.Stats().Keys)
			}
		})
	}
}

// manyKeys says that each slot has half of what may wait.
type manyKeys struct{ yardSlots }

func (m manyKeys) Keys(slot uint16) int64 { return awayMost / 2 }

// What waits is bounded: it is worked through while nobody serves the slots.
func TestAwayIsBounded(t *testing.T) {
	y := newYard(t, []int{0, 1}, []int{0, 1}, []int{0, 1})
	y.adopt([]int{0, 1}, 0, 1)
	y.settle()
	for slot := range uint16(3) {
		y.set(0, slot, "k", "old")
	}
	y.pass(time.Minute)
	n := y.nodes[0]
	n.b.slots = manyKeys{n.b.slots.(yardSlots)}
	n.b.Doubt(time.Second)
	if waiting, _, _ := n.b.Returned(); waiting != 2 || n.eng.Stats().Keys != 2 {
		t.Errorf("%d slots wait, with %d keys, want 2", waiting, n.eng.Stats().Keys)
	}
}

// A testimony is read as it was written, or not at all.
func TestTestimonyCodec(t *testing.T) {
	in := &Testimony{Seed: 7, Check: 1 << 60, Heirs: []Heir{{Peer{nodeID(3), 9}, []Range{{0, 5}, {16383, 16383}}}, {Peer{nodeID(4), 1 << 63}, nil}},
		Logs: []SlotLog{{4, []uint32{1, 1 << 31}}, {16383, nil}}}
	b := in.AppendBinary(nil)
	out, err := ParseTestimony(b)
	if err != nil || fmt.Sprint(out) != fmt.Sprint(in) {
		t.Fatalf("%+v %v, want %+v", out, err, in)
	}
	for n := range b {
		if _, err := ParseTestimony(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(b))
		}
	}
	if _, err := ParseTestimony(append(b, 0)); err == nil {
		t.Error("more is read than was written")
	}
}

func FuzzTestimony(f *testing.F) {
	f.Add((&Testimony{}).AppendBinary(nil))
	f.Add((&Testimony{Heirs: []Heir{{Peer{nodeID(3), 9}, []Range{{0, 5}}}}, Logs: []SlotLog{{4, []uint32{1}}}}).AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ParseTestimony(b)
		if err != nil {
			return
		}
		if y, err := ParseTestimony(x.AppendBinary(nil)); err != nil || fmt.Sprint(x) != fmt.Sprint(y) {
			t.Errorf("%+v %+v %v", x, y, err)
		}
	})
}

// A member says who has owned a slot only if it was one other process, once.
func TestTestimonyOfOwners(t *testing.T) {
	type view struct {
		members []int
		owner   int
	}
	with := func(owner int) view { return view{[]int{0, 1, 2, 3}, owner} }
	gone := func(owner int) view { return view{[]int{1, 2, 3}, owner} }
	for _, tc := range []struct {
		name  string
		views []view
		want  string // who is named: an ID, "log", or nothing
	}{
		{"one heir", []view{with(0), gone(1), with(0)}, "1"},
		{"this node", []view{with(0), gone(2), with(0)}, "log"},
		{"the heir again", []view{with(0), gone(1), {[]int{1, 2}, 1}, gone(1), with(0)}, "1"},
		{"two heirs", []view{with(0), gone(1), gone(3), with(0)}, ""},
		{"another one between", []view{with(0), gone(1), gone(3), gone(1), with(0)}, ""},
		{"another one between this node's turns", []view{with(0), gone(2), gone(3), gone(2), with(0)}, ""},
		{"the heir twice", []view{with(0), gone(1), with(0), with(1), with(0)}, ""},
		{"the latest absence of two", []view{with(0), gone(1), with(0), gone(1), with(0)}, "1"},
		{"the latest absence, and an heir of the first", []view{with(0), gone(3), with(0), gone(1), with(0)}, "1"},
		{"another one, after it was back", []view{with(0), gone(1), with(0), with(3), with(0)}, ""},
		{"nobody between", []view{with(0), gone(9), with(0)}, ""},
		{"nobody after the heir", []view{with(0), gone(1), gone(9), with(0)}, ""},
		{"a new node", []view{with(0), gone(1), {[]int{1, 2, 3, 4}, 1}, with(0)}, ""},
		{"a new node at once", []view{with(0), {[]int{1, 2, 3, 4}, 1}, with(0)}, ""},
		{"the slot was not the process's", []view{with(3), gone(1), with(0)}, ""},
		{"it was not missed", []view{with(0), with(1), with(0)}, ""},
		{"it is still missed", []view{with(0), gone(1)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			y := newYard(t, []int{0, 1, 2, 3, 4})
			b := y.nodes[2].b
			for _, v := range tc.views {
				b.Adopt(targets(v.members, []int{v.owner})) // 9 is nobody
				y.pass(time.Minute)
			}
			q := Request{From: nodeID(0), Process: 1, Ranges: []Range{{0, 0}}, Away: membersHash(y.targets(0, 1, 2, 3).Members), Silence: time.Minute}
			got := ""
			if v := b.ReleaseFor(q); v.Left != nil {
				for _, h := range v.Left.Heirs {
					got += fmt.Sprint(h.Peer.ID[19] - 1)
				}
				if len(v.Left.Logs) > 0 {
					got += "log"
				}
			}
			if got != tc.want {
				t.Errorf("says %q, want %q", got, tc.want)
			}
		})
	}
}
