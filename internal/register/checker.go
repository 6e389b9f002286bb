package register

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Verdict is what a read amounts to.
type Verdict uint8

// The verdicts. From Invented on they are violations, unless Excused counts them.
const (
	Absent      Verdict = iota // no value, which is always legal
	Legal                      // a value that may be returned
	Invented                   // a version that nobody wrote
	Mixed                      // a value of another key, or a torn one
	Stale                      // older than a write acknowledged before the read began
	Resurrected                // there after a delete acknowledged before the read began
	OverTTL                    // returned after its time to live
	CounterBack                // a counter that repeats a number or goes back
	verdicts
)

var verdictNames = [verdicts]string{"absent", "legal", "invented", "mixed", "stale", "resurrected", "over TTL", "counter back"}

// String names the verdict.
func (v Verdict) String() string { return verdictNames[v] }

// Bad tells whether the verdict is a violation.
func (v Verdict) Bad() bool { return v >= Invented && v < verdicts }

// excusable verdicts may follow from a crash or a partition.
func (v Verdict) excusable() bool { return v == Stale || v == Resurrected || v == CounterBack }

// maxExamples bounds the violations that are kept in full.
const maxExamples = 20

// Options configures a Checker.
type Options struct {
	Keys     int                         // registers, numbered from 0
	Counters int                         // counters, numbered from 0
	TTL      func(key int) time.Duration // of every value of a key, 0: none
	// Slack is by how much a value may outlive its TTL: what the clock of a
	// server rounds up. Call bounds how long an acknowledged write takes.
	Slack, Call time.Duration
	Name        func(key int) string // of a key in messages
}

// Checker holds the registers of a run and counts verdicts.
type Checker struct {
	o        Options
	regs     []register
	counters []counter
	excuses  excuses

	reads   atomic.Uint64
	counts  [verdicts]atomic.Uint64
	excused atomic.Uint64
	oldest  atomic.Int64 // greatest age of an excused value, in nanoseconds
	zero    atomic.Int64 // instant from which messages count, in nanoseconds

	mu       sync.Mutex
	examples []string
}

// New makes a checker.
func New(o Options) *Checker {
	if o.TTL == nil {
		o.TTL = func(int) time.Duration { return 0 }
	}
	if o.Name == nil {
		o.Name = func(key int) string { return fmt.Sprint("number ", key) }
	}
	return &Checker{o: o, regs: make([]register, o.Keys), counters: make([]counter, o.Counters)}
}

// From makes the times in messages count from an instant on; the run's begin if it is
// not called.
func (c *Checker) From(zero time.Duration) { c.zero.Store(int64(zero)) }

// Begin starts a write of a key, or a delete. False: another one is under way,
// and this one must not be sent.
func (c *Checker) Begin(key int, del bool) (Write, bool) {
	version, ok := c.regs[key].begin()
	return Write{Key: key, Version: version, del: del}, ok
}

// End notes that a write was acknowledged, or that its fate is unknown.
func (c *Checker) End(w Write, acknowledged bool, now time.Duration) {
	c.regs[w.Key].end(w, acknowledged, now)
}

// Look begins a read.
func (c *Checker) Look(key int, now time.Duration) Mark { return c.regs[key].mark(key, now) }

// Judge ends a read that answered; a read that failed is not judged.
func (c *Checker) Judge(m Mark, value []byte, found bool) Verdict {
	c.reads.Add(1)
	if !found {
		c.counts[Absent].Add(1)
		return Absent
	}
	v, verdict, what := c.verdict(m, value)
	if verdict.excusable() && c.excuses.overlap(m.ackedAt, m.began) {
		c.excuse(m.began - v.At)
		return verdict
	}
	c.count(verdict, m.began, what)
	return verdict
}

// verdict compares a value with what was known when the read began and is known
// now.
func (c *Checker) verdict(m Mark, value []byte) (v Value, verdict Verdict, what string) {
	name := func() string { return "key " + c.o.Name(m.key) }
	v, err := Decode(value)
	if err != nil {
		return v, Mixed, fmt.Sprintf("%s: %d bytes: %v", name(), len(value), err)
	}
	if v.Key != uint64(m.key) {
		return v, Mixed, fmt.Sprintf("%s has the value of key number %d", name(), v.Key)
	}
	r := &c.regs[m.key]
	r.mu.Lock()
	issued, doubtful := r.issued, r.doubt.has(v.Version)
	r.mu.Unlock()
	switch {
	case v.Version == 0 || v.Version > issued:
		return v, Invented, fmt.Sprintf("%s has version %d, written were %d", name(), v.Version, issued)
	case doubtful:
		return v, Legal, ""
	case c.late(m, v):
		return v, OverTTL, fmt.Sprintf("%s has version %d, written %v ago with a TTL of %v",
			name(), v.Version, (m.began - v.At).Round(time.Millisecond), c.o.TTL(m.key))
	case v.Version >= m.least:
		return v, Legal, ""
	case m.deleted:
		return v, Resurrected, fmt.Sprintf("%s has version %d, written %v ago; delete %d was acknowledged %v before the read",
			name(), v.Version, (m.began - v.At).Round(time.Millisecond), m.acked, (m.began - m.ackedAt).Round(time.Millisecond))
	}
	return v, Stale, fmt.Sprintf("%s has version %d, written %v ago; version %d was acknowledged %v before the read",
		name(), v.Version, (m.began - v.At).Round(time.Millisecond), m.acked, (m.began - m.ackedAt).Round(time.Millisecond))
}

// late tells whether a value was returned by a read that began after its TTL.
func (c *Checker) late(m Mark, v Value) bool {
	ttl := c.o.TTL(m.key)
	if ttl == 0 {
		return false
	}
	latest := v.At + c.o.Call // when it was stored at the latest
	if v.Version == m.acked {
		latest = m.ackedAt
	}
	return m.began > latest+ttl+c.o.Slack
}

func (c *Checker) excuse(age time.Duration) {
	c.excused.Add(1)
	for {
		old := c.oldest.Load()
		if int64(age) <= old || c.oldest.CompareAndSwap(old, int64(age)) {
			return
		}
	}
}

func (c *Checker) count(v Verdict, at time.Duration, what string) {
	c.counts[v].Add(1)
	if !v.Bad() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.examples) < maxExamples {
		c.examples = append(c.examples, fmt.Sprintf("%.3f s: %v: %s", (at-time.Duration(c.zero.Load())).Seconds(), v, what))
	}
}

// Summary is what a checker has counted.
type Summary struct {
	Reads       uint64   `json:"checked_reads"` // reads that answered
	Values      uint64   `json:"values"`        // those among them that found one
	Counted     uint64   `json:"increments"`    // increments that answered
	Invented    uint64   `json:"invented"`
	Mixed       uint64   `json:"mixed"`
	Stale       uint64   `json:"stale"`
	Resurrected uint64   `json:"resurrected"`
	OverTTL     uint64   `json:"over_ttl"`
	CounterBack uint64   `json:"counter_back"`
	Excused     uint64   `json:"stale_after_crash"`       // old values that a crash or a partition explains
	ExcusedAge  float64  `json:"stale_after_crash_age_s"` // seconds since the oldest of them was written
	Examples    []string `json:"examples,omitempty"`
}

// Violations is the number of answers that are never legal.
func (s Summary) Violations() uint64 {
	return s.Invented + s.Mixed + s.Stale + s.Resurrected + s.OverTTL + s.CounterBack
}

// Summary returns the counts until now.
func (c *Checker) Summary() Summary {
	n := func(v Verdict) uint64 { return c.counts[v].Load() }
	s := Summary{
		Reads: c.reads.Load(), Counted: c.counted(), Invented: n(Invented), Mixed: n(Mixed), Stale: n(Stale),
		Resurrected: n(Resurrected), OverTTL: n(OverTTL), CounterBack: n(CounterBack),
		Excused: c.excused.Load(), ExcusedAge: time.Duration(c.oldest.Load()).Seconds(),
	}
	s.Values = s.Reads - n(Absent)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Examples = append([]string(nil), c.examples...)
	return s
}
