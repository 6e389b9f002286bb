package engine

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the calling thread: what a busy machine
// does besides does not count.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// What single writes cost their caller at the limit, with the cleaner and
// without it, and what all threads together use per write.
func BenchmarkWriteAtLimit(b *testing.B) {
	const limit = 256 << 20
	for _, background := range []bool{false, true} {
		name := "inline"
		if background {
			name = "cleaner"
		}
		b.Run(name, func(b *testing.B) {
			var e *Engine
			if background {
				e = newBackground(b, Options{MaxBytes: limit})
			} else {
				e, _ = newTest(b, Options{MaxBytes: limit, Now: func() int64 { return time.Now().UnixMilli() }})
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			value := make([]byte, 100)
			var n uint64
			write := func() time.Duration {
				var key [16]byte
				n++
				binary.LittleEndian.PutUint64(key[:], n*0x9e3779b97f4a7c15)
				at := threadTime()
				if err := e.Set(uint16(n*40503), key[:], value, 0); err != nil {
					b.Fatal(err)
				}
				return threadTime() - at
			}
			for i := 0; i%10_000 != 0 || e.Stats().Evicted == 0; i++ {
				write()
			}
			times := make([]time.Duration, b.N)
			var before, after unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
			for i := range b.N {
				times[i] = write()
			}
			_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
			all := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
			b.ReportMetric(float64(all)/float64(b.N), "cpu-ns/op")
			slices.Sort(times)
			for _, p := range []struct {
				name string
				at   int
			}{{"p50", 500}, {"p99", 990}, {"p99.9", 999}} {
				b.ReportMetric(float64(times[len(times)*p.at/1000]), "cpu-ns-"+p.name)
			}
		})
	}
}
