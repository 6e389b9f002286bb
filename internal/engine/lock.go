package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// lock is a mutex with a version, for readers that do without it (glance.go): odd
// during a hold that may change something, and another one after it. Who finds
// the same even version before and after a look has seen one state.
//
// The version is changed by plain stores, which cost nothing beside the mutex.
// Where unlocked is true, a processor makes stores visible in their order and
// does loads in theirs, and so does the compiler around a call and an atomic load.
type lock struct {
	mu      sync.Mutex
	version uint64
	waiting atomic.Int32 // how many stand in Lock
}

// Lock begins a hold that may change something.
func (l *lock) Lock() {
	if !l.mu.TryLock() {
		l.queue()
	}
	if unlocked {
		l.version++
	}
}

// queue takes the mutex of another one.
func (l *lock) queue() {
	l.waiting.Add(1)
	l.mu.Lock()
	l.waiting.Add(-1)
}

// letIn is for work that nobody waits for, between two holds: it gives the
// processor to those who wait. Who sleeps in front of the mutex was woken by the
// unlock, but on this processor, so it would see the next hold begin, and others
// look for work here only after tens of microseconds.
func (l *lock) letIn() {
	if l.waiting.Load() > 0 {
		runtime.Gosched()
	}
}

// TryLock is Lock if the mutex is free.
func (l *lock) TryLock() bool {
	if !l.mu.TryLock() {
		return false
	}
	if unlocked {
		l.version++
	}
	return true
}

// Unlock ends a hold.
func (l *lock) Unlock() {
	if unlocked {
		l.version++
	}
	l.mu.Unlock()
}

// seen returns the version; it is odd while somebody may change something.
func (l *lock) seen() uint64 { return atomic.LoadUint64(&l.version) }

// still says whether nobody has begun to change anything since the even version
// was seen.
func (l *lock) still(version uint64) bool { return atomic.LoadUint64(&l.version) == version }

// claim takes the mutex if it is free and still says yes, so what was read then
// still holds. disclaim must follow, with nothing changed that a reader compares
// or returns: other readers are not disturbed.
func (l *lock) claim(version uint64) bool {
	if !l.mu.TryLock() {
		return false
	}
	if l.version == version {
		return true
	}
	l.mu.Unlock()
	return false
}

func (l *lock) disclaim() { l.mu.Unlock() }

// spin waits a little for a hold to end.
func (l *lock) spin() {
	for n := 0; n < lockSpins && l.seen()&1 != 0; n++ {
	}
}

// lockSpins is how often a reader looks whether a hold has ended before it takes
// its place among those who wait for the mutex.
const lockSpins = 100
