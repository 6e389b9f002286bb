package clustertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
)

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
