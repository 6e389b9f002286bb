package clustertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// shortRaceTests between them do everything that nodes do to each other; with the race
// detector all simulations take longer than the tests of all other rooms. A short run
// with it makes these, unless -run chooses others.
const shortRaceTests = `^Test(Real|Mismatch|Away|JoinAndLeave|Split|NoKeyIsLost|Transactions|Embedded|Migrate|PinsConverge|StepsUnder|` +
	`DrainInSteps|WeightIn|OwnerDiesDuring|OwnerDiesWhile|ReadOnlyClients|WaitAnd|WarmRestart$)|` +
	`^TestScripts$/^(crashinjoin|flush|halves|lateanswer|restart|silentdrop)$`

// TestMain looks for goroutines that were left behind. memberlist ends a probe
// that is under way by its timeout only, so that it gets some time.
func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run"); raceEnabled && testing.Short() && run.Value.String() == "" {
		if err := run.Value.Set(shortRaceTests); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for range 10 {
			if err == nil {
				break
			}
			err = goleak.Find() // waits by itself
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func pass(d time.Duration) { <-time.After(d) }

// simulate runs a test in virtual time with a cluster that is closed at its end.
func simulate(t *testing.T, fn func(t *testing.T, s *Sim)) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSim(t)
		defer s.Close()
		fn(t, s)
	})
}

// ownedBy finds a slot of a node in the View of another that passes the test.
func ownedBy(t *testing.T, view *SimNode, owner string, also func(slot uint16) bool) uint16 {
	t.Helper()
	v := view.Node.View()
	for s := range uint16(ring.Slots) {
		if m := v.OwnerMember(s); m != nil && m.Host == owner && (also == nil || also(s)) {
			return s
		}
	}
	t.Fatalf("%s owns no such slot", owner)
	return 0
}

func wantText(t *testing.T, v resp.Value, want string) {
	t.Helper()
	if v.Text() != want {
		t.Fatalf("reply %q, want %q", v.Text(), want)
	}
}

func TestJoinAndLeave(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		for slot := range uint16(ring.Slots) {
			if by := s.Servers(slot); len(by) != 1 {
				t.Fatalf("slot %d of a lone node is served by %v", slot, by)
			}
		}
		s.Add("b", "a")
		s.Add("c", "b")
		s.Settled(watched()...)
		w := s.NewWatch(t)
		if err := s.Get("b").Node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for slot := range uint16(ring.Slots) {
			if by := s.Servers(slot); len(by) > 1 || len(by) == 1 && by[0] == "b" {
				t.Fatalf("after b has left slot %d is served by %v", slot, by)
			}
		}
		w.Stop()
		s.Kill("b")
		s.Settled(watched()...)
	})
}

// TestLateNews lets the members hear of a join one after the other, in both
// orders: no slot ever has two servers, and redirects end.
func TestLateNews(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		t.Run(strings.Join(order, " then "), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				s.Add("a", "a")
				s.Add("b", "a")
				s.Settled(watched()...)
				s.Rumours.Deaf(s.ID("a"), true)
				s.Rumours.Deaf(s.ID("b"), true)
				c := s.Open("c", nil, "a:7001")
				w := s.NewWatch(t)
				defer w.Stop()
				if err := c.Node.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				pass(time.Second) // c asks in vain
				slot := ownedBy(t, c, "c", nil)
				if c.Node.Serving(slot) {
					t.Fatalf("c serves slot %d before anybody agreed", slot)
				}
				v, _ := s.Follow(0, "c", "SET", keyOf(slot), "v")
				wantText(t, v, "OK") // forwarded to whoever serves it
				for _, name := range order {
					s.Rumours.Deaf(s.ID(name), false)
					s.Rumours.Tell(s.ID(name), s.ID("c"))
					pass(300 * time.Millisecond)
					for _, at := range []string{"a", "b", "c"} {
						v, path := s.Follow(2, at, "SET", keyOf(slot), "v")
						if v.Text() != "OK" {
							t.Fatalf("by %v: %q", path, v.Text())
						}
					}
				}
				s.Settled(watched()...)
			})
		})
	}
}

// TestReleaseTellsOfUnknownMember: nobody was told of the joiner; its RELEASE
// makes the members contact it.
func TestReleaseTellsOfUnknownMember(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		s.Rumours.Mute(s.ID("c"), true)
		c := s.Open("c", nil, "a:7001")
		if err := c.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Settled(watched()...)
		if n := s.Get("a").Node.View().Len(); n != 3 {
			t.Fatalf("a knows %d members, want 3", n)
		}
	})
}

// TestLateAnswers holds back what the old owner answers until the views have
// changed twice.
func TestLateAnswers(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		b := s.Open("b", nil, "a:7001")
		w := s.NewWatch(t)
		defer w.Stop()
		s.Net.Block("a", "b", false)
		done := make(chan error, 1)
		go func() { done <- b.Node.Start(context.Background()) }()
		pass(5 * time.Millisecond) // it has joined; RELEASE is under way
		s.Net.Block("a", "b", true)
		pass(700 * time.Millisecond)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// b announces that it leaves, and comes back: new generations.
		drain, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := b.Node.Drain(drain); err == nil && len(s.Servers(0)) > 1 {
			t.Error("two servers of slot 0")
		}
		s.Net.Block("a", "b", false)
		pass(3 * time.Second)
		s.Kill("b")
		s.Settled(watched()...)
	})
}

// TestSplitAndHeal: both sides of a split serve everything; afterwards every
// slot has one server, and what the owner held from before is gone where the
// other side has taken writes.
func TestSplitAndHeal(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		slot := ownedBy(t, a, "a", nil)
		wantText(t, s.Do("a", "SET", keyOf(slot), "old"), "OK")
		s.Net.Block("a", "b", true)
		ida, idb := s.ID("a"), s.ID("b")
		s.Rumours.Bury(idb, ida) // only b notices
		pass(time.Second)
		wantText(t, s.Do("b", "SET", keyOf(slot), "new"), "OK")
		wantText(t, s.Do("a", "GET", keyOf(slot)), "old")
		s.Net.Block("a", "b", false)
		s.Rumours.Tell(idb, ida)
		s.Settled(watched()...)
		if v, _ := s.Follow(1, "b", "GET", keyOf(slot)); !v.IsNull() {
			t.Fatalf("after the heal the key is %q, a value older than an acknowledged write", v.Text())
		}
	})
}
