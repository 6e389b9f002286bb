package node

import (
	"context"
	"testing"
	"time"
)

// manual is a clock that a test moves.
type manual struct{ at time.Time }

func (m *manual) clock() *clock {
	m.at = time.Unix(1e9, 0)
	c := newClock(func() time.Time { return m.at })
	c.start = m.at
	return c
}

func TestGate(t *testing.T) {
	var m manual
	g := newGate(m.clock(), 0)
	var told []time.Time
	g.attach(func(until time.Time) { told = append(told, until) })
	if len(told) != 1 || !told[0].IsZero() {
		t.Errorf("alone: told %v", told)
	}
	step := func(what string, d time.Duration, do func(), passed bool) {
		t.Helper()
		m.at = m.at.Add(d)
		do()
		if g.passed() != passed {
			t.Errorf("%s: passed %v", what, g.passed())
		}
	}
	tick := func(want bool) func() {
		return func() {
			t.Helper()
			if got := g.tick(); got != want {
				t.Errorf("tick says %v", got)
			}
		}
	}
	woken := func() bool {
		select {
		case <-g.wake:
			return true
		default:
			return false
		}
	}
	step("alone", time.Hour, tick(false), true)
	step("not alone", 0, func() { g.arm(true) }, true)
	if last := told[len(told)-1]; last != m.at.Add(3*time.Second) {
		t.Errorf("the server may serve until %s, now is %s", last, m.at)
	}
	step("calm", 1400*time.Millisecond, tick(false), true)
	step("half of the limit", 200*time.Millisecond, tick(true), true)
	step("a contact", 0, g.contact, true)
	step("after it", 2900*time.Millisecond, func() {}, true)
	step("away", 200*time.Millisecond, func() {}, false)
	step("an answer that was here already", 0, g.contact, false)
	if !woken() {
		t.Error("nobody looks around")
	}
	step("a tick", 0, tick(true), false)
	step("members answer", 0, func() { g.settle(true) }, true)
	step("away again", time.Minute, func() {}, false)
	step("nobody answers", 0, func() { g.settle(false) }, true)
	step("this process runs", 2*time.Second, tick(false), true)
	step("and runs", 2*time.Second, tick(false), true)
	if g.silence() < time.Minute {
		t.Errorf("the silence since the last contact is %s", g.silence())
	}
	step("somebody is back", 0, g.contact, true)
	if !woken() {
		t.Error("nobody looks around after the first contact")
	}
	step("alone again", 0, func() { g.arm(false) }, true)
	step("for long", time.Hour, tick(false), true)
	if !told[len(told)-1].IsZero() {
		t.Error("the server still has a limit")
	}
	step("a late answer", 0, g.contact, true)
}

// A contact within the limit costs next to nothing, and allocates nothing.
func TestGateAllocatesNothing(t *testing.T) {
	g := newGate(newClock(nil), 0)
	g.arm(true)
	if n := testing.AllocsPerRun(100, func() { g.contact(); g.wait(context.Background()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGatePassed(b *testing.B) {
	g := newGate(newClock(nil), time.Minute)
	g.arm(true)
	for b.Loop() {
		g.wait(context.Background())
	}
}
