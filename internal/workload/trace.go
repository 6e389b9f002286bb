package workload

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ulikunitz/xz"
)

// Access is one request of a trace: an object number and its size in bytes, 0
// where the trace records none.
type Access struct {
	Key  uint64
	Size uint32
}

// Source yields the accesses of a trace in order; io.EOF ends it.
type Source interface {
	Next() (Access, error)
	Close() error
}

// Formats lists the trace formats that OpenTrace reads.
func Formats() []string { return []string{"arc", "int64be", "int32be", "ids", "oracle"} }

// maxExpand bounds the block count of one line of the arc format.
const maxExpand = 1 << 20

// OpenTrace opens a trace file. A name that ends in .gz or .xz is decompressed
// while it is read. Format is one of Formats or "auto", which decides by the
// file's name:
//
//   - arc: text lines "start count ignored number", the blocks start to
//     start+count-1 in order (Megiddo and Modha, ARC, FAST 2003)
//   - int64be, int32be: big-endian keys (Caffeine's Corda, cache2k's web traces)
//   - ids: one decimal number per line (Jiang and Zhang, LIRS, SIGMETRICS 2002)
//   - oracle: libCacheSim's oracleGeneral, 24-byte little-endian records
func OpenTrace(path, format string) (Source, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("trace: %w; check --trace", err)
	}
	if format == "" || format == "auto" {
		format = guessFormat(path)
		if format == "" {
			return nil, fmt.Errorf("trace %s: its name does not tell the format; give --format, one of %s",
				path, strings.Join(Formats(), ", "))
		}
	}
	if !slices.Contains(Formats(), format) {
		return nil, fmt.Errorf("trace format %q is unknown; use one of %s", format, strings.Join(Formats(), ", "))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	var r io.Reader = bufio.NewReaderSize(f, 256<<10)
	switch {
	case strings.HasSuffix(path, ".gz"):
		r, err = gzip.NewReader(r)
	case strings.HasSuffix(path, ".xz"):
		r, err = xz.NewReader(r)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return newSource(path, format, r, f), nil
}

func guessFormat(path string) string {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".xz")
	switch {
	case strings.Contains(name, "oraclegeneral"):
		return "oracle"
	case strings.Contains(name, "corda"):
		return "int64be"
	case strings.HasPrefix(name, "web") || strings.HasPrefix(name, "orm"):
		return "int32be"
	case strings.HasPrefix(name, "oltp") || strings.HasSuffix(name, ".lis"):
		return "arc"
	}
	for _, p := range []string{"gli", "loop", "multi", "cs", "cpp", "2_pools", "sprite", "ps"} {
		if name == p || strings.HasPrefix(name, p) {
			return "ids"
		}
	}
	return ""
}

func newSource(path, format string, r io.Reader, c io.Closer) Source {
	br := bufio.NewReaderSize(r, 256<<10)
	switch format {
	case "int64be":
		return &fixedSource{path: path, r: br, c: c, width: 8, decode: func(b []byte) Access {
			return Access{Key: binary.BigEndian.Uint64(b)}
		}}
	case "int32be":
		return &fixedSource{path: path, r: br, c: c, width: 4, decode: func(b []byte) Access {
			return Access{Key: uint64(binary.BigEndian.Uint32(b))}
		}}
	case "oracle":
		return &fixedSource{path: path, r: br, c: c, width: 24, decode: func(b []byte) Access {
			return Access{Key: binary.LittleEndian.Uint64(b[4:]), Size: binary.LittleEndian.Uint32(b[12:])}
		}}
	}
	return &textSource{path: path, s: bufio.NewScanner(br), c: c, arc: format == "arc"}
}

// fixedSource reads records of one width.
type fixedSource struct {
	path   string
	r      *bufio.Reader
	c      io.Closer
	width  int
	decode func([]byte) Access
	n      int64
	buf    [24]byte
}

func (s *fixedSource) Next() (Access, error) {
	b := s.buf[:s.width]
	if _, err := io.ReadFull(s.r, b); err != nil {
		if errors.Is(err, io.EOF) {
			return Access{}, io.EOF
		}
		return Access{}, fmt.Errorf("trace %s: record %d is cut short (records have %d bytes): %w", s.path, s.n+1, s.width, err)
	}
	s.n++
	return s.decode(b), nil
}

func (s *fixedSource) Close() error { return s.c.Close() }

// textSource reads one request, or one run of blocks, per line.
type textSource struct {
	path string
	s    *bufio.Scanner
	c    io.Closer
	arc  bool
	line int
	next uint64 // first block of the current run that was not yet returned
	left uint64
}

func (s *textSource) Next() (Access, error) {
	for s.left == 0 {
		if !s.s.Scan() {
			if err := s.s.Err(); err != nil {
				return Access{}, fmt.Errorf("trace %s: line %d: %w", s.path, s.line+1, err)
			}
			return Access{}, io.EOF
		}
		s.line++
		fields := strings.Fields(s.s.Text())
		if len(fields) == 0 || fields[0] == "*" { // "*" ends some LIRS traces
			continue
		}
		if err := s.parse(fields); err != nil {
			return Access{}, fmt.Errorf("trace %s: line %d: %w", s.path, s.line, err)
		}
	}
	a := Access{Key: s.next}
	s.next++
	s.left--
	return a, nil
}

func (s *textSource) parse(fields []string) error {
	key, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", fields[0])
	}
	s.next, s.left = key, 1
	if !s.arc {
		return nil
	}
	if len(fields) < 2 {
		return errors.New("want \"start count ignored number\"")
	}
	n, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil || n > maxExpand {
		return fmt.Errorf("block count %q is not a number up to %d", fields[1], maxExpand)
	}
	s.left = n
	return nil
}

func (s *textSource) Close() error { return s.c.Close() }

// CountTrace reads a whole trace once and returns the number of its requests,
// of its distinct objects, and the sum of the distinct objects' sizes.
func CountTrace(path, format string) (requests, objects, bytes int64, err error) {
	src, err := OpenTrace(path, format)
	if err != nil {
		return 0, 0, 0, err
	}
	defer src.Close()
	seen := make(map[uint64]struct{})
	for {
		a, err := src.Next()
		if err == io.EOF {
			return requests, int64(len(seen)), bytes, nil
		}
		if err != nil {
			return 0, 0, 0, err
		}
		requests++
		if _, ok := seen[a.Key]; !ok {
			seen[a.Key] = struct{}{}
			bytes += int64(a.Size)
		}
	}
}
