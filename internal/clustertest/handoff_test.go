package clustertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/resp"
)

// routed is a client that follows redirects.
func (s *Sim) routed(t *testing.T) *link.Router {
	t.Helper()
	r, err := link.NewRouter(link.RouterOptions{Link: link.Options{Dialer: s.Net.Dialer("client")}, Seeds: []string{"a:7001"}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func call(t *testing.T, r *link.Router, args ...string) resp.Value {
	t.Helper()
	var raw [][]byte
	for _, a := range args {
		raw = append(raw, []byte(a))
	}
	v, err := r.Do(t.Context(), raw...)
	if err != nil {
		t.Fatalf("%.60q: %v", args, err)
	}
	return v
}

// TestNoKeyIsLost: nodes join and leave while a client reads. Every read finds its
// key, no key is counted twice, and none lives longer than it should.
func TestNoKeyIsLost(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		const keys = 1500
		a := s.Add("a", "a")
		r := s.routed(t)
		defer r.Close()
		var set [keys]time.Time
		key := func(i int) string { return fmt.Sprintf("key:%d", i) }
		ttl := func(i int) int { return (i % 3) * 100_000 }
		for i := range keys {
			args := []string{"SET", key(i), key(i)}
			if ms := ttl(i); ms > 0 {
				args = append(args, "PX", fmt.Sprint(ms))
			}
			set[i] = time.Now()
			call(t, r, args...)
		}
		readAll := func(when string) {
			t.Helper()
			lost := 0
			for i := range keys {
				if v := call(t, r, "GET", key(i)); v.Text() != key(i) {
					lost++
				}
			}
			if lost > 0 {
				t.Fatalf("%s: %d of %d keys are lost", when, lost, keys)
			}
		}
		count := func(when string) {
			t.Helper()
			sum := int64(0)
			for _, n := range s.Nodes {
				if !n.dead {
					sum += s.Do(n.Name, "DBSIZE").Int
				}
			}
			if sum != keys {
				t.Fatalf("%s: the nodes count %d keys, want %d", when, sum, keys)
			}
		}
		for _, name := range []string{"b", "c"} {
			s.Add(name, "a")
			readAll(name + " has joined")
			s.quiet(t)
			count(name + " has joined")
			readAll(name + " has everything")
		}
		if f := s.Get("b").Node.HandoffFigures(); f.Pulled == 0 || f.Moved == 0 {
			t.Errorf("b took %d keys for requests and %d in the background, both should have happened", f.Pulled, f.Moved)
		}
		if err := s.Get("b").Node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		readAll("b has left")
		s.Kill("b")
		s.Settled(watched()...)
		s.quiet(t)
		readAll("b is gone")
		count("b is gone")
		for i := range keys {
			most := int64(ttl(i)) - time.Since(set[i]).Milliseconds() + 5 // it was set that much later
			if got := call(t, r, "PTTL", key(i)).Int; ttl(i) == 0 && got != -1 || ttl(i) > 0 && (got > most || got < most-50) {
				t.Fatalf("%s lives %d ms more, set for %d ms %v ago", key(i), got, ttl(i), time.Since(set[i]))
			}
		}
		if n := a.Node.CededSlots(); n != 0 {
			t.Errorf("a still keeps %d slots", n)
		}
	})
}

// quiet waits until no content moves.
func (s *Sim) quiet(t *testing.T) {
	t.Helper()
	for range 6000 {
		moving := 0
		for _, n := range s.Nodes {
			if !n.dead {
				moving += n.Node.WindowsOpen() + n.Node.CededSlots()
			}
		}
		if moving == 0 {
			return
		}
		pass(10 * time.Millisecond)
	}
	t.Fatal("content moves for ever")
}

// move is a slot whose key went, or goes, from a to b. b takes nothing unasked
// until it is let.
type move struct {
	*Sim
	a, b *SimNode
	slot uint16
	key  string
}

// atOnce makes a node join and leave in one step.
func atOnce(o *node.Options) { o.Steps.Join = 1 }

// inMove gives a the keys of a slot (setup writes them there by their names
// {tag}:...), lets b join, and calls fn when b serves the slot.
func inMove(t *testing.T, setup func(m *move), fn func(t *testing.T, m *move)) {
	simulate(t, func(t *testing.T, s *Sim) {
		m := &move{Sim: s, a: s.Add("a", "a"), b: s.Open("b", atOnce, "a:7001")}
		m.b.Node.PauseTransfer(true)
		// Where it will be: the same two nodes in a View.
		m.slot = slotOfSecond(t)
		m.key = keyOf(m.slot)
		setup(m)
		if err := m.b.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Settled(m.slot)
		if !m.b.Node.Serving(m.slot) {
			t.Fatalf("slot %d did not move to b", m.slot)
		}
		fn(t, m)
	})
}

// slotOfSecond finds a slot that b takes over when it joins a.
func slotOfSecond(t *testing.T) (slot uint16) {
	simulateInside(t, func(s *Sim) {
		s.Add("a", "a")
		b := s.Add("b", "a")
		slot = ownedBy(t, b, "b", func(slot uint16) bool { return slot > 300 })
	})
	return slot
}

// simulateInside runs a second cluster within the bubble of the first.
func simulateInside(t *testing.T, fn func(s *Sim)) {
	s := NewSim(t)
	defer s.Close()
	fn(s)
}

// named is another key of the slot.
func (m *move) named(name string) string { return "{" + m.key + "}" + name }

// release lets b take everything.
func (m *move) release(t *testing.T) {
	m.b.Node.PauseTransfer(false)
	m.quiet(t)
}

func set(args ...string) func(m *move) {
	return func(m *move) {
		all := append([]string{"SET", m.key, "old"}, args...)
		if v := m.Do("a", all...); v.Text() != "OK" {
			m.tb.Fatalf("%q", v.Text())
		}
	}
}

// TestFirstUseAfterMove: whatever command comes first, it finds what the previous
// owner has, and what it leaves stays when the rest comes.
func TestFirstUseAfterMove(t *testing.T) {
	for _, tc := range []struct {
		args  string // K is the key, with the value "old", N one with "7", Z an absent one
		reply string
		after string // of K, when everything has come
	}{
		{"GET K", "old", "old"},
		{"STRLEN K", "3", "old"},
		{"EXISTS K Z", "1", "old"},
		{"TYPE K", "string", "old"},
		{"SET K new", "OK", "new"},
		{"SET K new EX 100", "OK", "new"},
		{"SETEX K 100 new", "OK", "new"},
		{"MSET K new Z z", "OK", "new"},
		{"SET K new NX", "", "old"},
		{"SET Z new XX", "", "old"},
		{"SET K new XX", "OK", "new"},
		{"SET K new GET", "old", "new"},
		{"SETNX K new", "0", "old"},
		{"GETSET K new", "old", "new"},
		{"GETDEL K", "old", ""},
		{"DEL K", "1", ""},
		{"DEL Z K", "1", ""},
		{"UNLINK K", "1", ""},
		{"APPEND K er", "5", "older"},
		{"INCR N", "8", "old"},
		{"EXPIRE K 0", "1", ""},
		{"PERSIST K", "0", "old"},
		{"TTL K", "-1", "old"},
		{"RENAME K Z", "OK", ""},
		{"RENAME N K", "OK", "7"},
		{"COPY K Z", "1", "old"},
		{"COPY N K", "0", "old"},
		{"TOUCH K", "1", "old"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			inMove(t, func(m *move) { set()(m); m.Do("a", "SET", m.named("N"), "7") }, func(t *testing.T, m *move) {
				args := strings.Fields(tc.args)
				for i, a := range args {
					switch a {
					case "K":
						args[i] = m.key
					case "N", "Z":
						args[i] = m.named(a)
					}
				}
				wantText(t, m.Do("b", args...), tc.reply)
				m.release(t)
				wantText(t, m.Do("b", "GET", m.key), tc.after)
			})
		})
	}
}

// TestMoveKeepsTTL: the time to live goes on while a key moves, and never grows.
func TestMoveKeepsTTL(t *testing.T) {
	for _, how := range []string{"a request asks", "unasked"} {
		t.Run(how, func(t *testing.T) {
			var start time.Time
			inMove(t, func(m *move) { start = time.Now(); set("PX", "10000")(m) }, func(t *testing.T, m *move) {
				pass(3 * time.Second)
				if how == "unasked" {
					m.release(t)
				}
				left := m.Do("b", "PTTL", m.key).Int
				if most := 10_000 - time.Since(start).Milliseconds(); left > most || left < most-50 {
					t.Fatalf("%d ms are left, want up to %d", left, most)
				}
				pass(7 * time.Second)
				m.release(t)
				wantText(t, m.Do("b", "GET", m.key), "")
			})
		})
	}
}

// TestExpiryDuringMove: a key that expires at the old owner, or on its way, is gone.
func TestExpiryDuringMove(t *testing.T) {
	inMove(t, set("PX", "2000"), func(t *testing.T, m *move) {
		pass(2500 * time.Millisecond)
		wantText(t, m.Do("b", "GET", m.key), "")
		m.release(t)
		wantText(t, m.Do("b", "GET", m.key), "")
	})
}

// TestNothingComesBack: what was taken away at the new owner is not pulled again,
// and a newer value is not overwritten.
func TestNothingComesBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, m *move)
		want string
	}{
		{"after DEL", func(t *testing.T, m *move) { m.Do("b", "DEL", m.key) }, ""},
		{"after SET and DEL", func(t *testing.T, m *move) { m.Do("b", "SET", m.key, "new"); m.Do("b", "DEL", m.key) }, ""},
		{"after EXPIRE and local expiry", func(t *testing.T, m *move) { m.Do("b", "PEXPIRE", m.key, "100"); pass(200 * time.Millisecond) }, ""},
		{"after SET with a TTL and local expiry", func(t *testing.T, m *move) {
			m.Do("b", "SET", m.key, "new", "PX", "100")
			pass(200 * time.Millisecond)
		}, ""},
		{"after SET", func(t *testing.T, m *move) { m.Do("b", "SET", m.key, "new") }, "new"},
		{"a newer value was evicted", func(t *testing.T, m *move) {
			m.Do("b", "SET", m.key, "new")
			e := m.b.Node.Engine()
			tx := e.LockAny(m.slot)
			tx.Invalidate([]byte(m.key)) // touches, as an eviction does
			tx.Unlock()
		}, ""},
		{"FLUSHALL at both", func(t *testing.T, m *move) { m.Do("a", "FLUSHALL"); m.Do("b", "FLUSHALL") }, ""},
		{"FLUSHALL at the new owner", func(t *testing.T, m *move) { m.Do("b", "FLUSHALL") }, ""},
		{"FLUSHALL at the old owner", func(t *testing.T, m *move) { m.Do("a", "FLUSHALL") }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inMove(t, set(), func(t *testing.T, m *move) {
				tc.do(t, m)
				wantText(t, m.Do("b", "GET", m.key), tc.want)
				m.release(t)
				wantText(t, m.Do("b", "GET", m.key), tc.want)
			})
		})
	}
}

// TestLateAnswer: the old owner does not answer in time. The request goes on
// without; what comes later is taken only where nothing has been written.
func TestLateAnswer(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written meanwhile: %v", written), func(t *testing.T) {
			inMove(t, set(), func(t *testing.T, m *move) {
				wantText(t, m.Do("b", "GET", m.named("Z")), "") // the link is open
				m.Net.Block("a", "b", true)
				began := time.Now()
				wantText(t, m.Do("b", "GET", m.key), "")
				if d := time.Since(began); d < 10*time.Millisecond || d > 15*time.Millisecond {
					t.Errorf("the request took %v", d)
				}
				want := "old"
				if written {
					want = "new"
					wantText(t, m.Do("b", "SET", m.key, want), "OK")
				}
				pass(100 * time.Millisecond)
				m.Net.Block("a", "b", false)
				pass(100 * time.Millisecond)
				wantText(t, m.Do("b", "GET", m.key), want)
			})
		})
	}
}

// TestPausedOwnerDoesNotSlowDown: after a few requests in vain nobody waits for the
// old owner for a while.
func TestPausedOwnerDoesNotSlowDown(t *testing.T) {
	inMove(t, set(), func(t *testing.T, m *move) {
		m.Net.Block("a", "b", true)
		began := time.Now()
		for i := range 100 {
			m.Do("b", "GET", m.named(fmt.Sprint(i)))
		}
		if d := time.Since(began); d > 400*time.Millisecond {
			t.Fatalf("100 requests took %v", d)
		}
		m.Net.Block("a", "b", false)
	})
}

// TestCededKeysAreCountedOnce: no command of the old owner shows them.
func TestCededKeysAreCountedOnce(t *testing.T) {
	inMove(t, set(), func(t *testing.T, m *move) {
		if n := m.a.Node.CededSlots(); n != 1 {
			t.Fatalf("a keeps %d slots, want 1", n)
		}
		slot := fmt.Sprint(m.slot)
		wantText(t, m.Do("a", "DBSIZE"), "0")
		wantText(t, m.Do("a", "RANDOMKEY"), "")
		wantText(t, m.Do("a", "CLUSTER", "COUNTKEYSINSLOT", slot), "0")
		for _, args := range [][]string{{"KEYS", "*"}, {"CLUSTER", "GETKEYSINSLOT", slot, "10"}} {
			if v := m.Do("a", args...); len(v.Elems) != 0 {
				t.Errorf("%q shows %d keys", args, len(v.Elems))
			}
		}
		if v := m.Do("a", "SCAN", "0", "COUNT", "1000"); len(v.Elems[1].Elems) != 0 {
			t.Error("SCAN shows them")
		}
		if v := m.Do("a", "INFO", "keyspace"); strings.Contains(v.Text(), "keys=") {
			t.Errorf("INFO shows %q", v.Text())
		}
		if v := m.Do("a", "CLUSTER", "SLOT-STATS", "SLOTSRANGE", slot, slot); len(v.Elems) != 0 {
			t.Error("SLOT-STATS shows them")
		}
		if v := m.Do("a", "INFO", "cluster"); !strings.Contains(v.Text(), "ringcache_handoff_ceded_slots:1\r\n") {
			t.Errorf("INFO does not tell of the slot: %q", v.Text())
		}
		m.release(t)
		wantText(t, m.Do("b", "DBSIZE"), "1")
	})
}

// TestTransactionsFindMovedKeys: WATCH and EXEC take over what they need first.
func TestTransactionsFindMovedKeys(t *testing.T) {
	inMove(t, set(), func(t *testing.T, m *move) {
		c, err := link.Dial(t.Context(), "b:7001", link.Options{Dialer: m.Net.Dialer("client")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		do := func(args ...string) resp.Value {
			v, err := c.Do(t.Context(), resp.AppendCommandStrings(nil, args...))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		wantText(t, do("WATCH", m.key), "OK")
		m.release(t) // what comes now must not count as a change
		wantText(t, do("MULTI"), "OK")
		wantText(t, do("GET", m.key), "QUEUED")
		wantText(t, do("APPEND", m.key, "er"), "QUEUED")
		if v := do("EXEC"); len(v.Elems) != 2 || v.Elems[0].Text() != "old" || v.Elems[1].Int != 5 {
			t.Fatalf("EXEC gives %v", v)
		}
	})
	inMove(t, set(), func(t *testing.T, m *move) {
		c, err := link.Dial(t.Context(), "b:7001", link.Options{Dialer: m.Net.Dialer("client")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, args := range [][]string{{"MULTI"}, {"GET", m.key}, {"EXEC"}} {
			v, err := c.Do(t.Context(), resp.AppendCommandStrings(nil, args...))
			if err != nil {
				t.Fatal(err)
			}
			if args[0] == "EXEC" && (len(v.Elems) != 1 || v.Elems[0].Text() != "old") {
				t.Fatalf("EXEC gives %v", v)
			}
		}
	})
}

// TestEmbeddedCallsFindMovedKeys: calls of the program around the node do.
func TestEmbeddedCallsFindMovedKeys(t *testing.T) {
	inMove(t, func(m *move) { set()(m); m.Do("a", "SET", m.named("d"), "x") }, func(t *testing.T, m *move) {
		if found, err := m.b.Node.Delete(t.Context(), m.named("d")); !found || err != nil {
			t.Errorf("Delete: %v %v", found, err)
		}
		many, err := m.b.Node.GetMany(t.Context(), m.key, m.named("d"))
		if err != nil || len(many) != 1 || string(many[m.key]) != "old" {
			t.Errorf("GetMany: %q %v", many, err)
		}
		if v, err := m.b.Node.Get(t.Context(), m.key); string(v) != "old" || err != nil {
			t.Errorf("Get: %q %v", v, err)
		}
	})
}

// TestBigValuesMove: a key of the largest size, and many of them.
func TestBigValuesMove(t *testing.T) {
	big := strings.Repeat("x", 256<<10)
	inMove(t, func(m *move) {
		for i := range 8 {
			m.Do("a", "SET", m.named(fmt.Sprint(i)), big)
		}
	}, func(t *testing.T, m *move) {
		v := m.Do("b", "MGET", m.named("0"), m.named("1"), m.named("2"), m.named("3"), m.named("4"), m.named("5"))
		for i, e := range v.Elems {
			if len(e.Str) != len(big) {
				t.Errorf("value %d has %d bytes", i, len(e.Str))
			}
		}
		m.release(t)
		for i := range 8 {
			if n := m.Do("b", "STRLEN", m.named(fmt.Sprint(i))).Int; n != int64(len(big)) {
				t.Errorf("value %d has %d bytes", i, n)
			}
		}
	})
}

// TestSourceDiesDuringMove: what was not taken is lost, nothing else happens.
func TestSourceDiesDuringMove(t *testing.T) {
	inMove(t, set(), func(t *testing.T, m *move) {
		m.Kill("a")
		m.Rumours.Bury(m.ID("b"), m.ID("a"))
		pass(2 * time.Second)
		wantText(t, m.Do("b", "GET", m.key), "")
		if n := m.b.Node.WindowsOpen(); n != 0 {
			t.Errorf("%d windows are open", n)
		}
		wantText(t, m.Do("b", "SET", m.key, "new"), "OK")
		wantText(t, m.Do("b", "GET", m.key), "new")
	})
}

// TestSlotComesBackDuringMove: b leaves while a still has keys of its slots. a must
// not serve what it kept, since b may have written since.
func TestSlotComesBackDuringMove(t *testing.T) {
	inMove(t, func(m *move) { set()(m); m.Do("a", "SET", m.named("d"), "x") }, func(t *testing.T, m *move) {
		wantText(t, m.Do("b", "SET", m.key, "new"), "OK")
		wantText(t, m.Do("b", "DEL", m.named("d")), "1")
		if err := m.b.Node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantText(t, m.Do("a", "GET", m.key), "new")
		wantText(t, m.Do("a", "GET", m.named("d")), "")
	})
}

// TestRestartDuringMove: b is killed and back before anybody has noticed. What it
// had is lost; what a still keeps from before b is older, and must not come.
func TestRestartDuringMove(t *testing.T) {
	inMove(t, set(), func(t *testing.T, m *move) {
		wantText(t, m.Do("b", "SET", m.key, "new"), "OK")
		m.Kill("b")
		pass(200 * time.Millisecond)
		m.Add("b", "a")
		m.Settled(m.slot)
		wantText(t, m.Do("b", "GET", m.key), "")
		m.quiet(t)
	})
}

// TestWarmRestartKeepsNothingCeded: what a node kept for another is not there when
// it comes back.
func TestWarmRestartKeepsNothingCeded(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		openWarm(t, s, "a", dir, "a")
		keys := 0
		for slot := range uint16(ring.Slots) {
			if slot%64 == 0 {
				wantText(t, s.Do("a", "SET", keyOf(slot), "v"), "OK")
				keys++
			}
		}
		b := s.Open("b", atOnce, "a:7001")
		b.Node.PauseTransfer(true)
		if err := b.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Settled(watched()...)
		gone := s.Get("a").Node.CededSlots()
		if gone == 0 {
			t.Fatal("no slot with keys has moved")
		}
		s.Kill("a")
		a := openWarm(t, s, "a", dir, "b")
		s.Settled(watched()...)
		if n := a.Node.Engine().Stats().Keys; n != int64(keys-gone) {
			t.Fatalf("%d keys are back of the %d that a served", n, keys-gone)
		}
	})
}

// TestCededContentIsDroppedInTime: a taker that never comes does not keep memory.
func TestCededContentIsDroppedInTime(t *testing.T) {
	inMove(t, set(), func(t *testing.T, m *move) {
		pass(9 * time.Minute)
		if n := m.a.Node.Engine().Stats().Keys; n != 1 {
			t.Fatalf("after 9 minutes a has %d keys", n)
		}
		pass(90 * time.Second)
		if n := m.a.Node.Engine().Stats().Keys; n != 0 {
			t.Fatalf("after more than 10 minutes a has %d keys", n)
		}
		wantText(t, m.Do("b", "GET", m.key), "")
	})
}

// TestDrainWaitsForTheTaker: the leaving node keeps its keys until they are taken,
// or until its time is over.
func TestDrainWaitsForTheTaker(t *testing.T) {
	inMove(t, set(), func(t *testing.T, m *move) {
		m.release(t)
		wantText(t, m.Do("b", "SET", m.key, "new"), "OK")
		m.a.Node.PauseTransfer(true)
		done := make(chan error, 1)
		go func() { done <- m.b.Node.Drain(t.Context()) }()
		pass(5 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("it left before its keys were taken: %v", err)
		default:
		}
		m.a.Node.PauseTransfer(false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantText(t, m.Do("a", "GET", m.key), "new")
	})
}
