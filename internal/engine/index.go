package engine

import (
	"math/bits"
	"unsafe"
)

// The index of a shard is an extendible hash table (Fagin et al. 1979) whose
// order is slot, then hash. A page covers a range of slots as long as these
// are small; a slot that outgrows its page gets a directory of its own, by the
// upper bits of the hash. So one slot's keys are contiguous, a split never
// moves a key across a scan position, and growth costs one page.

// directory is that of one slot with several pages. depth and pages are never
// changed, only the elements: who reads without the lock must not meet a depth
// that belongs to other pages. Another depth is another directory.
type directory struct {
	depth uint8
	deep  int32    // pages whose depth is the directory's
	pages []uint32 // 1 << depth; block, and in the upper bits how much less deep than the directory the page is
}

// A cell is what a lookup needs of a slot, in one word: so the cells of all slots
// stay in the processor's cache.
const (
	cellServing = 1 << 31 // the serving bit
	cellDir     = 1 << 30 // the slot has a directory, and the cell no block
	cellWindow  = 1 << 29 // a pull window or a touch log is open
	cellBlock   = 1<<29 - 1

	// shallowShift is where the difference of depths stands in a directory.
	// shallowMost is the largest that is kept; it means at least as much.
	shallowShift = 29
	shallowMost  = 1<<(32-shallowShift) - 1
)

// mark sets or clears bits of a cell; the shard lock is held.
func (s *shard) mark(i int, bits uint32, on bool) {
	c := s.cells[i].Load() &^ bits
	if on {
		c |= bits
	}
	s.cells[i].Store(c)
}

// blockAt returns the page of slot i of the shard, 0 if it has none or a
// directory.
func (s *shard) blockAt(i int) uint32 { return s.cells[i].Load() & cellBlock }

func (s *shard) setBlock(i int, block uint32) {
	s.cells[i].Store(s.cells[i].Load()&^(cellBlock|cellDir) | block)
}

// setDir gives slot i a directory in place of its page.
func (s *shard) setDir(i int, dir *directory) {
	s.slots[i].dir.Store(dir)
	s.cells[i].Store(s.cells[i].Load()&^cellBlock | cellDir)
}

const pagePlaces = maxBlockBytes / bucketBytes * ways

// found is a key of a page with its hash.
type found struct {
	l loc
	h uint64
}

// slotBitsHere is how many bits number the slots of a shard.
func (s *shard) slotDepth() uint8 { return slotBits - s.e.bits }

func (s *shard) prefixOf(g page) uint8 {
	if d := g.depth(); d > s.slotDepth() {
		return d - s.slotDepth()
	}
	return 0
}

// prefixInPage in place of a number of bits says that only the page knows it.
const prefixInPage = 0xff

// pageBlock returns the block of a hash's page, and how many bits of the hash
// lead to it.
func (s *shard) pageBlock(slot uint16, h uint64) (block uint32, prefix uint8) {
	i := int(slot >> s.e.bits)
	c := s.cells[i].Load()
	if c&cellDir == 0 {
		return c & cellBlock, 0
	}
	block, prefix = s.inDirectory(i, h)
	if prefix == prefixInPage {
		prefix = s.prefixOf(s.e.arena.page(block))
	}
	return block, prefix
}

// inDirectory is pageBlock for a slot with a directory, without a look at the
// page. Without the lock the directory may have gone: then block is 0.
func (s *shard) inDirectory(i int, h uint64) (block uint32, prefix uint8) {
	d := s.slots[i].dir.Load()
	if d == nil {
		return 0, 0
	}
	cell := d.pages[h>>(64-d.depth)]
	if cell>>shallowShift == shallowMost {
		return cell & cellBlock, prefixInPage
	}
	return cell & cellBlock, d.depth - uint8(cell>>shallowShift)
}

// link enters the block of a page in its cells.
func (d *directory) link(first, cells int, block uint32, prefix uint8) {
	cell := block | uint32(min(d.depth-prefix, shallowMost))<<shallowShift
	for i := first; i < first+cells; i++ {
		d.pages[i] = cell
	}
}

// pageFor returns the page of a hash and its home in it; ok is false for a slot
// without one.
func (s *shard) pageFor(slot uint16, h uint64) (g page, home uint32, ok bool) {
	block, prefix := s.pageBlock(slot, h)
	if block == 0 {
		return page{}, 0, false
	}
	g = s.e.arena.page(block)
	return g, g.home(h, prefix), true
}

// find returns the record of key in the slot; the location is 0 if there is
// none.
func (s *shard) find(slot uint16, h uint64, key []byte) (loc, record) {
	g, home, ok := s.pageFor(slot, h)
	if !ok {
		return 0, record{}
	}
	pattern := uint64(tagOf(h)) * lowBits
	l, r, meta := s.findIn(g, home, pattern, slot, key)
	if l != 0 || meta == 0 {
		return l, r
	}
	if meta&0xff != 0 {
		if l, r, _ = s.findIn(g, g.next(home), pattern, slot, key); l != 0 {
			return l, r
		}
	}
	if meta>>8 != 0 {
		for b := g.homes; b < g.homes+g.stash; b++ {
			if l, r, _ = s.findIn(g, b, pattern, slot, key); l != 0 {
				return l, r
			}
		}
	}
	return 0, record{}
}

// findIn looks through one bucket. meta is how many keys the bucket passed on, to
// the next one (lower byte) and to the stash.
func (s *shard) findIn(g page, b uint32, pattern uint64, slot uint16, key []byte) (l loc, r record, meta uint32) {
	p := unsafe.Add(g.p, b*bucketBytes)
	low, high := read64(p), read64(unsafe.Add(p, 8))
	locs := unsafe.Add(p, locsAt)
	a := &s.e.arena
	want := uint32(len(key))<<slotBits | uint32(slot)
	for m := zeroMarks(low ^ pattern); m != 0; m &= m - 1 {
		l = loc(read32(unsafe.Add(locs, bits.TrailingZeros64(m)>>3*4)))
		if r = a.record(l); r.hi == want && s.is(r, key) {
			return l, r, 0
		}
	}
	for m := zeroMarks(high^pattern) & (1<<32 - 1); m != 0; m &= m - 1 {
		l = loc(read32(unsafe.Add(locs, 32+bits.TrailingZeros64(m)>>3*4)))
		if r = a.record(l); r.hi == want && s.is(r, key) {
			return l, r, 0
		}
	}
	return 0, record{}, uint32(high >> 32 & 0xffff)
}

// hasRoom says whether a new key of this hash can be linked.
func (s *shard) hasRoom(slot uint16, h uint64) bool {
	g, home, ok := s.pageFor(slot, h)
	return ok && g.room(home)
}

// enter links a record; hasRoom was true.
func (s *shard) enter(slot uint16, h uint64, l loc) {
	g, home, _ := s.pageFor(slot, h)
	g.insert(home, tagOf(h), l)
}

// leave unlinks a record and joins pages that became sparse.
func (s *shard) leave(slot uint16, h uint64, l loc) {
	g, home, _ := s.pageFor(slot, h)
	at, _ := g.locate(home, tagOf(h), l)
	g.take(home, at)
	if g.count()*4 <= g.capacity() {
		s.join(slot, h)
	}
}

// move makes the index name a record's new place.
func (s *shard) move(slot uint16, h uint64, from, to loc) {
	g, home, _ := s.pageFor(slot, h)
	at, _ := g.locate(home, tagOf(h), from)
	g.relocate(at, to)
}

// grow makes room for a key of slot and hash h: it gives slots without a page
// one, or splits the page. block is a new block for it.
func (s *shard) grow(slot uint16, h uint64, block uint32) {
	s.pages++
	i := int(slot >> s.e.bits)
	if old, _ := s.pageBlock(slot, h); old != 0 {
		g := s.e.arena.page(old)
		s.narrow(g, i)
		if now, _ := s.pageBlock(slot, h); now == old {
			if g.depth() < s.slotDepth() {
				s.splitSlots(g, i, block)
			} else {
				s.splitHash(i, g, old, h, block)
			}
			return
		}
	}
	first, n, depth := s.vacant(i)
	s.e.arena.page(block).clear(depth)
	s.assign(first, n, block)
}

func (s *shard) assign(first, n int, block uint32) {
	for i := first; i < first+n; i++ {
		s.setBlock(i, block)
	}
}

// free says whether a range of slots has no page.
func (s *shard) free(first, n int) bool {
	for i := first; i < first+n; i++ {
		if s.cells[i].Load()&(cellBlock|cellDir) != 0 {
			return false
		}
	}
	return true
}

// vacant returns the largest range of slots around slot i without a page, and
// the depth of a page for it.
func (s *shard) vacant(i int) (first, n int, depth uint8) {
	first, n, depth = i, 1, s.slotDepth()
	for depth > 0 && s.free(first^n, n) {
		first &^= n
		n *= 2
		depth--
	}
	return first, n, depth
}

// narrow takes those slots off a page that have no key in it, as far as the
// rest is a range of its own: a page for one huge slot does not need as many
// empty ones beside it as the slot's number has bits.
func (s *shard) narrow(g page, i int) {
	lowest, highest := Slots, 0
	g.each(func(_ place, _ byte, l loc) {
		at := int(s.e.arena.record(l).slot() >> s.e.bits)
		lowest, highest = min(lowest, at), max(highest, at)
	})
	d := s.slotDepth() - uint8(bits.Len(uint(lowest^highest)))
	was := g.depth()
	if d <= was {
		return
	}
	block := s.blockAt(lowest)
	span := 1 << (s.slotDepth() - was)
	s.assign(i&^(span-1), span, 0)
	n := 1 << (s.slotDepth() - d)
	s.assign(lowest&^(n-1), n, block)
	g.setDepth(d)
}

// splitSlots moves the upper half of a page's slots to a new page. Both begin
// as copies, so no key changes its bucket and none can fail to fit.
func (s *shard) splitSlots(g page, slot int, block uint32) {
	d := g.depth() + 1
	n := s.e.arena.page(block)
	copy(s.e.arena.blockBytesAt(block, 1), view(g.p, 0, s.e.arena.blockBytes))
	g.setDepth(d)
	n.setDepth(d)
	bit := s.slotDepth() - d
	g.each(func(at place, _ byte, l loc) {
		r := s.e.arena.record(l)
		home := g.home(s.hashOf(r), 0)
		if r.slot()>>s.e.bits>>bit&1 == 1 {
			g.take(home, at)
		} else {
			n.take(home, at)
		}
	})
	first := slot &^ (2<<bit - 1)
	s.assign(first+1<<bit, 1<<bit, block)
}

// splitHash divides the only page of a slot, or one of them, by the next bit of
// the hash.
func (s *shard) splitHash(slot int, g page, old uint32, h uint64, block uint32) {
	var buf [pagePlaces]found
	all := s.gather(g, buf[:0])
	dir := s.slots[slot].dir.Load()
	if dir == nil {
		dir = &directory{deep: 1, pages: []uint32{old}}
		s.setDir(slot, dir)
	}
	prefix := s.prefixOf(g)
	if prefix == dir.depth {
		dir = dir.doubled()
		s.slots[slot].dir.Store(dir)
	}
	if prefix+1 == dir.depth {
		dir.deep += 2
	}
	n := s.e.arena.page(block)
	d := g.depth() + 1
	g.clear(d)
	n.clear(d)
	first, cells := dir.span(h, prefix)
	dir.link(first, cells/2, old, prefix+1)
	dir.link(first+cells/2, cells/2, block, prefix+1)
	for _, f := range all {
		to := g
		if f.h<<prefix>>63 == 1 {
			to = n
		}
		if !to.insert(to.home(f.h, prefix+1), tagOf(f.h), f.l) {
			s.orphan(f.l, f.h) // hashes of no even spread: never seen, but nothing may break
		}
	}
}

func (d *directory) doubled() *directory {
	wide := make([]uint32, 2*len(d.pages))
	for i, cell := range d.pages {
		if cell>>shallowShift < shallowMost {
			cell += 1 << shallowShift
		}
		wide[2*i], wide[2*i+1] = cell, cell
	}
	return &directory{depth: d.depth + 1, pages: wide}
}

func (s *shard) gather(g page, to []found) []found {
	g.each(func(_ place, _ byte, l loc) {
		to = append(to, found{l, s.hashOf(s.e.arena.record(l))})
	})
	return to
}

// span returns the cells that share the upper prefix bits of h.
func (d *directory) span(h uint64, prefix uint8) (first, n int) {
	n = 1 << (d.depth - prefix)
	return int(h>>(64-d.depth)) &^ (n - 1), n
}
