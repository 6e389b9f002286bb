//go:build !linux || (!amd64 && !arm64) || race || heaparena

package engine

func (b *backing) collapse(int, int) bool { return false }

func (b *backing) resident(int, int) int { return 0 }
