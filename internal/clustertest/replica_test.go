package clustertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
)

// openReplica opens a node that keeps copies, and starts it.
func openReplica(t *testing.T, s *Sim, replicas int, name string, seeds ...string) *SimNode {
	t.Helper()
	for i := range seeds {
		seeds[i] += ":7001"
	}
	n := s.Open(name, func(o *node.Options) { o.Replicas = replicas }, seeds...)
	if err := n.Node.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

// replicaCluster starts nodes a, b, c ... that keep copies.
func replicaCluster(t *testing.T, s *Sim, replicas int, names ...string) {
	t.Helper()
	for _, n := range names {
		openReplica(t, s, replicas, n, names[0])
	}
	s.Settled(everySlot()...)
}

func everySlot() []uint16 {
	all := make([]uint16, ring.Slots)
	for i := range all {
		all[i] = uint16(i)
	}
	return all
}

// copied waits until everything that was written to a node has n copies.
func copied(t *testing.T, s *Sim, n int, names ...string) {
	t.Helper()
	for _, name := range names {
		for range 30 { // after a view change some slots may be copied again only after a while
			if v := s.Do(name, "WAIT", fmt.Sprint(n), "1000"); v.Int == int64(n) {
				break
			}
		}
		if v := s.Do(name, "WAIT", fmt.Sprint(n), "1000"); v.Int != int64(n) {
			t.Fatalf("%s has %d copies of everything, want %d\n%s", name, v.Int, n, s.Do(name, "INFO", "replication").Text())
		}
	}
}

// die kills a node and lets the others know.
func die(s *Sim, names ...string) {
	for _, name := range names {
		s.Kill(name)
	}
	for _, n := range s.Nodes {
		for _, name := range names {
			if !n.dead {
				s.Rumours.Bury(s.ID(n.Name), s.ID(name))
			}
		}
	}
}

// found is a key of a slot as its owner has it.
type found struct {
	value string
	ttl   time.Duration // 0: none
}

// lookUp reads a key at the node that serves its slot.
func lookUp(t *testing.T, s *Sim, slot uint16, key string) (e found, at string, ok bool) {
	t.Helper()
	by := s.Servers(slot)
	if len(by) != 1 {
		t.Fatalf("slot %d is served by %v", slot, by)
	}
	eng := s.Get(by[0]).Node.Engine()
	v, deadline, err := eng.Get(slot, []byte(key), nil)
	if err != nil {
		return found{}, by[0], false
	}
	if deadline != 0 {
		e.ttl = time.Duration(deadline-eng.Now()) * time.Millisecond
	}
	e.value = string(v)
	return e, by[0], true
}

// put stores a key at the owner of its slot.
func put(t *testing.T, n *SimNode, slot uint16, key, value string, ttl time.Duration) {
	t.Helper()
	deadline := int64(0)
	if ttl > 0 {
		deadline = n.Node.Engine().Now() + ttl.Milliseconds()
	}
	if err := n.Node.Engine().Set(slot, []byte(key), []byte(value), deadline); err != nil {
		t.Fatal(err)
	}
}

func dbSizes(s *Sim) (sum int64) {
	for _, n := range s.Nodes {
		if !n.dead {
			sum += s.Do(n.Name, "DBSIZE").Int
		}
	}
	return sum
}

// TestOwnerDies: the successor serves what the owner had, with the time that was
// left, and nothing that it had deleted; then the next copies are made.
func TestOwnerDies(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c")
		b := s.Get("b")
		slots := slotsOf(b, "b")
		for slot := range slots {
			put(t, b, slot, "keep", "old", 0)
			put(t, b, slot, "ttl", "v", 10*time.Minute)
			put(t, b, slot, "gone", "old", 0)
			put(t, b, slot, "short", "v", 2*time.Second)
		}
		copied(t, s, 1, "b")
		if n := dbSizes(s); n != int64(4*len(slots)) {
			t.Errorf("%d keys are counted, %d are there: copies are no keys", n, 4*len(slots))
		}
		pass(time.Second)
		for slot := range slots {
			put(t, b, slot, "keep", "new", 0)
			if _, err := b.Node.Engine().Delete(slot, []byte("gone")); err != nil {
				t.Fatal(err)
			}
		}
		copied(t, s, 1, "b")
		successors := map[uint16]string{}
		for slot := range slots {
			successors[slot] = b.Node.View().Member(b.Node.View().Successor(slot)).Host
		}
		w := s.NewWatch(t)
		die(s, "b")
		s.Settled(everySlot()...)
		pass(1500 * time.Millisecond)
		w.Stop()
		for slot := range slots {
			e, at, _ := lookUp(t, s, slot, "keep")
			if at != successors[slot] || e.value != "new" || e.ttl != 0 {
				t.Fatalf("slot %d at %s, to be at %s: keep is %+v", slot, at, successors[slot], e)
			}
			if e, _, _ := lookUp(t, s, slot, "ttl"); e.value != "v" || e.ttl > 10*time.Minute-2500*time.Millisecond || e.ttl < 9*time.Minute {
				t.Fatalf("slot %d: ttl is %+v", slot, e)
			}
			for _, key := range []string{"gone", "short"} {
				if e, _, ok := lookUp(t, s, slot, key); ok {
					t.Fatalf("slot %d: %s is %+v", slot, key, e)
				}
			}
		}
		copied(t, s, 1, "a", "c")
		die(s, "c")
		s.Settled(everySlot()...)
		for slot := range slots {
			if e, _, _ := lookUp(t, s, slot, "keep"); e.value != "new" {
				t.Fatalf("slot %d after the second death: keep is %+v", slot, e)
			}
		}
	})
}

// TestOwnerDiesWhileCopying: copies that are being made anew, and are there by half,
// have nothing wrong.
func TestOwnerDiesWhileCopying(t *testing.T) {
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond, 2 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				replicaCluster(t, s, 1, "a", "b", "c")
				b := s.Get("b")
				slots := slotsOf(b, "b")
				n := 0
				for slot := range slots {
					for i := range 4 {
						put(t, b, slot, fmt.Sprint("k", i), fmt.Sprint("v", slot), time.Hour)
					}
					if _, err := b.Node.Engine().Delete(slot, []byte("k1")); err != nil {
						t.Fatal(err)
					}
				}
				copied(t, s, 1, "b")
				for _, name := range []string{"a", "c"} {
					s.Get(name).Node.Engine().Flush() // b notices within a second
				}
				pass(time.Second + after)
				for slot := range slots {
					if slot%2 == 0 {
						put(t, b, slot, "k2", "new", 0)
					}
				}
				pass(5 * time.Millisecond)
				die(s, "b")
				s.Settled(everySlot()...)
				for slot := range slots {
					for i := range 4 {
						e, _, ok := lookUp(t, s, slot, fmt.Sprint("k", i))
						want := fmt.Sprint("v", slot)
						fresh := i == 2 && slot%2 == 0
						if fresh {
							want = "new"
						}
						if ok && (i == 1 || e.value != want || e.ttl > time.Hour || (e.ttl == 0) != fresh) {
							t.Fatalf("slot %d: k%d is %+v", slot, i, e)
						}
						if ok {
							n++
						}
					}
				}
				t.Logf("after %v %d of %d keys are there", after, n, 3*len(slots))
				if all := n == 3*len(slots); all != (after == 2*time.Second) || n == 0 && after > 0 {
					t.Errorf("after %v %d of %d keys are there", after, n, 3*len(slots))
				}
			})
		})
	}
}

// TestLagBeforeDeath: what is there after a death is never older than what WAIT
// has confirmed.
func TestLagBeforeDeath(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c")
		b := s.Get("b")
		slots := slotsOf(b, "b")
		confirmed, round := 0, 0
		for round = 1; round <= 40; round++ {
			for slot := range slots {
				if slot%32 == 0 {
					put(t, b, slot, "k", fmt.Sprintf("%04d", round), 0)
				}
			}
			if round%13 == 0 {
				copied(t, s, 1, "b")
				confirmed = round
			}
			pass(300 * time.Microsecond)
		}
		die(s, "b")
		s.Settled(everySlot()...)
		for slot := range slots {
			if slot%32 != 0 {
				continue
			}
			e, _, ok := lookUp(t, s, slot, "k")
			if !ok || e.value < fmt.Sprintf("%04d", confirmed) {
				t.Fatalf("slot %d has %+v, %04d was confirmed", slot, e, confirmed)
			}
		}
	})
}

// TestSuccessorDies: other copies are made; meanwhile WAIT tells the truth.
func TestSuccessorDies(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c", "d")
		slots := slotsOf(s.Get("b"), "b")
		for slot := range slots {
			put(t, s.Get("b"), slot, "k", "v", 0)
		}
		copied(t, s, 1, "b")
		s.Kill("c")
		put(t, s.Get("b"), ownedBy(t, s.Get("b"), "b", func(slot uint16) bool {
			v := s.Get("b").Node.View()
			return v.Member(v.Successor(slot)).Host == "c"
		}), "k", "w", 0)
		if v := s.Do("b", "WAIT", "1", "100"); v.Int != 0 {
			t.Fatalf("%d copies while the successor is dead", v.Int)
		}
		for _, n := range []string{"a", "b", "d"} {
			s.Rumours.Bury(s.ID(n), s.ID("c"))
		}
		s.Settled(everySlot()...)
		copied(t, s, 1, "b")
		die(s, "b")
		s.Settled(everySlot()...)
		for slot := range slots {
			if _, _, ok := lookUp(t, s, slot, "k"); !ok {
				t.Fatalf("slot %d is empty", slot)
			}
		}
	})
}

// TestOwnerAndSuccessorDie: with one copy their slots are empty, and nothing else
// is; nothing older appears.
func TestOwnerAndSuccessorDie(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c", "d")
		v := s.Get("a").Node.View()
		for slot := range uint16(ring.Slots) {
			owner := s.Get(v.OwnerMember(slot).Host)
			put(t, owner, slot, "k", "old", 0)
			put(t, owner, slot, "k", fmt.Sprint(slot), 0)
		}
		copied(t, s, 1, "a", "b", "c", "d")
		die(s, "b", "c")
		s.Settled(everySlot()...)
		kept, lost := 0, 0
		for slot := range uint16(ring.Slots) {
			owner, next := v.OwnerMember(slot).Host, v.Member(v.Successor(slot)).Host
			both := (owner == "b" || owner == "c") && (next == "b" || next == "c")
			e, at, ok := lookUp(t, s, slot, "k")
			switch {
			case ok && e.value != fmt.Sprint(slot):
				t.Fatalf("slot %d has %+v", slot, e)
			case ok && both:
				t.Fatalf("slot %d of %s, copied to %s, is there again", slot, owner, next)
			case !ok && owner == at:
				t.Fatalf("slot %d has stayed at %s and is empty", slot, at)
			case !ok && !both:
				lost++ // it went to somebody else than the successor
			case ok:
				kept++
			}
		}
		t.Logf("%d kept, %d lost that had a copy", kept, lost)
		if kept < ring.Slots/2 {
			t.Errorf("%d slots have their keys", kept)
		}
	})
}

// TestRestartWithCopies: a node is killed and comes back before anybody has
// noticed. What the copies have must not appear after what the new process did.
func TestRestartWithCopies(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c")
		slots := slotsOf(s.Get("b"), "b")
		for slot := range slots {
			put(t, s.Get("b"), slot, "k", "old", 0)
			put(t, s.Get("b"), slot, "gone", "old", 0)
		}
		copied(t, s, 1, "b")
		s.Kill("b")
		pass(300 * time.Millisecond)
		b := openReplica(t, s, 1, "b", "a")
		s.Settled(everySlot()...)
		for slot := range slots {
			if !b.Node.Serving(slot) {
				t.Fatalf("slot %d has moved", slot)
			}
			put(t, b, slot, "k", "new", 0)
			if _, err := b.Node.Engine().Delete(slot, []byte("gone")); err != nil {
				t.Fatal(err)
			}
		}
		die(s, "b") // at once: nothing of it was copied
		s.Settled(everySlot()...)
		for slot := range slots {
			if e, _, ok := lookUp(t, s, slot, "gone"); ok {
				t.Fatalf("slot %d: gone is %+v", slot, e)
			}
			if e, _, ok := lookUp(t, s, slot, "k"); ok && e.value != "new" {
				t.Fatalf("slot %d: k is %+v", slot, e)
			}
		}
	})
}

// TestRestartTakesCopies: a node that is killed and back before anybody has noticed
// takes what it had from the copies, and then has it copied again.
func TestRestartTakesCopies(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				replicaCluster(t, s, replicas, "a", "b", "c")
				slots := slotsOf(s.Get("b"), "b")
				for slot := range slots {
					put(t, s.Get("b"), slot, "k", "v", time.Hour)
					put(t, s.Get("b"), slot, "gone", "v", 0)
					if _, err := s.Get("b").Node.Engine().Delete(slot, []byte("gone")); err != nil {
						t.Fatal(err)
					}
				}
				copied(t, s, replicas, "b")
				s.Kill("b")
				pass(300 * time.Millisecond)
				openReplica(t, s, replicas, "b", "a")
				s.Settled(everySlot()...)
				pass(10 * time.Second)
				all := func(when string) {
					t.Helper()
					for slot := range slots {
						if e, at, _ := lookUp(t, s, slot, "k"); e.value != "v" || e.ttl < 50*time.Minute || e.ttl > time.Hour {
							t.Fatalf("%s slot %d at %s has %+v", when, slot, at, e)
						}
						if e, _, ok := lookUp(t, s, slot, "gone"); ok {
							t.Fatalf("%s slot %d: gone is %+v", when, slot, e)
						}
					}
				}
				all("after the restart")
				copied(t, s, replicas, "b")
				die(s, "b")
				s.Settled(everySlot()...)
				all("after the death")
			})
		})
	}
}

// TestRollingRestart: nodes leave and come back one after the other; no value that
// was overwritten is ever seen again.
func TestRollingRestart(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c")
		round := 0
		write := func() {
			round++
			for slot := uint16(0); slot < ring.Slots; slot += 16 {
				by := s.Servers(slot)
				if len(by) != 1 {
					t.Fatalf("slot %d is served by %v", slot, by)
				}
				put(t, s.Get(by[0]), slot, "k", fmt.Sprintf("%03d", round), 0)
			}
		}
		check := func(what string) {
			for slot := uint16(0); slot < ring.Slots; slot += 16 {
				if e, at, ok := lookUp(t, s, slot, "k"); ok && e.value != fmt.Sprintf("%03d", round) {
					t.Fatalf("%s: slot %d at %s has %+v, round %d", what, slot, at, e, round)
				}
			}
		}
		write()
		for _, name := range []string{"b", "c", "a", "b"} {
			copied(t, s, 1, "a", "b", "c")
			if name != "b" {
				die(s, name)
			} else {
				if err := s.Get(name).Node.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.Kill(name)
			}
			s.Settled(everySlot()...)
			check(name + " is gone")
			write()
			seed := "a"
			if name == "a" {
				seed = "c"
			}
			openReplica(t, s, 1, name, seed)
			s.Settled(everySlot()...)
			check(name + " is back")
			write()
		}
	})
}

// TestTwoCopies: with two copies of everything two nodes may die.
func TestTwoCopies(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 2, "a", "b", "c")
		for slot := range slotsOf(s.Get("b"), "b") {
			put(t, s.Get("b"), slot, "k", "v", 0)
		}
		slots := slotsOf(s.Get("b"), "b")
		copied(t, s, 2, "b")
		die(s, "b", "c")
		s.Settled(everySlot()...)
		for slot := range slots {
			if e, _, _ := lookUp(t, s, slot, "k"); e.value != "v" {
				t.Fatalf("slot %d has %+v", slot, e)
			}
		}
	})
}

// TestCopiesLeaveFirst: at a node without room copies go, and WAIT still counts
// them as received.
func TestCopiesLeaveFirst(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		for _, name := range []string{"a", "b"} {
			n := s.Open(name, func(o *node.Options) {
				o.Replicas = 1
				o.Engine = engine.Options{MaxBytes: 4 << 20, NoBackground: true}
			}, "a:7001")
			if err := n.Node.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Settled(everySlot()...)
		a, b := s.Get("a"), s.Get("b")
		value := strings.Repeat("v", 200)
		for slot := range slotsOf(b, "b") {
			put(t, b, slot, "k", value, 0)
		}
		copied(t, s, 1, "b")
		if st := a.Node.Engine().Stats(); st.SpareKeys == 0 {
			t.Fatal("a has no copies")
		}
		n := 0
	fill:
		for i := 0; ; i++ {
			for slot := range slotsOf(a, "a") {
				if n%16 == 0 && a.Node.Engine().Stats().SpareKeys == 0 {
					break fill
				}
				put(t, a, slot, fmt.Sprint("k", i), value, 0)
				n++
			}
			pass(10 * time.Millisecond)
		}
		if st := a.Node.Engine().Stats(); st.ServedKeys < int64(n)*9/10 {
			t.Errorf("%d of %d keys are left when the last copy has gone", st.ServedKeys, n)
		}
	})
}
