package clustertest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/resp"
)

// TestStopWithEntriesLeavesFreshCopies: b stops to be back at once with its entries, in
// good order, a moment after it has acknowledged a write. Until it is back, clients read
// its copies: they get that write, not the value before.
func TestStopWithEntriesLeavesFreshCopies(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(t *testing.T, s *Sim) {
		s.Change = func(o *node.Options) { o.Replicas = 1 }
		s.Add("a", "a")
		openWarm(t, s, "b", dir, "a")
		s.Add("c", "a")
		s.Settled(everySlot()...)
		b := s.Get("b")
		v := b.Node.View()
		slot := ownedBy(t, b, "b", func(slot uint16) bool { return v.Member(v.Successor(slot)).Host == "c" })
		key := keyOf(slot)
		gone := "{" + key + "}gone"
		wantText(t, s.Do("b", "SET", key, "old"), "OK")
		wantText(t, s.Do("b", "SET", gone, "old"), "OK")
		copied(t, s, 1, "b")
		c, err := link.Dial(t.Context(), net.JoinHostPort("c", "7001"), link.Options{Dialer: s.Net.Dialer("client")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		get := func(key string) string {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			v, err := c.Do(ctx, resp.AppendCommandStrings(nil, "GET", key))
			if err != nil {
				t.Fatal(err)
			}
			return v.Text()
		}
		if v, err := c.Do(t.Context(), resp.AppendCommandStrings(nil, "READONLY")); err != nil || v.Text() != "OK" {
			t.Fatalf("%q, %v", v.Text(), err)
		}
		wantText(t, s.Do("b", "SET", key, "new"), "OK")
		if v := s.Do("b", "DEL", gone); v.Int != 1 {
			t.Fatalf("DEL answers %q", v.Text())
		}
		b.Node.Stay()
		if err := b.Node.Close(); err != nil {
			t.Fatal(err)
		}
		s.Kill("b") // its port, last
		if got := get(key); got != "new" {
			t.Errorf("the copy answers %q", got)
		}
		if got := get(gone); got == "old" {
			t.Error("the copy answers with what was deleted")
		}
		openWarm(t, s, "b", dir, "a")
		s.Settled(everySlot()...)
		wantText(t, s.Do("b", "GET", key), "new")
	})
}
