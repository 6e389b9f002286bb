package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/ringcache/ringcache/internal/invariant"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is set by RINGCACHE_LONG=1: random tests run 50 times as long.
func long() bool { return os.Getenv("RINGCACHE_LONG") != "" }

// modelSteps is how many operations TestModel runs: RINGCACHE_MODEL_STEPS, or
// what a run of all tests has time for.
func modelSteps(t *testing.T) int {
	steps := 200_000
	if testing.Short() || raceEnabled || invariant.Enabled {
		steps = 35_000
	}
	if long() {
		steps = 10_000_000
	}
	if s := os.Getenv("RINGCACHE_MODEL_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("RINGCACHE_MODEL_STEPS is %q", s)
		}
		steps = n
	}
	return steps
}

// modelSeed is RINGCACHE_SEED. A run of all tests has the same histories each time,
// longer ones have others each time.
func modelSeed() uint64 {
	if s, err := strconv.ParseUint(os.Getenv("RINGCACHE_SEED"), 10, 64); err == nil {
		return s
	}
	if long() || os.Getenv("RINGCACHE_MODEL_STEPS") != "" {
		return rand.Uint64()
	}
	return 1
}

// TestModel compares random histories with the model.
func TestModel(t *testing.T) {
	steps := modelSteps(t)
	each := min(20_000, max(1, steps/(2*len(shapes))))
	seed, done := modelSeed(), 0
	for i := 0; done < steps; i++ {
		sh := shapes[turns[i%len(turns)]]
		if err := history(sh, seed, uint64(i), each); err != nil {
			t.Fatalf("RINGCACHE_SEED=%d, history %d, %+v: %v", seed, i, sh, err)
		}
		done += each
	}
	t.Logf("%d operations", done)
}

func history(sh shape, seed, number uint64, steps int) error {
	return historyIn("", sh, seed, number, steps)
}

// historyIn keeps the engine in a file, if it is given one, and restarts it now
// and then.
func historyIn(file string, sh shape, seed, number uint64, steps int) error {
	r := rand.New(rand.NewPCG(seed, number))
	m, err := newModelIn(file, sh, r.Uint64())
	if err != nil {
		return err
	}
	defer func() { m.e.CloseWith(CloseOptions{Discard: true}) }()
	tp := &tape{b: make([]byte, 32)}
	for i := range steps {
		tp.at = 0
		for j := range tp.b {
			tp.b[j] = byte(r.Uint32())
		}
		if err := m.step(tp); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if file != "" && i%701 == 700 {
			if err := m.restart(int64(r.IntN(60) - 20)); err != nil {
				return fmt.Errorf("restart after step %d: %w", i, err)
			}
		}
		if i%997 == 0 {
			if err := m.compare(); err != nil {
				return fmt.Errorf("after step %d: %w", i, err)
			}
		}
		if i%4999 == 0 {
			if err := m.sweepAll(); err != nil {
				return fmt.Errorf("after step %d: %w", i, err)
			}
		}
	}
	if err := m.sweepAll(); err != nil {
		return err
	}
	return m.compare()
}

// FuzzEngine runs the model with operations chosen by the fuzzer.
func FuzzEngine(f *testing.F) {
	f.Fuzz(func(t *testing.T, kind uint8, ops []byte) {
		m, err := newModel(shapes[int(kind)%len(shapes)], 1)
		if err != nil {
			t.Fatal(err)
		}
		defer m.e.Close()
		for tp := (&tape{b: ops}); !tp.done(); {
			if err := m.step(tp); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.sweepAll(); err != nil {
			t.Fatal(err)
		}
		if err := m.compare(); err != nil {
			t.Fatal(err)
		}
	})
}
