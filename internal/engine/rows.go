package engine

import "math/bits"

// rows are the chunks that are free in part, by the longest run of free blocks that each
// has. So a run is taken where it leaves the least (best fit), and chunks with long runs
// keep them for those who need one.
type rows struct {
	of   [chunkBlocks][]uint64 // by length: a bit per chunk; nil until one has it
	n    [chunkBlocks]int      // bits that are set
	what []uint8               // by chunk: its longest run, 0 = it is in no row
}

func (r *rows) init(chunks int) { r.what = make([]uint8, chunks) }

// enter files chunk c, whose longest run has n blocks: 0 to chunkBlocks-1.
func (r *rows) enter(c, n int) {
	old := int(r.what[c])
	if old == n {
		return
	}
	w, bit := c/64, uint64(1)<<(c%64)
	if old != 0 {
		r.of[old][w] &^= bit
		r.n[old]--
	}
	if r.what[c] = uint8(n); n == 0 {
		return
	}
	if r.of[n] == nil {
		r.of[n] = make([]uint64, (len(r.what)+63)/64)
	}
	r.of[n][w] |= bit
	r.n[n]++
}

// fitting returns the first chunk of those whose longest run has the fewest blocks above
// or at n, -1 if there is none.
func (r *rows) fitting(n int) int {
	for ; n < chunkBlocks; n++ {
		if r.n[n] > 0 {
			return firstOf(r.of[n])
		}
	}
	return -1
}

// below returns the first chunk of those with the longest run of fewer than n blocks, and
// its length, 0 if there is none.
func (r *rows) below(n int) (c, got int) {
	for n--; n > 0; n-- {
		if r.n[n] > 0 {
			return firstOf(r.of[n]), n
		}
	}
	return 0, 0
}

// longestOf returns the length of the longest run of free blocks.
func longestOf(mask uint64) (n int) {
	for ; mask != 0; mask &= mask << 1 {
		n++
	}
	return n
}

// runOf returns the starts of runs of n in a mask of free blocks.
func runOf(mask uint64, n int) uint64 {
	for have := 1; have < n && mask != 0; {
		step := min(have, n-have)
		mask &= mask >> step
		have += step
	}
	return mask
}

// placeOf returns where a run of n begins, one that leaves no rest if there is one.
func placeOf(mask uint64, n int) int {
	m := runOf(mask, n)
	if exact := m &^ (mask << 1) &^ (mask >> n); exact != 0 {
		m = exact
	}
	return bits.TrailingZeros64(m)
}
