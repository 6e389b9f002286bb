package engine

import (
	"bytes"
	"encoding/binary"
)

// ghosts remembers, for some time, which keys left the small queue: 16-bit
// fingerprints in sets, each a queue. It takes blocks of the arena, and only
// when there is eviction at all. How many keys it remembers is as many as the
// shard holds: one that remembers more takes for popular what a scan of several
// times the cache brings back. A false positive (1 in 2000 for a full set)
// costs one place in the main queue.
type ghosts struct {
	blocks []uint32 // a power of two
	sets   uint32   // in use, a power of two, from the first block on
	ways   uint32   // fingerprints of each that are in use
}

const (
	ghostSet   = 64
	ghostPrint = 2
	ghostWays  = ghostSet / ghostPrint
)

func ghostPrintOf(h uint64) uint16 { return max(1, uint16(h>>8)) }

// ghostSetAt returns set i.
func (s *shard) ghostSetAt(i uint32) []byte {
	a := &s.e.arena
	perBlock := uint32(a.blockBytes / ghostSet)
	b := a.blockBytesAt(s.ghosts.blocks[i/perBlock], 1)
	at := i % perBlock * ghostSet
	return b[at : at+ghostSet : at+ghostSet]
}

// ghostSet returns the part of a key's set that is in use. It is chosen by bits
// of the hash that neither the print nor the tag uses.
func (s *shard) ghostSet(h uint64) []byte {
	g := &s.ghosts
	return s.ghostSetAt(uint32(h>>24) & (g.sets - 1))[:g.ways*ghostPrint]
}

func (s *shard) addGhost(h uint64) {
	if len(s.ghosts.blocks) == 0 {
		return
	}
	set := s.ghostSet(h)
	copy(set[ghostPrint:], set)
	binary.LittleEndian.PutUint16(set, ghostPrintOf(h))
}

// takeGhost says whether h is remembered, and forgets it.
func (s *shard) takeGhost(h uint64) bool {
	if len(s.ghosts.blocks) == 0 {
		return false
	}
	set := s.ghostSet(h)
	var fp [ghostPrint]byte
	binary.LittleEndian.PutUint16(fp[:], ghostPrintOf(h))
	for at := 0; ; {
		i := bytes.Index(set[at:], fp[:])
		if i < 0 {
			return false
		}
		if i += at; i%ghostPrint == 0 {
			copy(set[i:], set[i+ghostPrint:])
			set[len(set)-1], set[len(set)-2] = 0, 0
			return true
		}
		at = i + 1
	}
}

// fitGhosts makes the table remember an eighth more keys than the shard holds.
// Sets double while they are too few, if the limit has room for their blocks: a
// copy of a set answers like the original.
func (s *shard) fitGhosts() {
	g, a := &s.ghosts, &s.e.arena
	keys := s.keys.Load()
	if keys == 0 {
		return // an empty shard has no memory
	}
	aim := max(1, uint32(keys+keys/8))
	perBlock := uint32(a.blockBytes / ghostSet)
	for aim > g.sets*ghostWays {
		if g.sets == uint32(len(g.blocks))*perBlock && !s.moreGhosts() {
			break
		}
		for i := range g.sets {
			copy(s.ghostSetAt(g.sets+i), s.ghostSetAt(i))
		}
		g.sets = max(1, g.sets*2)
	}
	for g.sets > 1 && aim < g.sets*ghostWays/4 {
		g.sets /= 2
	}
	if g.sets > 0 {
		g.ways = max(1, min(ghostWays, aim/g.sets))
	}
}

// moreGhosts doubles the blocks.
func (s *shard) moreGhosts() bool {
	g, a := &s.ghosts, &s.e.arena
	n := max(1, len(g.blocks))
	if !s.e.tryReserve(int64(n * a.blockBytes)) {
		return false
	}
	for range n {
		block, _ := a.takeRun(1, a.blockBytes)
		clear(a.blockBytesAt(block, 1))
		g.blocks = append(g.blocks, block)
	}
	return true
}

func (s *shard) dropGhosts() {
	for _, b := range s.ghosts.blocks {
		s.e.arena.put(b, 1)
	}
	s.e.used.Add(-int64(len(s.ghosts.blocks) * s.e.arena.blockBytes))
	s.ghosts = ghosts{}
}
