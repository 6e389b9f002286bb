//go:build linux && (amd64 || arm64) && !race && !heaparena

package engine

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ringcache/ringcache/internal/errs"
)

// backing is the memory of an arena: one mapping, of which only what was written
// takes memory. The garbage collector never looks at it. It is anonymous, or, if
// the file that keeps the entries lives in memory anyway, that file.
type backing struct {
	base    unsafe.Pointer
	size    uint64 // bytes of the blocks
	owners  unsafe.Pointer
	regions [2][]byte // blocks, and one owner word per block

	file     *arenaFile // nil: anonymous
	reserved int        // chunks of the file that have memory
}

// What the section that describes an arena takes at most: each block of a chunk
// a segment, and the slots.
const (
	sectionPerChunk = chunkBlocks * 32
	sectionSlots    = 1 << 20
)

// livesInMemory says whether a file is in a tmpfs.
func livesInMemory(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && st.Type == unix.TMPFS_MAGIC
}

// share makes a file in memory the memory of the arena; before open.
func (b *backing) share(f *arenaFile) {
	if f.live {
		b.file = f
	}
}

// open reserves address space for chunks; nothing is taken yet.
func (b *backing) open(chunks int, blockBytes int) error {
	size := chunks * chunkBlocks * blockBytes
	fd, at, flags := -1, int64(0), unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE
	if b.file != nil {
		fd, at, flags = int(b.file.f.Fd()), fileHead, unix.MAP_SHARED|unix.MAP_NORESERVE
	}
	blocks, err := unix.Mmap(fd, at, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return fmt.Errorf("reserving %d bytes of address space: %w", size, err)
	}
	owners, err := unix.Mmap(-1, 0, chunks*chunkBlocks*4,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return errors.Join(fmt.Errorf("reserving address space: %w", err), unix.Munmap(blocks))
	}
	b.regions = [2][]byte{blocks, owners}
	b.size = uint64(size)
	b.base = unsafe.Pointer(unsafe.SliceData(blocks))
	b.owners = unsafe.Pointer(unsafe.SliceData(owners))
	return nil
}

// ready makes a chunk usable before its first block is given out.
func (b *backing) ready(int, int) {}

// at returns the address of the byte at off.
func (b *backing) at(off uint64, _ uint8) unsafe.Pointer { return unsafe.Add(b.base, off) }

// span returns the mapping of the blocks, for readers without a lock. It is the
// same from open on, after close too.
func (b *backing) span() (unsafe.Pointer, uint64) { return b.base, b.size }

func (b *backing) owner(block uint32) *uint32 {
	return (*uint32)(unsafe.Add(b.owners, uint64(block)*4))
}

// reserve takes memory for the first n chunks of a file now: to touch a page of
// it that the file system has no room for ends the process by a signal.
func (b *backing) reserve(n int, chunkShift uint8) error {
	if b.file == nil || n <= b.reserved {
		return nil
	}
	// Behind the chunks there must be room for what describes them.
	size := int64(n)<<chunkShift + int64(n)*sectionPerChunk + sectionSlots
	if err := unix.Fallocate(int(b.file.f.Fd()), 0, fileHead, size); err != nil {
		return fmt.Errorf("%w: arena file: the file system of %s has no room for %d bytes (%w): lower the memory limit, or enlarge it",
			errs.ErrConfig, b.file.path, size, err)
	}
	b.reserved = n
	return nil
}

// shrink lowers the number of chunks that have memory for sure, and returns
// what it was; release gives the memory of those behind it back.
func (b *backing) shrink(n int) (was int) {
	was = b.reserved
	b.reserved = min(n, was)
	return was
}

// release gives the memory of n chunks back; their content is lost. What is
// reserved stays so, and is only not resident any more.
func (b *backing) release(chunk, n int, chunkShift uint8) {
	at, size := int64(chunk)<<chunkShift, int64(n)<<chunkShift
	// If it fails the memory stays taken, which harms nobody but the gauges.
	_ = unix.Madvise(b.regions[0][at:at+size], unix.MADV_DONTNEED)
	if b.file != nil && chunk >= b.reserved {
		_ = unix.Fallocate(int(b.file.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, fileHead+at, size)
	}
}

// discard is release for the whole pages of n bytes at off, of a chunk in use. Its
// other blocks may be taken at any time, so a file keeps the memory.
func (b *backing) discard(off uint64, n int) {
	page := uint64(unix.Getpagesize())
	first := (off + page - 1) &^ (page - 1)
	if end := (off + uint64(n)) &^ (page - 1); end > first {
		_ = unix.Madvise(b.regions[0][first:end], unix.MADV_DONTNEED)
	}
}

// close gives all memory back. What is left are addresses, at which a reader
// without a lock that is late finds zeros: unmap is for when there can be none.
func (b *backing) close() (left []byte, err error) {
	blocks, owners := b.regions[0], b.regions[1]
	b.regions, b.owners, b.reserved = [2][]byte{}, nil, 0
	if blocks == nil {
		return nil, nil
	}
	err = unix.Munmap(owners)
	// One mapping in the place of another, at once: there is no moment without.
	_, failed := unix.MmapPtr(-1, 0, b.base, uintptr(len(blocks)), unix.PROT_READ,
		unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	return blocks, errors.Join(err, failed)
}

// unmap frees the addresses that close has left.
func unmap(left []byte) { _ = unix.Munmap(left) }
