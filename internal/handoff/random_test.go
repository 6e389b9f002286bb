package handoff

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// oneGoroutine keeps a long test out of the short run with the race detector, which
// finds nothing where nothing runs beside; the run without it makes the test.
func oneGoroutine(tb testing.TB) {
	tb.Helper()
	if raceEnabled && testing.Short() {
		tb.Skip("one goroutine, long")
	}
}

// pairs tracks which pairs of nodes have known each other without a break
// since they last did not both serve a slot. Only for those the promise holds:
// nodes that took each other for dead may both have taken the slots over.
type pairs map[[3]int]bool

func (p pairs) update(w *world) {
	for a, x := range w.barriers {
		for b, y := range w.barriers {
			if a >= b {
				continue
			}
			mutual := x.cur != nil && y.cur != nil && x.cur.index(nodeID(b)) >= 0 && y.cur.index(nodeID(a)) >= 0
			for s := range w.slots[a].on {
				key := [3]int{a, b, s}
				switch {
				case !mutual:
					p[key] = false
				case !(w.slots[a].on[s] && w.slots[b].on[s]):
					p[key] = true
				}
			}
		}
	}
}

// check returns a slot that two nodes serve although they know each other.
func (p pairs) check(w *world) (slot, a, b int, bad bool) {
	for s := range w.slots[0].on {
		by := w.servers(s)
		for i, a := range by {
			for _, b := range by[i+1:] {
				if p[[3]int{a, b, s}] {
					return s, a, b, true
				}
			}
		}
	}
	return 0, 0, 0, false
}

const walkNodes, walkSlots, walkTables = 4, 3, 3

// tables are the few owner tables of a walk: nodes agree often enough to make
// progress and differ often enough to collide.
type tables [walkTables][walkSlots]int

func randomTables(r *rand.Rand) (t tables) {
	for i := range t {
		for s := range t[i] {
			t[i][s] = r.IntN(walkNodes)
		}
	}
	return t
}

// targets draws the live members (always with the node itself) and a table;
// slots of members that are out fall to the first one that is in.
func (t tables) targets(r *rand.Rand, w *world, self int, everybody bool) *Targets {
	var members []int
	for i := range walkNodes {
		if i == self || everybody || r.IntN(4) > 0 {
			members = append(members, i)
		}
	}
	owner := t[r.IntN(walkTables)]
	for s, o := range owner {
		if !slices.Contains(members, o) {
			owner[s] = members[0]
		}
	}
	return targetsWith(w.boots, members, owner[:])
}

// walk runs random adoptions and deliveries. While a node takes another for
// dead, what is under way between the two is lost: membership holds a death
// back for longer than a call may last.
func walk(r *rand.Rand, steps int, partitions, acceptStale bool) (w *world, p pairs, slot, a, b int, bad bool) {
	w, p = newWorld(walkNodes, walkSlots), pairs{}
	w.acceptStale = acceptStale
	tabs := randomTables(r)
	for range steps {
		switch n := r.IntN(10); {
		case n == 0 || len(w.net) == 0:
			node := r.IntN(walkNodes)
			w.adopt(node, tabs.targets(r, w, node, !partitions))
			w.net = slices.DeleteFunc(w.net, func(m message) bool {
				cut := func(x, y int) bool { c := w.barriers[x].cur; return c != nil && c.index(nodeID(y)) < 0 }
				return m.answer && (cut(m.from, m.to) || cut(m.to, m.from))
			})
			w.expire()
		case n == 1 && r.IntN(2) == 0:
			node := r.IntN(walkNodes)
			for _, p := range w.barriers[node].pending {
				if a, ok := w.barriers[node].Renew(p.Ask); ok {
					w.postAsks(node, []Ask{a})
				}
			}
		case n == 1:
			node := r.IntN(walkNodes)
			w.postAsks(node, w.barriers[node].Reminders())
		default:
			i := r.IntN(len(w.net))
			m := w.net[i]
			if r.IntN(3) > 0 { // otherwise it stays and comes again
				w.net = slices.Delete(w.net, i, i+1)
			}
			w.deliver(m)
		}
		p.update(w)
		if slot, a, b, bad = p.check(w); bad {
			return w, p, slot, a, b, true
		}
	}
	return w, p, 0, 0, 0, false
}

// expire takes the agreements of members back that took the asker for dead: by
// the time that it is back among them they are too old.
func (w *world) expire() {
	for i, b := range w.barriers {
		for _, p := range b.pending {
			if c := w.barriers[int(p.To[19])-1].cur; p.agreed && c != nil && c.index(nodeID(i)) < 0 {
				if a, ok := b.Renew(p.Ask); ok {
					w.postAsks(i, []Ask{a})
				}
			}
		}
	}
}

// settle lets every node adopt one and the same targets and repeats what is
// unanswered until nothing changes, as the Runner does.
func settle(w *world, t *Targets) {
	for i := range w.barriers {
		w.adopt(i, t)
	}
	for range 20 {
		for i, b := range w.barriers {
			w.repeat(i)
			w.postAsks(i, b.Reminders())
		}
		batch := w.net
		w.net = nil
		for _, m := range batch {
			w.deliver(m)
		}
	}
}

func TestRandomOrders(t *testing.T) {
	oneGoroutine(t)
	for _, tc := range []struct {
		name       string
		partitions bool
	}{{"everybody connected", false}, {"members come and go", true}} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(800) {
				r := rand.New(rand.NewPCG(seed, 7))
				w, p, slot, a, b, bad := walk(r, 300, tc.partitions, false)
				if bad {
					t.Fatalf("seed %d: nodes %d and %d both serve slot %d", seed, a, b, slot)
				}
				final := randomTables(r).targets(r, w, 0, true)
				settle(w, final)
				p.update(w)
				for s := range walkSlots {
					by := w.servers(s)
					if len(by) != 1 || by[0] != int(final.Members[final.Owner[s]].ID[19])-1 {
						t.Fatalf("seed %d: after settling slot %d is served by %v, its owner is %d", seed, s, by, final.Owner[s])
					}
				}
			}
		})
	}
}

// TestRandomOrdersCanFail shows that the walk sees a broken barrier.
func TestRandomOrdersCanFail(t *testing.T) {
	oneGoroutine(t)
	for seed := range uint64(200) {
		if _, _, _, _, _, bad := walk(rand.New(rand.NewPCG(seed, 7)), 300, false, true); bad {
			return
		}
	}
	t.Fatal("accepting stale answers went unnoticed in 200 walks")
}
