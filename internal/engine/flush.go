package engine

// trash is what a shard had before it was cleared: nothing leads there any more,
// so it is given back without the shard's lock.
type trash struct {
	slots  []trashSlot
	segs   []segment
	ghosts []uint32
}

// trashSlot is the page of a slot, or its directory.
type trashSlot struct {
	block uint32
	dir   *directory
}

// Flush removes everything, shard by shard, and closes all pull windows: of
// what was stored before the call nothing is left when it returns, and nothing
// that was asked of a previous owner before it can still be added. A shard is held
// for as long as its slots take, however much they hold.
func (e *Engine) Flush() {
	e.flushes.Add(1)
	e.clearing.Lock()
	defer e.clearing.Unlock()
	for i := range e.shards {
		if e.closed.Load() {
			return
		}
		s := &e.shards[i]
		s.mu.Lock()
		keys, rest := s.detach()
		s.invalidated += int64(keys)
		s.emit(EventFlush, AllSlots, nil, 0)
		s.unlock()
		s.mu.letIn()
		s.discard(rest)
	}
	if o := e.observer.Load(); o != nil {
		(*o).Flushed()
	}
}

// clear drops every entry, closes every window and returns how many entries
// there were. It costs what the numbers of slots, pages and segments cost, and
// one look at each large record.
func (s *shard) clear() int {
	keys, rest := s.detach()
	s.discard(rest)
	return keys
}

// detach makes the shard empty and returns how many entries there were, and what is
// to be given back. It costs what the number of slots costs. The shard lock is held.
func (s *shard) detach() (keys int, rest trash) {
	rest.slots = make([]trashSlot, 0, 16)
	last := uint32(0)
	for i := range s.slots {
		st := &s.slots[i]
		s.closeWindow(i)
		dir, block := st.dir.Load(), s.blockAt(i)
		if dir != nil || block != 0 && block != last {
			rest.slots = append(rest.slots, trashSlot{block, dir})
		}
		last = block
		if dir != nil || block != 0 {
			st.dir.Store(nil)
			s.setBlock(i, 0)
		}
		keys += int(st.keys.Load())
		st.keys.Store(0)
		st.bytes.Store(0)
		st.spareVols = 0
	}
	rest.segs, rest.ghosts = s.segs, s.ghosts.blocks
	s.ghosts = ghosts{}
	s.pages = 0
	s.keys.Add(-int64(keys))
	for c, n := range s.classBytes {
		s.charge(c, -n)
	}
	s.data = data{}
	s.sweep = sweep{walkSoonest: maxTime}
	s.publish()
	return keys, rest
}

// discard gives back what a shard had. Its memory counts as used until then.
func (s *shard) discard(t trash) {
	e, a := s.e, &s.e.arena
	put := func(block uint32, n int) {
		a.put(block, n)
		e.used.Add(-int64(n) << a.blockShift)
	}
	for _, slot := range t.slots {
		if slot.dir == nil {
			put(slot.block, 1)
			continue
		}
		for j, b := range slot.dir.pages {
			if j == 0 || b != slot.dir.pages[j-1] {
				put(b&cellBlock, 1)
			}
		}
	}
	for _, b := range t.ghosts {
		put(b, 1)
	}
	for i := range t.segs {
		g := &t.segs[i]
		if g.blocks == 0 {
			continue
		}
		if g.held > 0 {
			s.eachRecord(g, 0, func(_ loc, r record) bool {
				if r.large() {
					e.used.Add(-int64(a.putChain(r.chain())) << a.blockShift)
				}
				return true
			})
		}
		put(g.start, int(g.blocks))
	}
}
