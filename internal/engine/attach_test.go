package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// fileDirs are where a file is tried: a directory on a disk, where it is
// written at the end, and one in memory, where it is the arena itself.
func fileDirs(t *testing.T) map[string]string {
	dirs := map[string]string{"disk": t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "ringcache-test"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		dirs["memory"] = dir
	}
	return dirs
}

// reopen returns an engine on the file, all slots served.
func reopen(tb testing.TB, path string, o Options) *Engine {
	tb.Helper()
	o.File, o.NoBackground = path, true
	e, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	for slot := range Slots {
		e.SetServing(uint16(slot), true)
	}
	return e
}

func mustClose(tb testing.TB, e *Engine) {
	tb.Helper()
	if err := e.Close(); err != nil {
		tb.Fatal(err)
	}
}

// stored is one entry as the test knows it.
type stored struct {
	slot     uint16
	value    []byte
	deadline int64
}

// fillFile stores entries of all kinds: inline, in chains, without and with
// near and far deadlines, many in one slot.
func fillFile(t *testing.T, e *Engine, c *clock, n int) map[string]stored {
	t.Helper()
	all := map[string]stored{}
	for i := range n {
		s := stored{slot: slotFor(i), value: bytes.Repeat([]byte{byte(i)}, i%200)}
		switch i % 7 {
		case 1:
			s.deadline = c.in(int64(1 + i))
		case 2:
			s.deadline = c.in(1 << 40)
		case 3:
			s.slot = 77
		}
		if i%500 == 0 {
			s.value = bytes.Repeat([]byte{byte(i)}, 100_000)
		}
		mustSet(t, e, s.slot, keyFor(i), s.value, s.deadline)
		all[string(keyFor(i))] = s
	}
	for i := 0; i < n; i += 11 {
		if _, err := e.Delete(all[string(keyFor(i))].slot, keyFor(i)); err != nil {
			t.Fatal(err)
		}
		delete(all, string(keyFor(i)))
	}
	return all
}

// holds compares all entries that live at now.
func holds(t *testing.T, e *Engine, all map[string]stored, now int64) {
	t.Helper()
	live := 0
	for key, s := range all {
		value, deadline, err := e.Get(s.slot, []byte(key), nil)
		if expired(s.deadline, now) {
			if !errors.Is(err, errs.ErrNotFound) {
				t.Fatalf("%s has expired and is there: %v", key, err)
			}
			continue
		}
		live++
		if err != nil || !bytes.Equal(value, s.value) || deadline != s.deadline {
			t.Fatalf("%s: %d bytes until %d, %v; want %d until %d", key, len(value), deadline, err, len(s.value), s.deadline)
		}
	}
	for removed := 1; removed > 0; {
		removed, _ = e.Sweep()
	}
	if keys := e.Stats().Keys; keys != int64(live) {
		t.Errorf("%d entries are there, want %d", keys, live)
	}
	verifyAll(t, e)
}

func TestAttach(t *testing.T) {
	for where, dir := range fileDirs(t) {
		t.Run(where, func(t *testing.T) {
			path, n := filepath.Join(dir, "arena"), scale(40_000)
			c := newClock()
			o := Options{Now: c.now, MaxBytes: 64 << 20, Shards: 8}
			e := reopen(t, path, o)
			if a := e.Attachment(); a.Empty == "" || !a.Fresh || a.Live != (where == "memory" && !raceEnabled) {
				t.Errorf("the first start found %+v", a)
			}
			all := fillFile(t, e, c, n)
			k, err := e.CloseWith(CloseOptions{Note: []byte("a note")})
			if err != nil || k.Entries != int64(len(all)) {
				t.Fatalf("kept %+v, %v; want %d entries", k, err, len(all))
			}
			c.add(int64(n / 2)) // half of those with a near deadline expire meanwhile
			e = reopen(t, path, o)
			if a := e.Attachment(); a.Entries != k.Entries || a.Bytes != k.Bytes || a.Empty != "" || string(a.Note) != "a note" {
				t.Fatalf("found %+v, kept %+v", a, k)
			}
			holds(t, e, all, c.now())

			// What was taken over is as good as what was written here.
			for key, s := range all {
				s.value = append(s.value, "more"...)
				all[key] = s
				mustSet(t, e, s.slot, []byte(key), s.value, s.deadline)
			}
			mustClose(t, e)
			e = reopen(t, path, o)
			holds(t, e, all, c.now())
			for slot := range Slots {
				e.DropSlot(uint16(slot))
			}
			verifyAll(t, e)
			mustClose(t, e)
		})
	}
}

// TestAttachWithEviction: queues, evicted keys and the limit come back, also
// with a limit below what is used.
func TestAttachWithEviction(t *testing.T) {
	for where, dir := range fileDirs(t) {
		t.Run(where, func(t *testing.T) {
			path := filepath.Join(dir, "arena")
			c := newClock()
			o := Options{Now: c.now, MaxBytes: 8 << 20, Shards: 2}
			e := reopen(t, path, o)
			write := func(from, n int) {
				for i := from; i < from+n; i++ {
					mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 100+i%1000), 0)
					if i%3 == 0 {
						e.Get(slotFor(i/2), keyFor(i/2), nil)
					}
				}
			}
			write(0, 24_000)
			before := e.Stats()
			if before.Evicted == 0 || before.GhostBytes == 0 {
				t.Fatalf("nothing was evicted: %+v", before)
			}
			mustClose(t, e)
			e = reopen(t, path, o)
			after := e.Stats()
			if after.Keys != before.Keys || after.Bytes != before.Bytes || after.ArenaBytes != before.ArenaBytes ||
				after.IndexBytes != before.IndexBytes || after.GhostBytes != before.GhostBytes ||
				after.LiveBytes != before.LiveBytes || after.DeadBytes != before.DeadBytes {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
			verifyAll(t, e)
			write(40_000, 20_000)
			verifyAll(t, e)
			mustClose(t, e)

			o.MaxBytes = 6 << 20 // of the same layout
			e = reopen(t, path, o)
			if a := e.Attachment(); a.Entries == 0 {
				t.Fatalf("found %+v", a)
			}
			if s := e.Stats(); s.ArenaBytes > o.MaxBytes || s.Keys == 0 {
				t.Errorf("with less memory: %+v", s)
			}
			write(60_000, 10_000)
			if err := e.SetMaxBytes(3 << 20); err != nil {
				t.Fatal(err)
			}
			write(70_000, 10_000)
			if err := e.SetMaxBytes(8 << 20); err != nil {
				t.Fatal(err)
			}
			write(80_000, 20_000)
			verifyAll(t, e)
			mustClose(t, e)
		})
	}
}

// TestAttachClock: a clock that was set back between two processes revives
// nothing.
func TestAttachClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arena")
	c := newClock()
	o := Options{Now: c.now, MaxBytes: 1 << 20}
	e := reopen(t, path, o)
	mustSet(t, e, 1, []byte("short"), []byte("v"), c.in(1000))
	mustSet(t, e, 1, []byte("long"), []byte("v"), c.in(5000))
	c.add(2000)
	end := c.now()
	mustClose(t, e)
	c.add(-100_000)
	e = reopen(t, path, o)
	if a := e.Attachment(); a.ClockBack != 100_000 || e.Now() != end {
		t.Errorf("found %+v, now %d, want %d", a, e.Now(), end)
	}
	if has(e, 1, []byte("short")) || !has(e, 1, []byte("long")) {
		t.Error("an expired entry lives again, or a live one is gone")
	}
	c.add(3001)
	if has(e, 1, []byte("long")) {
		t.Error("the deadline has moved")
	}
}

// TestAttachOnlyServed: what is not served at the end is not kept, unless
// nothing was served at all.
func TestAttachOnlyServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arena")
	c := newClock()
	o := Options{Now: c.now, MaxBytes: 1 << 20, File: path, NoBackground: true}
	e := reopen(t, path, o)
	for slot := range uint16(4) {
		mustSet(t, e, slot, []byte("k"), []byte("v"), 0)
	}
	if _, err := e.CloseWith(CloseOptions{Note: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.CloseWith(CloseOptions{AsFound: true, Note: []byte("unused")}); err != nil {
		t.Fatal(err)
	}
	if e, err = New(o); err != nil || e.Attachment().Entries != 4 || string(e.Attachment().Note) != "first" {
		t.Fatalf("found %+v, %v", e.Attachment(), err)
	}
	e.SetServing(2, true)
	if k, err := e.CloseWith(CloseOptions{}); err != nil || k.Entries != 1 {
		t.Fatalf("kept %+v, %v", k, err)
	}
	if e, err = New(o); err != nil || e.SlotStats(2).Keys != 1 || e.Attachment().Entries != 1 {
		t.Fatalf("found %+v, %v", e.Attachment(), err)
	}
	if _, err := e.CloseWith(CloseOptions{Discard: true}); err != nil {
		t.Fatal(err)
	}
	if e, err = New(o); err != nil || e.Attachment().Entries != 0 || !strings.Contains(e.Attachment().Empty, "gave its entries up") {
		t.Fatalf("found %+v, %v", e.Attachment(), err)
	}
	mustClose(t, e)
}

// TestAttachRefused: whatever is wrong with a file, the start is empty, says
// why, and the engine works.
func TestAttachRefused(t *testing.T) {
	oneGoroutine(t)
	for where, dir := range fileDirs(t) {
		path := filepath.Join(dir, "arena")
		c := newClock()
		o := Options{Now: c.now, MaxBytes: 2 << 20, Shards: 2, MaxValue: 1 << 10}
		e := reopen(t, path, o)
		for i := range 1000 {
			mustSet(t, e, slotFor(i), keyFor(i), []byte("value"), 0)
		}
		mustClose(t, e)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head := func(change func(h *fileHeader)) func([]byte) []byte {
			return func(b []byte) []byte {
				var h fileHeader
				if err := h.decode(b); err != nil {
					t.Fatal(err)
				}
				change(&h)
				copy(b, h.encode())
				return b
			}
		}
		place := binary.LittleEndian.Uint64(good[64:])
		for name, tc := range map[string]struct {
			damage func(b []byte) []byte
			o      func(o *Options)
			want   string
		}{
			"head":           {damage: func(b []byte) []byte { b[40]++; return b }, want: "head is damaged"},
			"version":        {damage: head(func(h *fileHeader) { h.version++ }), want: "version 2"},
			"byte order":     {damage: head(func(h *fileHeader) { h.layout[0] = 0x01020304 }), want: "byte order"},
			"no clean end":   {damage: head(func(h *fileHeader) { h.state = stateInUse }), want: "did not end cleanly"},
			"section":        {damage: func(b []byte) []byte { b[place+100]++; return b }, want: "damaged"},
			"content":        {damage: func(b []byte) []byte { b[fileHead+9000]++; return b }, want: "content is damaged"},
			"cut in section": {damage: func(b []byte) []byte { return b[:place+10] }, want: "truncated"},
			"cut in content": {damage: head(func(h *fileHeader) { h.place = 1 << 40 }), want: "truncated"},
			"huge section":   {damage: head(func(h *fileHeader) { h.length = 1 << 60 }), want: "truncated"},
			"cut in head":    {damage: func(b []byte) []byte { return b[:50] }, want: "truncated"},
			"shards":         {o: func(o *Options) { o.Shards = 4 }, want: "another layout: shards 2, here 4"},
			"blocks":         {o: func(o *Options) { o.MaxBytes = 128 << 10 }, want: "bytes of a block"},
			"smaller values": {o: func(o *Options) { o.MaxValue = 100 }, want: "up to 1024 bytes"},
		} {
			t.Run(where+"/"+name, func(t *testing.T) {
				b := bytes.Clone(good)
				if tc.damage != nil {
					b = tc.damage(b)
				}
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				o := o
				if tc.o != nil {
					tc.o(&o)
				}
				e := reopen(t, path, o)
				a := e.Attachment()
				if a.Entries != 0 || a.Fresh || !strings.Contains(a.Empty, tc.want) {
					t.Errorf("found %+v, want %q", a, tc.want)
				}
				if e.Stats().Keys != 0 {
					t.Errorf("%+v", e.Stats())
				}
				verifyAll(t, e)
				for i := range 2000 {
					mustSet(t, e, slotFor(i), keyFor(i), []byte("new"), 0)
				}
				verifyAll(t, e)
				mustClose(t, e)
				if e = reopen(t, path, o); e.Attachment().Entries != 2000 {
					t.Errorf("then %+v", e.Attachment())
				}
				mustClose(t, e)
			})
		}
	}
}

// TestAttachCrash: a process that takes a file over and dies leaves nothing to
// take over, neither its own entries nor those that it found.
func TestAttachCrash(t *testing.T) {
	for where, dir := range fileDirs(t) {
		t.Run(where, func(t *testing.T) {
			path := filepath.Join(dir, "arena")
			c := newClock()
			o := Options{Now: c.now, MaxBytes: 2 << 20}
			e := reopen(t, path, o)
			mustSet(t, e, 1, []byte("k"), []byte("old"), 0)
			mustClose(t, e)
			e = reopen(t, path, o)
			if e.Attachment().Entries != 1 {
				t.Fatalf("found %+v", e.Attachment())
			}
			// What a kill leaves is the file as it is now.
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			copied := path + ".killed"
			if err := os.WriteFile(copied, b, 0o600); err != nil {
				t.Fatal(err)
			}
			e2 := reopen(t, copied, o)
			if a := e2.Attachment(); a.Entries != 0 || a.Fresh || !strings.Contains(a.Empty, fmt.Sprintf("(%d) did not end cleanly", os.Getpid())) {
				t.Errorf("found %+v", a)
			}
		})
	}
}

// TestAttachForeignFile: a file that is no arena's is left alone.
func TestAttachForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arena")
	for _, text := range [][]byte{
		[]byte("somebody's only copy"),
		append(make([]byte, fileHead), "an image of a disk begins with zeros"...),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Now: newClock().now, MaxBytes: 2 << 20, File: path}); !errors.Is(err, errs.ErrConfig) {
			t.Errorf("taken for an arena: %v", err)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, text) {
			t.Errorf("the file has %d bytes of %d, %v", len(b), len(text), err)
		}
	}
}

func TestAttachLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arena")
	c := newClock()
	o := Options{Now: c.now, MaxBytes: 2 << 20}
	e := reopen(t, path, o)
	mustSet(t, e, 1, []byte("k"), []byte("v"), 0)
	o.File = path
	if _, err := New(o); !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) {
		t.Errorf("a second engine on the file: %v", err)
	}
	mustClose(t, e)
	if e = reopen(t, path, o); e.Attachment().Entries != 1 {
		t.Errorf("found %+v", e.Attachment())
	}
}

// TestAttachAborted: a stop that may take no longer leaves nothing half.
func TestAttachAborted(t *testing.T) {
	for where, dir := range fileDirs(t) {
		t.Run(where, func(t *testing.T) {
			path := filepath.Join(dir, "arena")
			c := newClock()
			o := Options{Now: c.now, MaxBytes: 2 << 20}
			e := reopen(t, path, o)
			mustSet(t, e, 1, []byte("k"), []byte("v"), 0)
			over := make(chan struct{})
			close(over)
			if _, err := e.CloseWith(CloseOptions{Until: over}); err == nil || !strings.Contains(err.Error(), "too long") {
				t.Errorf("close: %v", err)
			}
			if e = reopen(t, path, o); e.Attachment().Empty == "" || e.Attachment().Fresh || e.Stats().Keys != 0 {
				t.Errorf("found %+v", e.Attachment())
			}
		})
	}
}
