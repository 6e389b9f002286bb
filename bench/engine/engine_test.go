package main

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// TestRun measures all caches for moments only.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-items", "5000", "-gc-items", "5000", "-time", "2ms", "-rounds", "1", "-values", "64", "-threads", "2", "-dists", "zipf"}
	if err := run(append(args, "-o", "json"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Results struct {
			Speed []speed
			GC    []pause
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Results.Speed); n != 6*3 {
		t.Errorf("%d results of speed, want 6 caches with 3 mixes", n)
	}
	for _, s := range got.Results.Speed {
		if s.Ops <= 0 || s.Base <= 0 || s.Ratio <= 0 || s.Mix == "read" && s.Hits < 0.5 {
			t.Errorf("%+v", s)
		}
	}
	if n := len(got.Results.GC); n != 8 {
		t.Errorf("%d results of collections, want 7 caches and none", n)
	}
	for i, p := range got.Results.GC {
		if p.Forced <= 0 || i > 0 && p.Items < 4000 {
			t.Errorf("%+v", p)
		}
	}
	out.Reset()
	if err := run(append(args, "-caches", "ring-cache,otter", "-parts", "speed"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 75/25, zipf, 64 B, 2", "Million operations", "| otter"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{{"-caches", "none"}, {"-parts", "all"}, {"-mixes", "50/50"}, {"-dists", "x"}, {"-values", "0"},
		{"-threads", "-1"}, {"-rounds", "0"}, {"-o", "xml"}, {"-clock", "sun"}, {"-misses", "cry"}, {"-references", "stolen"}, {"-caches", "otter", "-parts", "speed"}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

// forgetful never has what is asked for.
type forgetful struct{ gets, sets int }

func (f *forgetful) Get([]byte, string) ([]byte, bool) { f.gets++; return nil, false }
func (f *forgetful) Set(string, []byte)                { f.sets++ }
func (f *forgetful) Len() int                          { return 0 }
func (f *forgetful) Sync()                             {}
func (f *forgetful) Close()                            {}

// Who misses a key stores it, unless the command line says otherwise.
func TestMissesStore(t *testing.T) {
	for list, want := range map[string]bool{"": true, "store": true, "nothing": false} {
		args := []string{"-caches", "ring-cache,otter"}
		if list != "" {
			args = append(args, "-misses", list)
		}
		o, err := parse(args, io.Discard, io.Discard)
		if err != nil || o.aside != want {
			t.Errorf("-misses %q: %v (%v), want %v", list, o.aside, err, want)
		}
		c := &forgetful{}
		sc := scenario{keys: makeKeys(10), order: []uint32{1, 2, 3}, mix: mix{"75/25", 1, 1}, threads: 1, time: time.Millisecond, clock: wallTime, aside: o.aside}
		s := sample(c, sc)
		writes := s.ops - s.reads
		if want {
			writes += s.reads
		}
		if s.reads == 0 || s.hits != 0 || int64(c.gets) != s.reads || int64(c.sets) != writes {
			t.Errorf("-misses %q: %+v, %d calls of Get and %d of Set", list, s, c.gets, c.sets)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 2}, 2}} {
		if got := median(tt.in); got != tt.want {
			t.Errorf("median(%v) = %v", tt.in, got)
		}
	}
}

func TestLongest(t *testing.T) {
	h := func(counts ...uint64) *metrics.Float64Histogram {
		return &metrics.Float64Histogram{Counts: counts, Buckets: []float64{0, 1, 2, 3}}
	}
	if got := longest(h(1, 0, 5), h(9, 1, 5)); got != 2 {
		t.Errorf("longest = %v, want the upper end of the second bucket", got)
	}
	if got := longest(h(1, 2, 3), h(1, 2, 3)); got != 0 {
		t.Errorf("longest of nothing = %v", got)
	}
}

// A cache that keeps references gets a value of its own with each write, unless the command
// line says otherwise; one that copies gets the caller's.
func TestReferencesOwnTheirValues(t *testing.T) {
	for list, want := range map[string]bool{"own": true, "shared": false} {
		o, err := parse([]string{"-caches", "ring-cache,otter", "-items", "1000", "-references", list}, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		value := []byte("value")
		keys := makeKeys(o.items)
		c, err := filled(o.kinds[1], o, keys, value)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := c.Get(nil, keys[1])
		b, ok := c.Get(nil, keys[2])
		if !ok || string(b) != "value" || (&a[0] != &b[0]) != want {
			t.Errorf("-references %s: %q and %q, values of their own: %v, want %v", list, a, b, &a[0] != &b[0], want)
		}
		c.Close()
	}
}
