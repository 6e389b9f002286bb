package engine

// eachPage calls fn for every page of the shard.
func (s *shard) eachPage(fn func(block uint32)) {
	var last uint32
	for i := range s.slots {
		st := &s.slots[i]
		dir := st.dir.Load()
		if dir == nil {
			block := s.blockAt(i)
			if block != 0 && block != last {
				fn(block)
			}
			last = block
			continue
		}
		last = 0
		for j, b := range dir.pages {
			if j == 0 || b != dir.pages[j-1] {
				fn(b & cellBlock)
			}
		}
	}
}

// from calls fn for the keys of a slot whose home is the first non-empty one at
// or after position at (the upper half of a hash), those before at excepted,
// and returns the position where the next home begins; end means that none
// follows.
func (s *shard) from(slot uint16, at uint64, fn func(l loc, r record, h uint64)) (next uint64) {
	for n := 0; at < scanEnd && n == 0; {
		at, n = s.fromHome(slot, at, fn)
	}
	return at
}

// fromHome is from for one home, and returns how many keys there were.
func (s *shard) fromHome(slot uint16, at uint64, fn func(l loc, r record, h uint64)) (next uint64, n int) {
	g, b, ok := s.pageFor(slot, at<<32)
	if !ok {
		return scanEnd, 0
	}
	prefix := s.prefixOf(g)
	n = s.visit(g, b, prefix, slot, at, fn)
	return at&^(1<<(32-prefix)-1) + g.start(b+1, prefix), n
}

// scanEnd is behind the last position of a slot.
const scanEnd = 1 << 32

// visit calls fn for the keys of one home at or after a position.
func (s *shard) visit(g page, home uint32, prefix uint8, slot uint16, at uint64, fn func(l loc, r record, h uint64)) (n int) {
	bucket := func(b uint32) {
		for w := range uint32(ways) {
			if *g.byteAt(b, w) == 0 {
				continue
			}
			l := g.loc(b, w)
			r := s.e.arena.record(l)
			if r.slot() != slot {
				continue
			}
			h := s.hashOf(r)
			if h>>32 >= at && g.home(h, prefix) == home {
				fn(l, r, h)
				n++
			}
		}
	}
	bucket(home)
	if *g.displaced(home) > 0 {
		bucket(g.next(home))
	}
	if *g.stashed(home) > 0 {
		for b := g.homes; b < g.homes+g.stash; b++ {
			bucket(b)
		}
	}
	return n
}
