package ringcache

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// board is a registry in the process.
type board struct {
	mu     sync.Mutex
	listed map[string]int
	calls  []time.Time
	fail   int // so many calls fail at once
}

func (b *board) Seeds(context.Context) (out []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for addr, n := range b.listed {
		if n > 0 {
			out = append(out, addr)
		}
	}
	return out, nil
}

func (b *board) change(addr string, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed[addr] += by
}

func (b *board) Register(ctx context.Context, addr string) error {
	b.mu.Lock()
	b.calls = append(b.calls, time.Now())
	if b.fail > 0 {
		b.fail--
		b.mu.Unlock()
		return errors.New("the board is full")
	}
	b.mu.Unlock()
	b.change(addr, 1)
	<-ctx.Done()
	b.change(addr, -1)
	return nil
}

// Two nodes know of each other by the board alone; each is off it once it is closed.
func TestRegistrarListsTheNode(t *testing.T) {
	b := &board{listed: map[string]int{}}
	open := func() *Node {
		n, err := Open(Options{Addr: "127.0.0.1:0", Discovery: b, IO: "std", MaxMemory: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := open()
	defer first.Close()
	waitFor(t, "the first node is not listed", func() bool { s, _ := b.Seeds(t.Context()); return len(s) == 1 && s[0] == first.Addr() })
	second := open()
	defer second.Close()
	waitFor(t, "the second node has not found the first", func() bool {
		return strings.Contains(second.ClusterInfo(), "cluster_known_nodes:2") && strings.Contains(first.ClusterInfo(), "cluster_known_nodes:2")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := second.Drain(ctx); err != nil {
		t.Error(err)
	}
	if s, _ := b.Seeds(ctx); len(s) != 1 || s[0] != first.Addr() {
		t.Errorf("after the drain the board has %q", s)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if s, _ := b.Seeds(ctx); len(s) != 0 {
		t.Errorf("after the end the board has %q", s)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}

// A registry that refuses is asked again, less and less often, and every 30 s at the
// end.
func TestRegistrationIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{listed: map[string]int{}, fail: 8}
		began := time.Now()
		reg := register(b, "a:1", slog.New(slog.NewTextHandler(io.Discard, nil)))
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if s, _ := b.Seeds(t.Context()); len(s) != 1 {
			t.Errorf("listed %q after %d calls", s, len(b.calls))
		}
		var at []float64
		for _, c := range b.calls {
			at = append(at, c.Sub(began).Seconds())
		}
		want := []float64{0, 1, 3, 7, 15, 31, 61, 91, 121}
		if len(at) != len(want) || at[3] != want[3] || at[8] != want[8] {
			t.Errorf("called after %v s, want %v", at, want)
		}
		reg.end()
		reg.end()
		if s, _ := b.Seeds(t.Context()); len(s) != 0 {
			t.Errorf("listed %q after the end", s)
		}
		var none *registration
		none.end()
		if register(seeds{}, "a:1", nil) != nil {
			t.Error("a Discovery that lists nobody is a registration")
		}
	})
}
