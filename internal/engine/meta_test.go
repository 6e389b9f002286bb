package engine

import (
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestEveryFieldIsKept: what a warm restart has to bring back is listed here,
// field by field. A field that is new fails the test until somebody has decided
// what becomes of it: kept (encoded and decoded), follows (from what is kept), or
// new (begins anew).
func TestEveryFieldIsKept(t *testing.T) {
	const kept, follows, fresh = "kept", "follows", "new"
	for _, tc := range []struct {
		of     any
		fields map[string]string
	}{
		{Engine{}, map[string]string{
			"now": fresh, "observer": fresh, "hash": follows, "seed": kept, "arena": kept, "shards": kept, "mask": follows, "bits": follows,
			"maxValue": kept, "maxKey": kept, "feedSize": fresh, "used": follows, "reads": fresh, "glancing": fresh, "births": kept, "_": fresh, "ceiling": fresh, "limit": fresh,
			"debt": fresh, "windows": fresh, "stocked": fresh, "flushes": fresh, "policy": fresh, "picks": kept, "file": fresh, "found": fresh, "limitMu": fresh, "scratch": fresh,
			"closed": fresh, "stop": fresh, "ended": fresh, "swept": fresh, "paced": fresh, "lately": fresh, "beat": fresh,
			"tally": fresh, "classes": kept, "outside": fresh, "cleaned": fresh, "jobs": fresh, "wake": fresh, "pressed": fresh,
			"met": fresh, "clearing": fresh, "windowGen": fresh}},
		{arena{}, map[string]string{
			"mem": kept, "blockBytes": follows, "blockShift": follows, "chunkShift": follows, "unit": follows, "mu": fresh, "free": kept,
			"rows": follows, "empty": follows, "taken": fresh, "slack": fresh, "open": follows, "most": fresh, "homes": follows, "stash": follows,
			"huge": fresh}},
		{shard{}, map[string]string{"shardState": kept, "_": fresh}},
		{shardState{}, map[string]string{
			"cells": kept, "mu": fresh, "e": follows, "id": follows, "slots": kept, "data": kept, "ghosts": kept, "pages": follows, "keys": follows,
			"oldest": follows, "era": kept, "feeds": fresh, "pending": fresh, "told": fresh, "rand": kept, "sweep": fresh, "scratch": fresh, "txn": fresh,
			"counters": fresh, "checks": fresh, "shadow": fresh, "shadowMask": fresh, "present": follows, "watched": fresh, "spareState": fresh}},
		{data{}, map[string]string{
			"segs": kept, "classed": follows, "classBytes": kept, "spare": fresh, "queues": kept, "open": kept, "full": follows, "live": follows, "dead": follows, "vols": follows, "begun": kept,
			"keep": fresh, "working": fresh}},
		{segment{}, map[string]string{
			"start": kept, "blocks": kept, "newer": follows, "older": follows, "queue": follows, "lane": kept, "size": kept, "live": kept,
			"count": kept, "vols": kept, "turn": kept, "held": kept, "born": kept, "soonest": kept, "latest": kept}},
		{queue{}, map[string]string{"newest": follows, "oldest": follows, "bytes": follows, "blocks": follows}},
		{ghosts{}, map[string]string{"blocks": kept, "sets": kept, "ways": kept}},
		{slotState{}, map[string]string{
			"dir": kept, "keys": kept, "bytes": kept, "winFull": fresh, "win": fresh, "spare": fresh, "spareVols": fresh}},
		{directory{}, map[string]string{"depth": kept, "deep": follows, "pages": kept}},
	} {
		typ := reflect.TypeOf(tc.of)
		seen := map[string]bool{}
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			if seen[name] = true; tc.fields[name] == "" {
				t.Errorf("%s.%s is new: keep it over a restart (meta_shard.go, meta_engine.go), or say here that it is not kept", typ.Name(), name)
			}
		}
		for name := range tc.fields {
			if !seen[name] {
				t.Errorf("%s has no field %s any more", typ.Name(), name)
			}
		}
	}
}

var update = flag.Bool("update", false, "write the files of testdata anew")

// goldenFile is an arena that a process left, compressed.
const goldenFile = "testdata/arena-v1.gz"

func goldenKeys(fn func(i int, s stored)) {
	for i := range 400 {
		s := stored{slot: slotFor(i % 50), value: make([]byte, i)}
		if i%4 == 0 {
			s.deadline = 2_000_000 + int64(i)
		}
		if i == 7 {
			s.value = make([]byte, 20_000)
		}
		fn(i, s)
	}
}

// TestGoldenFile takes over an arena that was written when its format got its
// version. If it fails, the format has changed: count fileVersion up, and write
// the file anew with -update, so that no process takes the old one for its own.
func TestGoldenFile(t *testing.T) {
	c := newClock()
	o := Options{Now: c.now, MaxBytes: 256 << 10, Shards: 2, Seed: 5}
	path := filepath.Join(t.TempDir(), "arena")
	if *update {
		e := reopen(t, path, o)
		goldenKeys(func(i int, s stored) { mustSet(t, e, s.slot, keyFor(i), s.value, s.deadline) })
		mustClose(t, e)
		if err := pack(goldenFile, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := unpack(path, goldenFile); err != nil {
		t.Fatal(err)
	}
	e := reopen(t, path, o)
	if a := e.Attachment(); a.Entries != 400 {
		t.Fatalf("found %+v", a)
	}
	all := map[string]stored{}
	goldenKeys(func(i int, s stored) { all[string(keyFor(i))] = s })
	holds(t, e, all, c.now())
}

func pack(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(b)
	return errors.Join(err, z.Close(), f.Close())
}

func unpack(to, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// TestModelRestart compares random histories, broken by restarts, with the
// model.
func TestModelRestart(t *testing.T) {
	histories, steps := len(shapes)-1, scale(10_000) // all but a shard per slot, which takes its time
	if testing.Short() {
		steps /= 4
	}
	if long() {
		histories *= 20
	}
	for where, dir := range fileDirs(t) {
		seed := modelSeed()
		for i := range histories {
			sh := shapes[i%(len(shapes)-1)]
			if err := historyIn(filepath.Join(dir, "model"), sh, seed, uint64(i), steps); err != nil {
				t.Fatalf("%s: seed %d history %d, %+v: %v", where, seed, i, sh, err)
			}
		}
	}
}

// sectionOf returns the description of a small engine's content.
func sectionOf(tb testing.TB, fill func(e *Engine, c *clock)) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "arena")
	c := newClock()
	e := reopen(tb, path, Options{Now: c.now, MaxBytes: 256 << 10, Shards: 2, Seed: 1})
	fill(e, c)
	mustClose(tb, e)
	f, err := openArenaFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.f.Close()
	section, err := f.section(e.layout())
	if err != nil {
		tb.Fatal(err)
	}
	return section
}

// FuzzSection gives the decoder damaged descriptions with the right checksum:
// it must refuse them, or what it accepts must be consistent in itself.
func FuzzSection(f *testing.F) {
	f.Add(sectionOf(f, func(*Engine, *clock) {}))
	f.Add(sectionOf(f, func(e *Engine, c *clock) {
		for i := range 400 {
			mustSet(f, e, slotFor(i%3), keyFor(i), make([]byte, i%300), c.in(int64(i)))
		}
		mustSet(f, e, 3, []byte("large"), make([]byte, 60_000), 0)
	}))
	f.Fuzz(func(t *testing.T, section []byte) {
		e, err := New(Options{Now: func() int64 { return 1_000_000 }, MaxBytes: 256 << 10, Shards: 2, Seed: 1, NoBackground: true})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		im, err := e.decode(section)
		if err != nil {
			e.wipe(1)
			for i := range e.shards {
				if err := e.shards[i].verify(); err != nil {
					t.Fatal(err)
				}
			}
		} else {
			for i := range e.shards {
				e.shards[i].name() // every block that is named must be there
			}
			if err := e.arena.verify(e.used.Load()); err != nil && len(im.chunks) <= e.arena.most {
				t.Fatal(err)
			}
			var w metaWriter
			im.encode(&w, e)
			for i := range e.shards {
				e.shards[i].encode(&w)
				e.shards[i].forget() // the blocks themselves are not those of the description
			}
			again, err := New(Options{Now: func() int64 { return 1_000_000 }, MaxBytes: 256 << 10, Shards: 2, Seed: 1, NoBackground: true})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if _, err := again.decode(w.b); err != nil {
				t.Fatalf("what was accepted is not accepted again: %v", err)
			}
			again.wipe(1)
		}
	})
}
