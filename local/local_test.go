package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, o Options) *Bytes {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestSetGetDelete(t *testing.T) {
	c := open(t, Options{})
	key, value := []byte("key"), []byte("value")
	if _, ok := c.Get(nil, key); ok {
		t.Fatal("an empty cache has the key")
	}
	if err := c.Set(key, value, 0); err != nil {
		t.Fatal(err)
	}
	value[0] = 'V' // what was stored is a copy
	if got, ok := c.Get([]byte("a "), key); !ok || string(got) != "a value" {
		t.Fatalf("Get = %q, %v; want the value appended to dst", got, ok)
	}
	if got, ok := c.Get([]byte("a "), []byte("no")); ok || string(got) != "a " {
		t.Fatalf("Get of an absent key = %q, %v; want dst and false", got, ok)
	}
	if !c.Delete(key) || c.Delete(key) {
		t.Fatal("Delete must say true once, then false")
	}
	s := c.Stats()
	want := Stats{MaxMemory: DefaultMaxMemory, Hits: 1, Misses: 2, Sets: 1, Deleted: 1}
	if s.Bytes = 0; s != want {
		t.Fatalf("Stats = %+v, want %+v", s, want)
	}
	if r := s.HitRatio(); math.Abs(r-1.0/3) > 1e-9 {
		t.Fatalf("HitRatio = %v, want 1/3", r)
	}
	if r := (Stats{}).HitRatio(); r != 0 {
		t.Fatalf("HitRatio before the first read = %v, want 0", r)
	}
}

func TestKeysOfEveryLength(t *testing.T) {
	c := open(t, Options{})
	for n := range 70 {
		key := bytes.Repeat([]byte{'k'}, n)
		if err := c.Set(key, fmt.Append(nil, n), 0); err != nil {
			t.Fatalf("a key of %d bytes: %v", n, err)
		}
	}
	for n := range 70 {
		got, ok := c.Get(nil, bytes.Repeat([]byte{'k'}, n))
		if !ok || string(got) != fmt.Sprint(n) {
			t.Fatalf("a key of %d bytes: Get = %q, %v", n, got, ok)
		}
	}
	if c.Len() != 70 {
		t.Fatalf("Len = %d, want 70", c.Len())
	}
	c.Clear()
	if s := c.Stats(); c.Len() != 0 || s.Cleared != 70 {
		t.Fatalf("after Clear: %+v", s)
	}
}

func TestTTL(t *testing.T) {
	var now atomic.Int64 // also a clock that starts at 0 is a clock
	c := open(t, Options{Now: now.Load})
	key := []byte("key")
	get := func() bool { _, ok := c.Get(nil, key); return ok }
	tests := []struct {
		name  string
		ttl   time.Duration
		wait  int64 // ms
		there bool
	}{
		{"none", 0, 1 << 40, true},
		{"before the deadline", time.Second, 999, true},
		{"after the deadline", time.Second, 1001, false},
		{"a part of a millisecond is a whole one", time.Nanosecond, 0, true},
		{"that also ends", time.Nanosecond, 2, false},
		{"the longest", math.MaxInt64, 1 << 40, true},
		{"negative", -1, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := c.Set(key, nil, tt.ttl); err != nil {
				t.Fatal(err)
			}
			now.Add(tt.wait)
			if get() != tt.there {
				t.Fatalf("found %v, want %v", !tt.there, tt.there)
			}
		})
		t.Run("touch: "+tt.name, func(t *testing.T) {
			if err := c.Set(key, nil, time.Minute); err != nil {
				t.Fatal(err)
			}
			if !c.Touch(key, tt.ttl) {
				t.Fatal("Touch did not find the key")
			}
			now.Add(tt.wait)
			if get() != tt.there {
				t.Fatalf("found %v, want %v", !tt.there, tt.there)
			}
		})
	}
	c.Delete(key)
	if c.Touch(key, time.Second) || get() {
		t.Fatal("Touch of an absent key must say false and add nothing")
	}
}

func TestErrors(t *testing.T) {
	c := open(t, Options{MaxMemory: 4 << 20, MaxValue: 1000})
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"large value", c.Set([]byte("k"), make([]byte, 1001), 0), ErrTooLarge},
		{"large key", c.Set(make([]byte, 1<<20), nil, 0), ErrTooLarge},
		{"limit of zero", c.SetMaxMemory(0), ErrConfig},
		{"negative limit", c.SetMaxMemory(-1), ErrConfig},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	_, err := New(Options{MaxMemory: -1, MaxValue: -1, Policy: "best"})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "best") || strings.Count(err.Error(), "-1") != 2 {
		t.Errorf("New with three faults: %v; want ErrConfig that names them all", err)
	}
}

func TestNoEviction(t *testing.T) {
	c := open(t, Options{MaxMemory: 4 << 20, Policy: "noeviction"})
	var err error
	n := 0
	for ; err == nil && n < 1<<20; n++ {
		err = c.Set(fmt.Appendf(nil, "key %d", n), make([]byte, 1000), 0)
	}
	if !errors.Is(err, ErrNoMemory) {
		t.Fatalf("after %d writes: %v, want ErrNoMemory", n, err)
	}
	if s := c.Stats(); s.Evicted != 0 || s.Len != n-1 {
		t.Fatalf("%d writes succeeded, but %+v", n-1, s)
	}
}

func TestMemoryLimit(t *testing.T) {
	for _, policy := range Policies() {
		if policy == "noeviction" {
			continue
		}
		t.Run(policy, func(t *testing.T) {
			c := open(t, Options{MaxMemory: 8 << 20, Policy: policy})
			fill := func(from int) {
				for i := range 30_000 {
					if err := c.Set(fmt.Appendf(nil, "key %d", from+i), make([]byte, 500), 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			fill(0)
			s := c.Stats()
			if s.Bytes > s.MaxMemory || s.Evicted == 0 || s.Len < 5000 {
				t.Fatalf("after writing 15 MB into 8 MiB: %+v", s)
			}
			if err := c.SetMaxMemory(4 << 20); err != nil {
				t.Fatal(err)
			}
			if s := c.Stats(); s.Bytes > 4<<20 || s.MaxMemory != 4<<20 || s.Len == 0 {
				t.Fatalf("after SetMaxMemory(4 MiB): %+v", s)
			}
			fill(1 << 20)
			if s := c.Stats(); s.Bytes > 4<<20 {
				t.Fatalf("after more writes: %+v", s)
			}
		})
	}
}

func TestClosed(t *testing.T) {
	c := open(t, Options{})
	key := []byte("key")
	if err := c.Set(key, key, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get(nil, key); ok || c.Delete(key) || c.Touch(key, 0) || c.Len() != 0 {
		t.Error("a closed cache still has the key")
	}
	if err := c.Set(key, key, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Set after Close: %v, want ErrClosed", err)
	}
	if err := c.Set(key, key, -1); !errors.Is(err, ErrClosed) {
		t.Errorf("Set with a negative TTL after Close: %v, want ErrClosed", err)
	}
}

// TestParallel has every goroutine read only whole values of its keys while all
// of them write and evict.
func TestParallel(t *testing.T) {
	c := open(t, Options{MaxMemory: 8 << 20})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			var key, value, got []byte
			for i := range 20_000 {
				n := uint64((i*7 + w) % 50_000)
				key = binary.BigEndian.AppendUint64(key[:0], n)
				var ok bool
				if got, ok = c.Get(got[:0], key); ok && (len(got) != 200 || binary.BigEndian.Uint64(got[192:]) != n) {
					t.Errorf("key %d has a value that nobody wrote", n)
					return
				}
				switch i % 8 {
				case 0, 1, 2, 3:
					value = slices.Repeat(key, 25)
					if err := c.Set(key, value, time.Duration(i%3)*time.Millisecond); err != nil {
						t.Error(err)
						return
					}
				case 4:
					c.Delete(key)
				case 5:
					c.Touch(key, time.Minute)
				}
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Bytes > s.MaxMemory {
		t.Errorf("%+v", s)
	}
}

func TestAllocations(t *testing.T) {
	c := open(t, Options{MaxMemory: 64 << 20})
	key, value, dst := []byte("key:000001"), make([]byte, 100), make([]byte, 0, 100)
	budget := func(name string, want float64, f func()) {
		t.Helper()
		if got := testing.AllocsPerRun(1000, f); got > want {
			t.Errorf("%s allocates %v times, budget %v", name, got, want)
		}
	}
	budget("Set", 0, func() {
		if err := c.Set(key, value, time.Minute); err != nil {
			t.Fatal(err)
		}
	})
	budget("Get", 0, func() {
		if _, ok := c.Get(dst, key); !ok {
			t.Fatal("gone")
		}
	})
	budget("Get of an absent key", 0, func() { c.Get(dst, value) })
	budget("Touch", 0, func() { c.Touch(key, time.Minute) })
}
