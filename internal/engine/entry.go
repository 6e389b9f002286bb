package engine

import (
	"bytes"
	"math"
	"slices"
)

// Overhead is what every entry is charged beside the bytes of its buffer: the
// entry struct (80 B), its share of the index (heads at a load of 1/2 to 1,
// page headers, directory) and its place in the volatile list. A test holds it
// against the heap that a million entries really take.
const Overhead = 112

const (
	slotBits = 14
	// maxKeyLimit keeps a key's length in the bits that meta has for it.
	maxKeyLimit = 1<<(32-slotBits) - 1
	// alwaysReuse is the buffer capacity up to which a buffer is kept however
	// small the new content is.
	alwaysReuse = 64
)

// entry is one key with its value. It is exactly one 80-byte size class.
type entry struct {
	next         *entry // chain of the index bucket
	newer, older *entry // recency list of the shard
	data         []byte // key, then value; its capacity is what is charged
	hash         uint64
	deadline     int64  // absolute ms, 0 = none
	access       int64  // ms of the last access
	meta         uint32 // key length << slotBits | slot
	vol          int32  // position in the volatile list, -1 = no deadline
}

func (e *entry) klen() int        { return int(e.meta >> slotBits) }
func (e *entry) slot() uint16     { return uint16(e.meta & (Slots - 1)) }
func (e *entry) key() []byte      { return e.data[:e.klen()] }
func (e *entry) charge() int64    { return Overhead + int64(cap(e.data)) }
func (e *entry) value() []byte    { return e.data[e.klen():len(e.data):len(e.data)] }
func (e *entry) is(k []byte) bool { return bytes.Equal(e.key(), k) }

// expired follows Redis: a key is gone when now is past its deadline, so it
// still lives in the millisecond of the deadline itself.
func expired(deadline, now int64) bool { return deadline != 0 && now > deadline }

func metaOf(klen int, slot uint16) uint32 { return uint32(klen)<<slotBits | uint32(slot) }

// newBuffer returns a buffer of n bytes whose capacity is the size class that
// the allocator takes anyway, so that the charge is what is really used.
func newBuffer(n int) []byte { return slices.Grow([]byte(nil), n)[:n] }

// fits says whether content of n bytes stays in a buffer of capacity c. A
// buffer more than half empty is given back, else a key that once held a large
// value would be charged for it for ever.
func fits(c, n int) bool { return n <= c && (c <= alwaysReuse || n >= c/2) }

// recency is the exact LRU list of a shard, newest first.
type recency struct {
	newest, oldest *entry
}

func (l *recency) pushNewest(e *entry) {
	e.newer, e.older = nil, l.newest
	if l.newest != nil {
		l.newest.newer = e
	} else {
		l.oldest = e
	}
	l.newest = e
}

func (l *recency) unlink(e *entry) {
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		l.oldest = e.newer
	}
	e.newer, e.older = nil, nil
}

// emptyStamp is the published age of a shard without entries.
const emptyStamp = math.MaxInt64

func (l *recency) stamp() int64 {
	if l.oldest == nil {
		return emptyStamp
	}
	return l.oldest.access
}
