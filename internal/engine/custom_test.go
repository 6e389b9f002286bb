package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// loggedIn is a custom policy: sessions in class 1, which leaves last.
type loggedIn struct{ judged int }

func (p *loggedIn) Class(w Write) int {
	if bytes.HasPrefix(w.Key, []byte("session:")) {
		return 1
	}
	return 0
}
func (p *loggedIn) Score(g Segment) int64 { return int64(g.Class)<<48 - int64(g.Age) }
func (p *loggedIn) Judge(r Record) Verdict {
	p.judged++
	return Drop
}

// verdicts says the same about every entry.
type verdicts struct {
	class   int
	verdict Verdict
	panics  string
}

func (p verdicts) fail(where string) {
	if strings.Contains(p.panics, where) {
		panic("policy")
	}
}
func (p verdicts) Class(Write) int       { p.fail("class"); return p.class }
func (p verdicts) Score(g Segment) int64 { p.fail("score"); return -int64(g.Age) }
func (p verdicts) Judge(Record) Verdict  { p.fail("judge"); return p.verdict }

// fillOver writes n keys of each prefix, by turns, and returns how many of each
// are left.
func fillOver(t *testing.T, e *Engine, n, size int, prefixes ...string) map[string]int {
	t.Helper()
	for i := range n {
		for _, p := range prefixes {
			mustSet(t, e, slotFor(i), fmt.Appendf(nil, "%s%d", p, i), make([]byte, size), 0)
		}
	}
	left := map[string]int{}
	for i := range n {
		for _, p := range prefixes {
			if has(e, slotFor(i), fmt.Appendf(nil, "%s%d", p, i)) {
				left[p]++
			}
		}
	}
	verifyAll(t, e)
	return left
}

func TestCustomPolicyIsObeyed(t *testing.T) {
	for _, shards := range []int{1, 4} {
		p := &loggedIn{}
		e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: shards, Custom: p, Seed: 1})
		if e.Policy() != PolicyCustom {
			t.Fatalf("policy is %q", e.Policy())
		}
		left := fillOver(t, e, 500, 100, "session:")
		for i := range 20_000 { // guests, 2.3 MB of them
			mustSet(t, e, slotFor(i), fmt.Appendf(nil, "guest:%d", i), make([]byte, 100), 0)
		}
		for i := range 500 {
			if !has(e, slotFor(i), fmt.Appendf(nil, "session:%d", i)) {
				t.Fatalf("%d shards: session %d left before guests", shards, i)
			}
		}
		if st := e.Stats(); left["session:"] != 500 || p.judged == 0 || st.Evicted == 0 || st.Classes[0].Evicted != st.Evicted || st.Classes[1].Evicted != 0 {
			t.Fatalf("%d sessions, %d judged, %+v", left["session:"], p.judged, st.Classes)
		}
	}
}

// However a custom policy behaves, the limit holds, writes succeed, one write's
// work is bounded, and the counts are right.
func TestCustomPolicyCannotBreakTheBound(t *testing.T) {
	oneGoroutine(t)
	for _, p := range []verdicts{
		{verdict: Keep}, {class: 3, verdict: Demote}, {class: -5, verdict: Verdict(9)}, {class: 99, verdict: Keep},
		{panics: "judge"}, {panics: "score"}, {panics: "class", class: 2}, {panics: "class score judge"},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			e, c := newTest(t, Options{MaxBytes: 512 << 10, Shards: 2, Custom: p, Seed: 1})
			for i := range 6000 {
				deadline := int64(0)
				if i%3 == 0 {
					deadline = c.in(int64(1 + i%500))
				}
				mustSet(t, e, slotFor(i), keyFor(i), make([]byte, i*7%900), deadline)
				if !has(e, slotFor(i), keyFor(i)) {
					t.Fatalf("write %d is gone at once", i)
				}
				c.add(1)
			}
			verifyAll(t, e)
			st := e.Stats()
			var sum int64
			for _, k := range st.Classes {
				sum += k.Bytes
			}
			if st.ArenaBytes > 512<<10 || st.Evicted == 0 || sum != st.Bytes || (st.PolicyFaults > 0) != (p.panics != "") {
				t.Fatalf("%+v", st)
			}
			e.Flush()
			verifyAll(t, e)
		})
	}
}

func TestDemoteMovesToTheClassBelow(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 256 << 10, Shards: 1, Custom: demoter{}, Seed: 1})
	left := fillOver(t, e, 1500, 100, "a", "b")
	st := e.Stats()
	// All are written to class 2 and pass the others before they leave, unless
	// one write's work would be too much.
	if st.Classes[0].Evicted*2 < st.Evicted || st.Classes[0].Bytes == 0 || st.Classes[1].Bytes == 0 || left["b"] == 0 {
		t.Fatalf("%+v of %d evicted, left %v", st.Classes, st.Evicted, left)
	}
}

type demoter struct{}

func (demoter) Class(Write) int       { return 2 }
func (demoter) Score(g Segment) int64 { return -int64(g.Age) }
func (demoter) Judge(r Record) Verdict {
	if r.Class == 0 {
		return Drop
	}
	return Demote
}

func TestPriority(t *testing.T) {
	oneGoroutine(t)
	classes := []Class{{Prefix: "session:", Rank: 2}, {Prefix: "session:tmp:", Rank: -1}, {Prefix: "bulk:", Quota: 100 << 10}}
	for _, shards := range []int{1, 8} {
		e, _ := newTest(t, Options{MaxBytes: 1 << 20, Shards: shards, Policy: "priority", Classes: classes, Seed: 1})
		fillOver(t, e, 1000, 100, "session:")
		fillOver(t, e, 200, 100, "page:")
		fillOver(t, e, 20_000, 100, "bulk:")
		st := e.Stats()
		if st.Classes[0].Evicted != 0 || st.Classes[1].Evicted != 0 || st.Classes[3].Evicted != st.Evicted || st.Classes[3].Bytes < 500<<10 {
			t.Fatalf("%d shards: a class over its quota left others no place: %+v", shards, st.Classes)
		}
		if got := fillOver(t, e, 20_000, 100, "page:"); got["page:"] < 3000 {
			t.Fatalf("%d shards: %v", shards, got)
		}
		st = e.Stats()
		if st.Classes[1].Evicted != 0 || st.Classes[3].Bytes < 60<<10 {
			t.Fatalf("%d shards: the lower rank leaves first, down to the quota: %+v", shards, st.Classes)
		}
		fillOver(t, e, 3000, 100, "session:tmp:")
		st = e.Stats()
		if st.Classes[2].Bytes == 0 || st.Classes[2].Evicted == 0 || st.Classes[1].Evicted != 0 {
			t.Fatalf("%d shards: the longest prefix wins: %+v", shards, st.Classes)
		}
		var sum int64
		for _, c := range st.Classes {
			sum += c.Bytes
		}
		if sum != st.Bytes {
			t.Fatalf("classes have %d bytes, entries %d", sum, st.Bytes)
		}
	}
}

func TestClassFaults(t *testing.T) {
	many := make([]Class, MaxClasses)
	for i := range many {
		many[i].Prefix = fmt.Sprint(i, ":")
	}
	for _, o := range []Options{
		{Classes: many}, {Classes: []Class{{Prefix: "a"}, {Prefix: "a"}}}, {Classes: []Class{{Rank: MaxRank + 1}}},
		{Classes: []Class{{Quota: -1}}}, {Classes: []Class{{Prefix: strings.Repeat("x", maxPrefix+1)}}},
		{Classes: many[:1], Custom: verdicts{}}, {Policy: PolicyCustom},
	} {
		o.Now = newClock().now
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	e, _ := newTest(t, Options{Classes: many[:MaxClasses-1]})
	if err := e.SetPolicy(PolicyCustom); err == nil {
		t.Error("a policy that is not there was accepted")
	}
}
