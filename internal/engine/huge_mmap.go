//go:build linux && (amd64 || arm64) && !race

package engine

import (
	"errors"

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
