package engine

import "unsafe"

// A large record's key and value lie in a chain of runs of whole blocks. A run
// begins with the first block of the next run (0 = last) and its own number of
// blocks. So a large value needs no contiguous memory, hence no compaction, and
// costs its own blocks only.

// takeChain takes n blocks, whose bytes are reserved, in as few runs as there
// are, and returns the first.
func (a *arena) takeChain(n int) uint32 {
	var first uint32
	var last unsafe.Pointer
	for n > 0 {
		block, got := a.takeRun(n, a.blockBytes)
		p := a.blockAt(block)
		write32(p, 0)
		write32(unsafe.Add(p, 4), uint32(got))
		if last == nil {
			first = block
		} else {
			write32(last, block)
		}
		last = p
		n -= got
	}
	return first
}

// fillable is how many bytes n blocks hold in the worst case: every block a run
// of its own.
func (a *arena) chainBlocks(n int) int {
	room := a.blockBytes - headBytes
	return max(1, (n+room-1)/room)
}

// write fills the chain with parts one after the other.
func (a *arena) writeChain(block uint32, parts ...[]byte) {
	run, off := a.run(block)
	for _, b := range parts {
		for len(b) > 0 {
			if off == len(run) {
				run, off = a.run(read32(unsafe.Pointer(unsafe.SliceData(run))))
			}
			n := copy(run[off:], b)
			off, b = off+n, b[n:]
		}
	}
}

// run returns the bytes of the run at block and where its content begins.
func (a *arena) run(block uint32) (b []byte, off int) {
	n := int(read32(unsafe.Add(a.blockAt(block), 4)))
	return a.blockBytesAt(block, n), headBytes
}

// appendChain appends n bytes from off on to dst.
func (a *arena) appendChain(dst []byte, block uint32, off, n int) []byte {
	for n > 0 {
		run, at := a.run(block)
		content := run[at:]
		if off < len(content) {
			content = content[off:min(len(content), off+n)]
			dst = append(dst, content...)
			n -= len(content)
			off = 0
		} else {
			off -= len(content)
		}
		block = read32(unsafe.Pointer(unsafe.SliceData(run)))
	}
	return dst
}

// flat returns n bytes from off on as one slice: a view where they lie in the
// first run, else a copy.
func (a *arena) flat(block uint32, off, n int) []byte {
	run, at := a.run(block)
	if end := at + off + n; end <= len(run) {
		return run[at+off : end : end]
	}
	return a.appendChain(make([]byte, 0, n), block, off, n)
}

// putChain gives all blocks of a chain back and returns how many there were.
func (a *arena) putChain(block uint32) int {
	total := 0
	for block != 0 {
		p := a.blockAt(block)
		next, n := read32(p), int(read32(unsafe.Add(p, 4)))
		a.put(block, n)
		total += n
		block = next
	}
	return total
}

// chainLen counts the blocks of a chain.
func (a *arena) chainLen(block uint32) int {
	total := 0
	for block != 0 {
		p := a.blockAt(block)
		total += int(read32(unsafe.Add(p, 4)))
		block = read32(p)
	}
	return total
}
