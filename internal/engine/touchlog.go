package engine

// A touch log names the keys of a served slot that were touched, or looked for in
// vain, since it was opened. It is for a process that served the slot before and is
// back with what it had: of that, the keys which the log does not name are as if
// nobody had been there meanwhile. Keys are named by fingerprints of this engine's
// hash, so whoever is given the log is given the seed with it.
//
// It is kept as a window is, in the same place: a slot has one of both. So slots
// without a log pay nothing for it. Reads of absent keys take the lock in a slot
// that has one.

const (
	// MaxLogKeys is the most keys that the log of a slot names. A full one ends.
	MaxLogKeys = 1 << 16
	// logsShare is the part, as a divisor, of the memory of all filters that logs
	// may take: windows have the rest for themselves.
	logsShare = 2
	// logText is what both sides hash, to know that they hash alike.
	logText = "ring-cache touch log 1"
)

// TouchLog is what a log came to.
type TouchLog struct {
	Seed   uint64   // of the hash
	Check  uint64   // hash of a known text
	Prints []uint32 // of the keys, in no order
}

// OpenLog opens the touch log of slot, or opens it anew. Its memory, up to 11 bytes
// per key beside the memory limit, is part of Stats.WindowBytes. The log ends with a
// pull window, DropSlot, Flush, more than MaxLogKeys keys, and where all filters
// together are too large.
func (e *Engine) OpenLog(slot uint16) {
	s, st := e.at(slot)
	i := e.place(slot)
	s.mu.Lock()
	defer s.unlock()
	s.closeWindow(i)
	if !e.closed.Load() {
		st.win = &window{gen: e.windowGen.Add(1), max: MaxLogKeys, log: true}
		s.mark(i, cellWindow, true)
	}
}

// TakeLog ends the touch log of slot and returns it; false if there is none that is
// complete. What is touched later is not in it, so the slot must not be served.
func (e *Engine) TakeLog(slot uint16) (TouchLog, bool) {
	s, st := e.at(slot)
	s.mu.Lock()
	defer s.unlock()
	w := st.win
	if w == nil || !w.log {
		return TouchLog{}, false
	}
	l := TouchLog{Seed: e.seed, Check: e.hash.sum([]byte(logText)), Prints: make([]uint32, 0, w.n)}
	for _, fp := range w.sets {
		if fp != 0 {
			l.Prints = append(l.Prints, fp)
		}
	}
	s.closeWindow(e.place(slot))
	return l, true
}

// NoTouches is the log of a slot of this engine in which nothing was touched.
func (e *Engine) NoTouches() TouchLog {
	return TouchLog{Seed: e.seed, Check: e.hash.sum([]byte(logText))}
}

// RemoveLogged removes the entries of slot, which must not be served, whose keys the
// log of another engine may name; they count as invalidated. It works in short holds,
// as DropSlot does. It returns false, and has removed nothing, if that engine hashes
// in another way.
func (e *Engine) RemoveLogged(slot uint16, l TouchLog) bool {
	other := newHasher(l.Seed)
	if other.sum([]byte(logText)) != l.Check {
		return false
	}
	if len(l.Prints) == 0 {
		return true
	}
	named := window{max: len(l.Prints)}
	for _, fp := range l.Prints {
		named.add(uint64(fp))
	}
	s, st := e.at(slot)
	slot &= Slots - 1
	var some []found
	for at := uint64(0); at != scanEnd; {
		some = some[:0]
		s.mu.Lock()
		for homes := 0; homes < holdHomes && len(some) < holdRecords && at != scanEnd; homes++ {
			at, _ = s.fromHome(slot, at, func(l loc, r record, h uint64) {
				if named.has(other.sum(s.key(r))) {
					some = append(some, found{l, h})
				}
			})
		}
		for _, f := range some {
			s.remove(st, slot, f.h, f.l, byInvalidation)
		}
		if st.keys.Load() == 0 {
			at = scanEnd
		}
		s.unlock()
		s.mu.letIn()
	}
	return true
}

// missed notes that a key was looked for in vain: whoever saw that it is absent must
// not find an older value later. The shard lock is held.
func (s *shard) missed(slot uint16, h uint64) {
	i := int(slot >> s.e.bits)
	if s.cells[i].Load()&cellWindow != 0 && s.slots[i].win.log {
		s.touchIn(i, h)
	}
}
