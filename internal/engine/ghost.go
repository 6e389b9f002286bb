package engine

import (
	"bytes"
	"encoding/binary"
)

// ghosts remembers, for some time, which keys left the small queue: 16-bit
// fingerprints in sets of 32, each a queue. It takes blocks of the arena, as
// many as hold a fingerprint for every key of the shard, and only when there is
// eviction at all. A false positive (1 in 2000 for a full set) costs one place
// in the main queue.
type ghosts struct {
	blocks []uint32 // a power of two
}

const (
	ghostSet   = 64
	ghostPrint = 2
)

func ghostPrintOf(h uint64) uint16 { return max(1, uint16(h>>8)) }

func (s *shard) ghostSet(h uint64) []byte {
	g := &s.ghosts
	a := &s.e.arena
	sets := uint64(a.blockBytes / ghostSet)
	at := h >> 24 // bits that neither the print nor the tag uses
	block := g.blocks[at&uint64(len(g.blocks)-1)]
	b := a.blockBytesAt(block, 1)
	set := at >> 20 % sets * ghostSet
	return b[set : set+ghostSet]
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
			set[ghostSet-1], set[ghostSet-2] = 0, 0
			return true
		}
		at = i + 1
	}
}

// growGhosts doubles the table while it holds less than a fingerprint per key,
// if the limit has room. A copy answers like the original.
func (s *shard) growGhosts() {
	g, a := &s.ghosts, &s.e.arena
	for int64(len(g.blocks)*a.blockBytes/ghostPrint) < s.keys.Load() {
		old := g.blocks
		n := max(1, len(old))
		if !s.e.tryReserve(int64(n * a.blockBytes)) {
			return
		}
		for i := range n {
			block, _ := a.takeRun(1, 1)
			if to := a.blockBytesAt(block, 1); len(old) > 0 {
				copy(to, a.blockBytesAt(old[i], 1))
			} else {
				clear(to)
			}
			g.blocks = append(g.blocks, block)
		}
	}
}

func (s *shard) dropGhosts() {
	for _, b := range s.ghosts.blocks {
		s.e.arena.put(b, 1)
	}
	s.e.used.Add(-int64(len(s.ghosts.blocks) * s.e.arena.blockBytes))
	s.ghosts.blocks = nil
}
