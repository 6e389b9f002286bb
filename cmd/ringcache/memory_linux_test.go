package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// soakVariable lengthens the load of every scenario: a duration such as 60s.
const soakVariable = "RINGCACHE_SOAK"

// TestMemoryBound loads real processes in the ways that break caches and
// watches their resident memory: never above max-memory and 48 MiB.
func TestMemoryBound(t *testing.T) {
	const limit, beside = 64 << 20, 48 << 20
	load := 3 * time.Second
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if load, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", soakVariable, err)
		}
	} else if testing.Short() {
		t.Skip("short")
	}
	value := bytes.Repeat([]byte("v"), 256<<10)
	for _, tc := range []struct {
		name    string
		writers int
		next    func(r *rand.Rand, n int) (key string, size int, ttl string)
	}{
		{"mixed sizes from 1 B to 256 KB", 2, func(r *rand.Rand, n int) (string, int, string) {
			return fmt.Sprint("m", r.IntN(1_000_000)), 1 << r.IntN(19), ""
		}},
		{"bimodal sizes", 2, func(r *rand.Rand, n int) (string, int, string) {
			if n%50 == 0 {
				return fmt.Sprint("b", r.IntN(100_000)), 100_000 + r.IntN(100_000), ""
			}
			return fmt.Sprint("b", r.IntN(100_000)), 8, ""
		}},
		{"overwriting ten thousand keys", 2, func(r *rand.Rand, _ int) (string, int, string) {
			return fmt.Sprint("o", r.IntN(10_000)), r.IntN(8000), ""
		}},
		{"write-only churn with a TTL of one second", 2, func(r *rand.Rand, n int) (string, int, string) {
			return fmt.Sprint("c", r.Uint64()), 100, "1"
		}},
		{"keys of 200 B with values of 1 B", 2, func(r *rand.Rand, _ int) (string, int, string) {
			return fmt.Sprintf("%0200d", r.Uint64()), 1, ""
		}},
		{"one value of 256 KB among a million small ones", 2, func(r *rand.Rand, n int) (string, int, string) {
			if n%20_000 == 1000 {
				return "large", 256 << 10, ""
			}
			return fmt.Sprint("s", r.IntN(1_000_000)), 8, ""
		}},
		{"sixteen writers", 16, func(r *rand.Rand, n int) (string, int, string) {
			return fmt.Sprint("w", r.IntN(1_000_000)), r.IntN(1 << (4 + r.IntN(13))), ""
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr := devAddr(freePorts(t, 1))
			p := start(t, command(t, nil, "serve", "--addr", addr, "--max-memory", "64mb", "--log-level", "error"))
			var written atomic.Int64
			var wg sync.WaitGroup
			until := time.Now().Add(load)
			for w := range tc.writers {
				r := rand.New(rand.NewPCG(uint64(w), 1))
				wg.Go(func() {
					n, err := writeUntil(addr, until, func(n int) (string, []byte, string) {
						key, size, ttl := tc.next(r, n)
						return key, value[:size], ttl
					})
					written.Add(n)
					if err != nil {
						t.Error(err)
					}
				})
			}
			done := make(chan struct{})
			go func() { wg.Wait(); close(done) }()
			most := int64(0)
			watch := time.NewTicker(20 * time.Millisecond)
			defer watch.Stop()
			for busy := true; busy; {
				select {
				case <-watch.C:
				case <-done:
					busy = false
				}
				most = max(most, residentOf(t, p.cmd.Process.Pid))
			}
			t.Logf("%d MiB written, at most %d MiB resident", written.Load()>>20, most>>20)
			if most > limit+beside {
				t.Errorf("%d bytes resident, limit %d and %d", most, limit, beside)
			}
			p.stop(t, syscall.SIGTERM)
		})
	}
}

// writeUntil stores what next gives, in batches, and returns the bytes sent.
func writeUntil(addr string, until time.Time, next func(n int) (key string, value []byte, ttl string)) (sent int64, err error) {
	conn, err := net.DialTimeout("tcp", addr, callLimit)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	in, out := bufio.NewReader(conn), bufio.NewWriterSize(conn, 64<<10)
	for n := 0; time.Now().Before(until); {
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		batch := 0
		for size := 0; batch < 100 && size < 256<<10; batch++ {
			key, value, ttl := next(n)
			n++
			args := 3
			if ttl != "" {
				args = 5
			}
			fmt.Fprintf(out, "*%d\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", args, len(key), key, len(value))
			out.Write(value)
			out.WriteString("\r\n")
			if ttl != "" {
				fmt.Fprintf(out, "$2\r\nEX\r\n$%d\r\n%s\r\n", len(ttl), ttl)
			}
			size += len(key) + len(value)
			sent += int64(len(key) + len(value))
		}
		if err := out.Flush(); err != nil {
			return sent, err
		}
		for range batch {
			line, err := in.ReadString('\n')
			if err != nil {
				return sent, err
			}
			if line != "+OK\r\n" {
				return sent, fmt.Errorf("SET answers %q", line)
			}
		}
	}
	return sent, nil
}

// residentOf returns the resident bytes of a process.
func residentOf(t *testing.T, pid int) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, _ := io.ReadAll(f)
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		t.Fatalf("statm is %q", b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
