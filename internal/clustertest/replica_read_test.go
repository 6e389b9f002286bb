package clustertest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
)

// TestReadOnlyClients: a client that says READONLY gets copies, as long as they
// are of the owner's process, and never that a key is absent.
func TestReadOnlyClients(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c")
		b := s.Get("b")
		v := b.Node.View()
		slot := ownedBy(t, b, "b", func(slot uint16) bool { return v.Member(v.Successor(slot)).Host == "c" })
		key := keyOf(slot)
		wantText(t, s.Do("b", "SET", key, "v"), "OK")
		copied(t, s, 1, "b")
		c, err := link.Dial(t.Context(), net.JoinHostPort("c", "7001"), link.Options{Dialer: s.Net.Dialer("client")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		do := func(args ...string) string {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			v, err := c.Do(ctx, resp.AppendCommandStrings(nil, args...))
			if err != nil {
				t.Fatal(err)
			}
			return v.Text()
		}
		moved := fmt.Sprintf("MOVED %d b:7001", slot)
		expect := func(want string, args ...string) {
			t.Helper()
			if got := do(args...); got != want {
				t.Errorf("%q answers %q, want %q", args, got, want)
			}
		}
		expect(moved, "GET", key)
		expect("OK", "READONLY")
		expect("v", "GET", key)
		expect(moved, "GET", "{"+key+"}absent")
		expect(moved, "MGET", key, "{"+key+"}absent")
		expect(moved, "SET", key, "w")
		expect("OK", "READWRITE")
		expect(moved, "GET", key)
		expect("OK", "READONLY")
		wantText(t, s.Do("b", "SET", key, "w", "PX", "500"), "OK")
		copied(t, s, 1, "b")
		expect("w", "GET", key)
		pass(600 * time.Millisecond)
		expect(moved, "GET", key)
		wantText(t, s.Do("b", "SET", key, "x"), "OK")
		copied(t, s, 1, "b")
		expect("x", "GET", key)
		// The owner comes back as another process: the copy is not of that one.
		s.Kill("b")
		s.Rumours.Reappear(s.ID("b"))
		pass(100 * time.Millisecond)
		expect("x", "GET", key) // its place is kept for the process of which the copy is
	})
}

// TestTakeoverMeanwhile: the successor has heard of a death and waits for another member
// that has not; until it serves the slot, it answers reads from its copies.
func TestTakeoverMeanwhile(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c")
		b := s.Get("b")
		v := b.Node.View()
		slot := ownedBy(t, b, "b", func(slot uint16) bool { return v.Member(v.Successor(slot)).Host == "c" })
		key := keyOf(slot)
		wantText(t, s.Do("b", "SET", key, "v"), "OK")
		copied(t, s, 1, "b")
		s.Net.Cut("c", "a") // a refuses in silence
		s.Kill("b")
		s.Rumours.Bury(s.ID("c"), s.ID("b"))
		pass(100 * time.Millisecond)
		if owner := s.Get("c").Node.View().OwnerMember(slot); owner.Host != "c" || s.Get("c").Node.Engine().Serving(slot) {
			t.Fatalf("%s is the owner, serving %v", owner.Host, s.Get("c").Node.Engine().Serving(slot))
		}
		start := time.Now()
		wantText(t, s.Do("c", "GET", key), "v")
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("the read took %v", took)
		}
		if v := s.Do("c", "SET", key, "w"); !strings.HasPrefix(v.Text(), "TRYAGAIN") {
			t.Errorf("a write answers %q", v.Text())
		}
		// What the copy lacks is lost: it is what the slot is opened with.
		start = time.Now()
		if v := s.Do("c", "GET", "{"+key+"}absent"); v.Kind != resp.Null || time.Since(start) > 20*time.Millisecond {
			t.Errorf("a read of what the copy lacks answers %q after %v", v.Text(), time.Since(start))
		}
	})
}
