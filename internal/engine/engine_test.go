package engine

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/invariant"
)

func TestOptionsReportAllFaultsAtOnce(t *testing.T) {
	_, err := New(Options{MaxBytes: -1, MaxValue: -1, MaxKey: 1 << 30, Shards: 3, Policy: "lfu?", FeedSize: -2})
	if !errors.Is(err, errs.ErrConfig) {
		t.Fatalf("got %v", err)
	}
	// A limit that no doubling of the arena reaches.
	if _, err := New(Options{Now: newClock().now, MaxBytes: math.MaxInt64/2 - 1}); !errors.Is(err, errs.ErrConfig) {
		t.Errorf("a limit of 4 EiB: %v", err)
	}
	for _, word := range []string{"Now", "MaxBytes", "MaxValue", "MaxKey", "Shards", "Policy", "FeedSize", "noeviction"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %q", word, err)
		}
	}
}

func TestSlotsAreNotServedAtTheStart(t *testing.T) {
	e, err := New(Options{Now: newClock().now, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, slot := range []uint16{0, 1, 8191, 16383} {
		if _, _, err := e.Get(slot, []byte("k"), nil); err != errs.ErrNotServing || e.Serving(slot) {
			t.Errorf("slot %d: get %v, serving %v", slot, err, e.Serving(slot))
		}
		if err := e.Set(slot, []byte("k"), nil, 0); err != errs.ErrNotServing {
			t.Errorf("slot %d: set %v", slot, err)
		}
	}
	tx := e.LockAny(16383)
	if err := tx.Set([]byte("k"), nil, 0); err != nil || tx.Slot() != 16383 {
		t.Errorf("slot %d: %v", tx.Slot(), err)
	}
	tx.Unlock()
	if _, ok := e.RandomKey(nil); ok || e.Scan(0, 10, func(key []byte, _ Item) { t.Errorf("scanned %q", key) }) != 0 {
		t.Error("a slot that is not served is enumerated")
	}
}

// Redis's rule: a key is gone when now > deadline, not at the deadline.
func TestKeyLivesThroughTheMillisecondOfItsDeadline(t *testing.T) {
	e, c := newTest(t, Options{})
	mustSet(t, e, 1, []byte("k"), []byte("v"), c.in(10))
	c.add(10)
	if v, deadline, err := e.Get(1, []byte("k"), nil); string(v) != "v" || deadline != c.now() || err != nil {
		t.Fatalf("at the deadline: %q %d %v", v, deadline, err)
	}
	c.add(1)
	if _, _, err := e.Get(1, []byte("k"), nil); err != errs.ErrNotFound {
		t.Fatalf("past the deadline: %v", err)
	}
	if st := e.Stats(); st.Expired != 1 || st.Keys != 0 || st.Bytes != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestLimitsAreNamedInErrors(t *testing.T) {
	e, _ := newTest(t, Options{MaxBytes: 400_000, MaxValue: 262144, MaxKey: 100})
	for _, tc := range []struct {
		name       string
		key, value int
		want       error
		text       string
	}{
		{"largest", 100, 262144, nil, ""},
		{"value", 1, 262145, errs.ErrTooLarge, "value is 262145 bytes, limit 262144"},
		{"key", 101, 1, errs.ErrTooLarge, "key is 101 bytes, limit 100"},
		{"empty", 0, 0, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := e.Set(1, make([]byte, tc.key), make([]byte, tc.value), 0)
			if !errors.Is(err, tc.want) || (err != nil && !strings.Contains(err.Error(), tc.text)) {
				t.Fatalf("got %v", err)
			}
		})
	}
	if err := e.SetMaxBytes(200_000); err != nil {
		t.Fatal(err)
	}
	err := e.Set(1, []byte("k"), make([]byte, 250_000), 0)
	if !errors.Is(err, errs.ErrNoMemory) || !strings.Contains(err.Error(), "limit is 200000") {
		t.Fatalf("alone above the memory limit: %v", err)
	}
}

func TestNoEvictionRefusesAndKeepsTheOldValue(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 16 << 10, Policy: "noeviction", Shards: 1})
	mustSet(t, e, 1, []byte("old"), []byte("value"), 0)
	for i := 0; e.Set(slotFor(i), keyFor(i), nil, c.in(10)) == nil; i++ {
		if i > 1000 {
			t.Fatal("the limit does not hold")
		}
	}
	err := e.Set(1, []byte("old"), make([]byte, 5000), 0)
	if v, _, _ := e.Get(1, []byte("old"), nil); !errors.Is(err, errs.ErrNoMemory) || string(v) != "value" {
		t.Fatalf("%v, the old value is %q", err, v)
	}
	if st := e.Stats(); st.Evicted != 0 {
		t.Fatalf("%d were evicted", st.Evicted)
	}
	if err := e.SetPolicy("lru"); err != nil || e.Policy() != "lru" {
		t.Fatal(err)
	}
	mustSet(t, e, 1, []byte("old"), make([]byte, 5000), 0)
	if err := e.SetPolicy("none"); !errors.Is(err, errs.ErrConfig) {
		t.Fatalf("an unknown policy: %v", err)
	}
}

// Room that only expired entries take is no reason to refuse.
func TestNoEvictionTakesTheRoomOfExpiredEntries(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 16 << 10, Policy: "noeviction", Shards: 1})
	for i := 0; e.Set(1, keyFor(i), nil, c.in(10)) == nil; i++ {
		if i > 1000 {
			t.Fatal("the limit does not hold")
		}
	}
	c.add(11)
	mustSet(t, e, 1, []byte("new"), nil, 0)
}

// One shard gets all writes, the cold entries are elsewhere: they leave first.
func TestEvictionPrefersShardsWithOlderEntries(t *testing.T) {
	e, c := newTest(t, Options{MaxBytes: 256 << 10, Shards: 16, Seed: 7})
	for i := range 4000 {
		mustSet(t, e, uint16(i%16), keyFor(i), nil, 0)
	}
	c.add(1000)
	for i := range 8000 {
		mustSet(t, e, 5, keyFor(10_000+i), nil, 0)
		if i%4 == 0 {
			c.add(1)
		}
	}
	cold := int64(0)
	for shard := range 16 {
		if shard != 5 {
			cold += e.shards[shard].keys.Load()
		}
	}
	if own := e.shards[5].keys.Load(); cold > 800 || own < 7900 {
		t.Fatalf("%d cold entries stay, the busy shard holds %d", cold, own)
	}
}

func TestPastDeadlineRemoves(t *testing.T) {
	e, c := newTest(t, Options{})
	mustSet(t, e, 1, []byte("a"), nil, 0)
	mustSet(t, e, 1, []byte("b"), nil, 0)
	mustSet(t, e, 1, []byte("a"), []byte("v"), c.in(-1))
	tx := e.LockAny(1)
	if !tx.SetDeadline([]byte("b"), c.in(-1)) || tx.Has([]byte("a")) || tx.Has([]byte("b")) {
		t.Error("a key with a passed deadline is there")
	}
	tx.Unlock()
	if st := e.Stats(); st.Deleted != 2 || st.Expired != 0 || st.Sets != 2 {
		t.Errorf("%+v", st)
	}
}

func TestClosedEngineRefuses(t *testing.T) {
	e, _ := newTest(t, Options{})
	mustSet(t, e, 1, []byte("k"), nil, 0)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e.SetServing(1, true)
	_, _, err := e.Get(1, []byte("k"), nil)
	_, errDelete := e.Delete(1, []byte("k"))
	_, errFeed := e.Subscribe(0, nil, 0)
	if err != errs.ErrClosed || errDelete != errs.ErrClosed || errFeed != errs.ErrClosed {
		t.Fatalf("%v, %v, %v", err, errDelete, errFeed)
	}
	if st := e.Stats(); st.Keys != 0 || st.Bytes != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestRandomKeyIsRoughlyUniform(t *testing.T) {
	oneGoroutine(t)
	e, _ := newTest(t, Options{Shards: 8, Seed: 3})
	counts := map[string]int{}
	for i := range 400 {
		slot := uint16(7) // 200 keys in one slot, the others alone or in pairs
		if i >= 200 {
			slot = slotFor(i % 120)
		}
		mustSet(t, e, slot, keyFor(i), nil, 0)
	}
	mustSet(t, e, 8, []byte("not served"), nil, 0)
	e.SetServing(8, false)
	mean := max(100, scale(250))
	for range 400 * mean {
		key, ok := e.RandomKey(nil)
		if !ok {
			t.Fatal("no key")
		}
		counts[string(key)]++
	}
	for i := range 400 {
		if n := counts[string(keyFor(i))]; n < mean/4 || n > mean*4 {
			t.Errorf("key %d came %d times, the mean is %d", i, n, mean)
		}
	}
	if counts["not served"] != 0 {
		t.Error("a key of a slot that is not served came")
	}
}

func TestInvalidCursorsEndTheScan(t *testing.T) {
	e, _ := newTest(t, Options{})
	mustSet(t, e, 16383, []byte("k"), nil, 0)
	for _, cursor := range []uint64{Slots << positionBits, math.MaxUint64, 16383<<positionBits | math.MaxUint32} {
		if next := e.Scan(cursor, 10, func([]byte, Item) {}); next != 0 {
			t.Errorf("cursor %d leads to %d", cursor, next)
		}
	}
	n := 0
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		cursor = e.Scan(cursor, 0, func([]byte, Item) { n++ })
	}
	if n != 1 {
		t.Errorf("slot 16383 gave %d keys", n)
	}
}

func TestHottestFirstStopsAndSeesLateAccesses(t *testing.T) {
	e, c := newTest(t, Options{})
	for i := range 1000 {
		c.add(1)
		mustSet(t, e, 1, keyFor(i), keyFor(-i), 0)
	}
	next := 999
	e.HottestFirst(1, func(key []byte, it Item) bool {
		if string(key) != string(keyFor(next)) || string(it.Value) != string(keyFor(-next)) {
			t.Fatalf("got %q = %q in place of key %d", key, it.Value, next)
		}
		next--
		c.add(1)
		e.Get(1, keyFor(100), nil) // now the hottest, still to come
		return next >= 50
	})
	if next != 49 {
		t.Fatalf("stopped at %d", next)
	}
}

func TestResetStats(t *testing.T) {
	e, _ := newTest(t, Options{})
	mustSet(t, e, 1, []byte("k"), nil, 0)
	e.Get(1, []byte("k"), nil)
	e.Get(1, []byte("absent"), nil)
	if st := e.Stats(); st.Hits != 1 || st.Misses != 1 || st.Sets != 1 || st.Shards != DefaultShards || st.Policy != DefaultPolicy {
		t.Fatalf("%+v", st)
	}
	e.ResetStats()
	if st := e.Stats(); st.Hits+st.Misses+st.Sets != 0 || st.Keys != 1 || st.Bytes == 0 {
		t.Fatalf("%+v", st)
	}
}

func TestBorrowedValuesAreOverwrittenInCheckedBuilds(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("needs -tags invariant")
	}
	e, _ := newTest(t, Options{})
	mustSet(t, e, 1, []byte("k"), []byte("value"), 0)
	tx := e.LockAny(1)
	it, _ := tx.Get([]byte("k"))
	other, _ := tx.Peek([]byte("k"))
	if err := tx.Set([]byte("other"), it.Value, 0); err != nil {
		t.Fatal(err)
	}
	if string(it.Value) == "value" || string(other.Value) == "value" {
		t.Error("a value that was borrowed before a mutation is still whole")
	}
	it, _ = tx.Get([]byte("other"))
	if string(it.Value) != "value" {
		t.Errorf("stored %q", it.Value)
	}
	tx.Unlock()
	if string(it.Value) == "value" {
		t.Error("a borrowed value is whole after Unlock")
	}
	defer func() {
		if recover() == nil {
			t.Error("a Txn could be used after Unlock")
		}
	}()
	tx.Has([]byte("k"))
}

// The budgets of the hot paths.
func TestAllocations(t *testing.T) {
	if raceEnabled || invariant.Enabled {
		t.Skip("the build changes allocations")
	}
	e, c := newTest(t, Options{MaxBytes: 1 << 20})
	key, value, dst := []byte("key"), make([]byte, 300), make([]byte, 0, 400)
	mustSet(t, e, 1, key, value, c.in(1000))
	feedEngine, _ := newTest(t, Options{})
	mustSet(t, feedEngine, 1, key, value, 0)
	feed := subscribe(t, feedEngine, 1, nil, 64)
	events := make([]Event, 0, 64)
	i := 0
	for name, fn := range map[string]func(){
		"get hit":         func() { e.Get(1, key, dst) },
		"get miss":        func() { e.Get(1, value[:5], dst) },
		"get not served":  func() { feedEngine.Get(2, key, dst) },
		"lock":            func() { tx, _ := e.Lock(1); tx.Unlock() },
		"txn get":         func() { tx, _ := e.Lock(1); tx.Get(key); tx.Peek(key); tx.Has(key); tx.Unlock() },
		"overwrite":       func() { i++; e.Set(1, key, value[:200+i%100], c.in(1000)) },
		"drop deadline":   func() { i++; e.Set(1, key, value, int64(i%2)*c.in(1000)) },
		"set deadline":    func() { tx := e.LockAny(1); tx.SetDeadline(key, c.in(500)); tx.Unlock() },
		"delete miss":     func() { e.Delete(1, value[:5]) },
		"write with feed": func() { feedEngine.Set(1, key, value, 0); events, _ = feed.Read(events[:0], 64) },
	} {
		fn() // what is kept for reuse is made by the first call
		if n := testing.AllocsPerRun(200, fn); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	full := testing.AllocsPerRun(20_000, func() { i++; e.Set(slotFor(i%256), strconv.AppendInt(dst[:0], int64(i), 10), value, 0) })
	if full > 0 {
		t.Errorf("a new key at the limit allocates %v times", full)
	}
}
