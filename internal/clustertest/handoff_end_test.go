package clustertest

import (
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/ring"
)

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
		b := s.Open("b", nil, "a:7001")
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
