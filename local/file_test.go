package local

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestFile: after Close the next cache on the file has what this one had.
func TestFile(t *testing.T) {
	o := Options{MaxMemory: 1 << 20, File: filepath.Join(t.TempDir(), "cache")}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if n, why := c.TakenOver(); n != 0 || why != "" {
		t.Errorf("a new file: %d, %q", n, why)
	}
	for i := range 1000 {
		ttl := time.Duration(0)
		if i%2 == 0 {
			ttl = time.Hour
		}
		if err := c.Set([]byte(strconv.Itoa(i)), []byte("v"+strconv.Itoa(i)), ttl); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err = New(o); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, why := c.TakenOver(); n != 1000 || why != "" {
		t.Errorf("taken over: %d, %q", n, why)
	}
	for i := range 1000 {
		if v, ok := c.Get(nil, []byte(strconv.Itoa(i))); !ok || string(v) != "v"+strconv.Itoa(i) {
			t.Fatalf("%d: %q, %v", i, v, ok)
		}
	}
}
