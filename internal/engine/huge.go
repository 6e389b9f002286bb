package engine

import "sync"

// Random access to a large arena misses the processor's table of pages more
// often than its caches. So the sweeper turns stretches of the arena that are
// used anyway into huge pages: unlike asking for them beforehand, that takes no
// memory that is not used.
const (
	hugeBytes = 2 << 20
	// hugeChunks is how many of the largest chunks are a huge page; arenas of
	// smaller chunks are too small to gain.
	hugeChunks = hugeBytes >> 18
	// hugeMost is how many huge pages one sweep makes: each copies its 2 MiB.
	hugeMost = 8
)

// huge is the state of huge pages.
type huge struct {
	sync.Mutex        // held while pages are made or given back; taken before the arena's
	done       []bool // per huge page: made, or not to be had
	off        bool   // the system makes none
}

// widen makes huge pages of chunks that are in use.
func (a *arena) widen() {
	a.huge.Lock()
	defer a.huge.Unlock()
	if a.huge.off || 1<<a.chunkShift*hugeChunks != hugeBytes {
		return
	}
	for n := 0; n < hugeMost; n++ {
		i := a.wide()
		if i < 0 {
			return
		}
		if a.huge.done == nil {
			a.huge.done = make([]bool, (len(a.free)+hugeChunks-1)/hugeChunks)
		}
		a.huge.done[i] = true
		if !a.mem.collapse(i*hugeBytes, hugeBytes) {
			a.huge.off = true
			return
		}
	}
}

// wide returns the first huge page's worth of chunks that are all open and that
// are none yet, -1 if there is none.
func (a *arena) wide() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open > a.most {
		return -1 // free blocks were given back, to keep within the limit (dry)
	}
	for w := range a.empty {
		closed := a.empty[w] &^ a.taken[w]
		if closed == ^uint64(0) {
			continue
		}
		for i := w * (64 / hugeChunks); i < (w+1)*(64/hugeChunks) && (i+1)*hugeChunks <= len(a.free); i++ {
			if closed&maskOf(i*hugeChunks%64, hugeChunks) == 0 && (a.huge.done == nil || !a.huge.done[i]) {
				return i
			}
		}
	}
	return -1
}

// narrow notes that a chunk was given back, and with it its huge page.
func (h *huge) narrow(chunk int) {
	if h.done != nil {
		h.done[chunk/hugeChunks] = false
	}
}
