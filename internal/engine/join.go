package engine

import "unsafe"

// join merges the page of h with its other half when both are sparse, and gives
// an empty one back.
func (s *shard) join(slot uint16, h uint64) {
	for done := true; done; {
		block, _ := s.pageBlock(slot, h)
		g := s.e.arena.page(block)
		i := int(slot >> s.e.bits)
		switch d := g.depth(); {
		case d > s.slotDepth():
			done = s.joinHash(slot, g, block, h)
		case g.count() == 0:
			n := 1 << (s.slotDepth() - d)
			s.assign(i&^(n-1), n, 0)
			s.freePage(block)
			return
		case d == 0:
			return
		default:
			done = s.joinSlots(g, block, i)
		}
	}
}

func (s *shard) freePage(block uint32) {
	s.pages--
	s.e.arena.put(block, 1)
	s.e.used.Add(-int64(s.e.arena.blockBytes))
}

func (s *shard) joinSlots(g page, block uint32, slot int) bool {
	d := g.depth()
	n := 1 << (s.slotDepth() - d)
	first := slot &^ (n - 1)
	other := first ^ n
	if s.free(other, n) {
		g.setDepth(d - 1)
		s.assign(other, n, block)
		return true
	}
	gone := s.blockAt(other)
	if gone == 0 {
		return false
	}
	o := s.e.arena.page(gone)
	if o.depth() != d || !s.pour(g, o, d-1) {
		return false
	}
	s.assign(other, n, block)
	s.freePage(gone)
	return true
}

func (s *shard) joinHash(slot uint16, g page, block uint32, h uint64) bool {
	i := int(slot >> s.e.bits)
	prefix, dir := s.prefixOf(g), s.slots[i].dir.Load()
	other, _ := s.pageBlock(slot, h^1<<(64-prefix))
	o := s.e.arena.page(other)
	if o.depth() != g.depth() || !s.pour(g, o, g.depth()-1) {
		return false
	}
	if prefix == dir.depth {
		dir.deep -= 2
	}
	first, cells := dir.span(h, prefix-1)
	dir.link(first, cells, block, prefix-1)
	s.freePage(other)
	for dir.deep == 0 && dir.depth > 0 {
		dir = dir.halved(s)
	}
	if dir.depth == 0 {
		s.setBlock(i, block)
		dir = nil
	}
	s.slots[i].dir.Store(dir)
	return true
}

func (d *directory) halved(s *shard) *directory {
	half := &directory{depth: d.depth - 1, pages: make([]uint32, len(d.pages)/2)}
	for i := range half.pages {
		block := d.pages[2*i] & cellBlock
		prefix := s.prefixOf(s.e.arena.page(block))
		if half.link(i, 1, block, prefix); prefix == half.depth {
			half.deep++
		}
	}
	return half
}

// pour makes g hold what g and o hold, if that is at most half of a page.
func (s *shard) pour(g, o page, depth uint8) bool {
	if g.count()+o.count() > g.capacity()/2 {
		return false
	}
	var buf [pagePlaces]found
	all := s.gather(o, s.gather(g, buf[:0]))
	var bytes [maxBlockBytes]byte
	n := page{unsafe.Pointer(&bytes), g.homes, g.stash}
	n.setDepth(depth)
	prefix := s.prefixOf(n)
	for _, f := range all {
		if !n.insert(n.home(f.h, prefix), tagOf(f.h), f.l) {
			return false
		}
	}
	copy(view(g.p, 0, s.e.arena.blockBytes), bytes[:])
	return true
}
