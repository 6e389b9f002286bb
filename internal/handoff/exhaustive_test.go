package handoff

import (
	"fmt"
	"testing"
)

// explorer visits every reachable state of a world in which each node adopts
// its own list of targets, and stops at the first state in which two nodes
// serve the slot.
type explorer struct {
	views   [][]*Targets
	writes  int // of clients, at whoever serves, in all; the last one may be a delete
	seen    map[string]bool
	limit   int
	trace   []string
	failure []string
}

func (e *explorer) visit(w *world, next []int) bool {
	if n := len(w.servers(0)); n > 1 {
		e.failure = append([]string{"two nodes serve the slot"}, e.trace...)
		return false
	}
	if node, _, bad := w.stale(); bad {
		e.failure = append([]string{fmt.Sprintf("node %d has an old value", node)}, e.trace...)
		return false
	}
	key := w.fingerprint(fmt.Append(nil, next))
	if e.seen[key] || len(e.seen) >= e.limit {
		return true
	}
	e.seen[key] = true
	for node := range e.views {
		if next[node] < len(e.views[node]) {
			c, n := w.clone(), append([]int(nil), next...)
			t := e.views[node][n[node]]
			n[node]++
			c.adopt(node, t)
			if !e.step(c, n, fmt.Sprintf("node %d adopts owner %d", node, t.Owner[0])) {
				return false
			}
		}
	}
	if e.writes > 0 && !e.clients(w, next) {
		return false
	}
	for _, m := range w.net {
		c := w.clone()
		c.deliver(m)
		if !e.step(c, next, "deliver "+m.key) {
			return false
		}
	}
	return true
}

// clients lets a client write, delete or read, at whoever serves the slot.
func (e *explorer) clients(w *world, next []int) bool {
	for node := range e.views {
		if !w.slots[node].on[0] {
			continue
		}
		for _, remove := range []bool{false, true} {
			if w.versions+next[len(e.views)] >= e.writes {
				continue
			}
			c, n := w.clone(), append([]int(nil), next...)
			if remove {
				n[len(e.views)]++
			}
			c.write(node, 0, remove)
			if !e.step(c, n, fmt.Sprintf("node %d writes %d", node, c.latest[0])) {
				return false
			}
		}
		if c := w.clone(); c.take(node, 0) && !e.step(c, next, fmt.Sprintf("node %d reads", node)) {
			return false
		}
	}
	return true
}

func (e *explorer) step(w *world, next []int, what string) bool {
	e.trace = append(e.trace, what)
	defer func() { e.trace = e.trace[:len(e.trace)-1] }()
	return e.visit(w, next)
}

// everyList returns all lists of the given length over 0..n-1 without equal
// neighbours (adopting the same targets twice is no event).
func everyList(n, length int) [][]int {
	if length == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, head := range everyList(n, length-1) {
		for x := range n {
			if len(head) == 0 || head[len(head)-1] != x {
				out = append(out, append(append([]int(nil), head...), x))
			}
		}
	}
	return out
}

func explore(nodes int, owners [][]int, acceptStale bool, limit int) *explorer {
	return exploreValues(nodes, owners, 0, limit, func(w *world) { w.acceptStale = acceptStale })
}

func exploreValues(nodes int, owners [][]int, writes, limit int, breakIt func(w *world)) *explorer {
	members := make([]int, nodes)
	for i := range members {
		members[i] = i
	}
	e := &explorer{seen: map[string]bool{}, limit: limit, writes: writes}
	for _, list := range owners {
		var ts []*Targets
		for _, o := range list {
			ts = append(ts, targets(members, []int{o}))
		}
		e.views = append(e.views, ts)
	}
	w := newWorld(nodes, 1)
	if breakIt != nil {
		breakIt(w)
	}
	e.visit(w, make([]int, nodes+1))
	return e
}

// TestExhaustiveTwoNodes walks every order of adoptions and deliveries (with
// loss and repetition) of two nodes that adopt three targets each, whatever
// these name.
func TestExhaustiveTwoNodes(t *testing.T) {
	oneGoroutine(t)
	states := 0
	for _, a := range everyList(2, 3) {
		for _, b := range everyList(2, 3) {
			e := explore(2, [][]int{a, b}, false, 1_000_000)
			states += len(e.seen)
			if e.failure != nil {
				t.Fatalf("owners %v and %v: two nodes serve one slot after\n%q", a, b, e.failure)
			}
		}
	}
	t.Logf("%d states", states)
}

// TestExhaustiveThreeNodes is the same for three nodes with two targets each:
// three different views at once are among them.
func TestExhaustiveThreeNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	states := 0
	lists := everyList(3, 2)
	for _, a := range lists[:2] { // node 0 starts as the owner or with the others: the rest is symmetric
		for _, b := range lists {
			for _, c := range [][]int{{0}, {1}, {2}} {
				e := explore(3, [][]int{a, b, c}, false, 20_000)
				states += len(e.seen)
				if e.failure != nil {
					t.Fatalf("owners %v, %v, %v: two nodes serve one slot after\n%q", a, b, c, e.failure)
				}
			}
		}
	}
	t.Logf("%d states", states)
}

// TestExplorerFindsStaleAnswers proves that the exploration can fail: when
// answers to void Asks count, it finds two nodes that serve one slot.
func TestExplorerFindsStaleAnswers(t *testing.T) {
	oneGoroutine(t)
	e := explore(2, [][]int{{0, 1, 0}, {1, 0, 1}}, true, 1_000_000)
	if e.failure == nil {
		t.Fatalf("accepting stale answers went unnoticed in %d states", len(e.seen))
	}
}

// valueRuns are the lists of owners that the tests of values explore: the slot
// goes there, and there and back.
var valueRuns = []struct {
	nodes  int
	owners [][]int
	writes int
}{
	{2, [][]int{{0, 1}, {0, 1}}, 3},
	{2, [][]int{{0, 1, 0}, {1, 0}}, 2},
	{2, [][]int{{0, 1, 0, 1}, {0, 1}}, 2},
	{3, [][]int{{0, 1}, {0, 1, 2}, {1, 2}}, 2},
}

// TestExhaustiveValues walks every order of adoptions, deliveries, writes, deletes
// and reads: no node ever serves a value that is older than the last one that was
// acknowledged, or a deleted key.
func TestExhaustiveValues(t *testing.T) {
	oneGoroutine(t)
	for _, r := range valueRuns {
		e := exploreValues(r.nodes, r.owners, r.writes, valueStates(), nil)
		if e.failure != nil {
			t.Fatalf("owners %v: after\n%q", r.owners, e.failure)
		}
		t.Logf("owners %v: %d states", r.owners, len(e.seen))
	}
}

func valueStates() int {
	if testing.Short() {
		return 5_000
	}
	return 40_000
}

// TestExplorerFindsOldValues proves that the exploration of values can fail.
func TestExplorerFindsOldValues(t *testing.T) {
	oneGoroutine(t)
	for name, breakIt := range map[string]func(w *world){
		"writes and deletes do not keep answers out": func(w *world) { w.untouched = true },
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range valueRuns {
				if exploreValues(r.nodes, r.owners, r.writes, 40_000, breakIt).failure != nil {
					return
				}
			}
			t.Fatal("went unnoticed")
		})
	}
}
