package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ringcache/ringcache/internal/invariant"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is set by RINGCACHE_LONG=1: random tests run 50 times as long.
func long() bool { return os.Getenv("RINGCACHE_LONG") != "" }

// TestModel compares random histories with the model.
func TestModel(t *testing.T) {
	histories, steps := 64, 20_000
	switch {
	case long():
		histories *= 50
	case testing.Short() || raceEnabled || invariant.Enabled:
		histories, steps = 8, scale(steps)
	}
	seed := rand.Uint64()
	for i := range histories {
		shards := []int{1, 2, 4, 128}[i%4]
		if err := history(shards, seed, uint64(i), steps); err != nil {
			t.Fatalf("seed %d history %d, %d shards: %v", seed, i, shards, err)
		}
	}
}

func history(shards int, seed, number uint64, steps int) error {
	r := rand.New(rand.NewPCG(seed, number))
	m, err := newModel(shards, r.Uint64())
	if err != nil {
		return err
	}
	defer m.e.Close()
	tp := &tape{b: make([]byte, 32)}
	for i := range steps {
		tp.at = 0
		for j := range tp.b {
			tp.b[j] = byte(r.Uint32())
		}
		if err := m.step(tp); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if i%997 == 0 {
			if err := m.compare(); err != nil {
				return fmt.Errorf("after step %d: %w", i, err)
			}
		}
	}
	return m.compare()
}

// FuzzEngine runs the model with operations chosen by the fuzzer.
func FuzzEngine(f *testing.F) {
	f.Fuzz(func(t *testing.T, shardBits uint8, ops []byte) {
		m, err := newModel(1<<(shardBits%4), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer m.e.Close()
		for tp := (&tape{b: ops}); !tp.done(); {
			if err := m.step(tp); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.compare(); err != nil {
			t.Fatal(err)
		}
	})
}
