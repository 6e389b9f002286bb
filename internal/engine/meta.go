package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What an engine knows beside the blocks of its arena is kept as one section of
// bytes, written field by field (meta_shard.go) as varints and read back with
// every number held against what it may be. A decoder that is given anything
// but what the encoder wrote ends with an error, never with a fault.

// metaWriter appends fields.
type metaWriter struct{ b []byte }

func (w *metaWriter) num(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *metaWriter) sint(v int64)  { w.b = binary.AppendVarint(w.b, v) }
func (w *metaWriter) word(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }

func (w *metaWriter) text(s []byte) {
	w.num(uint64(len(s)))
	w.b = append(w.b, s...)
}

var errMeta = errors.New("the description of its content is damaged")

// metaReader takes fields; after the first fault every field is 0.
type metaReader struct {
	b   []byte
	err error
}

// fail keeps the first fault.
func (r *metaReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{errMeta}, args...)...)
		r.b = nil
	}
}

// check fails unless ok.
func (r *metaReader) check(ok bool, format string, args ...any) {
	if !ok {
		r.fail(format, args...)
	}
}

func (r *metaReader) skip(n int, ok bool) bool {
	if !ok || n > len(r.b) {
		r.fail("it ends too early")
		return false
	}
	r.b = r.b[n:]
	return true
}

// num reads a number of at most most.
func (r *metaReader) num(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if !r.skip(n, n > 0) {
		return 0
	}
	if v > most {
		r.fail("a number is %d, above %d", v, most)
		return 0
	}
	return v
}

func (r *metaReader) sint() int64 {
	v, n := binary.Varint(r.b)
	if !r.skip(n, n > 0) {
		return 0
	}
	return v
}

func (r *metaReader) word() uint64 {
	if len(r.b) < 8 {
		r.skip(8, true)
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// count reads the number of items that follow, each of at least one byte: so
// what is allocated for them is bounded by the section itself.
func (r *metaReader) count(most int) int {
	return int(r.num(uint64(min(most, len(r.b)))))
}

func (r *metaReader) text(most int) []byte {
	n := r.count(most)
	if len(r.b) < n {
		r.skip(n, true)
		return nil
	}
	s := append([]byte(nil), r.b[:n]...)
	r.b = r.b[n:]
	return s
}

// claim marks a run of blocks as belonging to something that was decoded. No
// block may belong to two, and a run lies within one chunk.
func (r *metaReader) claim(c *claims, block uint64, blocks uint64) {
	if blocks == 0 || blocks > chunkBlocks || block/chunkBlocks >= uint64(len(c.free)) || block%chunkBlocks+blocks > chunkBlocks {
		r.fail("a run of %d blocks at %d is outside of the arena", blocks, block)
		return
	}
	m := maskOf(int(block%chunkBlocks), int(blocks))
	chunk := &c.free[block/chunkBlocks]
	if *chunk&m != m {
		r.fail("the blocks %d+%d are in use twice, or not at all", block, blocks)
		return
	}
	*chunk &^= m
	c.left -= int64(blocks)
}

// claims are the blocks of an image that nothing has claimed yet, by chunk.
type claims struct {
	free []uint64 // 1 = taken, but by nothing that was decoded so far
	left int64
}
