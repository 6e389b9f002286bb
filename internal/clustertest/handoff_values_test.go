package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/resp"
)

// TestValuesWhileNodesComeAndGo: clients write, delete and read while nodes join,
// leave, and are killed and replaced before anybody notices. A read finds the latest
// value that was acknowledged, or none.
func TestValuesWhileNodesComeAndGo(t *testing.T) {
	seeds, rounds := uint64(6), 24
	if testing.Short() {
		seeds, rounds = 1, 12
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { valuesWhileNodesComeAndGo(t, seed, rounds, nil) })
	}
}

func valuesWhileNodesComeAndGo(t *testing.T, seed uint64, rounds int, change func(*node.Options)) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Change = change
		s.Add("a", "a")
		r := s.routed(t)
		defer r.Close()
		rnd := rand.New(rand.NewPCG(seed, 2))
		latest := map[string]string{}
		found, version := 0, 0
		// do executes a command; a write that fails may have been executed.
		do := func(write bool, value string, args ...string) {
			k := args[1]
			var raw [][]byte
			for _, a := range args {
				raw = append(raw, []byte(a))
			}
			v, err := r.Do(t.Context(), raw...)
			failed := err != nil || v.Kind == resp.Error
			want, known := latest[k]
			if got := v.Text(); !failed && args[0] != "SET" && args[0] != "DEL" && got != "" {
				if known && got != want {
					t.Fatalf("%q gives %q, the latest is %q", args, got, want)
				}
				found++
			}
			switch {
			case write && failed:
				delete(latest, k)
			case write:
				latest[k] = value
			}
		}
		use := func(n int) {
			for range n {
				k := fmt.Sprint("key", rnd.IntN(300))
				version++
				switch next := fmt.Sprint(version); rnd.IntN(12) {
				case 0, 1:
					do(true, next, "SET", k, next)
				case 2:
					do(true, "", "DEL", k)
				case 3, 4: // reads what is there, and writes
					do(true, next, "GETSET", k, next)
				default:
					do(false, "", "GET", k)
				}
			}
		}
		use(500)
		names := []string{"b", "c", "d"}
		alive := map[string]bool{}
		for round := range rounds {
			name := names[rnd.IntN(len(names))]
			done := make(chan error, 1)
			switch {
			case !alive[name]:
				n := s.Open(name, nil, "a:7001")
				n.Node.PauseTransfer(rnd.IntN(2) == 0)
				alive[name] = true
				go func() { done <- n.Node.Start(context.Background()) }()
			case rnd.IntN(2) == 0:
				n := s.Get(name)
				alive[name] = false
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
					defer cancel()
					// What the time does not suffice for is lost.
					_ = n.Node.Drain(ctx)
					done <- nil
				}()
			default: // restart faster than detection
				s.Kill(name)
				n := s.Open(name, nil, "a:7001")
				go func() { done <- n.Node.Start(context.Background()) }()
			}
			for waiting := true; waiting; {
				use(20)
				select {
				case err := <-done:
					if err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
					waiting = false
				default:
				}
			}
			if !alive[name] {
				s.Kill(name)
			}
			use(100)
		}
		if found == 0 {
			t.Fatal("no read found anything")
		}
		t.Logf("%d reads found their key", found)
	})
}
