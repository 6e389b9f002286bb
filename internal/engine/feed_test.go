package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

func subscribe(t *testing.T, e *Engine, slot uint16, slots []uint16, size int) *Feed {
	t.Helper()
	f, err := e.Subscribe(e.ShardOf(slot), slots, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestFeedReportsEveryKindInOrder(t *testing.T) {
	e, c := newTest(t, Options{Shards: 1, MaxBytes: 1536})
	mustSet(t, e, 1, []byte("before"), nil, 0)
	f := subscribe(t, e, 1, nil, 0)
	mustSet(t, e, 1, []byte("a"), []byte("1"), c.in(5))
	tx := e.LockAny(1)
	tx.SetDeadline([]byte("a"), c.in(7))
	tx.Touch([]byte("a"))
	tx.SetDeadline([]byte("absent"), c.in(7))
	tx.Delete([]byte("absent"))
	tx.Delete([]byte("before"))
	tx.Set([]byte("b"), nil, 0)
	tx.Invalidate([]byte("b"))
	tx.Unlock()
	c.add(8)
	e.Get(1, []byte("a"), nil)
	mustSet(t, e, 2, []byte("c"), nil, 0)
	mustSet(t, e, 1, []byte("d"), make([]byte, 1000), 0)
	e.DropSlot(1)
	e.Flush()
	var got []string
	events, lost := f.Read(nil, 100)
	for i, ev := range events {
		if ev.Number != uint64(i+1) {
			t.Errorf("event %d has number %d", i, ev.Number)
		}
		got = append(got, fmt.Sprintf("%v %d %s %d", ev.Kind, ev.Slot, ev.Key, max(0, ev.Deadline-1_000_000)))
	}
	want := []string{
		"write 1 a 5", "ttl 1 a 7", "delete 1 before 0", "write 1 b 0", "invalidate 1 b 0", "expire 1 a 7",
		"write 2 c 0", "evict 2 c 0", "write 1 d 0", "invalidate 1 d 0", "flush 65535  0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || lost != 0 {
		t.Fatalf("lost %d, got\n%s\nwant\n%s", lost, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFeedShowsAGapAndNeverBlocks(t *testing.T) {
	for _, tc := range []struct {
		name      string
		writes    int
		key       string
		kept      int
		firstLeft uint64
	}{
		{"room for all", 10, "k", 10, 1},
		{"one too many", 11, "k", 10, 2},
		{"several rounds", 1000, "k", 10, 991},
		{"long keys shorten it", 10, strings.Repeat("k", feedKeyBytes*5/2), 4, 7},
		{"one key above the whole ring", 3, strings.Repeat("k", 20*feedKeyBytes), 1, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, _ := newTest(t, Options{})
			f := subscribe(t, e, 1, nil, 10)
			for range tc.writes {
				mustSet(t, e, 1, []byte(tc.key), nil, 0)
			}
			events, lost := f.Read(nil, 3)
			if len(events) != min(3, tc.kept) || events[0].Number != tc.firstLeft || lost != tc.firstLeft-1 {
				t.Fatalf("first read: %d events from %d, lost %d", len(events), events[0].Number, lost)
			}
			events, lost = f.Read(events, 100)
			if len(events) != tc.kept || lost != 0 || events[len(events)-1].Number != uint64(tc.writes) {
				t.Fatalf("in all %d events, lost %d more", len(events), lost)
			}
			if events, lost = f.Read(nil, 100); len(events) != 0 || lost != 0 {
				t.Fatalf("read again: %d events, lost %d", len(events), lost)
			}
		})
	}
}

func TestFeedOfASlotSet(t *testing.T) {
	e, _ := newTest(t, Options{Shards: 4})
	f := subscribe(t, e, 1, []uint16{1, 9, 2, 16381}, 0) // 2 is of another shard
	for _, slot := range []uint16{1, 5, 9, 2, 13, 16381} {
		mustSet(t, e, slot, []byte("k"), nil, 0)
	}
	events, _ := f.Read(nil, 100)
	var got []uint16
	for _, ev := range events {
		got = append(got, ev.Slot)
	}
	if fmt.Sprint(got) != "[1 9 16381]" {
		t.Fatalf("slots %v", got)
	}
	if events, _ := subscribe(t, e, 1, []uint16{}, 0).Read(nil, 1); len(events) != 0 {
		t.Fatal("an empty set reports events")
	}
}

func TestFeedWakesAndCloses(t *testing.T) {
	e, _ := newTest(t, Options{})
	f := subscribe(t, e, 1, nil, 0)
	select {
	case <-f.Wake():
		t.Fatal("woken without an event")
	default:
	}
	mustSet(t, e, 1, []byte("k"), nil, 0)
	mustSet(t, e, 1, []byte("k"), nil, 0)
	<-f.Wake()
	select {
	case <-f.Wake():
		t.Fatal("two signals wait")
	default:
	}
	f.Close()
	f.Close()
	mustSet(t, e, 1, []byte("k"), nil, 0)
	if events, _ := f.Read(nil, 100); len(events) != 0 {
		t.Fatalf("%d events after Close", len(events))
	}
	if n := len(e.shards[e.ShardOf(1)].feeds); n != 0 {
		t.Fatalf("%d feeds are left", n)
	}
	for _, bad := range []struct{ shard, size int }{{-1, 1}, {e.Shards(), 1}, {0, -1}, {0, MaxFeedSize + 1}} {
		if _, err := e.Subscribe(bad.shard, nil, bad.size); !errors.Is(err, errs.ErrConfig) {
			t.Errorf("subscribe %+v: %v", bad, err)
		}
	}
}

// A follower that reads while writers run ends with what the engine holds.
func TestFeedReplayEqualsStateUnderParallelWriters(t *testing.T) {
	e, _ := newTest(t, Options{Shards: 2, MaxBytes: 20_000})
	f := subscribe(t, e, 1, nil, MaxFeedSize/16)
	var writers, reader sync.WaitGroup
	stop := make(chan struct{})
	state, number := map[string]bool{}, uint64(0)
	apply := func() {
		events, lost := f.Read(nil, 1000)
		if lost != 0 {
			t.Errorf("lost %d events", lost)
		}
		for _, ev := range events {
			if number++; ev.Number != number {
				t.Errorf("event %d comes as %d-th", ev.Number, number)
			}
			switch ev.Kind {
			case EventWrite:
				state[string(ev.Key)] = true
			case EventFlush:
				clear(state)
			case EventTTL:
			default:
				delete(state, string(ev.Key))
			}
		}
	}
	reader.Go(func() {
		for {
			select {
			case <-f.Wake():
				apply()
			case <-stop:
				return
			}
		}
	})
	for w := range 3 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 4000 {
				k := keyFor(r.IntN(300))
				switch {
				case i%1000 == 999:
					e.Flush()
				case r.IntN(3) == 0:
					_, _ = e.Delete(1, k)
				default:
					_ = e.Set(1, k, nil, 0)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	reader.Wait()
	for last := uint64(1) << 63; last != number; {
		last = number
		apply()
	}
	n := 0
	e.KeysInSlot(1, 1<<30, func(key []byte) {
		if n++; !state[string(key)] {
			t.Errorf("the follower lacks %q", key)
		}
	})
	if n != len(state) {
		t.Errorf("the follower has %d keys, the engine %d", len(state), n)
	}
}
