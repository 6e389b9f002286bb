package handoff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// valueWalk runs random adoptions, deliveries, restarts, and reads, writes,
// deletes, evictions and flushes at whoever serves. Everybody knows everybody: in
// a split nothing is promised. hits counts reads that found the latest value.
func valueWalk(r *rand.Rand, steps int, breakIt func(w *world)) (hits int, what string) {
	w := newWorld(walkNodes, walkSlots)
	if breakIt != nil {
		breakIt(w)
	}
	tabs, now := randomTables(r), 0
	everybody := []int{0, 1, 2, 3}
	for step := range steps {
		node, slot := r.IntN(walkNodes), uint16(r.IntN(walkSlots))
		c := w.slots[node].cell(slot)
		switch n := r.IntN(40); {
		case n < 3 || len(w.net) == 0: // most follow the table of the moment
			owner := tabs[now]
			if r.IntN(8) == 0 {
				owner = tabs[r.IntN(walkTables)]
			}
			w.adopt(node, targetsWith(w.boots, everybody, owner[:]))
		case n == 16:
			if r.IntN(3) == 0 {
				now = r.IntN(walkTables)
			}
		case n == 3:
			for _, p := range w.barriers[node].pending {
				if a, ok := w.barriers[node].Renew(p.Ask); ok {
					w.postAsks(node, []Ask{a})
				}
			}
		case n == 4:
			w.postAsks(node, w.barriers[node].Reminders())
		case n == 5 && r.IntN(8) == 0:
			w.restart(node)
		case n < 9:
			w.write(node, slot, n == 8)
		case n < 14:
			if w.slots[node].on[slot] && c.value != 0 {
				hits++
			}
			w.take(node, slot)
		case n == 14: // eviction or expiry, of a ceded key too
			c.value, c.touched = 0, true
		case n == 15:
			w.barriers[node].Taken(c.to.Peer, []Range{{slot, slot}})
		default:
			i := w.pick(r)
			m := w.net[i]
			if r.IntN(3) > 0 { // otherwise it stays and comes again
				w.net = slices.Delete(w.net, i, i+1)
			}
			w.deliver(m)
		}
		if node, slot, bad := w.stale(); bad {
			return hits, fmt.Sprintf("step %d: node %d serves version %d of slot %d, the latest is %d",
				step, node, w.slots[node].cells[slot].value, slot, w.latest[slot])
		}
	}
	return hits, ""
}

// pick chooses a message; those about values, which are few, more often.
func (w *world) pick(r *rand.Rand) int {
	var takes []int
	for i := range w.net {
		if w.net[i].take {
			takes = append(takes, i)
		}
	}
	if len(takes) > 0 && r.IntN(2) == 0 {
		return takes[r.IntN(len(takes))]
	}
	return r.IntN(len(w.net))
}

// TestRandomValues: a read finds the latest value that was acknowledged, or none.
func TestRandomValues(t *testing.T) {
	oneGoroutine(t)
	walks := uint64(1500)
	if testing.Short() {
		walks = 300
	}
	hits := 0
	for seed := range walks {
		n, what := valueWalk(rand.New(rand.NewPCG(seed, 11)), 400, nil)
		if what != "" {
			t.Fatalf("seed %d: %s", seed, what)
		}
		hits += n
	}
	if hits == 0 {
		t.Fatal("no read found anything: the walks show nothing")
	}
	t.Logf("%d hits", hits)
}

// TestRandomValuesCanFail shows that the walks see what is broken on purpose.
func TestRandomValuesCanFail(t *testing.T) {
	oneGoroutine(t)
	for name, breakIt := range map[string]func(w *world){
		"answers to void Asks count":                 func(w *world) { w.acceptStale = true },
		"writes and deletes do not keep answers out": func(w *world) { w.untouched = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(1000) {
				if _, what := valueWalk(rand.New(rand.NewPCG(seed, 11)), 400, breakIt); what != "" {
					t.Logf("seed %d: %s", seed, what)
					return
				}
			}
			t.Fatal("went unnoticed")
		})
	}
}
