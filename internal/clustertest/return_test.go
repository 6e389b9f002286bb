package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// TestReturn: a node was away for so long that others have served its slots. What it
// can prove to be the latest it keeps: all that the others, each the only one in the
// place of the node, have not been asked for. Where nothing can be proved all of it is
// lost. With copies the others had everything, and it takes it back. Nothing old comes
// back in any case.
func TestReturn(t *testing.T) {
	const keys, used = 600, 60
	for _, tc := range []struct {
		name     string
		replicas int
		spoil    func(t *testing.T, s *Sim) // while it is away
		lost     int
	}{
		{"each slot had one other owner", 0, nil, 0},
		{"a node came meanwhile", 0, func(t *testing.T, s *Sim) {
			s.Add("d", "a")
			pass(10 * time.Second)
		}, keys - used},
		{"a node has restarted meanwhile", 0, func(t *testing.T, s *Sim) {
			s.Kill("b")
			s.Add("b", "a")
		}, keys},
		{"copies", 1, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				c := NewClocks()
				s.Clock = c.Of
				s.Change = func(o *node.Options) { o.Replicas = tc.replicas }
				for _, name := range []string{"a", "b", "c"} {
					s.Add(name, "a")
				}
				pass(30 * time.Second) // as a member for longer than it will be away
				s.Settled(watched()...)
				waits := keyOf(placedAt(t, s, "c"))
				latest := returnFilled(t, s, keys)
				if tc.replicas > 0 {
					copied(t, s, tc.replicas, "a", "b", "c")
				}
				s.Rumours.Deaf(s.ID("c"), true)
				for _, at := range []string{"a", "b"} {
					s.Rumours.Bury(s.ID(at), s.ID("c"))
				}
				pass(50 * time.Millisecond)
				i := 0
				for key := range latest { // as clients do that do not find it, and others
					if i++; i > used {
						break
					}
					latest[key] = "new"
					if v, path := s.Follow(3, "a", "SET", key, "new"); v.Text() != "OK" {
						t.Fatalf("%v: %q", path, v.Text())
					}
				}
				if tc.spoil != nil {
					tc.spoil(t, s)
				}
				c.Away("c", 20*time.Second)
				s.Do("c", "GET", waits)
				s.Rumours.Deaf(s.ID("c"), false)
				back(s, "c")
				s.Settled(watched()...)
				s.quiet(t)
				lost := lostOf(t, s, latest, tc.lost == keys)
				t.Logf("%d of %d keys of the node were used meanwhile, %d are lost", used, keys, lost)
				if lost > tc.lost || tc.lost > 0 && lost < keys-used {
					t.Errorf("%d keys are lost, want %d", lost, tc.lost)
				}
			})
		})
	}
}

// lostOf reads keys, and returns how many are not there: where all is not set, of those
// only that nobody has written since.
func lostOf(t *testing.T, s *Sim, latest map[string]string, all bool) (lost int) {
	t.Helper()
	for key, want := range latest {
		switch v, path := s.Follow(3, "a", "GET", key); {
		case v.Text() == want:
		case v.IsNull() && (want == "old" || all):
			lost++
		default:
			t.Errorf("%s at %v is %q, want %q", key, path, v.Text(), want)
		}
	}
	return lost
}

// returnFilled writes keys that are c's.
func returnFilled(t *testing.T, s *Sim, keys int) map[string]string {
	t.Helper()
	latest := map[string]string{}
	v := s.Get("c").Node.View()
	for i := 0; len(latest) < keys; i++ {
		key := fmt.Sprint("key:", i)
		if err := s.Get("c").Node.Set(context.Background(), key, []byte("old"), 0); err != nil {
			t.Fatal(err)
		}
		if v.OwnerMember(ring.SlotString(key)).Host == "c" {
			latest[key] = "old"
		}
	}
	return latest
}

// back lets a node and the others hear of each other again.
func back(s *Sim, name string) {
	for _, n := range s.Nodes {
		if !n.dead && n.Name != name {
			s.Rumours.Tell(s.ID(n.Name), s.ID(name))
			s.Rumours.Tell(s.ID(name), s.ID(n.Name))
		}
	}
}

// TestValuesWhileNodesAreAway: nodes are stopped, missed, and come back, while clients
// of the others write, delete, read, flush and look at keys, and now and then another
// node is away too, starts again or joins. A read finds the latest value that was
// acknowledged, or none.
func TestValuesWhileNodesAreAway(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	kept, survived := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				w := &awayValues{s: s, clocks: NewClocks(), r: rand.New(rand.NewPCG(seed, 31)), latest: map[string]string{}}
				w.run(t, 12)
				kept, survived = kept+w.kept, survived+w.survived
			})
		})
	}
	if kept == 0 || survived == 0 {
		t.Errorf("%d slots have kept anything, %d reads found what was there before an absence: the runs show nothing", kept, survived)
	}
	t.Logf("%d slots have kept what nobody had touched, %d reads found it", kept, survived)
}

type awayValues struct {
	s      *Sim
	clocks *Clocks
	r      *rand.Rand
	latest map[string]string // "" was deleted
	since  map[string]bool   // written since the node was missed
	n      int

	kept, survived int
}

// follow executes a command, first at one of the nodes.
func (w *awayValues) follow(at []string, args ...string) resp.Value {
	v, _ := w.s.Follow(4, at[w.r.IntN(len(at))], args...)
	return v
}

func (w *awayValues) use(t *testing.T, n int, at ...string) {
	t.Helper()
	for range n {
		key := fmt.Sprint("key", w.r.IntN(400))
		w.n++
		next := fmt.Sprint(w.n)
		write := func(value string, args ...string) {
			if v := w.follow(at, args...); v.Kind == resp.Error {
				t.Fatalf("%q: %s", args, v.Text())
			}
			w.latest[key], w.since[key] = value, true
		}
		switch w.r.IntN(14) {
		case 0, 1, 2:
			write(next, "SET", key, next)
		case 3:
			write("", "DEL", key)
		case 4:
			write("", "PEXPIRE", key, "-1")
		case 5: // it was looked for and is absent, or replaced: either way the old one is gone
			write(next, "SET", key, next, "XX")
			if v := w.follow(at, "EXISTS", key); v.Int == 0 {
				w.latest[key] = ""
			}
		default:
			v := w.follow(at, "GET", key)
			want, known := w.latest[key]
			switch got := v.Text(); {
			case v.Kind == resp.Error:
				t.Fatalf("GET %s: %s", key, got)
			case v.IsNull():
				w.latest[key], w.since[key] = "", true // whoever saw that may rely on it
			case known && got != want:
				t.Fatalf("GET %s gives %q, the latest is %q", key, got, want)
			case !w.since[key]:
				w.survived++
			}
		}
	}
}

func (w *awayValues) run(t *testing.T, rounds int) {
	s := w.s
	s.Clock = w.clocks.Of
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s.Add(name, "a")
	}
	pass(time.Minute)
	s.Settled(watched()...)
	w.since = map[string]bool{}
	w.use(t, 600, names...)
	for range rounds {
		w.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		gone := names[:1]
		if w.r.IntN(5) == 0 {
			gone = names[:2]
		}
		there := names[len(gone):]
		clear(w.since)
		for _, name := range gone {
			s.Rumours.Deaf(s.ID(name), true)
			for _, at := range there {
				s.Rumours.Bury(s.ID(at), s.ID(name))
			}
		}
		w.use(t, w.r.IntN(150), there...)
		switch w.r.IntN(8) {
		case 0:
			w.s.Do(there[0], "FLUSHALL")
			clear(w.latest) // of some keys, but nobody knows of which
		case 1:
			s.Kill(there[0])
			s.Add(there[0], there[1])
			clear(w.latest)
		}
		pass(time.Duration(w.r.IntN(3000)) * time.Millisecond)
		for _, name := range gone {
			w.clocks.Away(name, time.Duration(4+w.r.IntN(20))*time.Second)
		}
		if w.r.IntN(2) == 0 { // the first that it does is a request that has waited
			v := s.Get(gone[0]).Node.View()
			for slot := range uint16(ring.Slots) {
				if v.OwnerMember(slot).Host == gone[0] {
					s.Do(gone[0], "GET", keyOf(slot))
					break
				}
			}
		}
		for _, name := range gone {
			s.Rumours.Deaf(s.ID(name), false)
			back(s, name)
		}
		w.use(t, 30, there...)
		s.Settled(watched()...)
		w.use(t, 150, names...)
		pass(time.Duration(20+w.r.IntN(20)) * time.Second)
	}
	for _, n := range s.Nodes {
		if !n.dead {
			_, kept, _ := n.Node.Returned()
			w.kept += kept
		}
	}
}
