package engine

import (
	"bytes"
	"fmt"
	"testing"
)

// What a Txn lends may come back as key and value of a write: the write, its
// event and its pull window see the bytes as they were at the call.
func TestBorrowedKeysAndValuesMayBeWritten(t *testing.T) {
	oneGoroutine(t)
	for _, size := range []int{0, 1, 5, 40, 3000, 20_000} {
		for _, room := range []string{"room", "at the limit"} {
			t.Run(fmt.Sprintf("%d bytes, %s", size, room), func(t *testing.T) {
				e, _ := newTest(t, Options{MaxBytes: 256 << 10, MaxValue: 64 << 10, Shards: 2, Seed: 1})
				testBorrowed(t, e, size, room != "room")
			})
		}
	}
}

func testBorrowed(t *testing.T, e *Engine, size int, full bool) {
	f := subscribe(t, e, 1, nil, 1<<14)
	name := []byte("the name of another key")
	value := append(append([]byte(nil), name...), bytes.Repeat([]byte("v"), size)...)
	n := len(name)
	for round, write := range []func(tx *Txn, v []byte) (key, value []byte){
		func(_ *Txn, v []byte) ([]byte, []byte) { return v[:n], v[n:] },
		func(_ *Txn, v []byte) ([]byte, []byte) { return v[:n], v[1:] },
		func(_ *Txn, v []byte) ([]byte, []byte) { return v[:n], nil },
		func(_ *Txn, v []byte) ([]byte, []byte) { return []byte("source"), v[n:] },
		func(_ *Txn, v []byte) ([]byte, []byte) { return []byte("source"), v[:n] },
		func(_ *Txn, v []byte) ([]byte, []byte) { return v[n-3 : n], v },
		func(tx *Txn, v []byte) ([]byte, []byte) { tx.Delete([]byte("absent")); return v[3:n], v[n:] },
	} {
		if full {
			for i := range 900 {
				mustSet(t, e, uint16(i%50), keyFor(i), make([]byte, 300), 0)
			}
		}
		mustSet(t, e, 1, []byte("source"), value, 0)
		mustSet(t, e, 1, name, value, 0) // some rounds replace it, in its place or not
		f.Read(nil, 1<<20)
		source := []byte("source")
		if round%2 == 1 {
			source = name
		}
		tx := e.LockAny(1)
		var wantKey, want []byte
		var err error
		it, ok := tx.Get(source)
		if ok {
			key, val := write(tx, it.Value)
			wantKey, want = bytes.Clone(key), bytes.Clone(val)
			err = tx.Set(key, val, 0)
		}
		tx.Unlock()
		if !ok || err != nil {
			t.Fatalf("round %d: the source is there: %v, written: %v", round, ok, err)
		}
		if got, _, err := e.Get(1, wantKey, nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: key %q holds %.40q, want %.40q", round, wantKey, got, want)
		}
		events, _ := f.Read(nil, 1<<20)
		if ev := events[len(events)-1]; ev.Kind != EventWrite || !bytes.Equal(ev.Key, wantKey) {
			t.Fatalf("round %d: the event is %v of %.40q, want a write of %.40q", round, ev.Kind, ev.Key, wantKey)
		}
	}
	if st := e.Stats(); full != (st.Evicted > 0) {
		t.Fatalf("%d were evicted", st.Evicted)
	}
	verifyAll(t, e)
}

// A write with a deadline may be the one that ends the shard's era, and what
// expired is removed for that: what the same hold has lent does not move.
func TestLentValuesDoNotMoveWhenAnEraEnds(t *testing.T) {
	const sources = 14
	for i := range sources {
		e, c := newTest(t, Options{MaxBytes: 64 << 10, Shards: 1, Seed: 1})
		values := make([][]byte, sources)
		for j := range sources { // what expires lies before each that stays
			mustSet(t, e, 1, keyFor(1000+j), make([]byte, 700+j*7), c.in(1000))
			for k := range 350 { // no period that a shift could hide
				values[j] = fmt.Appendf(values[j], "%d,", j+k*k)
			}
			mustSet(t, e, 1, keyFor(j), values[j], 0)
		}
		c.add(eraMost + 2000)
		tx := e.LockAny(1)
		it, ok := tx.Peek(keyFor(i))
		err := tx.Set([]byte("copy"), it.Value, tx.Now()+1000)
		tx.Unlock()
		if !ok || err != nil {
			t.Fatalf("a source is there: %v, copied: %v", ok, err)
		}
		if got, _, _ := e.Get(1, []byte("copy"), nil); !bytes.Equal(got, values[i]) {
			t.Fatalf("a copy of value %d holds %.60q", i, got)
		}
		if n := e.Stats().Keys; n != sources+1 {
			t.Fatalf("%d keys are left", n)
		}
		verifyAll(t, e)
	}
}
