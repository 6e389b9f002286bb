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
	// hugeSlack is how many bytes of a huge page need not be taken yet: the ends
	// of open segments and free blocks would count as memory of the process.
	hugeSlack = hugeBytes / 64
	// hugeLooks is at how many of them one sweep looks for that.
	hugeLooks = 64
)

// huge is the state of huge pages.
type huge struct {
	sync.Mutex        // held while pages are made or given back; taken before the arena's
	done       []bool // per huge page: made, or not to be had
	next, left int    // where wide goes on, and how many it has still to look at
	off        bool   // the system makes none
}

// widen makes huge pages of chunks whose memory is taken, all but a few pages.
func (a *arena) widen() {
	a.huge.Lock()
	defer a.huge.Unlock()
	if a.huge.off || 1<<a.chunkShift*hugeChunks != hugeBytes {
		return
	}
	if a.huge.done == nil {
		a.huge.done = make([]bool, len(a.free)/hugeChunks)
	}
	made := 0
	for looks := range hugeLooks {
		i := a.wide(looks == 0)
		if i < 0 || made == hugeMost {
			return
		}
		if a.mem.resident(i*hugeBytes, hugeBytes) < hugeBytes-hugeSlack {
			continue
		}
		made++
		a.huge.done[i] = true
		if !a.mem.collapse(i*hugeBytes, hugeBytes) {
			a.huge.off = true
			return
		}
	}
}

// widenFor makes huge pages of the stretches of which every chunk is about to be
// filled: one fault instead of one for each page of it. Chunks are in order, and
// not in memory yet.
func (a *arena) widenFor(chunks []keptChunk) {
	a.huge.Lock()
	defer a.huge.Unlock()
	if a.huge.off || 1<<a.chunkShift*hugeChunks != hugeBytes {
		return
	}
	if a.huge.done == nil {
		a.huge.done = make([]bool, len(a.free)/hugeChunks)
	}
	for i := 0; i+hugeChunks <= len(chunks); i++ {
		c := chunks[i].index
		if c%hugeChunks != 0 || chunks[i+hugeChunks-1].index != c+hugeChunks-1 {
			continue
		}
		// Only what has a page already is made a huge one.
		a.chunkAt(c)[0] = 0
		if !a.mem.collapse(c<<a.chunkShift, hugeBytes) {
			a.huge.off = true
			return
		}
		a.huge.done[c/hugeChunks] = true
	}
}

// wide returns the next huge page's worth of chunks that are all open and that
// are none yet, once each after a call with first; -1 if there is none left.
func (a *arena) wide(first bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open > a.most {
		return -1 // free blocks were given back, to keep within the limit (dry)
	}
	h := &a.huge
	if first {
		h.left = len(h.done)
	}
	for ; h.left > 0; h.left-- {
		i := h.next
		if h.next++; h.next == len(h.done) {
			h.next = 0
		}
		c := i * hugeChunks
		if closed := a.empty[c/64] &^ a.taken[c/64]; closed&maskOf(c%64, hugeChunks) == 0 && !h.done[i] {
			h.left--
			return i
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
