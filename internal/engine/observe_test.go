package engine

import (
	"fmt"
	"strings"
	"testing"
)

// witness writes down what it is told.
type witness struct{ lines []string }

func (w *witness) Changed(shard int, kind EventKind, slot uint16, key []byte, author uint64) {
	if kind == EventFlush {
		key, slot = []byte("-"), 0
	}
	w.lines = append(w.lines, fmt.Sprintf("%s %d %s by %d", kind, slot, key, author))
}
func (w *witness) Lost(shard int, slot uint16) { w.lines = append(w.lines, fmt.Sprint("lost ", slot)) }
func (w *witness) Flushed()                    { w.lines = append(w.lines, "flushed") }

func (w *witness) told(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(w.lines, ", "); got != strings.Join(want, ", ") {
		t.Errorf("told %s, want %s", got, strings.Join(want, ", "))
	}
	w.lines = nil
}

// The observer hears of every change, with its author.
func TestObserver(t *testing.T) {
	now := int64(1000)
	e, err := New(Options{MaxBytes: 1 << 20, Shards: 1, NoBackground: true, Now: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.SetServing(7, true)
	w := &witness{}
	hold := func(author uint64, fn func(*Txn)) {
		tx, err := e.Lock(7)
		if err != nil {
			t.Fatal(err)
		}
		if author != 0 {
			tx.By(author)
		}
		fn(tx)
		tx.Unlock()
	}
	set := func(key string, deadline int64) func(*Txn) {
		return func(tx *Txn) {
			if err := tx.Set([]byte(key), []byte("v"), deadline); err != nil {
				t.Fatal(err)
			}
		}
	}
	hold(1, set("unheard", 0))
	e.Observe(w)
	hold(1, set("a", 0))
	hold(1, set("a", 0))
	hold(2, set("b", 2000))
	hold(0, set("c", 500)) // was there for a moment
	w.told(t, "write 7 a by 1", "write 7 a by 1", "write 7 b by 2", "delete 7 c by 0")
	hold(3, func(tx *Txn) {
		tx.SetDeadline([]byte("a"), 5000)
		tx.Delete([]byte("a"))
		tx.Delete([]byte("a"))
		tx.Get([]byte("b"))
	})
	w.told(t, "ttl 7 a by 3", "delete 7 a by 3")
	if err := e.Set(7, []byte("d"), []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	now = 3000
	hold(4, func(tx *Txn) { tx.Get([]byte("b")) })
	hold(0, set("e", 4000))
	now = 5000
	e.Sweep()
	w.told(t, "write 7 d by 0", "expire 7 b by 4", "write 7 e by 0", "expire 7 e by 0")
	e.Flush()
	w.told(t, "flush 0 - by 0", "flushed")
	hold(0, set("f", 0))
	e.SetServing(7, false)
	e.DropSlot(7)
	w.told(t, "write 7 f by 0", "lost 7", "invalidate 7 f by 0")
}

// Reads of a hold that leaves recency alone count, and refresh nothing.
func TestLeaveRecency(t *testing.T) {
	now := int64(0)
	e, err := New(Options{MaxBytes: 1 << 20, Shards: 1, NoBackground: true, Now: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.SetServing(7, true)
	if err := e.Set(7, []byte("k"), []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	read := func(still bool) (at int64) {
		tx, err := e.Lock(7)
		if err != nil {
			t.Fatal(err)
		}
		if still {
			tx.LeaveRecency()
		}
		it, ok := tx.Get([]byte("k"))
		if _, missing := tx.Get([]byte("none")); !ok || missing {
			t.Fatal("wrong answer")
		}
		tx.Unlock()
		return it.LastAccess
	}
	now = 10_000
	read(true)
	now = 20_000
	if at := read(false); at != 0 {
		t.Errorf("the last access was at %d, want 0", at)
	}
	if at := read(true); at != 20_000 {
		t.Errorf("the last access was at %d, want 20000: the hold before left its mark", at)
	}
	if st := e.Stats(); st.Hits != 3 || st.Misses != 3 {
		t.Errorf("hits %d, misses %d", st.Hits, st.Misses)
	}
}
