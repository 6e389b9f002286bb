package latency

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBucketsCoverEveryDurationWithoutGaps(t *testing.T) {
	for b := 1; b < buckets; b++ {
		low := highest(b-1) + 1
		if bucketOf(low) != b || bucketOf(highest(b)) != b {
			t.Fatalf("bucket %d holds %d to %d, but they fall into %d and %d", b, low, highest(b), bucketOf(low), bucketOf(highest(b)))
		}
		if width := highest(b) - low; low >= sub && width*sub > low {
			t.Errorf("bucket %d from %d is %d wide", b, low, width)
		}
	}
	if bucketOf(1<<63) != buckets-1 {
		t.Error("an endless duration has no bucket")
	}
}

func TestPercentilesAgainstSortedDurations(t *testing.T) {
	var h Histogram
	var all []time.Duration
	rng := rand.New(rand.NewPCG(1, 2))
	total := time.Duration(0)
	for range 10_000 {
		d := time.Duration(rng.ExpFloat64() * float64(20*time.Microsecond))
		h.Add(d, 1)
		all = append(all, d)
		total += d
	}
	slices.Sort(all)
	var s Summary
	s.Add(&h)
	if s.Count != 10_000 || s.Sum != total {
		t.Fatalf("%d works of %v, want 10000 of %v", s.Count, s.Sum, total)
	}
	for _, p := range []float64{0.01, 50, 99, 99.9, 100} {
		exact := all[max(0, int(p/100*10_000)-1)]
		got := s.Percentile(p)
		if got < exact || float64(got) > float64(exact)*(1+1.0/sub)+1 {
			t.Errorf("p%v is %v, want %v and up to an eighth more", p, got, exact)
		}
	}
	h.Reset()
	var none Summary
	none.Add(&h)
	if none.Count != 0 || none.Sum != 0 || none.Percentile(50) != 0 {
		t.Errorf("after Reset: %d, %v", none.Count, none.Sum)
	}
}

// The steps are Redis's: powers of two of 1.024 µs.
func TestStepsAreCumulative(t *testing.T) {
	var h Histogram
	h.Add(500*time.Nanosecond, 3)
	h.Add(1023*time.Nanosecond, 1)
	h.Add(1024*time.Nanosecond, 2)
	h.Add(51*time.Millisecond, 1)
	h.Add(time.Hour, 1)
	var s Summary
	s.Add(&h)
	if got := fmt.Sprint(s.Steps()); got != "[{1 4} {2 6} {67108 7} {68719476 8}]" {
		t.Error(got)
	}
}

func TestLogKeepsTheLatest(t *testing.T) {
	var l Log
	l.SetThreshold(10)
	l.SetMax(3)
	if l.Wants(9) || !l.Wants(10) {
		t.Error("the threshold is not the least value")
	}
	for i := range 5 {
		l.Add(Entry{Value: int64(i)})
	}
	ids := func(n int) (out []int64) {
		for _, e := range l.Latest(n) {
			out = append(out, e.ID)
		}
		return out
	}
	check := func(n int, want ...int64) {
		t.Helper()
		if got := ids(n); !slices.Equal(got, want) {
			t.Errorf("Latest(%d) is %v, want %v", n, got, want)
		}
	}
	check(-1, 4, 3, 2)
	check(2, 4, 3)
	l.SetMax(2)
	check(-1, 4, 3)
	l.SetMax(4)
	l.Add(Entry{})
	check(-1, 5, 4, 3)
	l.Reset()
	check(-1)
	l.SetMax(0)
	l.Add(Entry{})
	if l.Len() != 0 {
		t.Error("a log of no entries has one")
	}
	l.SetThreshold(-1)
	if l.Wants(1 << 60) {
		t.Error("-1 wants everything")
	}
}

func TestTrim(t *testing.T) {
	var many [][]byte
	for i := range 40 {
		many = append(many, []byte(fmt.Sprint(i)))
	}
	got := Trim(many, nil)
	if len(got) != 32 || got[30] != "30" || got[31] != "... (9 more arguments)" {
		t.Errorf("%d arguments, the last %q", len(got), got[len(got)-1])
	}
	if got := Trim(many[:32], nil); len(got) != 32 || got[31] != "31" {
		t.Errorf("32 arguments became %q", got)
	}
	long := bytes.Repeat([]byte("x"), 130)
	got = Trim([][]byte{[]byte("auth"), []byte("secret"), long}, func(i int) bool { return i == 1 })
	if got[1] != "(redacted)" || got[2] != strings.Repeat("x", 128)+"... (2 more bytes)" {
		t.Errorf("%q", got)
	}
}

func TestEvents(t *testing.T) {
	var e Events
	e.Add("command", 1, 100)
	if len(e.All()) != 0 {
		t.Error("nothing is kept without a threshold")
	}
	e.SetThreshold(10)
	e.Add("command", 1, 9)
	for i := range int64(200) {
		e.Add("command", 1000+i, 10+i%7)
	}
	e.Add("command", 1199, 50)
	e.Add("fast-command", 1100, 11)
	h := e.History("command")
	if len(h) != maxSamples || h[len(h)-1] != (Sample{1199, 50}) || h[0].At != 1040 {
		t.Errorf("%d samples from %v to %v", len(h), h[0], h[len(h)-1])
	}
	if got := fmt.Sprint(e.All()); got != "[{command {1199 50} 50} {fast-command {1100 11} 11}]" {
		t.Error(got)
	}
	f := e.Figures()
	if len(f) != 2 || f[0].Count != maxSamples || f[0].Greatest != 50 || f[0].Mean != 13 {
		t.Errorf("%+v", f)
	}
	g := e.Graph("command", 1200)
	lines := strings.Split(g, "\n")
	if lines[0] != "command - high 50 ms, low 10 ms (all time high 50 ms)" || !strings.HasSuffix(lines[2], " #") || len(lines[2]) != 80 || !strings.HasSuffix(lines[7], "1") {
		t.Errorf("%s", g)
	}
	if e.Graph("none", 0) != "" {
		t.Error("a picture of nothing")
	}
	if e.Reset("none") != 0 || e.Reset("command") != 1 || e.Reset() != 1 || len(e.All()) != 0 {
		t.Error("Reset")
	}
}
