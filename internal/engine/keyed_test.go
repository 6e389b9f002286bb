package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// Keys as applications build them come to slots about evenly: no slot has more
// than three times its share.
func TestKeySlotSpreads(t *testing.T) {
	oneGoroutine(t)
	const n = 64 * Slots
	keys := map[string]func(i int) []byte{
		"decimal":         func(i int) []byte { return fmt.Append(nil, i) },
		"prefix":          func(i int) []byte { return fmt.Appendf(nil, "user:%d:profile", i) },
		"one hash tag":    func(i int) []byte { return fmt.Appendf(nil, "{tag}%d", i) },
		"counter in hex":  func(i int) []byte { return fmt.Appendf(nil, "t:%016x", i) },
		"little endian":   func(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)) },
		"middle of a key": func(i int) []byte { return fmt.Appendf(nil, "%032d%07d%032d", 0, i, 0) },
	}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			h := newHasher(1)
			var count [Slots]int
			var tags [256]int
			for i := range n {
				h := h.sum(key(i))
				count[keySlot(h)]++
				if keySlot(h) < Slots/16 {
					tags[tagOf(h)]++
				}
			}
			if most := slices.Max(count[:]); most > 3*64 {
				t.Errorf("a slot has %d keys, its share is 64", most)
			}
			// Tag 1 has the share of 0 too.
			if most := slices.Max(tags[2:]); most > 2*n/16/256 {
				t.Errorf("a tag has %d keys in a sixteenth of the slots, its share is %d", most, n/16/256)
			}
		})
	}
}

func TestKeyed(t *testing.T) {
	e, c := newTest(t, Options{})
	key := []byte("key")
	if err := e.SetKey(key, []byte("value"), 100); err != nil {
		t.Fatal(err)
	}
	if v, deadline, err := e.GetKey(key, nil); string(v) != "value" || deadline != c.in(100) || err != nil {
		t.Fatalf("GetKey = %q, %d, %v", v, deadline, err)
	}
	tx, err := e.LockKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if !tx.Has(key) {
		t.Error("LockKey holds another slot")
	}
	tx.Unlock()
	c.add(101)
	if _, _, err := e.GetKey(key, nil); !errors.Is(err, errs.ErrNotFound) {
		t.Fatalf("GetKey of an expired key: %v", err)
	}
	if err := e.SetKey(key, nil, 0); err != nil {
		t.Fatal(err)
	}
	if found, err := e.DeleteKey(key); !found || err != nil {
		t.Fatalf("DeleteKey = %v, %v", found, err)
	}
	if err := e.SetKey(key, make([]byte, e.MaxValue()+1), 0); !errors.Is(err, errs.ErrTooLarge) {
		t.Fatalf("SetKey above the limit: %v", err)
	}
	verifyAll(t, e)
}
