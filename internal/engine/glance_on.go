//go:build linux && amd64 && !race && !heaparena

package engine

// unlocked says that reads may do without the lock (glance.go). That needs the
// arena in one mapping that stays, and a processor that orders loads: Go has no
// barrier for others. The race detector would rightly see the copies as races.
const unlocked = true
