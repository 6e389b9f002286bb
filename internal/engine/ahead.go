package engine

import (
	"math/bits"
	"runtime"
	"unsafe"
)

// MaxAhead is the most keys that one LookAhead looks at.
const MaxAhead = 32

// LookAhead brings into the processor's caches what commands on keys are about to
// read: each key's bucket and the record that it names. A command waits for both
// in turn; here the waits of all keys overlap. slots[i] is the slot of keys[i].
//
// It is a hint: nothing is locked, changed or counted, and what it reads may be
// torn or foreign, as in a glance, so it follows nothing out of the arena. It does
// nothing where a Get needs the lock, nor for keys beyond MaxAhead.
func (e *Engine) LookAhead(slots []uint16, keys [][]byte) {
	if !unlocked || !e.glancing {
		return
	}
	var at [MaxAhead]unsafe.Pointer
	n := min(len(keys), len(slots), MaxAhead)
	e.foresee(&at, slots[:n], keys[:n])
	sum := uint32(0)
	for _, p := range at[:n] {
		sum += read32(p) + read32(unsafe.Add(p, cacheLine))
	}
	runtime.KeepAlive(sum) // the loads are the purpose
	runtime.KeepAlive(e)
}

// foresee finds what are probably the records of the keys, or any place in the arena.
// It is free of branches that the processor would guess wrong.
func (e *Engine) foresee(at *[MaxAhead]unsafe.Pointer, slots []uint16, keys [][]byte) {
	var (
		patterns [MaxAhead]uint64
		next     [MaxAhead]unsafe.Pointer
		late     [MaxAhead + 1]uint8 // keys that are not in their home bucket
	)
	for i, key := range keys {
		slot := slots[i] & (Slots - 1)
		h := e.hash.sum(key)
		at[i], next[i] = e.bucketsOf(&e.shards[slot&e.mask], slot, h)
		patterns[i] = uint64(tagOf(h)) * lowBits
	}
	n := 0
	for i := range keys {
		way := wayOf(at[i], patterns[i])
		late[n] = uint8(i)
		n += int(uint32(ways-1-way) >> 31)
		at[i] = e.recordAt(at[i], way)
	}
	for _, i := range late[:n] {
		at[i] = e.recordAt(next[i], wayOf(next[i], patterns[i]))
	}
}

// wayOf is which way of a bucket has the tag of the pattern; ways or more if none has.
func wayOf(bucket unsafe.Pointer, pattern uint64) int {
	low := zeroMarks(read64(bucket) ^ pattern)
	high := zeroMarks(read64(unsafe.Add(bucket, 8))^pattern) & (1<<32 - 1)
	way := bits.TrailingZeros64(low) >> 3
	if rest := bits.TrailingZeros64(high) >> 3; way == 8 {
		way += rest
	}
	return way
}

// recordAt is the record that a way of a bucket names, or another place in the
// arena with two cache lines behind it.
func (e *Engine) recordAt(bucket unsafe.Pointer, way int) unsafe.Pointer {
	base, size := e.arena.mem.span()
	off := uint64(read32(unsafe.Add(bucket, locsAt+4*min(way, ways-1)))) << e.arena.unit
	if off+2*cacheLine > size {
		off = 0
	}
	return unsafe.Add(base, off)
}

// bucketsOf are the home bucket of a hash and the one behind it, for a look without the
// lock. Where there seem to be none, they are any.
func (e *Engine) bucketsOf(s *shard, slot uint16, h uint64) (home, next unsafe.Pointer) {
	a := &e.arena
	c := s.cells[slot>>e.bits].Load()
	block, prefix := c&cellBlock, uint8(0)
	if c&cellDir != 0 {
		block, prefix = s.inDirectory(int(slot>>e.bits), h)
	}
	base, size := a.mem.span()
	off := uint64(block) << a.blockShift
	if off+uint64(a.blockBytes) > size {
		off = 0
	}
	g := page{unsafe.Add(base, off), a.homes, a.stash}
	if prefix == prefixInPage {
		prefix = s.prefixOf(g)
	}
	b := g.home(h, prefix)
	return unsafe.Add(g.p, b*bucketBytes), unsafe.Add(g.p, g.next(b)*bucketBytes)
}
