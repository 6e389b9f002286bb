//go:build linux && (amd64 || arm64) && !race

package engine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// backing is the memory of an arena: one anonymous mapping, of which only what
// was written takes memory. The garbage collector never looks at it.
type backing struct {
	base   unsafe.Pointer
	owners unsafe.Pointer
	region []byte // blocks, then one owner word per block
}

// open reserves address space for chunks; nothing is taken yet.
func (b *backing) open(chunks int, blockBytes int) error {
	data := chunks * chunkBlocks * blockBytes
	region, err := unix.Mmap(-1, 0, data+chunks*chunkBlocks*4,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("reserving %d bytes of address space: %w", data, err)
	}
	b.region = region
	b.base = unsafe.Pointer(unsafe.SliceData(region))
	b.owners = unsafe.Add(b.base, data)
	return nil
}

// ready makes a chunk usable before its first block is given out.
func (b *backing) ready(int, int) {}

// at returns the address of the byte at off.
func (b *backing) at(off uint64, _ uint8) unsafe.Pointer { return unsafe.Add(b.base, off) }

func (b *backing) owner(block uint32) *uint32 {
	return (*uint32)(unsafe.Add(b.owners, uint64(block)*4))
}

// release gives the memory of a chunk back; its content is lost.
func (b *backing) release(chunk, chunkBytes int) {
	at := chunk * chunkBytes
	// Without it the memory stays taken, which harms nobody but the gauges.
	_ = unix.Madvise(b.region[at:at+chunkBytes], unix.MADV_DONTNEED)
}

// discard gives the whole pages of n bytes at off back; their content is lost.
func (b *backing) discard(off uint64, n int) {
	page := uint64(unix.Getpagesize())
	first := (off + page - 1) &^ (page - 1)
	if end := (off + uint64(n)) &^ (page - 1); end > first {
		_ = unix.Madvise(b.region[first:end], unix.MADV_DONTNEED)
	}
}

func (b *backing) close() error {
	region := b.region
	*b = backing{}
	if region == nil {
		return nil
	}
	return unix.Munmap(region)
}
