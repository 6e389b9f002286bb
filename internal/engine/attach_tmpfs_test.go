//go:build linux && !race && !heaparena

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringcache/ringcache/internal/errs"
)

// smallTmpfs mounts a file system in memory of a size, or skips.
func smallTmpfs(t *testing.T, size string) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	return dir
}

// TestFullTmpfs: a file system without room is an error of the start, and one
// that others fill up afterwards does not end the process.
func TestFullTmpfs(t *testing.T) {
	dir := smallTmpfs(t, "6m")
	path := filepath.Join(dir, "arena")
	c := newClock()
	o := Options{Now: c.now, MaxBytes: 16 << 20, Shards: 2, File: path, NoBackground: true}
	if _, err := New(o); !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("an arena larger than its file system: %v", err)
	}
	o.MaxBytes = 3 << 20
	e := reopen(t, path, o)
	rest, err := os.Create(filepath.Join(dir, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	for err == nil {
		_, err = rest.Write(make([]byte, 4096))
	}
	for i := range 20_000 {
		mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 300), 0)
	}
	if s := e.Stats(); s.Evicted == 0 || s.ArenaBytes < 2<<20 {
		t.Fatalf("the arena was not filled: %+v", s)
	}
	if err := e.SetMaxBytes(16 << 20); !errors.Is(err, errs.ErrConfig) || e.Stats().MaxBytes != 3<<20 {
		t.Errorf("a limit without room: %v, %d", err, e.Stats().MaxBytes)
	}
	verifyAll(t, e)
	keys := e.Stats().Keys
	mustClose(t, e)
	if e = reopen(t, path, o); e.Attachment().Entries != keys {
		t.Errorf("%d entries, found %+v", keys, e.Attachment())
	}
	verifyAll(t, e)
}

// TestLowerLimitFreesTmpfs: what a lower limit does not need goes back to the
// file system.
func TestLowerLimitFreesTmpfs(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "ringcache-test")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "arena")
	c := newClock()
	e := reopen(t, path, Options{Now: c.now, MaxBytes: 64 << 20, Shards: 8})
	for i := range 100_000 {
		mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 300), 0)
	}
	taken := func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if n := taken(); n < 64<<20 || n > 67<<20 {
		t.Errorf("%d bytes are taken for a limit of 64 MiB", n)
	}
	for slot := range Slots {
		e.DropSlot(uint16(slot))
	}
	if err := e.SetMaxBytes(8 << 20); err != nil {
		t.Fatal(err)
	}
	if n := taken(); n > 12<<20 {
		t.Errorf("%d bytes are taken for a limit of 8 MiB", n)
	}
	verifyAll(t, e)
}
