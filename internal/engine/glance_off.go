//go:build !linux || !amd64 || race || heaparena

package engine

// unlocked says that reads may do without the lock: not here.
const unlocked = false
