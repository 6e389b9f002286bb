package engine

import (
	"math/bits"
)

// The fields of a shard, one function per kind. What follows from others is not
// kept: sums, links, numbers of segments. TestEveryFieldIsKept names every field
// and what becomes of it.

const (
	maxDirDepth = 30
	segOpen     = 1 // flags of a segment
)

// encode appends what the shard holds; its lock is held.
func (s *shard) encode(w *metaWriter) {
	w.sint(s.era)
	w.word(s.rand.state)
	w.num(uint64(s.begun))
	for q := range s.queues {
		n := 0
		for id := s.queues[q].oldest; id != 0; id = s.segs[id].newer {
			n++
		}
		w.num(uint64(n))
		for id := s.queues[q].oldest; id != 0; id = s.segs[id].newer {
			flags := uint64(0)
			if s.open[q][s.segs[id].lane] == id {
				flags |= segOpen
			}
			s.segs[id].encode(w, flags)
		}
	}
	w.num(uint64(len(s.ghosts.blocks)))
	for _, b := range s.ghosts.blocks {
		w.num(uint64(b))
	}
	w.num(uint64(s.ghosts.sets))
	w.num(uint64(s.ghosts.ways))
	for _, n := range s.classBytes {
		w.num(uint64(n))
	}
	s.encodeSlots(w)
}

func (g *segment) encode(w *metaWriter, flags uint64) {
	w.num(flags)
	w.num(uint64(g.start))
	w.num(uint64(g.blocks))
	w.num(uint64(g.lane))
	w.num(uint64(g.size))
	w.num(uint64(g.live))
	w.num(uint64(g.count))
	w.num(uint64(g.vols))
	w.num(uint64(g.turn))
	w.num(uint64(g.held))
	w.num(g.born)
	w.sint(g.soonest)
	w.sint(g.latest)
}

// decode fills an empty shard. If classed is false, the classes of the keys
// have changed: all entries belong to the first one until they are written again.
func (s *shard) decode(r *metaReader, c *claims, births uint64, classed bool) (chains int64) {
	s.era = r.sint()
	s.rand.state = r.word()
	s.begun = uint32(r.num(1<<32 - 1))
	a := &s.e.arena
	var keys int64
	for q := range s.queues {
		n := r.count(len(a.free) * chunkBlocks)
		for range n {
			if r.err != nil {
				return 0
			}
			if len(s.segs) == 0 {
				s.segs = append(s.segs, segment{})
			}
			id := uint32(len(s.segs))
			s.segs = append(s.segs, segment{})
			s.link(r, c, id, q, births, classed)
			keys += int64(s.segs[id].count)
			chains += s.segs[id].held
		}
	}
	s.decodeGhosts(r, c)
	for i := range s.classBytes {
		s.classBytes[i] = int64(r.num(1 << 62))
	}
	s.decodeSlots(r, c)
	s.countClasses(r, classed)
	r.check(keys == s.keys.Load(), "shard %d: %d records for %d keys", s.id, keys, s.keys.Load())
	return chains
}

// countClasses brings the bytes of classes in line with what the slots hold.
func (s *shard) countClasses(r *metaReader, classed bool) {
	var all, sum int64
	for i := range s.slots {
		all += s.slots[i].bytes.Load()
	}
	for _, n := range s.classBytes {
		sum += n
	}
	switch {
	case s.e.classes == nil:
		clear(s.classBytes[:])
	case !classed:
		clear(s.classBytes[:])
		s.classBytes[0] = all
	default:
		r.check(sum == all, "shard %d: its classes have %d bytes, its slots %d", s.id, sum, all)
	}
}

// link decodes a segment as the newest of its queue and adds it to the sums.
func (s *shard) link(r *metaReader, c *claims, id uint32, q int, births uint64, classed bool) {
	flags := r.num(segOpen)
	g := &s.segs[id]
	g.decode(r, c, &s.e.arena, births)
	if r.err != nil {
		*g = segment{}
		return
	}
	if !classed {
		g.lane %= buckets
	}
	s.classed[classOfLane(g.lane)]++
	l := &s.queues[q]
	g.queue, g.older = uint8(q), l.newest
	if l.newest != 0 {
		s.segs[l.newest].newer = id
	} else {
		l.oldest = id
	}
	l.newest = id
	l.bytes += s.heldBy(g)
	l.blocks[g.lane] += g.blocks
	if open := &s.open[q][g.lane]; flags&segOpen != 0 && (classed || *open == 0) {
		r.check(*open == 0, "shard %d: two segments are open side by side", s.id)
		*open = id
	}
	s.full++
	s.live += int64(g.live)
	s.dead += int64(g.size) - int64(g.live)
	s.vols += int64(g.vols)
}

func (g *segment) decode(r *metaReader, c *claims, a *arena, births uint64) {
	start, blocks := r.num(1<<32-1), r.num(chunkBlocks)
	r.claim(c, start, blocks)
	g.start, g.blocks = uint32(start), uint32(blocks)
	g.lane = uint8(r.num(MaxClasses*buckets - 1))
	g.size = uint32(r.num(blocks << a.blockShift))
	g.live = uint32(r.num(uint64(g.size)))
	g.count = uint32(r.num(uint64(g.live) / headBytes))
	g.vols = uint32(r.num(uint64(g.count)))
	g.turn = uint32(r.num(1<<32 - 1))
	g.held = int64(r.num(uint64(len(c.free)) << a.chunkShift))
	g.born = r.num(births)
	g.soonest, g.latest = r.sint(), r.sint()
	r.check(g.size&(1<<a.unit-1) == 0 && g.live&(1<<a.unit-1) == 0, "a segment's size is no multiple of the unit")
	r.check(g.held&(int64(a.blockBytes)-1) == 0 && (g.held == 0 || g.count > 0), "a segment holds %d bytes of chains", g.held)
}

func (s *shard) decodeGhosts(r *metaReader, c *claims) {
	n := r.count(len(c.free) * chunkBlocks)
	r.check(n&(n-1) == 0, "shard %d: %d blocks of evicted keys", s.id, n)
	for range n {
		b := r.num(1<<32 - 1)
		if r.claim(c, b, 1); r.err != nil {
			return
		}
		s.ghosts.blocks = append(s.ghosts.blocks, uint32(b))
	}
	sets := r.num(uint64(n * s.e.arena.blockBytes / ghostSet))
	ways := r.num(ghostWays)
	r.check(sets&(sets-1) == 0 && (sets == 0) == (ways == 0), "shard %d: %d sets of %d evicted keys", s.id, sets, ways)
	s.ghosts.sets, s.ghosts.ways = uint32(sets), uint32(ways)
}

// encodeSlots writes, for each page, its block and how many neighbours share it
// with their counts; 0, 0 and a directory for a slot that has one; 0 and the number
// of slots for those without keys.
func (s *shard) encodeSlots(w *metaWriter) {
	for i := 0; i < len(s.slots); {
		n, block, dir := 1, s.blockAt(i), s.slots[i].dir.Load()
		for dir == nil && i+n < len(s.slots) && s.blockAt(i+n) == block && s.slots[i+n].dir.Load() == nil {
			n++
		}
		w.num(uint64(block))
		switch {
		case dir != nil:
			w.num(0)
			dir.encode(w)
		case block == 0:
			w.num(uint64(n))
			i += n
			continue
		default:
			w.num(uint64(n))
		}
		for ; n > 0; n-- {
			w.num(uint64(s.slots[i].keys.Load()))
			w.num(uint64(s.slots[i].bytes.Load()))
			i++
		}
	}
}

func (s *shard) decodeSlots(r *metaReader, c *claims) {
	var keys int64
	for i := 0; i < len(s.slots) && r.err == nil; {
		block, n := r.num(cellBlock), int(r.num(uint64(len(s.slots)-i)))
		switch {
		case block != 0:
			r.check(n > 0 && n&(n-1) == 0 && i%n == 0, "shard %d: a page covers %d slots from %d on", s.id, n, i)
			r.claim(c, block, 1)
			s.pages++
			for j := range n {
				s.setBlock(i+j, uint32(block))
			}
		case n == 0:
			if dir := decodeDirectory(r, c, &s.pages); dir != nil {
				s.setDir(i, dir)
			}
			n = 1
		default:
			i += n
			continue
		}
		for ; n > 0 && r.err == nil; n-- {
			k := int64(r.num(1 << 32))
			s.slots[i].keys.Store(k)
			s.slots[i].bytes.Store(int64(r.num(1 << 62)))
			keys += k
			i++
		}
	}
	s.keys.Store(keys)
}

// encode writes the pages with the number of cells that each takes.
func (d *directory) encode(w *metaWriter) {
	w.num(uint64(d.depth))
	for i := 0; i < len(d.pages); {
		n := 1
		for i+n < len(d.pages) && d.pages[i+n] == d.pages[i] {
			n++
		}
		w.num(uint64(d.pages[i] & cellBlock))
		w.num(uint64(bits.Len(uint(n)) - 1))
		i += n
	}
}

func decodeDirectory(r *metaReader, c *claims, count *int) *directory {
	d := &directory{depth: uint8(r.num(maxDirDepth))}
	// A directory is wide where its deepest page is, and has a page for each few
	// cells: one that is far wider than there are blocks is damaged.
	cells := 1 << d.depth
	if d.depth == 0 || cells > max(1<<16, 64*int(c.left)) {
		r.fail("a directory has %d cells", cells)
		return nil
	}
	d.pages = make([]uint32, cells)
	for at := 0; at < cells; *count++ {
		block, shift := r.num(cellBlock), uint8(r.num(uint64(d.depth)))
		n := 1 << shift
		r.claim(c, block, 1)
		r.check(at%n == 0 && at+n <= cells, "a page takes %d cells of a directory from %d on", n, at)
		if r.err != nil {
			return nil
		}
		if n == 1 {
			d.deep++
		}
		d.link(at, n, uint32(block), d.depth-shift)
		at += n
	}
	return d
}
