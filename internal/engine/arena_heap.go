//go:build !linux || (!amd64 && !arm64) || race || heaparena

package engine

import (
	"os"
	"unsafe"
)

// backing is the memory of an arena on the Go heap, chunk by chunk: for the race
// detector and the checks of pointers, which do not see mapped memory (the tag
// heaparena is for the latter alone), and where there is no mmap.
type backing struct {
	chunks []unsafe.Pointer // of heapChunk.mem
	owners []*[chunkBlocks]uint32
}

func (b *backing) open(chunks, _ int) error {
	b.chunks = make([]unsafe.Pointer, chunks)
	b.owners = make([]*[chunkBlocks]uint32, chunks)
	return nil
}

func (b *backing) ready(chunk, chunkBytes int) {
	if b.chunks[chunk] == nil {
		b.chunks[chunk] = unsafe.Pointer(unsafe.SliceData(make([]uint64, chunkBytes/8)))
		b.owners[chunk] = new([chunkBlocks]uint32)
	}
}

func (b *backing) at(off uint64, chunkShift uint8) unsafe.Pointer {
	return unsafe.Add(b.chunks[off>>chunkShift], off&(1<<chunkShift-1))
}

// span is for readers without a lock, which there are none of here.
func (b *backing) span() (unsafe.Pointer, uint64) { return nil, 0 }

func (b *backing) owner(block uint32) *uint32 {
	return &b.owners[block/chunkBlocks][block%chunkBlocks]
}

func (b *backing) release(chunk, n int, _ uint8) { clear(b.chunks[chunk : chunk+n]) }

// share, reserve and shrink concern memory that is a file, which this is not.
func (b *backing) share(*arenaFile)         {}
func (b *backing) reserve(int, uint8) error { return nil }
func (b *backing) shrink(most int) int      { return most }

func livesInMemory(*os.File) bool { return false }

// discard does nothing: a chunk on the heap is one piece.
func (b *backing) discard(uint64, int) {}

func (b *backing) close() (left []byte, err error) {
	*b = backing{}
	return nil, nil
}

func unmap([]byte) {}
