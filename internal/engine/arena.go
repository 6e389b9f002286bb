package engine

import (
	"math/bits"
	"sync"
	"unsafe"

	"github.com/ringcache/ringcache/internal/invariant"
)

const (
	// chunkBlocks is the number of blocks of a chunk: the bits of its mask.
	chunkBlocks = 64
	// maxBlockBytes makes a chunk 256 KiB, the largest segment; minBlockBytes
	// is an index page of 8 buckets.
	maxBlockBytes = 4 << 10
	minBlockBytes = 512
	// blocksPerShard is how many blocks a shard should have at the limit, so
	// that its queues are fine enough.
	blocksPerShard = 64
	// defaultReach is the arena of an engine without a limit, or with a small
	// one that may be raised: what 4-byte locations of 4-byte units reach.
	defaultReach = 16 << 30
	minUnit      = 2
	// trimKeep is the part of an arena's use that may stay behind as taken but
	// free chunks, as a divisor.
	trimKeep = 16
)

// arena hands out blocks of one reservation: index pages, ghost tables, runs of
// blocks for segments and for large values. A run lies within one chunk, so a
// mask of 64 bits describes it. It does not count against the limit: whoever
// takes blocks has reserved their bytes before (memory.go), and more blocks
// exist than any limit allows.
type arena struct {
	mem        backing
	blockBytes int
	blockShift uint8 // log2 of blockBytes
	chunkShift uint8
	unit       uint8  // log2 of the bytes that one step of a location is
	homes      uint32 // of an index page
	stash      uint32

	mu    sync.Mutex
	free  []uint64 // per chunk: 1 = free block
	rows  rows     // chunks that are neither full nor empty
	empty []uint64 // bit per chunk: all its blocks are free
	taken []uint64 // bit per empty chunk: its memory was written and not given back
	slack int      // number of bits in taken
	open  int      // chunks whose memory may be taken
	most  int      // bound of open: what the limit needs, and one

	huge huge
}

func log2(n int) uint8 { return uint8(bits.TrailingZeros64(uint64(n))) }

// blockSize returns the block size for a limit over some shards.
func blockSize(limit int64, shards int) int {
	per := limit / int64(shards) / blocksPerShard
	b := minBlockBytes
	for b < maxBlockBytes && int64(b) < per {
		b *= 2
	}
	return b
}

func (a *arena) init(limit int64, shards int) error {
	a.blockBytes = blockSize(limit, shards)
	a.blockShift = log2(a.blockBytes)
	a.chunkShift = a.blockShift + log2(chunkBlocks)
	a.unit = minUnit
	buckets := uint32(a.blockBytes / bucketBytes)
	a.stash = stashOf(buckets)
	a.homes = buckets - a.stash
	reach := int64(defaultReach)
	if limit != unlimited {
		for limit > reach-reach/8 {
			reach *= 2
			a.unit++
		}
	}
	if a.blockBytes < maxBlockBytes { // for small limits: their arena need not reach far
		reach = min(reach, int64(a.blockBytes)<<22)
	}
	chunks := int(reach >> a.chunkShift)
	for {
		err := a.mem.open(chunks, a.blockBytes)
		if err == nil {
			break
		}
		// Where address space is rationed, take what the limit needs.
		if chunks /= 2; int64(chunks-2)<<a.chunkShift < limit {
			return err
		}
	}
	a.most = chunks
	words := (chunks + 63) / 64
	a.free = make([]uint64, chunks)
	a.empty, a.taken = make([]uint64, words), make([]uint64, words)
	a.rows.init(chunks)
	a.vacate()
	return nil
}

// vacate makes all blocks free.
func (a *arena) vacate() {
	clear(a.taken)
	a.slack = 0
	for i := range a.free {
		a.free[i] = ^uint64(0)
		a.rows.enter(i, 0)
		a.empty[i/64] |= 1 << (i % 64)
	}
	a.free[0] &^= 1 // location 0 means nothing
	a.mem.ready(0, 1<<a.chunkShift)
	a.open = 1
	a.file(0)
}

// reset gives all memory back and makes all blocks free.
func (a *arena) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, free := range a.free {
		if free != ^uint64(0) {
			a.mem.release(c, 1, a.chunkShift)
		}
	}
	a.vacate()
}

// reach is the most bytes that the arena can hold.
func (a *arena) reach() int64 { return int64(len(a.free)-1) << a.chunkShift }

// takeRun takes want contiguous blocks for records of size bytes, or where no chunk has as
// many in a row the most that one has, without those at their end that no whole record
// needs; got is 0 if not even one record fits.
func (a *arena) takeRun(want, size int) (block uint32, got int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	want = min(want, chunkBlocks)
	c, at, got := a.search(want)
	if got < want {
		got = a.whole(got, size)
	}
	if got == 0 {
		return 0, 0
	}
	a.take(c, at, got)
	return uint32(c*chunkBlocks + at), got
}

// whole returns how many of n blocks records of a size fill. Where they are small it is
// a power of two, as segments of them have it: so the next one fits, too.
func (a *arena) whole(n, size int) int {
	k := n << a.blockShift / size
	switch {
	case k == 0:
		return 0
	case a.coarse(size):
		return a.blocksFor(k * size)
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// coarse tells whether what a segment of such records wastes at its end matters.
func (a *arena) coarse(size int) bool { return size<<6 > a.blockBytes }

// search finds n free blocks in a row, in a chunk that is in use if there is one,
// otherwise the longest row, of got blocks. A new chunk is opened only as the limit
// allows: blocks that are free between others are still memory of the process, so the
// limit bounds what was ever touched, not only what is taken.
func (a *arena) search(n int) (chunk, at, got int) {
	if c := a.rows.fitting(n); c >= 0 {
		return c, placeOf(a.free[c], n), n
	}
	if c := firstOf(a.taken); c >= 0 {
		return c, 0, n
	}
	if a.open < a.most {
		return firstOf(a.empty), 0, n
	}
	if c, got := a.rows.below(n); got > 0 {
		return c, placeOf(a.free[c], got), got
	}
	return 0, 0, 0
}

func firstOf(set []uint64) int {
	for w, word := range set {
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// bound sets how many chunks may be open for a limit.
func (a *arena) bound(limit int64) {
	a.mu.Lock()
	a.most = a.chunksFor(limit)
	a.mu.Unlock()
}

// touched returns the bytes of the chunks whose memory was taken and not given
// back, the upper bound of what is resident.
func (a *arena) touched() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(a.open) << a.chunkShift
}

func (a *arena) chunksFor(limit int64) int {
	if limit >= a.reach() {
		return len(a.free)
	}
	return int((limit+1<<a.chunkShift-1)>>a.chunkShift) + 1
}

// provide makes sure that there is memory for every chunk that may be open, and
// for the first n, where it has to be asked for before it is touched (see
// backing.reserve). As long as chunks are opened from the lowest on, none
// beyond that number ever is.
func (a *arena) provide(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mem.reserve(max(n, a.most), a.chunkShift)
}

// shrink gives back what provide asked for beyond n chunks.
func (a *arena) shrink(most int) {
	a.huge.Lock()
	defer a.huge.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	end := a.mem.shrink(most)
	for c := most; c < end; {
		n := 0
		for ; c+n < end && a.empty[(c+n)/64]&(1<<((c+n)%64)) != 0; n++ {
			if w, bit := (c+n)/64, uint64(1)<<((c+n)%64); a.taken[w]&bit != 0 {
				a.taken[w] &^= bit
				a.slack--
				a.open--
			}
		}
		if n > 0 {
			a.mem.release(c, n, a.chunkShift)
		}
		c += n + 1
	}
}

func maskOf(at, n int) uint64 { return ^uint64(0) >> (64 - n) << at }

func (a *arena) take(c, at, n int) {
	if bit := uint64(1) << (c % 64); a.empty[c/64]&bit != 0 {
		if a.taken[c/64]&bit == 0 {
			a.open++
		}
		a.mem.ready(c, 1<<a.chunkShift)
	}
	a.free[c] &^= maskOf(at, n)
	a.file(c)
}

// put gives n blocks back.
func (a *arena) put(block uint32, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, m := int(block/chunkBlocks), maskOf(int(block%chunkBlocks), n)
	if invariant.Enabled {
		invariant.Check(a.free[c]&m == 0, "blocks %d+%d are given back twice", block, n)
	}
	a.free[c] |= m
	a.file(c)
}

// file enters chunk c in the set that it belongs to.
func (a *arena) file(c int) {
	w, bit := c/64, uint64(1)<<(c%64)
	if a.taken[w]&bit != 0 {
		a.taken[w] &^= bit
		a.slack--
	}
	a.empty[w] &^= bit
	longest := longestOf(a.free[c])
	a.rows.enter(c, longest%chunkBlocks)
	if longest == chunkBlocks {
		a.empty[w] |= bit
		a.taken[w] |= bit
		a.slack++
	}
}

// trim returns the memory of empty chunks to the system, except a part of what
// is used, which will soon be used again. Who wants blocks waits for one chunk.
func (a *arena) trim(used int64) {
	a.huge.Lock()
	defer a.huge.Unlock()
	keep := int(used/trimKeep>>a.chunkShift) + 1
	for w := len(a.taken) - 1; w >= 0; {
		a.mu.Lock()
		if a.slack <= keep {
			a.mu.Unlock()
			return
		}
		for w >= 0 && a.taken[w] == 0 {
			w--
		}
		if w >= 0 {
			c := w*64 + bits.TrailingZeros64(a.taken[w])
			a.mem.release(c, 1, a.chunkShift)
			a.huge.narrow(c)
			a.taken[w] &^= 1 << (c % 64)
			a.slack--
			a.open--
		}
		a.mu.Unlock()
	}
}

// dry returns the memory of free blocks between others to the system, for a
// limit that was lowered: more chunks may be in use in part than it allows. They
// empty in time, since runs are taken where the least is free.
func (a *arena) dry() {
	a.huge.Lock()
	defer a.huge.Unlock()
	for c := range a.free {
		a.mu.Lock()
		if a.open <= a.most {
			a.mu.Unlock()
			return
		}
		if a.rows.what[c] != 0 {
			for m := a.free[c]; m != 0; {
				at := bits.TrailingZeros64(m)
				n := bits.TrailingZeros64(^(m >> at))
				m &^= maskOf(at, n)
				a.mem.discard(uint64(c)<<a.chunkShift+uint64(at)<<a.blockShift, n<<a.blockShift)
			}
		}
		a.mu.Unlock()
	}
}

// at returns the address of a location; n is how many bytes from there on the
// caller will use.
func (a *arena) at(l loc, n int) unsafe.Pointer {
	off := uint64(l) << a.unit
	if invariant.Enabled {
		c := off >> a.chunkShift
		invariant.Check(l != 0 && int(c) < len(a.free), "location %d is outside of the arena", l)
		invariant.Check((off+uint64(max(n, 1))-1)>>a.chunkShift == c, "%d bytes at %d cross a chunk", n, l)
	}
	return a.mem.at(off, a.chunkShift)
}

// blockAt returns the address of a block.
func (a *arena) blockAt(block uint32) unsafe.Pointer {
	return a.mem.at(uint64(block)<<a.blockShift, a.chunkShift)
}

func (a *arena) blockBytesAt(block uint32, n int) []byte {
	return unsafe.Slice((*byte)(a.blockAt(block)), n<<a.blockShift)
}

// locOf returns the location of byte off of a block's run.
func (a *arena) locOf(block, off uint32) loc {
	return loc((uint64(block)<<a.blockShift + uint64(off)) >> a.unit)
}

// blockOf returns the block that a location lies in.
func (a *arena) blockOf(l loc) uint32 { return uint32(uint64(l) << a.unit >> a.blockShift) }

func (a *arena) blocksFor(n int) int { return (n + a.blockBytes - 1) >> a.blockShift }

func (a *arena) pad(n int) int { return (n + 1<<a.unit - 1) &^ (1<<a.unit - 1) }

// close gives all memory back; what it returns is for unmap, once nobody can read
// it any more.
func (a *arena) close() (left []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.taken) // nothing is left to trim or dry
	a.slack, a.open = 0, 0
	return a.mem.close()
}
