package rivals

import (
	"bytes"
	"fmt"
	"testing"
)

// TestAdapters stores, reads and evicts through every adapter.
func TestAdapters(t *testing.T) {
	for _, k := range All() {
		t.Run(k.Name, func(t *testing.T) {
			const items, size = 1000, 1000
			c, err := k.New(Limit{Memory: max(k.Least, 2<<20), Items: items, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			want := bytes.Repeat([]byte{7}, size)
			c.Set("key", want)
			c.Sync()
			got, ok := c.Get(nil, "key")
			if !ok || !bytes.Equal(got, want) {
				t.Fatalf("Get = %d bytes, %v", len(got), ok)
			}
			if _, ok := c.Get(nil, "none"); ok {
				t.Fatal("a key that was not stored is there")
			}
			for i := range 40_000 {
				c.Set(fmt.Sprint("key ", i), want)
				if i%100 == 0 {
					c.Sync()
				}
			}
			c.Sync()
			if n := c.Len(); n < 1 || !k.Copies && n > items {
				t.Errorf("Len = %d", n)
			}
		})
	}
}

func TestWeighted(t *testing.T) {
	for _, k := range All() {
		if !k.Weighted {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			c, err := k.New(Limit{Items: 1000, Weight: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for i := range 5000 {
				c.Set(fmt.Sprint(i), make([]byte, 1000))
				c.Sync()
			}
			if n := c.Len(); n < 50 || n > 101 {
				t.Errorf("%d values of 1000 bytes within 100,000 bytes", n)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	for list, want := range map[string]int{"": len(All()), "otter, fastcache": 2, "ring-cache": 1} {
		if got, err := Select(list); err != nil || len(got) != want {
			t.Errorf("Select(%q) = %d caches, %v; want %d", list, len(got), err, want)
		}
	}
	if _, err := Select("otter,best"); err == nil {
		t.Error("Select found a cache that does not exist")
	}
}
