package workload

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

// mapFleet is a cache of n maps behind modulo routing, without any network.
type mapFleet struct {
	mu     sync.Mutex
	nodes  []map[string][]byte
	reads  []uint64
	broken error
	wrong  bool
}

func newMapFleet(n int) *mapFleet {
	f := &mapFleet{}
	for range n {
		f.add()
	}
	return f
}

func (f *mapFleet) add() {
	f.nodes = append(f.nodes, map[string][]byte{})
	f.reads = append(f.reads, 0)
}

func (f *mapFleet) node(key string) int {
	var h uint64
	for i := range len(key) {
		h = h*31 + uint64(key[i])
	}
	return int(mix(h) % uint64(len(f.nodes)))
}

func (f *mapFleet) Get(_ context.Context, key string) ([]byte, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil, false, f.broken
	}
	n := f.node(key)
	f.reads[n]++
	v, ok := f.nodes[n][key]
	if ok && f.wrong {
		v = append([]byte{^v[0]}, v[1:]...)
	}
	return v, ok, nil
}

func (f *mapFleet) Set(_ context.Context, key string, value []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[f.node(key)][key] = value
	return nil
}

func (f *mapFleet) Join(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add()
	return nil
}

func (f *mapFleet) Kill(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes, f.reads = f.nodes[:len(f.nodes)-1], f.reads[:len(f.reads)-1]
	return nil
}

func (f *mapFleet) Loads(context.Context) ([]NodeLoad, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []NodeLoad
	for i, r := range f.reads {
		out = append(out, NodeLoad{Node: string(rune('a' + i)), Reads: r, Ideal: 1 / float64(len(f.reads))})
	}
	return out, nil
}

// loopSource repeats objects 0..n-1.
type loopSource struct{ i, n uint64 }

func (s *loopSource) Next() (Access, error) {
	s.i++
	return Access{Key: (s.i - 1) % s.n}, nil
}
func (s *loopSource) Close() error { return nil }

func loop(n uint64) func() (Source, error) {
	return func() (Source, error) { return &loopSource{n: n}, nil }
}

func TestReplayCountsEveryRequestOnce(t *testing.T) {
	f := newMapFleet(3)
	phases, err := Replay(t.Context(), ReplayOptions{
		Open: loop(1000), Requests: 40_000, Cache: f, Fleet: f, JoinAt: 0.5, KillAt: 0.75, Bin: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(phases) != 3 {
		t.Fatalf("%d phases, want start, after join, after kill", len(phases))
	}
	want := []int64{20_000, 10_000, 10_000}
	for i, p := range phases {
		if p.Requests != want[i] || p.Hits+p.OriginLoads != p.Requests || p.Errors != 0 {
			t.Errorf("%s: %d requests, %d hits, %d loads, %d errors; want %d requests", p.Name, p.Requests, p.Hits, p.OriginLoads, p.Errors, want[i])
		}
		var share float64
		for _, n := range p.Nodes {
			share += n.Share
		}
		if math.Abs(share-1) > 1e-9 {
			t.Errorf("%s: shares add up to %g", p.Name, share)
		}
	}
	if phases[0].OriginLoads != 1000 {
		t.Errorf("start: %d origin loads, want each of the 1000 objects once", phases[0].OriginLoads)
	}
	// Modulo routing from 3 to 4 nodes moves three quarters of the keys.
	if p := phases[1]; p.FirstBin > 0.35 || p.FirstBin < 0.15 {
		t.Errorf("after join: first bin %.3f, want about a quarter", p.FirstBin)
	}
	if phases[1].WorstBin > phases[1].FirstBin {
		t.Errorf("after join: worst bin %.3f is above the first %.3f", phases[1].WorstBin, phases[1].FirstBin)
	}
}

func TestReplayCountsAnErrorAsAMiss(t *testing.T) {
	f := newMapFleet(1)
	f.broken = errors.New("down")
	phases, err := Replay(t.Context(), ReplayOptions{Open: loop(10), Requests: 100, Cache: f})
	if err != nil {
		t.Fatal(err)
	}
	if p := phases[0]; p.Errors != 100 || p.OriginLoads != 100 || p.Hits != 0 {
		t.Errorf("got %+v, want 100 errors and 100 origin loads", p)
	}
}

func TestReplayStopsAtAWrongValue(t *testing.T) {
	f := newMapFleet(1)
	f.wrong = true
	_, err := Replay(t.Context(), ReplayOptions{Open: loop(10), Requests: 1_000_000, Cache: f})
	if !errors.Is(err, ErrWrongValue) {
		t.Fatalf("got %v, want ErrWrongValue", err)
	}
}

func TestReplayRefusesBadOptionsTogether(t *testing.T) {
	_, err := Replay(t.Context(), ReplayOptions{Open: loop(1), JoinAt: 1.5, KillAt: 0.5})
	for _, want := range []string{"no requests", "join-at is 1.5", "kill-at needs nodes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not contain %q", err, want)
		}
	}
}

func TestReplayOfAShortTraceSaysSo(t *testing.T) {
	path := write(t, "ids.txt", []byte("1\n2\n"))
	_, err := Replay(t.Context(), ReplayOptions{
		Open:     func() (Source, error) { return OpenTrace(path, "ids") },
		Requests: 5, Cache: newMapFleet(1),
	})
	if err == nil || !strings.Contains(err.Error(), "ends after 2 requests, 5 were asked for") {
		t.Fatalf("got %v", err)
	}
}

func TestReplayEndsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Replay(ctx, ReplayOptions{
		Open: loop(10), Requests: math.MaxInt32, Bin: 1 << 20, Cache: newMapFleet(1),
		Progress: func(done, _ int64, _ string, _ float64) { cancel() },
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
}

func TestHistogramQuantilesAreWithinOneBucket(t *testing.T) {
	var h Histogram
	for i := 1; i <= 100_000; i++ {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		want := time.Duration(q*100_000) * time.Microsecond
		if got := h.Quantile(q); got < want || float64(got) > float64(want)*(1+1.0/32)+1 {
			t.Errorf("quantile %g: got %v, want %v to 1/32 above", q, got, want)
		}
	}
	h.Record(time.Hour)
	if h.Quantile(1) > time.Hour {
		t.Error("the greatest quantile is above the greatest latency")
	}
}

func TestHistogramBucketsCoverWithoutGaps(t *testing.T) {
	prev := -1
	for _, v := range []time.Duration{0, 1, 31, 32, 33, 63, 64, 65, 1000, 1 << 20, 1<<36 - 1, 1 << 40} {
		b := histBucket(v)
		if b < prev {
			t.Errorf("%d falls into bucket %d, below %d", v, b, prev)
		}
		if v < 1<<36 && histUpper(b) < v {
			t.Errorf("%d falls into bucket %d, which ends at %d", v, b, histUpper(b))
		}
		prev = b
	}
}

func TestZipfFollowsItsLaw(t *testing.T) {
	const n, draws = 10_000, 500_000
	z, err := NewZipf(1, n, 0.99)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, n)
	for range draws {
		counts[z.Next()]++
	}
	var norm float64
	for i := range n {
		norm += 1 / math.Pow(float64(i+1), 0.99)
	}
	for _, i := range []int{0, 1} { // these two are exact in Gray's method
		want := draws / math.Pow(float64(i+1), 0.99) / norm
		if got := float64(counts[i]); math.Abs(got-want) > 0.03*want {
			t.Errorf("item %d: drawn %.0f times, want %.0f", i, got, want)
		}
	}
	top := 0
	for i := range n / 100 {
		top += counts[i]
	}
	var want float64
	for i := range n / 100 {
		want += 1 / math.Pow(float64(i+1), 0.99) / norm
	}
	if got := float64(top) / draws; math.Abs(got-want) > 0.02 {
		t.Errorf("the hottest 1 %% got %.3f of the draws, want %.3f", got, want)
	}
	if _, err := NewZipf(1, 10, 1.2); err == nil {
		t.Error("theta 1.2 was taken")
	}
}
