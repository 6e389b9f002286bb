package workload

import (
	"bytes"
	"compress/gzip"
	"container/list"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// traceDir is where the public traces lie beside a checkout.
func traceDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("RINGCACHE_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data", "traces")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no trace files at %s; set RINGCACHE_TRACES to the folder that holds oltp.gz and others", dir)
	}
	return dir
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write(data)
		w.Close()
		data = b.Bytes()
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readAll(t *testing.T, path, format string) ([]Access, error) {
	t.Helper()
	src, err := OpenTrace(path, format)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var all []Access
	for {
		a, err := src.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
}

func oracleRecord(key uint64, size uint32) []byte {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[4:], key)
	binary.LittleEndian.PutUint32(b[12:], size)
	return b[:]
}

func TestOpenTraceReadsEveryFormat(t *testing.T) {
	for _, c := range []struct {
		name, file, format string
		data               []byte
		want               []Access
	}{
		{"arc expands runs", "oltp.gz", "auto", []byte("7 3 0 0\n9 1 0 1\n"), []Access{{Key: 7}, {Key: 8}, {Key: 9}, {Key: 9}}},
		{"ids skip the end mark", "gli.gz", "auto", []byte("5\n\n6\n*\n"), []Access{{Key: 5}, {Key: 6}}},
		{"64-bit keys", "corda_x", "auto", []byte{0, 0, 0, 0, 0, 0, 1, 2}, []Access{{Key: 258}}},
		{"32-bit keys", "web07.trace", "auto", []byte{0, 0, 1, 2, 255, 255, 255, 255}, []Access{{Key: 258}, {Key: math.MaxUint32}}},
		{"sized records", "a.oracleGeneral.bin", "auto", oracleRecord(42, 512), []Access{{Key: 42, Size: 512}}},
		{"format by flag", "anything", "ids", []byte("1\n2\n"), []Access{{Key: 1}, {Key: 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(t, write(t, c.file, c.data), c.format)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("access %d: got %v, want %v", i, got[i], c.want[i])
				}
			}
		})
	}
}

func TestOpenTraceTellsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, file, format string
		data               []byte
		want               string
	}{
		{"unknown name", "foo.dat", "auto", nil, "give --format, one of arc"},
		{"unknown format", "oltp", "arcs", nil, `"arcs" is unknown`},
		{"text in place of a number", "oltp", "auto", []byte("1 1 0 0\nx 1 0 0\n"), `line 2: "x" is not a number`},
		{"huge run", "oltp", "auto", []byte("1 99999999 0 0\n"), "block count"},
		{"cut record", "corda", "auto", []byte{1, 2, 3}, "record 1 is cut short (records have 8 bytes)"},
		{"not gzip", "oltp.xz", "auto", []byte("plain"), "xz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readAll(t, write(t, c.file, c.data), c.format)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want it to contain %q", err, c.want)
			}
		})
	}
	if _, err := OpenTrace(filepath.Join(t.TempDir(), "oltp.gz"), "auto"); err == nil {
		t.Error("a missing file opened")
	}
}

// lruHits is a textbook LRU over the trace, the reference for published ratios.
func lruHits(t *testing.T, path string, capacity int) (hits, total int) {
	t.Helper()
	all, err := readAll(t, path, "auto")
	if err != nil {
		t.Fatal(err)
	}
	order, at := list.New(), map[uint64]*list.Element{}
	for _, a := range all {
		if e, ok := at[a.Key]; ok {
			hits++
			order.MoveToFront(e)
			continue
		}
		if order.Len() >= capacity {
			last := order.Back()
			delete(at, last.Value.(uint64))
			order.Remove(last)
		}
		at[a.Key] = order.PushFront(a.Key)
	}
	return hits, len(all)
}

// The readers are right when a plain LRU over them gives the hit ratios that
// were published for these traces.
func TestTracesGivePublishedLRURatios(t *testing.T) {
	dir := traceDir(t)
	for _, c := range []struct {
		file     string
		capacity int
		want     float64
	}{
		{"oltp.gz", 1000, 32.83},
		{"gli.gz", 1000, 11.21},
		{"corda_vaultservice.gz", 1000, 33.33},
		{"web07.trace.xz", 1000, 50.41},
	} {
		hits, total := lruHits(t, filepath.Join(dir, c.file), c.capacity)
		if got := 100 * float64(hits) / float64(total); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%s@%d: %d of %d hits = %.2f %%, want %.2f %%", c.file, c.capacity, hits, total, got, c.want)
		}
	}
	requests, objects, bytes, err := CountTrace(filepath.Join(dir, "cloudPhysicsIO.oracleGeneral.bin"), "auto")
	if err != nil || requests != 113872 || objects != 48974 || bytes == 0 {
		t.Errorf("cloudPhysicsIO: %d requests, %d objects, %d bytes, %v; want 113872 and 48974", requests, objects, bytes, err)
	}
}

func FuzzTextTrace(f *testing.F) {
	f.Add([]byte("1 2 0 0\n7 1 0 0\n"), true)
	f.Add([]byte("1\n*\n2"), false)
	f.Fuzz(func(t *testing.T, data []byte, arc bool) {
		format := "ids"
		if arc {
			format = "arc"
		}
		src := newSource("fuzz", format, bytes.NewReader(data), io.NopCloser(nil))
		for range 10_000 {
			if _, err := src.Next(); err != nil {
				return
			}
		}
	})
}
