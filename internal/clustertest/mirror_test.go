package clustertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/topology"
)

func mirrored(share int) func(*node.Options) {
	return func(o *node.Options) { o.MirrorReads = share }
}

// joinRead lets a client read the same keys over and over while a third node joins
// in steps, and returns what the joiner had to fetch, and how many keys it has. Every
// fifth key is written in each round, too.
func joinRead(t *testing.T, share int) (f handoff.Figures, keys int64) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Change = mirrored(share)
		a := s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		r := s.routed(t)
		defer r.Close()
		latest := make([]int, 400)
		set := func(i, to int) {
			latest[i] = to
			call(t, r, "SET", fmt.Sprint("key:", i), fmt.Sprint(to))
		}
		for i := range latest {
			set(i, 0)
		}
		c := s.Open("c", nil, "a:7001")
		started := start(c)
		active := isActive(s, "c")
		for round := 1; !active(a.Node.View()); round++ {
			if round > 5000 {
				t.Fatal("the join does not end")
			}
			for i := range latest {
				if v := call(t, r, "GET", fmt.Sprint("key:", i)); v.Text() != fmt.Sprint(latest[i]) {
					t.Fatalf("round %d: key %d is %q, not %d", round, i, v.Text(), latest[i])
				}
				if (i+round)%5 == 0 {
					set(i, round)
				}
			}
		}
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		s.quiet(t)
		f, keys = c.Node.HandoffFigures(), c.Node.Engine().Stats().ServedKeys
		for i := range latest {
			if v := call(t, r, "GET", fmt.Sprint("key:", i)); v.Text() != fmt.Sprint(latest[i]) {
				t.Fatalf("key %d is %q, not %d", i, v.Text(), latest[i])
			}
		}
		info := s.Do("c", "INFO", "replication").Text()
		if share > 0 && !strings.Contains(info, fmt.Sprintf("ringcache_mirror_reads:%d\r\n", share)) {
			t.Errorf("INFO does not tell the share:\n%s", info)
		}
	})
	return f, keys
}

// TestMirroredJoin: what is read is at the joiner before it takes a slot over, so the
// first reads after a step find it there; no change is lost by that.
func TestMirroredJoin(t *testing.T) {
	off, all := joinRead(t, 0)
	on, keys := joinRead(t, 100)
	t.Logf("of %d and %d keys, %d and %d were fetched for a request, %d and %d unasked", all, keys, off.Pulled, on.Pulled, off.Moved, on.Moved)
	if off.Pulled+off.Moved < uint64(all)*9/10 {
		t.Errorf("without mirrors only %d of %d keys had to be fetched", off.Pulled+off.Moved, all)
	}
	if on.Pulled+on.Moved > uint64(keys)/10 {
		t.Errorf("with mirrors %d of %d keys had to be fetched", on.Pulled+on.Moved, keys)
	}
}

// TestMirroredValues is TestValuesWhileNodesComeAndGo with mirrors.
func TestMirroredValues(t *testing.T) {
	seeds, rounds := uint64(4), 16
	if testing.Short() {
		seeds, rounds = 1, 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			valuesWhileNodesComeAndGo(t, seed, rounds, func(o *node.Options) { o.MirrorReads = 100; o.Steps.Join = 4 })
		})
	}
}

// TestCopiesAreKept: where the next owner has copies of all keys, a drain does not
// move them again.
func TestCopiesAreKept(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		replicaCluster(t, s, 1, "a", "b", "c")
		r := s.routed(t)
		defer r.Close()
		const keys = 600
		for i := range keys {
			call(t, r, "SET", fmt.Sprint("key:", i), fmt.Sprint(i), "PX", "1000000")
		}
		copied(t, s, 1, "a", "b", "c")
		c := s.Get("c")
		gives := c.Node.Engine().Stats().ServedKeys
		if err := c.Node.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		fa, fb := s.Get("a").Node.HandoffFigures(), s.Get("b").Node.HandoffFigures()
		fetched := fa.Pulled + fa.Moved + fb.Pulled + fb.Moved
		if gives < keys/6 || fetched > uint64(gives)/5 {
			t.Errorf("%d of %d keys were fetched", fetched, gives)
		}
		s.Kill("c")
		for i := range keys {
			if v := call(t, r, "GET", fmt.Sprint("key:", i)); v.Text() != fmt.Sprint(i) {
				t.Fatalf("key %d is %q", i, v.Text())
			}
			if v := call(t, r, "PTTL", fmt.Sprint("key:", i)); v.Int > 1_000_000 || v.Int < 900_000 {
				t.Fatalf("key %d lives for %d ms", i, v.Int)
			}
		}
	})
}

// TestMirrorBySetting: CONFIG SET switches mirrors on and off, while a node joins.
func TestMirrorBySetting(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		a := s.Add("a", "a")
		r := s.routed(t)
		defer r.Close()
		const keys = 200
		for i := range keys {
			call(t, r, "SET", fmt.Sprint("key:", i), fmt.Sprint(i))
		}
		for _, bad := range []string{"-1", "101", "x"} {
			if v := s.Do("a", "CONFIG", "SET", "mirror-reads", bad); v.Err() == nil {
				t.Errorf("%s is accepted", bad)
			}
		}
		c := s.Open("c", mirrored(100), "a:7001")
		started := start(c)
		pass(time.Second)
		readAll := func(r *link.Router) {
			for i := range keys {
				call(t, r, "GET", fmt.Sprint("key:", i))
			}
			pass(100 * time.Millisecond)
		}
		mirroredKeys := func() int64 { return c.Node.Engine().Stats().SpareKeys }
		if readAll(r); mirroredKeys() != 0 {
			t.Errorf("%d keys are mirrored without being asked for", mirroredKeys())
		}
		wantText(t, s.Do("a", "CONFIG", "SET", "mirror-reads", "100"), "OK")
		pass(100 * time.Millisecond)
		if readAll(r); mirroredKeys() == 0 {
			t.Error("nothing is mirrored")
		}
		wantText(t, s.Do("a", "CONFIG", "SET", "mirror-reads", "0"), "OK")
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		follow(t, a, isActive(s, "c"), func(*topology.View) {})
		s.quiet(t)
		pass(time.Second)
		if n := mirroredKeys(); n != 0 {
			t.Errorf("%d copies are left", n)
		}
		readAll(r)
	})
}
