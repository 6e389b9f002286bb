package handoff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	awayNodes = 4
	awaySlots = 6
	awayKeys  = 5 // of every slot
)

// awayWalk lets processes be stopped, missed and come back, and be replaced, each at
// any time, each news heard by any node at another time, and answers be lost, while
// clients write, delete and read wherever a slot is served. A process that wakes up
// executes nothing before it has looked around. A read must find the latest value that
// was acknowledged, or none.
type awayWalk struct {
	*yard
	r       *rand.Rand
	all     []int
	latest  map[string]string // by slot and key; "" is deleted
	version int
	kept    int // slots that have kept entries from before an absence
	hits    int // reads that found their key
	renewed time.Time
	what    string
}

func newAwayWalk(tb testing.TB, seed uint64) *awayWalk {
	r := rand.New(rand.NewPCG(seed, 23))
	var order [][]int
	for range awaySlots {
		order = append(order, r.Perm(awayNodes))
	}
	w := &awayWalk{yard: newYard(tb, order...), r: r, latest: map[string]string{}}
	w.all = []int{0, 1, 2, 3}
	w.adopt(w.all, w.all...)
	w.settle()
	w.pass(time.Minute)
	w.lose = func(int, int) bool { return w.r.IntN(20) == 0 }
	return w
}

func (w *awayWalk) awake(i int) bool { return !w.nodes[i].asleep }

// step does one thing.
func (w *awayWalk) step(at int) {
	i := w.r.IntN(awayNodes)
	n := w.nodes[i]
	w.pass(time.Duration(w.r.IntN(100)) * time.Millisecond)
	if w.now.Sub(w.renewed) > time.Second/2 {
		w.renew()
	}
	switch k := w.r.IntN(100); {
	case k < 1 && w.awake(i):
		if w.r.IntN(5) > 0 {
			return
		}
		asleep, looks := 0, false
		for _, n := range w.nodes {
			if n.asleep {
				asleep++
			}
			looks = looks || n.looks
		}
		if asleep < 2 && !looks { // else there may be nobody who can tell
			w.sleep(i)
		}
	case k < 4 && n.asleep && w.now.Sub(n.last) > time.Duration(w.r.IntN(25))*time.Second:
		w.wake(i)
		n.looks = true
	case k < 5 && w.r.IntN(200) == 0: // it is killed and starts again
		w.nodes[i] = w.newNode(i, n.Boot+1)
		w.adoptOf(w.nodes[i], w.targetsOf(w.everybody()))
	case k < 30:
		w.hear(i)
	case k < 55:
		w.ask(w.all...)
	default:
		w.client(i, at)
	}
	if n.looks && w.awake(i) && w.r.IntN(3) == 0 {
		w.lookAround(i)
	}
}

// renew asks anew for agreements that are about to be too old. Who is stopped does so
// before anything else when it wakes up.
func (w *awayWalk) renew() {
	w.renewed = w.now
	for _, n := range w.nodes {
		for _, p := range n.b.pending {
			n.b.Renew(p.Ask)
		}
		if !n.asleep {
			n.b.Expire(w.now)
		}
	}
}

// everybody are the present processes.
func (w *awayWalk) everybody() (out []Peer) {
	for _, m := range w.nodes {
		out = append(out, m.Peer)
	}
	return out
}

// hear lets a node learn one thing: that a process is missed, or back, or another one.
func (w *awayWalk) hear(i int) {
	n := w.nodes[i]
	if n.asleep {
		return
	}
	j := w.r.IntN(awayNodes)
	m := w.nodes[j]
	if i == j {
		return
	}
	view := slices.Clone(n.view)
	at := slices.IndexFunc(view, func(p Peer) bool { return p.ID == m.ID })
	switch {
	case at >= 0 && view[at].Boot != m.Boot:
		view[at] = m.Peer
	case at >= 0 && m.asleep && w.now.Sub(m.last) > 4*time.Second:
		view = slices.Delete(view, at, at+1)
	case at < 0 && !m.asleep:
		view = append(view, m.Peer)
	default:
		return
	}
	w.adoptOf(n, w.targetsOf(view))
}

// lookAround is what a process does first that was stopped.
func (w *awayWalk) lookAround(i int) {
	n := w.nodes[i]
	silence := w.now.Sub(n.last)
	if silence < 2*time.Second {
		n.looks = false
		return
	}
	for j, m := range w.nodes {
		if j == i || m.asleep || m.looks {
			continue
		}
		n.looks = false
		if since, has := m.tenure[n.Peer]; !has || w.now.Sub(since) < silence {
			w.doubt(i)
			return
		}
	}
}

func (w *awayWalk) client(i, at int) {
	n := w.nodes[i]
	slot := uint16(w.r.IntN(awaySlots))
	if n.asleep || n.looks || !n.eng.Serving(slot) {
		return
	}
	key := fmt.Sprint("k", w.r.IntN(awayKeys))
	name := fmt.Sprint(slot, key)
	switch w.r.IntN(8) {
	case 0, 1:
		w.version++
		value := fmt.Sprint(w.version)
		w.set(i, slot, key, value)
		w.latest[name] = value
	case 2:
		if _, err := n.eng.Delete(slot, []byte(key)); err != nil {
			w.tb.Fatal(err)
		}
		w.latest[name] = ""
	case 3: // it is evicted
		tx := n.eng.LockAny(slot)
		tx.Invalidate([]byte(key))
		tx.Unlock()
	default:
		if v := w.get(i, slot, key); v != "" && v != w.latest[name] && w.what == "" {
			w.what = fmt.Sprintf("step %d: node %d has %q for %s of slot %d, the latest is %q", at, i, v, key, slot, w.latest[name])
		} else if v != "" {
			w.hits++
		}
	}
}

func (w *awayWalk) run(steps int) string {
	for at := range steps {
		w.step(at)
		if w.what != "" {
			return w.what
		}
	}
	for _, n := range w.nodes {
		_, kept, _ := n.b.Returned()
		w.kept += kept
	}
	return ""
}

// TestRandomAbsences: see awayWalk.
func TestRandomAbsences(t *testing.T) {
	oneGoroutine(t)
	walks, kept, hits := uint64(150), 0, 0
	if testing.Short() {
		walks = 30
	}
	for seed := range walks {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newAwayWalk(t, seed)
			if what := w.run(8000); what != "" {
				t.Fatal(what)
			}
			kept += w.kept
			hits += w.hits
		})
	}
	if kept < int(walks) {
		t.Errorf("only %d slots have kept anything: the walks show nothing", kept)
	}
	t.Logf("%d slots have kept what nobody had touched, %d reads found their key", kept, hits)
}

// TestRandomAbsencesCanFail shows that the walks see logs that are not applied. The
// word of the others has so much in common that walks do not miss a single part of it:
// the tests of missed_test.go do.
func TestRandomAbsencesCanFail(t *testing.T) {
	oneGoroutine(t)
	for seed := range uint64(20) {
		w := newAwayWalk(t, seed)
		w.unlogged = true
		if what := w.run(8000); what != "" {
			t.Logf("seed %d: %s", seed, what)
			return
		}
	}
	t.Fatal("went unnoticed")
}
