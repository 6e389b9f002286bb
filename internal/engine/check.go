package engine

import (
	"fmt"
	"math/bits"

	"github.com/ringcache/ringcache/internal/invariant"
)

const (
	// checkEvery is how many holds pass between two checks of a shard in checked
	// builds, and checkEntries up to which size a shard is checked at all: a
	// check reads every entry.
	checkEvery   = 2048
	checkEntries = 512
)

// sampleCheck verifies the shard now and then; the shard lock is held.
func (s *shard) sampleCheck() {
	if s.checks++; s.checks%checkEvery == 0 && s.keys.Load() <= checkEntries {
		err := s.verify()
		invariant.Check(err == nil, "%v", err)
	}
}

// verify compares every counter and link of the shard with what it holds; the
// shard lock is held.
func (s *shard) verify() error {
	if s.e.closed.Load() {
		return nil
	}
	linked := map[loc]bool{}
	pages, err := s.verifyPages(linked)
	if err != nil {
		return fmt.Errorf("shard %d: %w", s.id, err)
	}
	var keys int64
	for i := range s.slots {
		st := &s.slots[i]
		n, bytes, err := s.verifySlot(st, s.slotNumber(i))
		if err != nil {
			return fmt.Errorf("shard %d slot %d: %w", s.id, s.slotNumber(i), err)
		}
		if n != st.keys.Load() || bytes != st.bytes.Load() {
			return fmt.Errorf("shard %d slot %d: counts %d keys and %d bytes, holds %d and %d",
				s.id, s.slotNumber(i), st.keys.Load(), st.bytes.Load(), n, bytes)
		}
		keys += n
	}
	if keys != s.keys.Load() || int(keys) != len(linked) || pages != s.pages {
		return fmt.Errorf("shard %d: counts %d keys and %d pages, holds %d and %d, links %d",
			s.id, s.keys.Load(), s.pages, keys, pages, len(linked))
	}
	if keys == 0 && s.e.arenaOf(s) != 0 {
		return fmt.Errorf("shard %d: is empty and has %d bytes", s.id, s.e.arenaOf(s))
	}
	if err := s.verifySegments(linked); err != nil {
		return fmt.Errorf("shard %d: %w", s.id, err)
	}
	return nil
}

func (s *shard) verifyPages(linked map[loc]bool) (pages int, err error) {
	s.eachPage(func(block uint32) {
		pages++
		g := s.e.arena.page(block)
		n := 0
		var off, stash int
		g.each(func(at place, tag byte, l loc) {
			n++
			h := s.hashOf(s.e.arena.record(l))
			home := g.home(h, s.prefixOf(g))
			switch {
			case at.bucket >= g.homes:
				stash++
			case at.bucket != home:
				off++
			}
			if linked[l] || tag != tagOf(h) {
				err = fmt.Errorf("page %d links %d twice or with a wrong tag", block, l)
			}
			linked[l] = true
		})
		for b := range g.homes {
			off -= int(*g.displaced(b))
			stash -= int(*g.stashed(b))
		}
		if n != g.count() || off != 0 || stash != 0 {
			err = fmt.Errorf("page %d counts %d keys, holds %d; displaced and stashed are off by %d and %d", block, g.count(), n, off, stash)
		}
	})
	return pages, err
}

func (s *shard) verifySlot(st *slotState, slot uint16) (keys, bytes int64, err error) {
	if st.keys.Load() == 0 {
		return 0, 0, nil // a key that is not counted shows in the sum of all
	}
	s.step(slot, 0, int(^uint(0)>>1), minTime, func(l loc, r record, h uint64) {
		keys++
		bytes += s.e.arena.chargeOf(r)
		if r.lo&deadBit != 0 {
			err = fmt.Errorf("a dead record is linked")
			return
		}
		if hit, _ := s.find(slot, h, s.key(r)); hit != l {
			err = fmt.Errorf("key %q is not found", s.key(r))
		}
	})
	if dir := st.dir.Load(); dir != nil {
		var deep int32
		for i := 0; i < len(dir.pages); {
			d := s.prefixOf(s.e.arena.page(dir.pages[i] & cellBlock))
			if d == dir.depth {
				deep++
			}
			i += 1 << (dir.depth - d)
		}
		if deep != dir.deep || deep == 0 || s.blockAt(int(slot>>s.e.bits)) != 0 {
			err = fmt.Errorf("%d pages at depth %d, counted %d", deep, dir.depth, dir.deep)
		}
	}
	return keys, bytes, err
}

func (s *shard) verifySegments(linked map[loc]bool) error {
	var live, dead, vols, records, spareVols int64
	var bytes [queues]int64
	var blocks [queues][MaxClasses * buckets]uint32
	var charged [MaxClasses]int64
	var classed [MaxClasses]int32
	full := 0
	for id := range s.segs {
		g := &s.segs[id]
		if g.blocks == 0 {
			continue
		}
		full++
		classed[classOfLane(g.lane)]++
		var seg segment
		for off := uint32(0); off < g.size; {
			l := s.e.arena.locOf(g.start, off)
			r := s.e.arena.record(l)
			if r.lo&deadBit != 0 {
				off += r.lo &^ deadBit << s.e.arena.unit
				continue
			}
			n := uint32(s.e.arena.sizeOf(r))
			off += n
			seg.live += n
			charged[classOfLane(g.lane)] += s.e.arena.chargeOf(r)
			seg.count++
			if r.form() != formNone {
				seg.vols++
				if s.slot(r.slot()).spare {
					spareVols++
				}
				if d := s.deadline(r); d < g.soonest && !(s.walkSeg == uint32(id)) || d > g.latest {
					return fmt.Errorf("segment %d: a deadline of %d is not within %d and %d", id, d, g.soonest, g.latest)
				}
			}
			if r.large() {
				seg.held += int64(s.e.arena.chainLen(r.chain())) << s.e.arena.blockShift
			}
			if !linked[l] || s.segOf(l) != uint32(id) {
				return fmt.Errorf("segment %d: the record at %d is not linked", id, l)
			}
		}
		if seg.live != g.live || seg.count != g.count || seg.vols != g.vols || seg.held != g.held {
			return fmt.Errorf("segment %d counts %+v, holds %+v", id, *g, seg)
		}
		live, dead, vols, records = live+int64(g.live), dead+int64(g.size-g.live), vols+int64(g.vols), records+int64(g.count)
		bytes[g.queue] += s.heldBy(g)
		blocks[g.queue][g.lane] += g.blocks
	}
	for i := range s.slots {
		spareVols -= int64(s.slots[i].spareVols)
	}
	if spareVols != 0 {
		return fmt.Errorf("%d more entries of spare slots have a deadline than are counted", spareVols)
	}
	if live != s.live || dead != s.dead || vols != s.vols || records != int64(len(linked)) || full != s.full {
		return fmt.Errorf("%d live, %d dead bytes, %d with a deadline, %d records in %d segments; counted %d, %d, %d, %d, %d",
			live, dead, vols, records, full, s.live, s.dead, s.vols, len(linked), s.full)
	}
	if classed != s.classed || s.e.classes != nil && charged != s.classBytes {
		return fmt.Errorf("segments of classes are counted as %v, there are %v; bytes as %v, there are %v", s.classed, classed, s.classBytes, charged)
	}
	for q := range s.queues {
		if s.queues[q].bytes != bytes[q] || s.queues[q].blocks != blocks[q] {
			return fmt.Errorf("queue %d counts %d bytes and blocks %d, holds %d and %d", q, s.queues[q].bytes, s.queues[q].blocks, bytes[q], blocks[q])
		}
	}
	return nil
}

// verify compares the chunk masks and sets with the bytes in use; nothing else
// may run.
func (a *arena) verify(used int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := -1 // block 0
	slack := 0
	var filed [chunkBlocks]int
	for c, m := range a.free {
		taken += chunkBlocks - bits.OnesCount64(m)
		bit := uint64(1) << (c % 64)
		longest := longestOf(m)
		what := int(a.rows.what[c])
		if (longest == chunkBlocks) != (a.empty[c/64]&bit != 0) || what != longest%chunkBlocks || what != 0 && a.rows.of[what][c/64]&bit == 0 {
			return fmt.Errorf("chunk %d is in the wrong set", c)
		}
		if a.taken[c/64]&bit != 0 {
			slack++
		}
		filed[what]++
	}
	for n, want := range filed[1:] {
		if a.rows.n[n+1] != want {
			return fmt.Errorf("%d chunks with a longest run of %d, counted as %d", want, n+1, a.rows.n[n+1])
		}
	}
	if int64(taken)<<a.blockShift != used || slack != a.slack {
		return fmt.Errorf("%d blocks are taken for %d bytes; slack %d is counted as %d", taken, used, slack, a.slack)
	}
	return nil
}
