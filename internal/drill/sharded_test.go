package drill

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/workload"
)

func testZipf(t *testing.T, o *Options) *workload.Zipf {
	t.Helper()
	z, err := workload.NewZipf(o.Seed, o.Keys, o.Theta)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// What a client that shards by itself loses when a node is added: with modulo most
// keys move, with ketama about the new node's share.
func TestShardingMovesKeys(t *testing.T) {
	addrs := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("127.0.0.1:%d", 7001+i))
		}
		return out
	}
	for _, tt := range []struct {
		name      string
		choose    func([]string) func(string) int
		low, high float64
	}{{"modulo", modulo, 0.72, 0.78}, {"ketama", ketama, 0.18, 0.32}} {
		three, four := tt.choose(addrs(3)), tt.choose(addrs(4))
		moved, counts := 0, make([]int, 3)
		const keys = 20_000
		for i := range keys {
			k := workload.TraceKey(uint64(i))
			counts[three(k)]++
			if three(k) != four(k) {
				moved++
				if tt.name == "ketama" && four(k) != 3 {
					t.Fatalf("ketama moved %s between old nodes", k)
				}
			}
		}
		if share := float64(moved) / keys; share < tt.low || share > tt.high {
			t.Errorf("%s moved %.3f of the keys, want %.2f to %.2f", tt.name, share, tt.low, tt.high)
		}
		for n, c := range counts {
			if c < keys/5 {
				t.Errorf("%s gives node %d only %d of %d keys", tt.name, n, c, keys)
			}
		}
	}
}

// faultyDriver fails while told to.
type faultyDriver struct {
	Driver
	err   error
	calls int
}

func (d *faultyDriver) Get(context.Context, string) ([]byte, bool, error) {
	d.calls++
	return nil, false, d.err
}

func (d *faultyDriver) Close() error { return nil }

func shards(d Driver) *shardDriver { return d.(*shardDriver) }

func TestShardingClientLeavesFailingNodesOut(t *testing.T) {
	drivers := map[string]*faultyDriver{}
	o := &Options{Open: func(_ context.Context, seeds []string) (Driver, error) {
		d := &faultyDriver{}
		drivers[seeds[0]] = d
		return d, nil
	}}
	s := &sharded{fleet: &fleet{o: o}, choose: modulo}
	s.view.Store(&[]string{"a", "b"})
	d, err := s.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := "k"
	for i := 0; modulo([]string{"a", "b"})(key) != 0; i++ {
		key = fmt.Sprint("k", i)
	}
	get := func() error { _, _, err := d.Get(t.Context(), key); return err }
	broken := errors.New("broken")
	drivers["a"].err = broken
	for range 2 * ejectAfter { // while keys are stored
		if err := get(); !errors.Is(err, broken) {
			t.Fatalf("error %v while keys are stored", err)
		}
	}
	drivers["a"].calls, shards(d).clients["a"].failures = 0, 0
	if err := s.settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range ejectAfter {
		if err := get(); !errors.Is(err, broken) {
			t.Fatalf("error %v before the node is left out", err)
		}
	}
	if err := get(); err != nil || drivers["b"].calls != 1 {
		t.Errorf("error %v, %d calls of the other node", err, drivers["b"].calls)
	}
	drivers["a"].err = nil
	shards(d).clients["a"].out = time.Now().Add(-time.Second)
	shards(d).until = time.Now().Add(-time.Millisecond)
	if err := get(); err != nil || drivers["a"].calls != ejectAfter+1 {
		t.Errorf("error %v, %d calls: the node was not tried again", err, drivers["a"].calls)
	}
}
