package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/errs"
)

func lookup(t testing.TB, name []byte) *command.Command {
	t.Helper()
	cmd := command.Lookup(name)
	if cmd == nil {
		t.Fatalf("no command %q", name)
	}
	return cmd
}

func TestEmbeddedCalls(t *testing.T) {
	n := alone(t, func(o *Options) { o.Port = 0; o.Engine.MaxValue = 1024 })
	ctx := t.Context()
	if _, err := n.Get(ctx, "k"); !errors.Is(err, errs.ErrNotFound) {
		t.Fatalf("absent: %v", err)
	}
	if err := n.Set(ctx, "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	if v, err := n.Get(ctx, "k"); err != nil || string(v) != "v" {
		t.Fatalf("%q %v", v, err)
	}
	if err := n.Set(ctx, "big", make([]byte, 2000), 0); !errors.Is(err, errs.ErrTooLarge) {
		t.Fatalf("too large: %v", err)
	}
	if err := n.Set(ctx, "k", nil, -time.Second); !errors.Is(err, errs.ErrConfig) {
		t.Fatalf("negative TTL: %v", err)
	}
	if n1, err := n.Incr(ctx, "n", 5); err != nil || n1 != 5 {
		t.Fatalf("%d %v", n1, err)
	}
	if _, err := n.Incr(ctx, "k", 1); !errors.Is(err, errs.ErrNotInteger) {
		t.Fatalf("counter: %v", err)
	}
	if _, err := n.Incr(ctx, "n", math.MaxInt64); !errors.Is(err, errs.ErrNotInteger) {
		t.Fatalf("overflow: %v", err)
	}
	var keys []string
	for i := range 3 * maxBatch {
		k := fmt.Sprintf("many%d", i)
		keys = append(keys, k, "absent"+k)
		if err := n.Set(ctx, k, []byte(k), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	found, err := n.GetMany(ctx, keys...)
	if err != nil || len(found) != 3*maxBatch || string(found["many7"]) != "many7" {
		t.Fatalf("%d found, %v", len(found), err)
	}
	if ok, err := n.Delete(ctx, "k"); !ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	if ok, err := n.Delete(ctx, "k"); ok || err != nil {
		t.Fatalf("second: %v %v", ok, err)
	}
	if err := n.Touch(ctx, "k", time.Second); !errors.Is(err, errs.ErrNotFound) {
		t.Fatalf("touch of an absent key: %v", err)
	}
	if err := n.Touch(ctx, "many1", 0); err != nil {
		t.Fatalf("touch: %v", err)
	}
	if err := n.Touch(ctx, "many1", 0); err != nil {
		t.Fatalf("touch without a TTL to remove: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := n.Incr(done, "n", 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

func TestCallsAfterClose(t *testing.T) {
	n := alone(t, func(o *Options) { o.Port = 0 })
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Get(t.Context(), "k"); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("Get: %v", err)
	}
	if err := n.Touch(t.Context(), "k", 0); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("Touch: %v", err)
	}
}

func TestTTLByInjectedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open(Options{Standalone: true, Weight: 1, Now: time.Now, Engine: engine.Options{MaxBytes: 1 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.Set(t.Context(), "k", []byte("v"), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
		if _, err := n.Get(t.Context(), "k"); err != nil {
			t.Errorf("at its deadline: %v", err)
		}
		<-time.After(time.Millisecond)
		if _, err := n.Get(t.Context(), "k"); !errors.Is(err, errs.ErrNotFound) {
			t.Errorf("after its deadline: %v", err)
		}
	})
}

func TestIdentity(t *testing.T) {
	dir := t.TempDir() + "/data"
	a, err := identify(&Options{DataDir: dir, Cluster: "c", Host: "h", Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := identify(&Options{DataDir: dir, Cluster: "c", Host: "other", Port: 2})
	if err != nil || a != b {
		t.Errorf("a kept ID changed with the address: %s %s %v", a, b, err)
	}
	c, _ := identify(&Options{Cluster: "c", Host: "h", Port: 1})
	d, _ := identify(&Options{Cluster: "c", Host: "h", Port: 1})
	e, _ := identify(&Options{Cluster: "c", Host: "h", Port: 2})
	if c != d || c == e || c == a {
		t.Errorf("derived IDs %s %s %s", c, d, e)
	}
	f, _ := identify(&Options{})
	g, _ := identify(&Options{})
	if f == g {
		t.Error("two nodes that nobody reaches share an ID")
	}
}

func TestDamagedIdentity(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/"+idFile, "not an ID\n")
	if _, err := identify(&Options{DataDir: dir}); !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), idFile) {
		t.Errorf("%v", err)
	}
}

// TestClockIgnoresSteps: the clock follows the monotonic clock; what the machine
// slept is added and never taken back.
func TestClock(t *testing.T) {
	c := newClock(nil)
	before := c.millis()
	c.boot -= int64(time.Hour) // as if the boot-time clock had gone on for an hour more
	c.refresh()
	if moved := c.millis() - before; c.boot != 0 && bootTime() != 0 && (moved < 3_599_990 || moved > 3_660_000) {
		t.Errorf("after an hour of suspension the clock has moved by %d ms", moved)
	}
	c.boot += int64(time.Hour)
	now := c.millis()
	c.refresh()
	if c.millis() < now {
		t.Error("the clock went back")
	}
}

func TestParseMemory(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64 // -1: refused
	}{
		{"0", 0}, {"1024", 1024}, {"1k", 1000}, {"1kb", 1024}, {"2MB", 2 << 20}, {"3gb", 3 << 30}, {"10b", 10},
		{"", -1}, {"mb", -1}, {"-1", -1}, {"1tb", -1}, {"1.5gb", -1}, {"99999999999999999gb", -1},
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := parseMemory(tc.text)
			if err != nil {
				got = -1
			}
			if got != tc.want {
				t.Errorf("%d, want %d (%v)", got, tc.want, err)
			}
		})
	}
}
