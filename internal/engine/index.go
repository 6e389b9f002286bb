package engine

import "math/bits"

// The index of a shard is an extendible hash table (Fagin et al. 1979) whose
// order is slot, then hash. A page covers a range of slots as long as these
// are small; a slot that outgrows its page gets a directory of its own, by the
// upper bits of the hash. So one slot's keys are contiguous, a split never
// moves a key across a scan position, and growth costs one page.

// directory is that of one slot with several pages.
type directory struct {
	depth uint8
	deep  int32    // pages whose depth is the directory's
	pages []uint32 // 1 << depth
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

func (st *slotState) pageBlock(h uint64) uint32 {
	if st.dir != nil {
		return st.dir.pages[h>>(64-st.dir.depth)]
	}
	return st.page
}

// pageFor returns the page of a hash and its home in it; ok is false for a slot
// without one.
func (s *shard) pageFor(st *slotState, h uint64) (g page, home uint32, ok bool) {
	block := st.pageBlock(h)
	if block == 0 {
		return page{}, 0, false
	}
	g = s.e.arena.page(block)
	return g, g.home(h, s.prefixOf(g)), true
}

// find returns the record of key in the slot, or 0.
func (s *shard) find(st *slotState, slot uint16, h uint64, key []byte) (hit loc) {
	g, home, ok := s.pageFor(st, h)
	if !ok {
		return 0
	}
	a := &s.e.arena
	g.find(home, tagOf(h), func(l loc) bool {
		if r := a.record(l); r.slot() == slot && s.is(r, key) {
			hit = l
			return true
		}
		return false
	})
	return hit
}

// hasRoom says whether a new key of this hash can be linked.
func (s *shard) hasRoom(st *slotState, h uint64) bool {
	g, home, ok := s.pageFor(st, h)
	return ok && g.room(home)
}

// enter links a record; hasRoom was true.
func (s *shard) enter(st *slotState, h uint64, l loc) {
	g, home, _ := s.pageFor(st, h)
	g.insert(home, tagOf(h), l)
}

// leave unlinks a record and joins pages that became sparse.
func (s *shard) leave(st *slotState, slot uint16, h uint64, l loc) {
	g, home, _ := s.pageFor(st, h)
	at, _ := g.locate(home, tagOf(h), l)
	g.take(home, at)
	if g.count()*4 <= g.capacity() {
		s.join(st, slot, h)
	}
}

// move makes the index name a record's new place.
func (s *shard) move(st *slotState, h uint64, from, to loc) {
	g, home, _ := s.pageFor(st, h)
	at, _ := g.locate(home, tagOf(h), from)
	g.put(at.bucket, at.way, tagOf(h), to)
}

// grow makes room for a key of slot and hash h: it gives slots without a page
// one, or splits the page. block is a new block for it.
func (s *shard) grow(st *slotState, slot uint16, h uint64, block uint32) {
	s.pages++
	i := int(slot >> s.e.bits)
	if old := st.pageBlock(h); old != 0 {
		g := s.e.arena.page(old)
		s.narrow(g, i)
		if st.pageBlock(h) == old {
			if g.depth() < s.slotDepth() {
				s.splitSlots(g, i, block)
			} else {
				s.splitHash(st, g, old, h, block)
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
		s.slots[i].page = block
	}
}

// free says whether a range of slots has no page.
func (s *shard) free(first, n int) bool {
	for i := first; i < first+n; i++ {
		if s.slots[i].page != 0 || s.slots[i].dir != nil {
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
	block := s.slots[lowest].page
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
func (s *shard) splitHash(st *slotState, g page, old uint32, h uint64, block uint32) {
	var buf [pagePlaces]found
	all := s.gather(g, buf[:0])
	dir := st.dir
	if dir == nil {
		dir = &directory{deep: 1, pages: []uint32{old}}
		st.dir, st.page = dir, 0
	}
	prefix := s.prefixOf(g)
	if prefix == dir.depth {
		wide := make([]uint32, 2*len(dir.pages))
		for i, b := range dir.pages {
			wide[2*i], wide[2*i+1] = b, b
		}
		dir.pages, dir.deep = wide, 0
		dir.depth++
	}
	if prefix+1 == dir.depth {
		dir.deep += 2
	}
	n := s.e.arena.page(block)
	d := g.depth() + 1
	g.clear(d)
	n.clear(d)
	first, cells := dir.span(h, prefix)
	for i := first + cells/2; i < first+cells; i++ {
		dir.pages[i] = block
	}
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
