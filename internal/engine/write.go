package engine

import (
	"fmt"
	"unsafe"

	"github.com/ringcache/ringcache/internal/errs"
)

// maxInlineBytes is the largest record that may lie in a segment. Beyond it, or
// where no run of blocks is long enough, key and value go to a chain.
const maxInlineBytes = vlenMask

// write is one write on its way to a record. It holds no pointer into the
// shard: one that escapes would take the caller's key and value with it.
type write struct {
	slot       uint16
	h          uint64
	key, value []byte
	deadline   int64
	now        int64
	kind       EventKind // of the event that reports it

	class  int
	form   int
	large  bool
	size   int // bytes in the segment
	blocks int // of the chain
	queue  int
	lane   int
	lo     uint32 // frequency and last access, shifted
}

// shape chooses how the record will be stored.
func (s *shard) shape(w *write, large bool) {
	a := &s.e.arena
	w.form = s.formOf(w.deadline)
	n := len(w.key) + len(w.value)
	w.size = a.pad(headBytes + formBytes[w.form] + n)
	w.large, w.blocks = large || w.size > min(maxInlineBytes, 1<<a.chunkShift/4), 0
	if w.large {
		w.size, w.blocks = a.pad(headBytes+formBytes[w.form]+largeBody), a.chainBlocks(n)
	}
	w.lane = w.class*buckets + s.bucketOf(w.deadline, w.now, w.large)
}

// put is Set under a hold: it stores value, or removes the key if the deadline has
// passed. now may be unread.
func (s *shard) put(slot uint16, h uint64, key, value []byte, deadline, now int64) error {
	if deadline != 0 {
		now = s.date(now)
	}
	old, r, now := s.alive(slot, h, key, now)
	if deadline != 0 && expired(deadline, now) {
		if old == 0 {
			s.touch(slot, h)
			if s.watched != nil {
				s.noteChange(EventDelete, slot, key) // it was there for a moment
			}
			if o := s.e.observer.Load(); o != nil {
				s.tell(o, EventDelete, slot, key)
			}
		} else {
			s.remove(s.slot(slot), slot, h, old, byDeletion)
		}
		return nil
	}
	if old != 0 && deadline == 0 && !s.e.reclasses() && s.replace(r, len(key), value) {
		s.sets++
		s.touch(slot, h)
		s.emit(EventWrite, slot, view(r.p, headBytes, len(key)), 0) // key may have been a part of the old value
		return nil
	}
	w := write{slot: slot, h: h, key: key, value: value, deadline: deadline, now: now, kind: EventWrite}
	err := s.store(&w, old)
	if err == nil {
		s.sets++
	}
	return err
}

// replace is the common case of overwrite: no deadline before or after, and as
// many bytes of the segment. So nothing but the record changes.
func (s *shard) replace(r record, klen int, value []byte) bool {
	a := &s.e.arena
	was := int(r.lo & vlenMask)
	if r.lo&(largeBit|3<<formShift) != 0 || a.pad(headBytes+klen+was) != a.pad(headBytes+klen+len(value)) || len(value) > vlenMask {
		return false
	}
	copy(view(r.p, headBytes+klen, len(value)), value) // memmove: value may be a part of the old one
	write32(r.p, accessed(r.lo, s.e.tick())&^vlenMask|uint32(len(value)))
	return true
}

// store writes a record in place of old (0 if the key is new) and reports it.
// Key and value may be borrowed from this hold: they are copied before anything
// moves. An error leaves old as it was, unless old had to be evicted to make
// room.
func (s *shard) store(w *write, old loc) error {
	w.class = s.classOfWrite(w)
	s.shape(w, false)
	if old != 0 && s.overwrite(w, old) {
		s.report(w)
		return nil
	}
	w.lo = s.e.tick() << timeShift
	if old != 0 {
		s.inherit(w, old)
	} else {
		if w.queue = main; !s.sparing {
			w.queue = s.queueOf(s.e.policy.Load(), w.h)
		}
		if uint32(w.h)&s.shadowMask == 0 && !s.sparing {
			s.sample(w.h, false)
		}
	}
	if !s.fitsNow(w, old) {
		s.keep = old
		err := s.prepare(w)
		old, s.keep = s.keep, 0
		if err != nil {
			s.freeScratch()
			return err
		}
		if old == 0 && w.kind == EventTTL {
			w.kind = EventWrite // it was reported as evicted
		}
	}
	s.append(w, old)
	s.report(w)
	s.freeScratch()
	return nil
}

func (s *shard) freeScratch() {
	if s.scratch != nil {
		s.e.freeBatch(s.scratch)
		s.scratch = nil
	}
}

func (s *shard) report(w *write) {
	s.touch(w.slot, w.h)
	s.emit(w.kind, w.slot, w.key, w.deadline)
}

// inherit gives the new record of a key the place in the queues of the old one.
// A change of its deadline is no access, a write is one.
func (s *shard) inherit(w *write, old loc) {
	r := s.e.arena.record(old)
	w.queue = int(s.segs[s.segOf(old)].queue)
	if w.kind == EventTTL {
		w.lo = r.lo & (1<<formShift - 1) &^ vlenMask
		return
	}
	w.lo |= uint32(min(r.freq()+1, maxFreq)) << freqShift
}

func (s *shard) fitsNow(w *write, old loc) bool {
	return !w.large && s.hasSpace(w.queue, w.lane, w.size) && (old != 0 || s.hasRoom(w.slot, w.h))
}

// overwrite stores w in the place of old if it fits there.
func (s *shard) overwrite(w *write, old loc) bool {
	a := &s.e.arena
	r := a.record(old)
	had := a.sizeOf(r)
	if w.large || r.large() || r.form() != w.form || w.size > had || w.class != s.classAt(old) {
		return false
	}
	copy(view(r.p, r.body()+len(w.key), len(w.value)), w.value) // memmove: value may be a part of the old one
	w.key = view(r.p, r.body(), len(w.key))                     // for the report: the key too may have been a part of it
	if w.kind != EventTTL {
		r.hit(s.e.tick())
	}
	write32(r.p, read32(r.p)&^vlenMask|uint32(len(w.value)))
	g := &s.segs[s.segOf(old)]
	if w.form != formNone {
		s.lowerDeadline(g, r.p, w)
	}
	if gap := had - w.size; gap > 0 {
		g.live -= uint32(gap)
		s.live -= int64(gap)
		s.dead += int64(gap)
		a.bury(unsafe.Add(r.p, w.size), gap)
	}
	s.slot(w.slot).bytes.Add(int64(w.size - had))
	s.charge(classOfLane(g.lane), int64(w.size-had))
	return true
}

func (s *shard) lowerDeadline(g *segment, p unsafe.Pointer, w *write) {
	writeDeadline(p, w.form, w.deadline)
	g.soonest, g.latest = min(g.soonest, w.deadline), max(g.latest, w.deadline)
	s.walkSoonest = min(s.walkSoonest, w.deadline)
}

// append writes the record behind those of the open segment, where there is
// room now, and takes the old one out.
func (s *shard) append(w *write, old loc) {
	a := &s.e.arena
	l, p := s.push(w.queue, w.lane, w.size)
	lo := w.lo | uint32(w.form)<<formShift
	body := headBytes + formBytes[w.form]
	if w.large {
		lo |= largeBit
		chain := a.takeChain(w.blocks)
		a.writeChain(chain, w.key, w.value)
		write32(unsafe.Add(p, body), uint32(len(w.value)))
		write32(unsafe.Add(p, body+4), chain)
	} else {
		lo |= uint32(len(w.value))
		to := view(p, body, len(w.key)+len(w.value))
		copy(to[copy(to, w.key):], w.value)
		w.key = to[:len(w.key)] // for the report: it may be borrowed from the record that goes now
	}
	write64(p, uint64(lo)|uint64(len(w.key))<<(32+slotBits)|uint64(w.slot)<<32)
	writeDeadline(p, w.form, w.deadline)
	r := a.record(l)
	s.admitRecord(&s.segs[s.open[w.queue][w.lane]], r, w.size)
	charge := a.charge(len(w.key), len(w.value), w.form)
	s.charge(classOfLane(uint8(w.lane)), charge)
	if old != 0 {
		had := a.chargeOf(a.record(old))
		s.slot(w.slot).bytes.Add(charge - had)
		s.discharge(old, had, false)
		s.move(w.slot, w.h, old, l)
		s.kill(old)
		return
	}
	s.enter(w.slot, w.h, l)
	st := s.slot(w.slot)
	st.keys.Add(1)
	st.bytes.Add(charge)
	s.keys.Add(1)
}

// needs returns how many blocks w lacks.
func (s *shard) needs(w *write, want int) int {
	n := w.blocks
	if !s.hasSpace(w.queue, w.lane, w.size) {
		n += want
	}
	if s.keep == 0 && !s.hasRoom(w.slot, w.h) {
		n++
	}
	return n
}

// prepare makes room for w: a place in an open segment, one in the index, and
// the blocks of its chain. All that is needed is reserved at once, so that no
// writer waits for memory while it holds some. What is evicted on the way may
// take a place that was there before, so everything is looked at again after
// it.
func (s *shard) prepare(w *write) error {
	if s.e.closed.Load() {
		return errs.ErrClosed // Close waits for this lock before the arena goes
	}
	s.scratch = s.e.newBatch()
	b := append(append(s.scratch.bytes[:0], w.key...), w.value...)
	s.scratch.bytes = b
	w.key, w.value = b[:len(w.key):len(w.key)], b[len(w.key):]
	a := &s.e.arena
	for all := false; ; {
		least := a.blocksFor(w.size)
		if err := s.e.checkNeed(w.blocks + least + 1); err != nil {
			return err
		}
		for i := 0; i < compactMost && s.reclaim(compactShare); i++ {
		}
		w.lane = s.openLane(w)
		want := max(s.target(w.queue, w.lane, w.size), least)
		if w.large {
			want = 1
		}
		ask := s.needs(w, want)
		if all {
			ask = w.blocks + want + 1
		}
		if err := s.reserve(int64(ask)<<a.blockShift, int64(w.blocks+least+1)<<a.blockShift); err != nil {
			return err
		}
		if s.needs(w, want) > ask {
			s.e.used.Add(-int64(ask) << a.blockShift)
			all = true
			continue
		}
		left, fits := s.build(w, ask, want)
		ready := fits && s.hasSpace(w.queue, w.lane, w.size) && (s.keep != 0 || s.hasRoom(w.slot, w.h))
		if ready {
			left -= w.blocks // append takes them
		}
		s.e.used.Add(-int64(left) << a.blockShift)
		if ready {
			return nil
		}
		if !fits {
			s.shape(w, true)
		}
	}
}

// build turns reserved blocks into a segment and an index page, as w needs
// them, and returns how many are left. fits is false if no run of blocks is
// long enough for the segment.
func (s *shard) build(w *write, ask, want int) (left int, fits bool) {
	a := &s.e.arena
	if !s.hasSpace(w.queue, w.lane, w.size) {
		block, got := a.takeRun(want, w.size)
		if got == 0 {
			return ask, false
		}
		s.beginSegment(w.queue, w.lane, block, got)
		ask -= got
	}
	if s.keep == 0 && !s.hasRoom(w.slot, w.h) {
		block, _ := a.takeRun(1, a.blockBytes)
		s.grow(w.slot, w.h, block)
		ask--
	}
	return ask, true
}

// checkNeed refuses what could never be stored.
func (e *Engine) checkNeed(blocks int) error {
	if need, limit := int64(blocks)<<e.arena.blockShift, e.allowed(); need > limit {
		return fmt.Errorf("entry needs %d bytes, memory limit is %d: %w", need, limit, errs.ErrNoMemory)
	}
	return nil
}
