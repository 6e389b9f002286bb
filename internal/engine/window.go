package engine

// MaxWindowKeys is the most touched keys that a pull window can be given.
const MaxWindowKeys = 1 << 20

// AddResult says what AddIfUntouched did.
type AddResult uint8

const (
	// Added says that the key was stored.
	Added AddResult = iota
	// Touched says that the key is present, or was touched since the window
	// opened (or, rarely, that its fingerprint equals that of such a key).
	Touched
	// WindowClosed says that no window is open.
	WindowClosed
	// WindowFull says that the window ended because its filter was full.
	WindowFull
	// Expired says that the deadline of the value has passed.
	Expired
)

var addResultNames = [...]string{"added", "touched", "window closed", "window full", "expired"}

func (r AddResult) String() string { return addResultNames[r] }

// WindowState describes the pull window of a slot.
type WindowState struct {
	Open bool
	Full bool // the last window ended because its filter was full
	Keys int  // touched keys in the filter
}

// window is the filter of the keys of one slot that were touched (written,
// deleted, TTL changed, expired, evicted or added) since it opened: an open
// addressing set of 32-bit fingerprints, so a false positive is one in four
// thousand millions per touched key, and a false negative does not exist.
type window struct {
	gen  uint64 // tells windows apart; never 0
	max  int
	n    int
	sets []uint32 // power of two, 0 = free
	log  bool     // it is a touch log (touchlog.go), and no window
}

const minWindowSet = 8

func fingerprint(h uint64) uint32 { return max(1, uint32(h)) }

func (w *window) find(fp uint32) int {
	mask := uint32(len(w.sets) - 1)
	i := fp * 0x9e3779b1 & mask
	for w.sets[i] != 0 && w.sets[i] != fp {
		i = (i + 1) & mask
	}
	return int(i)
}

func (w *window) has(h uint64) bool {
	if w.n == 0 {
		return false
	}
	return w.sets[w.find(fingerprint(h))] != 0
}

// add returns false when the filter is full. grown is the change of its bytes.
func (w *window) add(h uint64) (ok bool, grown int) {
	if w.has(h) {
		return true, 0
	}
	if w.n == w.max {
		return false, 0
	}
	if (w.n+1)*4 > len(w.sets)*3 {
		old := w.sets
		w.sets = make([]uint32, max(minWindowSet, 2*len(old)))
		for _, fp := range old {
			if fp != 0 {
				w.sets[w.find(fp)] = fp
			}
		}
		grown = 4 * (len(w.sets) - len(old))
	}
	fp := fingerprint(h)
	w.sets[w.find(fp)] = fp
	w.n++
	return true, grown
}

// touch records the key of hash h while a window is open.
func (s *shard) touch(slot uint16, h uint64) {
	if i := int(slot >> s.e.bits); s.cells[i].Load()&cellWindow != 0 {
		s.touchIn(i, h)
	}
}

// All filters together take windowShare of the memory limit at most, beside it,
// or windowBytes if that is more; without a limit windowFree.
const (
	windowShare = 8 // a divisor
	windowBytes = 16 << 20
	windowFree  = 256 << 20
)

func (e *Engine) windowsMost() int64 {
	limit := e.limit.Load()
	if limit == unlimited {
		return windowFree
	}
	return max(limit/windowShare, windowBytes)
}

// touchIn ends the window when the filter is full, or all of them are too large
// together: hits are lost then, never correctness.
func (s *shard) touchIn(i int, h uint64) {
	st := &s.slots[i]
	ok, grown := st.win.add(h)
	log, most := st.win.log, s.e.windowsMost()
	if log {
		most /= logsShare
	}
	if grown != 0 && s.e.windows.Add(int64(grown)) > most {
		ok = false
	}
	if !ok {
		s.closeWindow(i)
		st.winFull = !log
	}
}

func (s *shard) closeWindow(i int) {
	st := &s.slots[i]
	st.winFull = false
	if st.win != nil {
		s.e.windows.Add(-4 * int64(len(st.win.sets)))
		st.win = nil
		s.mark(i, cellWindow, false)
	}
}

// OpenWindow opens the pull window of slot, or opens it anew and forgets what
// was touched before. maxKeys (1 to MaxWindowKeys, other values are brought into
// that range) bounds the filter, which takes up to 11 bytes per touched key
// beside the memory limit; Stats.WindowBytes tells the sum, which is bounded too.
// It returns the number of the window, 0 for a closed engine.
func (e *Engine) OpenWindow(slot uint16, maxKeys int) (gen uint64) {
	s, st := e.at(slot)
	i := e.place(slot)
	s.mu.Lock()
	s.closeWindow(i)
	if !e.closed.Load() {
		gen = e.windowGen.Add(1)
		st.win = &window{gen: gen, max: min(max(maxKeys, 1), MaxWindowKeys)}
		s.mark(i, cellWindow, true)
	}
	s.unlock()
	return gen
}

// CloseWindow ends the pull window of slot, if one is open.
func (e *Engine) CloseWindow(slot uint16) {
	s, _ := e.at(slot)
	s.mu.Lock()
	s.closeWindow(e.place(slot))
	s.unlock()
}

// Window returns the state of slot's pull window.
func (e *Engine) Window(slot uint16) WindowState {
	s, st := e.at(slot)
	s.mu.Lock()
	defer s.unlock()
	if !st.pulls() {
		return WindowState{Full: st.winFull}
	}
	return WindowState{Open: true, Keys: st.win.n}
}

// AddIfUntouched stores a value that was pulled from the previous owner, but
// only while slot's window is open and if key is absent and was not touched
// since the window opened: so a late pull never overwrites or revives anything.
// It works regardless of the serving bit. A value that arrives past its
// deadline is not stored, and the key counts as touched. The errors are those
// of Txn.Set; the result means nothing then.
func (e *Engine) AddIfUntouched(slot uint16, key, value []byte, deadline int64) (AddResult, error) {
	return e.AddToWindow(slot, 0, key, value, deadline)
}

// AddToWindow is AddIfUntouched for one window: when another one is open by now,
// the answer is WindowClosed. 0 means whichever is open.
func (e *Engine) AddToWindow(slot uint16, gen uint64, key, value []byte, deadline int64) (AddResult, error) {
	h, err := e.admit(key, value)
	if err != nil {
		return Touched, err
	}
	s, st := e.at(slot)
	s.mu.Lock()
	defer s.unlock()
	slot &= Slots - 1
	now := s.date(unread)
	old, _, _ := s.alive(slot, h, key, now)
	present := old != 0 // first: an expiry here touches the key
	switch {
	case !st.pulls() && st.winFull:
		return WindowFull, nil
	case !st.pulls() || gen != 0 && st.win.gen != gen:
		return WindowClosed, nil
	case present || st.win.has(h):
		return Touched, nil
	case expired(deadline, now):
		s.touch(slot, h)
		return Expired, nil
	}
	w := write{slot: slot, h: h, key: key, value: value, deadline: deadline, now: now, kind: EventWrite}
	if err := s.store(&w, 0); err != nil {
		return Touched, err
	}
	s.added++
	return Added, nil
}

// Window returns the number of the window that is open for the slot held, 0 if
// none is.
func (t *Txn) Window() uint64 {
	t.check()
	if !t.st.pulls() {
		return 0
	}
	return t.st.win.gen
}

// pulls says whether a pull window is open.
func (st *slotState) pulls() bool { return st.win != nil && !st.win.log }

// Serving returns the serving bit of the slot held.
func (t *Txn) Serving() bool { return t.s.served(int(t.slot >> t.s.e.bits)) }
