package drill

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/register"
)

// filled makes a side whose cells hold n requests each, hits of them answered.
func filled(o *Options, cells int, n, hits int64) *side {
	s := newSide(o, nil, time.Now(), time.Second)
	for i := range cells {
		c := &cell{requests: n, reads: n, hits: hits, origin: n - hits}
		c.latency.Record(time.Millisecond)
		s.cells[i].Store(c)
	}
	return s
}

func reportOptions(t *testing.T) *Options {
	o := &Options{Binary: "x", Before: 4 * time.Second, Duration: 10 * time.Second, BinRequests: 250, Keys: 100, Workers: 4}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestBinsHoldEnoughRequestsOfBothSides(t *testing.T) {
	o := reportOptions(t)
	r := &run{o: o, main: filled(o, 14, 100, 90), control: filled(o, 14, 100, 90)}
	r.main.cells[5].Load().requests = 10 // an outage: the bin becomes longer
	bins := r.bins(4, 14)
	var sum int64
	at := 4.0
	for _, b := range bins {
		if b.From != at {
			t.Errorf("a bin begins at %v, the one before ended at %v", b.From, at)
		}
		at = b.To
		if b.Fault.Requests < 250 || b.Control.Requests < 250 {
			t.Errorf("bin from %v to %v has %d and %d requests, want at least 250", b.From, b.To, b.Fault.Requests, b.Control.Requests)
		}
		sum += b.Fault.Requests
	}
	if at != 14 || sum != 910 {
		t.Errorf("the bins end at %v with %d requests, want 14 and 910", at, sum)
	}
	if few := r.bins(0, 1); len(few) != 1 || few[0].Fault.Requests != 100 {
		t.Errorf("too few requests for a bin are one bin: %+v", few)
	}
}

func TestSummaryFindsTheWorstBin(t *testing.T) {
	o := reportOptions(t)
	r := &run{o: o, main: filled(o, 14, 300, 270), control: filled(o, 14, 300, 270), times: map[string][]time.Duration{}}
	dip := r.main.cells[7].Load()
	dip.hits, dip.origin, dip.readErrors = 240, 60, 5
	dip.latency.Record(30 * time.Millisecond)
	r.main.sys, r.control.sys = &sharded{fleet: &fleet{}}, &sharded{fleet: &fleet{}}
	r.main.clients.Store(&[]Driver{})
	r.slots.times = []time.Duration{300 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}
	r.took("out", 12*time.Second)
	rep := r.report()
	s := rep.Summary
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 0.01*max(1, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("hit ratio before", s.HitBefore, 0.9)
	near("worst drop", s.WorstDrop, 10)
	near("mean drop", s.MeanDrop, 1)
	near("noise", s.NoiseDrop, 0)
	near("origin peak", s.OriginPeak, 2)
	near("p99 ratio", s.P99Ratio, 30)
	near("slot p50", s.SlotP50, 200)
	near("slot p99", s.SlotP99, 300)
	if s.Errors != 5 || s.ControlErrs != 0 || len(rep.Bins) != 14 || len(rep.Curve) != 14 {
		t.Errorf("%d errors, %d of the control, %d bins, %d points", s.Errors, s.ControlErrs, len(rep.Bins), len(rep.Curve))
	}
	if _, err := json.Marshal(rep); err != nil {
		t.Error(err)
	}
}

// A fault that took longer than the load was to last was in no bin, and seemed to cost
// nothing.
func TestLateFaultSeemedToCostNothing(t *testing.T) {
	o := reportOptions(t)
	for _, tc := range []struct {
		ended time.Duration // the script
		bins  int
		drop  float64
	}{{5 * time.Second, 14, 0}, {16 * time.Second, 17, 40}} {
		r := &run{o: o, main: filled(o, 20, 300, 270), control: filled(o, 20, 300, 270), times: map[string][]time.Duration{}}
		r.main.cells[16].Load().hits = 150
		r.main.sys, r.control.sys = &sharded{fleet: &fleet{}}, &sharded{fleet: &fleet{}}
		r.main.clients.Store(&[]Driver{})
		r.until = r.lasts(tc.ended)
		if rep := r.report(); len(rep.Bins) != tc.bins || math.Abs(rep.Summary.WorstDrop-tc.drop) > 0.01 {
			t.Errorf("ended after %v: %d bins, worst drop %.2f points, want %d and %.2f", tc.ended, len(rep.Bins), rep.Summary.WorstDrop, tc.bins, tc.drop)
		}
	}
}

// Every limit must be able to fail.
func TestJudge(t *testing.T) {
	good := Summary{WorstDrop: 0.2, OriginPeak: 1.1, P99Ratio: 1.5, SlotP99: 100, Took: map[string]Seconds{"out": {Max: 10}, "heal": {Max: 5}}}
	limits := Limits{HitDrop: 0.3, OriginPeak: 1.2, P99Ratio: 2, SlotP99: 150 * time.Millisecond, Out: 15 * time.Second, Heal: 12 * time.Second, NoOverdue: true}
	tests := []struct {
		want  string // "": passed
		spoil func(r *Report)
	}{
		{"", func(*Report) {}},
		{"hit ratio 0.31 points", func(r *Report) { r.Summary.WorstDrop = 0.31 }},
		{"origin load 1.30", func(r *Report) { r.Summary.OriginPeak = 1.3 }},
		{"p99 2.10 times", func(r *Report) { r.Summary.P99Ratio = 2.1 }},
		{"first success of a slot after 151 ms", func(r *Report) { r.Summary.SlotP99 = 151 }},
		{"1 without one", func(r *Report) { r.Summary.NoAnswer = 1 }},
		{"out after 16.0 s", func(r *Report) { r.Summary.Took["out"] = Seconds{Max: 16} }},
		{"all agreed 13.0 s", func(r *Report) { r.Summary.Took["heal"] = Seconds{Max: 13} }},
		{"2 calls took longer", func(r *Report) { r.Summary.Overdue = 2 }},
		{"3 answers that are never legal", func(r *Report) { r.Summary.Check.Stale = 3 }},
		{"1 answers of the control", func(r *Report) { r.Summary.Control.Invented = 1 }},
		{"", func(r *Report) { r.Target = TargetModulo; r.Summary.Check.Stale = 3 }},
	}
	for _, tt := range tests {
		r := &Report{Target: TargetRing, Summary: good}
		r.Summary.Took = map[string]Seconds{"out": {Max: 10}, "heal": {Max: 5}}
		tt.spoil(r)
		r.Judge(limits)
		switch {
		case tt.want == "" && len(r.Missed) > 0:
			t.Errorf("missed %q, want nothing", r.Missed)
		case tt.want != "" && (len(r.Missed) != 1 || !strings.Contains(r.Missed[0], tt.want)):
			t.Errorf("missed %q, want %q", r.Missed, tt.want)
		}
		if r.Judge(Limits{}); len(r.Missed) > 0 && !strings.Contains(tt.want, "answers") {
			t.Errorf("without limits missed %q", r.Missed)
		}
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	o := reportOptions(t)
	r := &run{o: o, main: filled(o, 14, 300, 240), control: filled(o, 14, 300, 270), events: []Event{{4, `a <b> & "c"`}}}
	r.main.sys, r.control.sys = &sharded{fleet: &fleet{}}, &sharded{fleet: &fleet{}}
	r.main.clients.Store(&[]Driver{})
	rep := r.report()
	rep.Summary.Check = register.Summary{Stale: 1, Examples: []string{"1.000 s: stale: key <x>"}}
	rep.Judge(Limits{})
	var b bytes.Buffer
	if err := WriteHTML(&b, []*Report{rep}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"<svg", "polyline", "prefers-color-scheme: dark", "80.00 %", "-10.00", "missed: 1 answers", "a &lt;b&gt; &amp; &#34;c&#34;", "key &lt;x&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"http:", "https:", "src=", "@import", "url(", "NaN", "Inf", "<no value>", "<script"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// A difference that rounds to nothing has no sign.
func TestPoints(t *testing.T) {
	for drop, want := range map[float64]string{0: "0.00", 0.004: "0.00", -0.004: "0.00", 0.006: "-0.01", -1.5: "+1.50", 25: "-25.00"} {
		if got := Points(drop); got != want {
			t.Errorf("a drop of %v is %q, want %q", drop, got, want)
		}
	}
}

func TestScale(t *testing.T) {
	for _, r := range [][2]float64{{0, 1}, {0.9, 0.97}, {5, 5}, {0, 12345}, {99.1, 99.9}, {0, 0}} {
		low, high, step := scale(r[0], r[1])
		if low > r[0] || high < r[1] || step <= 0 || (high-low)/step > 12 || high <= low {
			t.Errorf("%v: from %v to %v by %v", r, low, high, step)
		}
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		want string // "": valid
	}{
		{"defaults", Options{Binary: "x"}, ""},
		{"quick", Options{Binary: "x", Quick: true, Scenario: "mixed"}, ""},
		{"no scenario of that name", Options{Binary: "x", Scenario: "earthquake"}, "choose one of"},
		{"no target of that name", Options{Binary: "x", Target: "y"}, "choose one of"},
		{"a faulty network for Redis", Options{Target: TargetRedis, Scenario: "partition"}, "does not run on"},
		{"nobody would be left", Options{Binary: "x", Scenario: "kill", Nodes: 2, Faults: 2}, "one must stay"},
		{"too many would join", Options{Binary: "x", Nodes: 10, Faults: 7}, "above the limit"},
		{"replicas of separate nodes", Options{Binary: "x", Target: TargetKetama, Replicas: 1}, "no replicas"},
		{"a value without room for the header", Options{Binary: "x", Value: 10}, "value of 10 bytes"},
		{"no executable", Options{}, "not named"},
		{"several at once", Options{Binary: "x", Nodes: 99, Theta: 2}, "99 nodes"},
	}
	for _, tt := range tests {
		err := tt.o.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if err := (Options{Binary: "x", Nodes: 99, Theta: 2}).Validate(); !strings.Contains(err.Error(), "Zipf") {
		t.Errorf("not all faults at once: %v", err)
	}
}

func TestBothSidesGetTheSameRequests(t *testing.T) {
	o := reportOptions(t)
	zipf := testZipf(t, o)
	a, b, other := newSequence(o, zipf, 3), newSequence(o, zipf, 3), newSequence(o, zipf, 4)
	kinds, same := map[kind]int{}, 0
	for range 10_000 {
		x := a.next()
		kinds[x.kind]++
		if y := b.next(); x != y {
			t.Fatalf("%+v and %+v", x, y)
		}
		if x == other.next() {
			same++
		}
		if x.key < 0 || x.key >= o.Keys+probeKeys {
			t.Fatalf("key %d", x.key)
		}
	}
	if len(kinds) != 4 || kinds[read] < 8500 || same > 5000 {
		t.Errorf("kinds %v, %d requests equal another worker's", kinds, same)
	}
}
