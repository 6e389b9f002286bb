package engine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkAttach measures New on a file with a million entries of 64 bytes, on a
// disk and in memory.
func BenchmarkAttach(b *testing.B) {
	dirs := map[string]string{"disk": b.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "ringcache-test"); err == nil {
		b.Cleanup(func() { os.RemoveAll(dir) })
		dirs["memory"] = dir
	}
	for where, dir := range dirs {
		b.Run(where, func(b *testing.B) {
			const items = 1_000_000
			c := newClock()
			o := Options{Now: c.now, MaxBytes: 256 << 20, NoBackground: true, File: filepath.Join(dir, "arena")}
			e := reopen(b, o.File, o)
			key, value := make([]byte, 16), make([]byte, 64)
			for i := range items {
				binary.LittleEndian.PutUint64(key, uint64(i)*0x9e3779b97f4a7c15)
				mustSet(b, e, slotFor(i), key, value, 0)
			}
			mustClose(b, e)
			for b.Loop() {
				e, err := New(o)
				if err != nil || e.Attachment().Entries != items {
					b.Fatal(err, e.Attachment())
				}
				b.StopTimer()
				if _, err := e.CloseWith(CloseOptions{AsFound: true}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
