package engine

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// tracesDir holds public traces, which are not part of the project.
const tracesDir = "../../../shared/data/traces"

func traceReader(t *testing.T, name string) io.Reader {
	dir := os.Getenv("RINGCACHE_TRACES")
	if dir == "" {
		dir = tracesDir
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no traces: %v (RINGCACHE_TRACES names their folder)", err)
	}
	var r io.Reader = strings.NewReader(string(b))
	switch filepath.Ext(name) {
	case ".gz":
		r, err = gzip.NewReader(r)
	case ".xz":
		r, err = xz.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewReaderSize(r, 1<<20)
}

// loadTrace returns the keys of a trace in order.
func loadTrace(t *testing.T, name string) (keys []uint64) {
	r := traceReader(t, name)
	words := 0
	switch {
	case strings.HasPrefix(name, "corda"):
		words = 8
	case strings.HasPrefix(name, "web07"):
		words = 4
	}
	if words > 0 {
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(b) >= words; b = b[words:] {
			if words == 8 {
				keys = append(keys, binary.BigEndian.Uint64(b))
			} else {
				keys = append(keys, uint64(binary.BigEndian.Uint32(b)))
			}
		}
		return keys
	}
	for sc := bufio.NewScanner(r); sc.Scan(); {
		var start, count uint64
		if n, _ := fmt.Sscan(sc.Text(), &start, &count); n == 0 {
			continue
		}
		if !strings.HasPrefix(name, "oltp") {
			count = 1
		}
		for i := range count {
			keys = append(keys, start+i)
		}
	}
	return keys
}

// replayTrace returns the hit ratio in per cent and the mean number of keys.
func replayTrace(t *testing.T, keys []uint64, limit int64, policy string) (ratio, mean float64) {
	e, err := New(Options{MaxBytes: limit, Now: newClock().now, NoBackground: true, Policy: policy, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for slot := range Slots {
		e.SetServing(uint16(slot), true)
	}
	var key [8]byte
	var value [64]byte
	dst := make([]byte, 0, 64)
	hits, sum, n := 0, int64(0), int64(0)
	for i, k := range keys {
		binary.LittleEndian.PutUint64(key[:], k)
		slot := slotFor(int(k * 0x9e3779b97f4a7c15 >> 50))
		if _, _, err := e.Get(slot, key[:], dst); err == nil {
			hits++
		} else if err := e.Set(slot, key[:], value[:], 0); err != nil {
			t.Fatal(err)
		}
		if i%512 == 0 && e.Stats().Evicted > 0 {
			sum, n = sum+e.Stats().Keys, n+1
		}
	}
	return 100 * float64(hits) / float64(len(keys)), float64(sum) / float64(max(n, 1))
}

// atCapacity replays with the memory limit at which the engine holds capacity
// keys on average while it evicts.
func atCapacity(t *testing.T, keys []uint64, capacity int, policy string) (ratio, mean float64, limit int64) {
	limit = int64(capacity) * 90
	for range 6 {
		ratio, mean = replayTrace(t, keys, limit, policy)
		if mean == 0 || mean > 0.99*float64(capacity) && mean < 1.01*float64(capacity) {
			break
		}
		limit = int64(float64(limit) * float64(capacity) / mean)
	}
	return ratio, mean, limit
}

// The ratios of LRU, SIEVE and S3-FIFO are those that the traces came with.
var ratioCases = []struct {
	trace    string
	capacity int
	best     float64 // of the three
	lru      float64
	quick    bool // in every run; the others with RINGCACHE_LONG
}{
	{"oltp.gz", 500, 31.19, 23.45, false},
	{"oltp.gz", 1000, 40.18, 32.83, false},
	{"oltp.gz", 2000, 46.87, 42.47, false},
	{"oltp.gz", 10000, 62.66, 60.70, false},
	{"gli.gz", 1000, 35.10, 11.21, true},
	{"loop.gz", 512, 32.62, 0, true},
	{"corda_vaultservice.gz", 1000, 33.33, 33.33, false},
	{"web07.trace.xz", 1000, 53.96, 50.41, true},
	{"multi2.trace.gz", 1000, 50.71, 47.80, true},
}

// TestHitRatio measures the policies through the engine on public traces.
func TestHitRatio(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("long")
	}
	for _, tc := range ratioCases {
		if !tc.quick && !long() {
			continue
		}
		keys := loadTrace(t, tc.trace)
		got, mean, limit := atCapacity(t, keys, tc.capacity, DefaultPolicy)
		lru, _, _ := atCapacity(t, keys, tc.capacity, "lru")
		if tc.lru > 0 && (lru < tc.lru-1 || lru > tc.lru+1.1) {
			t.Errorf("%s@%d: lru has %.2f, exact LRU %.2f", tc.trace, tc.capacity, lru, tc.lru)
		}
		if got < tc.best-0.6 {
			t.Errorf("%s@%d: %.2f, the best of LRU, SIEVE and S3-FIFO is %.2f", tc.trace, tc.capacity, got, tc.best)
		}
		t.Logf("%-22s @%-5d s3fifo %6.2f lru %6.2f best known %6.2f; %.0f keys in %d bytes", tc.trace, tc.capacity, got, lru, tc.best, mean, limit)
	}
}

// sizeDivisor divides the sizes of a sized trace and the capacities, so that a
// replay does not write tens of gigabytes.
const sizeDivisor = 16

type sizedRequest struct {
	key  uint64
	size int
}

// loadSized returns a trace of 24-byte records: time, key, size, next access.
func loadSized(t *testing.T, name string) (reqs []sizedRequest) {
	r := traceReader(t, name)
	first := map[uint64]int{} // an object has the size that it came with
	for {
		var b [24]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return reqs
		}
		key, size := binary.LittleEndian.Uint64(b[4:]), max(1, int(binary.LittleEndian.Uint32(b[12:]))/sizeDivisor)
		if s, ok := first[key]; ok {
			size = s
		}
		first[key] = size
		reqs = append(reqs, sizedRequest{key, size})
	}
}

// replaySized returns the misses and the mean payload while there is eviction.
func replaySized(t *testing.T, reqs []sizedRequest, limit int64) (misses int, payload float64) {
	e, err := New(Options{MaxBytes: limit, Now: newClock().now, NoBackground: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for slot := range Slots {
		e.SetServing(uint16(slot), true)
	}
	var key [8]byte
	value, dst := make([]byte, 64<<10), make([]byte, 0, 64<<10)
	n := 0.0
	for i, r := range reqs {
		binary.LittleEndian.PutUint64(key[:], r.key)
		slot := uint16(r.key * 0x9e3779b97f4a7c15 >> 50)
		if _, _, err := e.Get(slot, key[:], dst); err != nil {
			misses++
			if err := e.Set(slot, key[:], value[:r.size], 0); err != nil {
				t.Fatal(err)
			}
		}
		if i%997 == 0 {
			if st := e.Stats(); st.Evicted > 0 {
				// Beside the values: overhead, 8 bytes of key, 1.5 of padding.
				payload += float64(st.Bytes) - float64(st.Keys)*(Overhead+9.5)
				n++
			}
		}
	}
	return misses, payload / max(n, 1)
}

// TestHitRatioBySize holds the default policy against S3-FIFO on a trace with
// sizes, by bytes of values: at most 1 % more misses at every capacity, fewer in
// all. The misses of S3-FIFO are those that the trace came with.
func TestHitRatioBySize(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("long")
	}
	reqs := loadSized(t, "cloudPhysicsIO.oracleGeneral.bin")
	s3fifo := []int{89307, 82387, 77041, 76791, 71300, 70343, 70455, 70355} // at 128, 256 ... 1024 MiB
	all, known := 0, 0
	for i, most := range s3fifo {
		if !long() && i != 1 && i != 2 && i != 7 {
			continue // the others with RINGCACHE_LONG
		}
		want := float64(i+1) * (128 << 20) / sizeDivisor
		limit := int64(want * 1.05)
		var misses int
		var payload float64
		for range 8 { // a little less than wanted is the harder case
			misses, payload = replaySized(t, reqs, limit)
			if payload > 0.98*want && payload < 1.005*want {
				break
			}
			limit = int64(float64(limit) * 0.995 * want / payload)
		}
		if payload > 1.01*want || misses*100 > most*101 {
			t.Errorf("%d MiB: %d misses with %.0f of %.0f bytes, S3-FIFO has %d", (i+1)*128, misses, payload, want, most)
		}
		t.Logf("%4d MiB / %d: %d misses, %+.1f %%; %.1f %% of the payload", (i+1)*128, sizeDivisor, misses, 100*(float64(misses)/float64(most)-1), 100*payload/want)
		all, known = all+misses, known+most
	}
	if all >= known {
		t.Errorf("%d misses in all, S3-FIFO has %d", all, known)
	}
}
