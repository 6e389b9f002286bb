//go:build linux && (amd64 || arm64) && !race && !heaparena

package engine

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// collapse makes n bytes from off on one huge page, and says whether it is worth
// trying again elsewhere: not where the memory is a file, not before Linux 6.1, nor where the mapping is of a
// kind that has none.
func (b *backing) collapse(off, n int) bool {
	if b.file != nil || uintptr(b.base)%hugeBytes != 0 {
		return false
	}
	return !errors.Is(unix.Madvise(b.regions[0][off:off+n], unix.MADV_COLLAPSE), unix.EINVAL)
}

// resident returns how many of n bytes from off on are memory of the process.
func (b *backing) resident(off, n int) (bytes int) {
	if b.file != nil {
		return n // collapse refuses it
	}
	var pages [hugeBytes / 4096]byte
	size := os.Getpagesize()
	at := unsafe.Pointer(&b.regions[0][off])
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(at), uintptr(n), uintptr(unsafe.Pointer(&pages))); e != 0 {
		return 0
	}
	for i := range n / size {
		bytes += int(pages[i]&1) * size
	}
	return bytes
}
