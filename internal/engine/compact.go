package engine

import "math"

// compaction is where the compaction of a segment stands between two holds. What
// it has done so far leaves a segment like any other, with a hole that is dead,
// so it may be given up at any time.
type compaction struct {
	seg    uint32 // 0 = none is under way
	slid   bool   // the records of seg lie together; others follow
	from   uint32 // segment whose records follow those of seg, 0 = choose one
	kept   uint32 // bytes of seg that lie together, until all do
	off    uint32 // byte of seg, then of from, where it goes on
	gained bool
}

// reclaim compacts where that gives back the most blocks, if the part of the
// shard that is dead is worth the work: more than 1/share of what lives.
func (s *shard) reclaim(share int64) bool {
	id := s.wasteful(share)
	return id != 0 && s.compact(id)
}

// wasteful returns the segment that reclaim compacts, 0 if there is none.
func (s *shard) wasteful(share int64) (best uint32) {
	a := &s.e.arena
	if s.dead*share <= s.live || s.dead < int64(a.blockBytes) {
		return 0
	}
	most := uint32(0)
	for id := range s.segs {
		g := &s.segs[id]
		if g.blocks == 0 {
			continue
		}
		gain := g.blocks - uint32(max(1, a.blocksFor(int(g.live))))
		if n := s.partner(g); n != 0 {
			gain = max(gain, s.segs[n].blocks)
		}
		if gain > most {
			best, most = uint32(id), gain
		}
	}
	return best
}

// partner returns the segment next to g whose records all fit into what of g is
// not live, 0 if that one does not. It may not be open: g would become newer
// than what is written next.
func (s *shard) partner(g *segment) uint32 {
	n := g.newer
	if n == 0 {
		return 0
	}
	y := &s.segs[n]
	if y.lane != g.lane || s.open[y.queue][y.lane] == n || int(g.live+y.live) > int(g.blocks)<<s.e.arena.blockShift {
		return 0
	}
	return n
}

// compact slides the records of a segment together, fills it up from those that
// follow it in the queue, and gives back what became empty: segments behind it,
// or its own last blocks. All keep their places in the queue.
func (s *shard) compact(id uint32) bool {
	s.startCompaction(id)
	for {
		if done, gained := s.compactSome(math.MaxInt, math.MaxInt); done {
			return gained
		}
	}
}

func (s *shard) startCompaction(id uint32) {
	g := &s.segs[id]
	if s.open[g.queue][g.lane] == id {
		s.open[g.queue][g.lane] = 0
	}
	if s.thinning.seg == id {
		s.thinning.seg = 0 // where that stands no record may begin afterwards
	}
	s.compacting = compaction{seg: id}
}

// compactSome goes on with the compaction: it moves and looks at so many records
// at most.
func (s *shard) compactSome(moves, looks int) (done, gained bool) {
	c := &s.compacting
	g := &s.segs[c.seg]
	if s.walkSeg == c.seg {
		s.walkSeg, g.soonest = 0, min(g.soonest, s.walkSoonest)
	}
	if !c.slid {
		if !s.slideSome(c, g, moves, looks) {
			return false, false
		}
		if c.kept == 0 {
			s.freeSegment(c.seg)
			return true, true
		}
		c.slid = true
		if moves < math.MaxInt {
			return false, false
		}
	}
	for moves > 0 && looks > 0 {
		if c.from == 0 && !s.follow(c, g) || !s.drainSome(c, g, &moves, &looks) {
			return true, s.endCompaction(c, g)
		}
	}
	return false, false
}

// slideSome moves records to the front and says whether all lie there.
func (s *shard) slideSome(c *compaction, g *segment, moves, looks int) bool {
	a := &s.e.arena
	c.off, _ = s.someRecords(g, c.off, looks, func(l loc, r record) bool {
		size := uint32(a.sizeOf(r))
		if s.slide(g, l, c.kept, size) {
			moves--
		}
		c.kept += size
		return moves > 0
	})
	if c.off < g.size {
		if c.off > c.kept {
			l := a.locOf(g.start, c.kept)
			a.bury(a.at(l, 1), int(c.off-c.kept))
		}
		return false
	}
	s.dead -= int64(g.size) - int64(c.kept)
	g.size = c.kept
	return true
}

// follow chooses the segment whose records come next.
func (s *shard) follow(c *compaction, g *segment) bool {
	c.from, c.off = s.partner(g), 0
	return c.from != 0
}

// drainSome moves records of one segment behind those of the other, and frees it
// when it is empty: then from is 0. It says whether all had room.
func (s *shard) drainSome(c *compaction, g *segment, moves, looks *int) (fits bool) {
	a := &s.e.arena
	f := &s.segs[c.from]
	fits = true
	off, n := s.someRecords(f, c.off, *looks, func(l loc, r record) bool {
		size := a.sizeOf(r)
		if fits = int(g.size)+size <= int(g.blocks)<<a.blockShift; !fits {
			return false // some of g died since, and their bytes are no room
		}
		at := a.locOf(g.start, g.size)
		g.size += uint32(size)
		s.transfer(f, g, l, r, at, size)
		*moves--
		return *moves > 0
	})
	*looks -= n
	if c.off = off; fits && off >= f.size {
		id := c.from
		c.from, c.gained = 0, true
		s.freeSegment(id)
	}
	return fits
}

// endCompaction gives back the last blocks of a segment that gave no other back.
func (s *shard) endCompaction(c *compaction, g *segment) (gained bool) {
	need := uint32(max(1, s.e.arena.blocksFor(int(g.size))))
	if spare := g.blocks - need; spare > 0 && !c.gained {
		s.e.arena.put(g.start+need, int(spare))
		s.e.used.Add(-int64(spare) << s.e.arena.blockShift)
		s.queues[g.queue].bytes -= int64(spare) << s.e.arena.blockShift
		s.queues[g.queue].blocks[g.lane] -= spare
		g.blocks, c.gained = need, true
	}
	gained = c.gained
	s.compacting = compaction{}
	return gained
}
