package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ringcache/ringcache/bench/internal/report"
	"github.com/ringcache/ringcache/internal/workload"
)

// load is one sequence of requests. Objects are numbered from 0 by their first
// request.
type load struct {
	name       string
	capacities []int64 // items, or bytes when sized
	sized      bool
	open       func() (workload.Source, error)

	requests []int32
	keys     []string // of each object
	sizes    []int64  // of each object when sized
	maxSize  int64
}

// traceLoads are the traces with the capacities whose hit ratios are known.
var traceLoads = []struct {
	name, file string
	sized      bool
	capacities []int64
}{
	{"oltp", "oltp.gz", false, []int64{500, 1000, 2000, 10000}},
	{"gli", "gli.gz", false, []int64{1000}},
	{"loop", "loop.gz", false, []int64{512}},
	{"corda", "corda_vaultservice.gz", false, []int64{1000}},
	{"web07", "web07.trace.xz", false, []int64{1000}},
	{"multi2", "multi2.trace.gz", false, []int64{1000}},
	{"cloudphysics", "cloudPhysicsIO.oracleGeneral.bin", true,
		[]int64{128 << 20, 256 << 20, 384 << 20, 512 << 20, 640 << 20, 768 << 20, 896 << 20, 1024 << 20}},
}

// traceDir finds the folder of the traces.
func traceDir(flag string) (string, error) {
	dirs := []string{flag}
	if flag == "" {
		dirs = []string{os.Getenv("RINGCACHE_TRACES")}
		if dirs[0] == "" {
			dirs = []string{filepath.Join("..", "shared", "data", "traces"), filepath.Join("..", "..", "shared", "data", "traces")}
		}
	}
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "oltp.gz")); err == nil {
			return d, nil
		}
	}
	return "", fmt.Errorf("no traces in %q (looked for oltp.gz); give -traces or RINGCACHE_TRACES the folder that holds them, or -loads zipf to do without", dirs)
}

// openLoads returns the selected loads, unread.
func openLoads(o options) ([]*load, error) {
	var loads []*load
	var dir string
	for _, t := range traceLoads {
		if !selected(o.loads, t.name) {
			continue
		}
		if dir == "" {
			var err error
			if dir, err = traceDir(o.traces); err != nil {
				return nil, err
			}
		}
		path := filepath.Join(dir, t.file)
		l := &load{name: t.name, sized: t.sized, capacities: t.capacities,
			open: func() (workload.Source, error) { return workload.OpenTrace(path, "auto") }}
		if t.sized && o.quick {
			l.capacities = []int64{256 << 20, 768 << 20}
		}
		loads = append(loads, l)
	}
	items, requests := 1_000_000, 10_000_000
	if o.quick {
		items, requests = 100_000, 500_000
	}
	for _, theta := range []float64{0.7, 0.9, 0.99} {
		name := fmt.Sprintf("zipf%g", theta)
		if !selected(o.loads, name) {
			continue
		}
		loads = append(loads, &load{name: name, capacities: []int64{int64(items / 100), int64(items / 10)},
			open: func() (workload.Source, error) { return openZipf(o.seed, items, requests, theta) }})
	}
	if len(loads) == 0 {
		return nil, fmt.Errorf("-loads %q names no load", o.loads)
	}
	return loads, nil
}

// read fills the load from its source.
func (l *load) read() error {
	src, err := l.open()
	if err != nil {
		return err
	}
	defer src.Close()
	numbers := map[uint64]int32{}
	for {
		a, err := src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		n, ok := numbers[a.Key]
		if !ok {
			n = int32(len(l.keys))
			numbers[a.Key] = n
			l.keys = append(l.keys, workload.TraceKey(a.Key))
			if l.sized {
				l.sizes = append(l.sizes, int64(a.Size))
				l.maxSize = max(l.maxSize, int64(a.Size))
			}
		}
		l.requests = append(l.requests, n)
	}
}

// release lets go of what read filled.
func (l *load) release() { l.requests, l.keys, l.sizes = nil, nil, nil }

// at names the load and a capacity.
func (l *load) at(capacity int64) string {
	if l.sized {
		return l.name + "@" + report.Bytes(capacity)
	}
	return l.name + "@" + strconv.FormatInt(capacity, 10)
}

// zipf is a Source of requests with a Zipf distribution.
type zipf struct {
	z    *workload.Zipf
	left int
}

func openZipf(seed uint64, items, requests int, theta float64) (workload.Source, error) {
	z, err := workload.NewZipf(seed, items, theta)
	return &zipf{z, requests}, err
}

func (s *zipf) Next() (workload.Access, error) {
	if s.left == 0 {
		return workload.Access{}, io.EOF
	}
	s.left--
	return workload.Access{Key: s.z.Next()}, nil
}

func (s *zipf) Close() error { return nil }
