package engine

const (
	// forceFrom and forceAll are after how many segments of one eviction that
	// gave nothing back the frequency of a record counts less, and no more: so
	// the time of one write is bounded whatever is hot.
	forceFrom = 8
	forceAll  = 16
	// promoteFrom is how many reads a record of the small queue needs to stay.
	promoteFrom = 1
	// compactShare is the part of a shard's live bytes that may be dead, as a
	// divisor, before segments are compacted even though there is room.
	compactShare = 2
	// compactMost is how many segments one write compacts.
	compactMost = 4
	// fullShare is the same for a shard that must give memory back.
	fullShare = 8
)

// evictSegment takes back at least one block from this shard and says whether
// it could. The shard lock is held.
func (s *shard) evictSegment(p *policy, now int64) bool {
	if s.reclaim(fullShare) {
		return true
	}
	before := s.e.arenaOf(s)
	for round := 0; ; round++ {
		id := s.expiredSegment(now)
		if id == 0 {
			id = p.victim(s)
		}
		if id == 0 {
			return false
		}
		if s.onlyKeeps(id) {
			if s.compact(id) {
				return true // of a long segment that one record is left of
			}
			id = s.beside(id)
		}
		s.clean(id, p, now, round)
		if p.probes {
			s.fitGhosts()
			s.fitShadow()
		}
		if s.e.arenaOf(s) < before {
			return true
		}
	}
}

// expiredSegment returns a segment in which every deadline has passed, 0 if
// there is none: it goes before anything that lives.
func (s *shard) expiredSegment(now int64) uint32 {
	if s.vols == 0 {
		return 0
	}
	for id := range s.segs {
		if g := &s.segs[id]; g.vols > 0 && g.vols == g.count && g.latest < now && !s.onlyKeeps(uint32(id)) {
			return uint32(id)
		}
	}
	return 0
}

// onlyKeeps says whether nothing is in a segment but the record that the running
// write replaces: emptying it gives nothing back.
func (s *shard) onlyKeeps(id uint32) bool {
	return s.keep != 0 && s.segs[id].count == 1 && s.segOf(s.keep) == id
}

// beside returns the oldest segment but id, or id if it is alone.
func (s *shard) beside(id uint32) uint32 {
	for q := range s.queues {
		for n := s.queues[q].oldest; n != 0; n = s.segs[n].newer {
			if n != id {
				return n
			}
		}
	}
	return id
}

// arenaOf returns the bytes that a shard has taken.
func (e *Engine) arenaOf(s *shard) int64 {
	return s.queues[small].bytes + s.queues[main].bytes + int64(s.pages+len(s.ghosts.blocks))<<e.arena.blockShift
}

// clean empties a segment: expired records and those that the policy gives up
// go, the others move to the main queue; if these fill up its open segment, the
// rest of them slide to the front of this one, which becomes the open one. So
// cleaning needs no memory of its own.
func (s *shard) clean(id uint32, p *policy, now int64, round int) {
	s.unlinkSegment(id)
	s.working = id
	g := &s.segs[id]
	from, b := int(g.queue), int(g.lane)
	kept, end := uint32(0), g.size
	home := b // lane of what stays in this segment
	for off := uint32(0); off < end; {
		l := s.e.arena.locOf(g.start, off)
		r := s.e.arena.record(l)
		if r.lo&deadBit != 0 {
			off += r.lo &^ deadBit << s.e.arena.unit
			continue
		}
		size := uint32(s.e.arena.sizeOf(r))
		off += size
		gone := expired(s.deadline(r), now)
		lane, freq, stay := b, 0, false
		if p.custom {
			lane, freq, stay = s.ask(l, r, b, now, round)
		} else {
			freq, stay = p.verdict(r.freq(), from, round)
		}
		if l == s.keep && round <= forceAll {
			gone, stay = false, true
		}
		if gone || !stay {
			s.expel(l, r, gone, from)
			continue
		}
		r.setFreq(max(freq, 0))
		if lane != b && home == b && kept > 0 && !s.hasSpace(main, lane, int(size)) {
			lane = b // the class below has no room
		}
		if s.hasSpace(main, lane, int(size)) {
			s.reclass(l, r, lane)
			s.carry(g, l, r, size, lane)
			continue
		}
		if kept == 0 {
			home = lane
		}
		s.reclass(l, r, home)
		s.slide(g, l, kept, size)
		kept += size
	}
	s.working = 0
	if kept == 0 {
		g.held = 0
		s.giveBack(id)
		return
	}
	s.dead -= int64(g.size) - int64(kept)
	g.size = kept
	if s.walkSeg == id {
		s.walkSeg = 0 // where the sweep stood no record may begin now
	}
	s.pushNewest(id, main, home)
	s.setOpen(main, home, id)
}

// expel removes a record that is evicted or found expired by the way.
func (s *shard) expel(l loc, r record, gone bool, from int) {
	slot := r.slot()
	why := byExpiry
	if !gone {
		why = byEviction
	}
	h := s.hashOf(r)
	if !gone && from == small {
		s.addGhost(h)
	}
	s.remove(s.slot(slot), slot, h, l, why)
}

// carry copies a record to the open segment of the main queue.
func (s *shard) carry(g *segment, l loc, r record, size uint32, b int) {
	to, _ := s.push(main, b, int(size))
	s.transfer(g, &s.segs[s.open[main][b]], l, r, to, int(size))
}

// slide moves a record to byte at of its own segment, and says whether it was
// elsewhere.
func (s *shard) slide(g *segment, l loc, at, size uint32) bool {
	to := s.e.arena.locOf(g.start, at)
	if to == l {
		return false
	}
	r := s.e.arena.record(l)
	h, slot := s.hashOf(r), r.slot()
	copy(view(s.e.arena.at(to, int(size)), 0, int(size)), view(r.p, 0, int(size)))
	s.move(slot, h, l, to)
	if s.keep == l {
		s.keep = to
	}
	return true
}

// transfer copies a record to a place that was taken for it in x.
func (s *shard) transfer(g, x *segment, l loc, r record, to loc, size int) {
	h, slot := s.hashOf(r), r.slot()
	p := s.e.arena.at(to, size)
	copy(view(p, 0, size), view(r.p, 0, size))
	s.move(slot, h, l, to)
	s.retire(g, l, s.e.arena.record(l), size)
	s.admitRecord(x, s.e.arena.record(to), size)
	if s.keep == l {
		s.keep = to
	}
}
