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
			if name == "b" { // in one step, so that requests find slots that are still empty
				if err := s.Open(name, atOnce, "a:7001").Node.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				s.Add(name, "a")
			}
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
		m.slot = slotsOfSecond(t)[0]
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

// slotsOfSecond finds slots that b takes over when it joins a.
func slotsOfSecond(t *testing.T) (slots []uint16) {
	simulateInside(t, func(s *Sim) {
		s.Add("a", "a")
		b := s.Add("b", "a")
		for slot := uint16(300); len(slots) < 64; slot++ {
			slots = append(slots, ownedBy(t, b, "b", func(at uint16) bool { return at >= slot }))
			slot = slots[len(slots)-1]
		}
	})
	return slots
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
	cases := []struct {
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
	}
	simulate(t, func(t *testing.T, s *Sim) { // one cluster: a case has a slot of its own
		a, b := s.Add("a", "a"), s.Open("b", atOnce, "a:7001")
		b.Node.PauseTransfer(true)
		slots := slotsOfSecond(t)
		moves := make([]*move, len(cases))
		for i := range cases {
			m := &move{Sim: s, a: a, b: b, slot: slots[i], key: keyOf(slots[i])}
			moves[i] = m
			set()(m)
			wantText(t, m.Do("a", "SET", m.named("N"), "7"), "OK")
		}
		if err := b.Node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Settled(slots...)
		for i, tc := range cases {
			m := moves[i]
			args := strings.Fields(tc.args)
			for i, a := range args {
				switch a {
				case "K":
					args[i] = m.key
				case "N", "Z":
					args[i] = m.named(a)
				}
			}
			if got := m.Do("b", args...).Text(); got != tc.reply {
				t.Errorf("%s: %q, want %q", tc.args, got, tc.reply)
			}
		}
		moves[0].release(t)
		for i, tc := range cases {
			if got := moves[i].Do("b", "GET", moves[i].key).Text(); got != tc.after {
				t.Errorf("%s: then K is %q, want %q", tc.args, got, tc.after)
			}
		}
	})
}
