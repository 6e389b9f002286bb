package engine

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"
)

// loc is the place of a record in the arena, in units; 0 = none.
type loc uint32

// A record is a header of two little-endian words, the deadline if it has one,
// the key and the value; a large record has the length of its value and the
// first block of a chain in place of key and value (chain.go). It is padded to
// the arena's unit. A dead record is one word: deadBit and its size in units.
//
//	word 0: dead 1 | large 1 | form 2 | frequency 2 | last access 10 | length of the value 16
//	word 1: length of the key 18 | slot 14
const (
	headBytes = 8
	deadBit   = 1 << 31
	largeBit  = 1 << 30
	formShift = 28
	freqShift = 26
	timeShift = 16
	timeBits  = freqShift - timeShift
	vlenMask  = 1<<timeShift - 1

	maxFreq   = 3
	largeBody = 8

	// Overhead is what every entry is charged beside its padded key, value and
	// deadline: the record's header and its place in the index at an average
	// load.
	Overhead = headBytes + indexCharge
	// indexCharge is a place in a bucket (1/12 of 64 bytes) at the average load
	// of pages between two splits.
	indexCharge = 8

	slotBits = 14
	// maxKeyLimit keeps a key's length in the bits that the header has for it.
	maxKeyLimit = 1<<(32-slotBits) - 1
)

// How a deadline is stored: not at all, the lower 32 bits of it, which the
// shard's era completes, or whole.
const (
	formNone = iota
	formShort
	formLong
)

var formBytes = [4]int{0, 4, 8, 0}

// record is a decoded header with the place it was read from.
type record struct {
	p      unsafe.Pointer
	lo, hi uint32
}

func read32(p unsafe.Pointer) uint32     { return binary.LittleEndian.Uint32((*[4]byte)(p)[:]) }
func write32(p unsafe.Pointer, v uint32) { binary.LittleEndian.PutUint32((*[4]byte)(p)[:], v) }
func read64(p unsafe.Pointer) uint64     { return binary.LittleEndian.Uint64((*[8]byte)(p)[:]) }
func write64(p unsafe.Pointer, v uint64) { binary.LittleEndian.PutUint64((*[8]byte)(p)[:], v) }

// view returns n bytes from byte off after p on. An empty value may end with the arena's
// memory: no pointer behind that is made.
func view(p unsafe.Pointer, off, n int) []byte {
	if n == 0 {
		off = 0
	}
	return unsafe.Slice((*byte)(unsafe.Add(p, off)), n)
}

// record reads the header of a live record.
func (a *arena) record(l loc) record {
	p := a.at(l, headBytes)
	w := read64(p)
	return record{p, uint32(w), uint32(w >> 32)}
}

func (r record) klen() int    { return int(r.hi >> slotBits) }
func (r record) slot() uint16 { return uint16(r.hi & (Slots - 1)) }
func (r record) large() bool  { return r.lo&largeBit != 0 }
func (r record) form() int    { return int(r.lo >> formShift & 3) }
func (r record) freq() int    { return int(r.lo >> freqShift & 3) }

// body is where the key begins. It is found by a branch, which a processor guesses,
// so it can fetch key and value before the header has arrived.
func (r record) body() int {
	if r.lo&(3<<formShift) == 0 {
		return headBytes
	}
	return headBytes + formBytes[r.form()]
}

func (r record) vlen() int {
	if r.large() {
		return int(read32(unsafe.Add(r.p, r.body())))
	}
	return int(r.lo & vlenMask)
}

// chain returns the first block of a large record.
func (r record) chain() uint32 { return read32(unsafe.Add(r.p, r.body()+4)) }

// inline returns the key and value of a record that is not large.
func (r record) inline() (key, value []byte) {
	n := r.klen()
	b := view(r.p, r.body(), n+int(r.lo&vlenMask))
	return b[:n:n], b[n:len(b):len(b)]
}

// sizeOf returns the padded bytes of a record in its segment.
func (a *arena) sizeOf(r record) int {
	if r.large() {
		return a.pad(r.body() + largeBody)
	}
	return a.pad(r.body() + r.klen() + int(r.lo&vlenMask))
}

// charge returns what a record of these lengths is charged.
func (a *arena) charge(klen, vlen, form int) int64 {
	return int64(indexCharge + a.pad(headBytes+formBytes[form]+klen+vlen))
}

func (a *arena) chargeOf(r record) int64 { return a.charge(r.klen(), r.vlen(), r.form()) }

func (r record) setFreq(f int) {
	write32(r.p, r.lo&^(3<<freqShift)|uint32(f)<<freqShift)
}

// expired follows Redis: a key is gone when now is past its deadline, so it
// still lives in the millisecond of the deadline itself.
func expired(deadline, now int64) bool { return deadline != 0 && now > deadline }

// formOf returns the shortest form that holds a deadline exactly.
func (s *shard) formOf(deadline int64) int {
	switch {
	case deadline == 0:
		return formNone
	case deadline >= s.era && deadline-s.era <= math.MaxUint32:
		return formShort
	}
	return formLong
}

func (s *shard) deadline(r record) int64 {
	switch r.form() {
	case formShort:
		low := read32(unsafe.Add(r.p, headBytes))
		return s.era + int64(low-uint32(s.era))
	case formLong:
		return int64(read64(unsafe.Add(r.p, headBytes)))
	}
	return 0
}

func writeDeadline(p unsafe.Pointer, form int, deadline int64) {
	switch form {
	case formShort:
		write32(unsafe.Add(p, headBytes), uint32(deadline))
	case formLong:
		write64(unsafe.Add(p, headBytes), uint64(deadline))
	}
}

// is says whether the record at l holds key.
func (s *shard) is(r record, key []byte) bool {
	if r.klen() != len(key) {
		return false
	}
	if r.large() {
		return bytes.Equal(s.key(r), key)
	}
	return string(view(r.p, r.body(), len(key))) == string(key)
}

// key returns the key of a record, borrowed until the next mutation.
func (s *shard) key(r record) []byte {
	if r.large() {
		return s.e.arena.flat(r.chain(), 0, r.klen())
	}
	key, _ := r.inline()
	return key
}

// value returns the value of a record, borrowed until the next mutation. That
// of a large record is a copy if it does not lie in one run.
func (s *shard) value(r record) []byte {
	if r.large() {
		return s.e.arena.flat(r.chain(), r.klen(), r.vlen())
	}
	_, value := r.inline()
	return value
}

func (s *shard) hashOf(r record) uint64 { return s.e.hash.sum(s.key(r)) }

// The time of the last access is kept in steps of a second, modulo 2^timeBits.
func tickOf(now int64) uint32 { return uint32(now/1000) & (1<<timeBits - 1) }

func lastAccess(r record, now int64) int64 {
	return now - 1000*int64((tickOf(now)-r.lo>>timeShift)&(1<<timeBits-1))
}

// accessed returns the first word of a record after an access: a saturating count
// and the time.
func accessed(lo, tick uint32) uint32 {
	if lo&(maxFreq<<freqShift) != maxFreq<<freqShift {
		lo += 1 << freqShift
	}
	return lo&^(1<<freqShift-1<<timeShift) | tick<<timeShift
}

// hit records an access.
func (r record) hit(tick uint32) {
	if lo := accessed(r.lo, tick); lo != r.lo {
		write32(r.p, lo)
	}
}

// tick returns the time of an access. With a sweeper it may be sweepEvery late,
// or as much later as a sweep takes; so no access asks the clock.
func (e *Engine) tick() uint32 {
	if e.paced {
		return e.beat.Load()
	}
	return tickOf(e.now())
}

// recent returns the time that belongs to tick.
func (e *Engine) recent() int64 {
	if e.paced {
		return e.lately.Load()
	}
	return e.now()
}
