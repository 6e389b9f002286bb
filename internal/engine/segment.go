package engine

import (
	"math"
	"math/bits"
	"unsafe"
)

// The queues of a shard. A queue is a list of segments, oldest to newest.
const (
	small = iota // new keys
	main         // keys that were read again
	queues
)

// Segments of one queue are filled side by side, one per class and bucket of
// remaining time (a lane: class * buckets + bucket), so that most of a segment
// expires together. Small shards use one
// bucket: every open segment is half empty.
const (
	bucketLarge   = 5
	buckets       = 6
	bucketsFrom   = 48 // segments that a shard needs for more than one bucket
	segmentsAimed = 32 // how many segments a shard is divided into
	ownAimed      = 8  // how many segments the part of a queue that shares a bucket is divided into at least
	recordsAimed  = 16 // how many records a segment should hold at least, if an eighth of the shard allows it
	// leftAfter is how many segments a shard begins until an open one that is
	// still not full takes records of other buckets too. Its memory is taken:
	// where deadlines changed their kind it would stay half empty for ever.
	leftAfter = 8
	// gapCost is the part of a segment that may be wasted at its end to have no gap at the
	// end of its chunk, and gapFrom the limit of an engine from which on that matters.
	gapCost = 1. / 256
	gapFrom = 128 << 20
)

var bucketLimits = [4]int64{8_000, 120_000, 3_600_000, 1 << 62}

// segment is a run of blocks filled front to back with records.
type segment struct {
	start        uint32 // first block
	blocks       uint32
	newer, older uint32 // neighbours in the queue, 0 = none
	queue, lane  uint8
	size         uint32 // bytes filled
	live         uint32 // of these, bytes of live records
	count        uint32 // live records
	vols         uint32 // of these, with a deadline
	turn         uint32 // data.begun when it was begun
	held         int64  // bytes of the chains of its large records
	born         uint64 // order in which segments were begun
	soonest      int64  // no live record's deadline is before it; maxTime = none
	latest       int64  // no live record's deadline is after it
}

const maxTime = 1<<63 - 1

type queue struct {
	newest, oldest uint32
	bytes          int64                        // blocks and chains
	blocks         [MaxClasses * buckets]uint32 // by lane, without chains
}

// data is what a shard stores, beside the index.
type data struct {
	segs       []segment // 0 is not used
	spare      []uint32  // of segs
	queues     [queues]queue
	open       [queues][MaxClasses * buckets]uint32 // by lane
	full       int                                  // segments in use
	classed    [MaxClasses]int32                    // of these, by class
	classBytes [MaxClasses]int64                    // charges of the entries of a class, where there are classes
	begun      uint32                               // segments begun since the start, wraps
	live       int64                                // bytes of live records
	dead       int64                                // filled bytes that no live record takes
	vols       int64                                // live records with a deadline
	keep       loc                                  // the record that the running write replaces: it may move, but leaves last
	working    uint32
}

func (s *shard) segOf(l loc) uint32 {
	return *s.e.arena.mem.owner(s.e.arena.blockOf(l))
}

// target is how many blocks a new segment of a queue's bucket should have for
// records of a size: a part of the shard, less where the bucket has little, since
// open segments are half empty; and where records are large some of them, lest
// the end of every segment be wasted.
func (s *shard) target(q, b, size int) int {
	a := &s.e.arena
	total := int(s.queues[small].bytes + s.queues[main].bytes)
	aimed := recordsAimed
	if a.blockBytes == maxBlockBytes {
		aimed *= 4 // a segment's unused end matters more than fine queues
	}
	own := int(s.queues[q].blocks[b]) << a.blockShift / ownAimed
	if b%buckets == bucketLarge {
		own = total // that counts with chains
	}
	n := max(min(total/segmentsAimed, own), min(aimed*size, total/8, 2*own)) >> a.blockShift
	if n <= 1 {
		return 1
	}
	n = min(chunkBlocks, n)
	if a.coarse(size) {
		return a.evenRun(n, max(n, min(n+n/2+1, total/16>>a.blockShift)), size, a.blockBytes == maxBlockBytes && s.e.allowed() >= gapFrom)
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// evenRun returns the number of blocks, from half of n up to most, whose end
// wastes the least when all records have one size. In a large arena a chunk should hold a
// whole number of segments, too: what is left of it is used by index pages at best, and until
// it is touched the chunk does not become a part of a huge page.
func (a *arena) evenRun(n, most, size int, large bool) int {
	best, least := n, 2.0
	for i := n/2 + 1; i <= min(most, chunkBlocks); i++ {
		bytes := i << a.blockShift
		cost := float64(bytes%size) / float64(bytes)
		if large && chunkBlocks%i<<a.blockShift*hugeChunks > hugeSlack {
			cost += gapCost
		}
		if cost < least {
			best, least = i, cost
		}
	}
	return best
}

// openLane returns the lane whose open segment takes w: its own, unless that
// is full and another one was left behind half empty.
func (s *shard) openLane(w *write) int {
	own := w.class*buckets + s.bucketOf(w.deadline, w.now, w.large)
	if w.large || s.e.policy.Load().deadlines || s.hasSpace(w.queue, own, w.size) {
		return own
	}
	for b := w.class * buckets; b < w.class*buckets+bucketLarge; b++ {
		id := s.open[w.queue][b]
		if id != 0 && s.begun-s.segs[id].turn > leftAfter && s.hasSpace(w.queue, b, w.size) {
			return b
		}
	}
	return own
}

func (s *shard) bucketOf(deadline, now int64, large bool) int {
	switch {
	case large:
		return bucketLarge
	case deadline == 0 || s.full < bucketsFrom && !s.e.policy.Load().deadlines:
		return 0
	}
	left := deadline - now
	for b, limit := range bucketLimits {
		if left <= limit {
			return b + 1
		}
	}
	return len(bucketLimits)
}

// hasSpace says whether the open segment takes a record of size bytes.
func (s *shard) hasSpace(q, b, size int) bool {
	id := s.open[q][b]
	if id == 0 {
		return false
	}
	g := &s.segs[id]
	if b%buckets == bucketLarge && g.held >= int64(s.target(q, b, 0)*s.e.arena.blockBytes) {
		return false
	}
	return int(g.size)+size <= int(g.blocks)<<s.e.arena.blockShift
}

// begin makes the run at block, whose bytes are reserved, the open segment.
func (s *shard) beginSegment(q, b int, block uint32, blocks int) {
	var id uint32
	if n := len(s.spare); n > 0 {
		id = s.spare[n-1]
		s.spare = s.spare[:n-1]
	} else {
		if len(s.segs) == 0 {
			s.segs = append(s.segs, segment{})
		}
		id = uint32(len(s.segs))
		s.segs = append(s.segs, segment{})
	}
	s.begun++
	s.segs[id] = segment{start: block, blocks: uint32(blocks), turn: s.begun}
	for i := range uint32(blocks) {
		*s.e.arena.mem.owner(block + i) = id
	}
	s.full++
	s.pushNewest(id, q, b)
	s.setOpen(q, b, id)
}

// setOpen replaces an open segment. The old one goes if nothing in it lives.
func (s *shard) setOpen(q, b int, id uint32) {
	old := s.open[q][b]
	s.open[q][b] = id
	if old != 0 && old != id && s.segs[old].count == 0 && s.working != old {
		s.freeSegment(old)
	}
}

func (s *shard) pushNewest(id uint32, q, b int) {
	g := &s.segs[id]
	g.queue, g.lane = uint8(q), uint8(b)
	s.classed[classOfLane(g.lane)]++
	g.born = s.e.births.Add(1)
	if g.count == 0 {
		g.soonest, g.latest = maxTime, 0
	}
	l := &s.queues[q]
	g.newer, g.older = 0, l.newest
	if l.newest != 0 {
		s.segs[l.newest].newer = id
	} else {
		l.oldest = id
	}
	l.newest = id
	l.bytes += s.heldBy(g)
	l.blocks[b] += g.blocks
	s.publish()
}

func (s *shard) heldBy(g *segment) int64 { return int64(g.blocks)<<s.e.arena.blockShift + g.held }

func (s *shard) unlinkSegment(id uint32) {
	g := &s.segs[id]
	l := &s.queues[g.queue]
	if g.newer != 0 {
		s.segs[g.newer].older = g.older
	} else {
		l.newest = g.older
	}
	if g.older != 0 {
		s.segs[g.older].newer = g.newer
	} else {
		l.oldest = g.newer
	}
	l.bytes -= s.heldBy(g)
	l.blocks[g.lane] -= g.blocks
	s.classed[classOfLane(g.lane)]--
	if s.open[g.queue][g.lane] == id {
		s.open[g.queue][g.lane] = 0
	}
	s.abandon(id)
	s.publish()
}

// freeSegment gives back a segment in which nothing lives.
func (s *shard) freeSegment(id uint32) {
	s.unlinkSegment(id)
	s.giveBack(id)
}

// giveBack is freeSegment for a segment that is in no queue.
func (s *shard) giveBack(id uint32) {
	g := &s.segs[id]
	s.dead -= int64(g.size) - int64(g.live)
	s.e.arena.put(g.start, int(g.blocks))
	s.e.used.Add(-int64(g.blocks) << s.e.arena.blockShift)
	s.full--
	*g = segment{}
	s.spare = append(s.spare, id)
	if s.walkSeg == id {
		s.walkSeg = 0
	}
}

// push takes size bytes of the open segment; hasSpace was true.
func (s *shard) push(q, b, size int) (loc, unsafe.Pointer) {
	g := &s.segs[s.open[q][b]]
	l := s.e.arena.locOf(g.start, g.size)
	g.size += uint32(size)
	return l, s.e.arena.at(l, size)
}

// admitRecord counts a record of size bytes that was just written into g.
func (s *shard) admitRecord(g *segment, r record, size int) {
	g.live += uint32(size)
	g.count++
	s.live += int64(size)
	if r.form() != formNone {
		d := s.deadline(r)
		g.vols++
		s.vols++
		g.soonest, g.latest = min(g.soonest, d), max(g.latest, d)
	}
	if r.large() {
		n := int64(s.e.arena.chainLen(r.chain())) << s.e.arena.blockShift
		g.held += n
		s.queues[g.queue].bytes += n
	}
}

// retire takes a record out of the counts and marks its bytes as dead. Its
// chain stays: it goes with the record, or moves with it.
func (s *shard) retire(g *segment, l loc, r record, size int) {
	g.live -= uint32(size)
	g.count--
	s.live -= int64(size)
	s.dead += int64(size)
	if r.form() != formNone {
		g.vols--
		s.vols--
	}
	if r.large() {
		n := int64(s.e.arena.chainLen(r.chain())) << s.e.arena.blockShift
		g.held -= n
		if s.working != s.segOf(l) { // that one is in no queue now
			s.queues[g.queue].bytes -= n
		}
	}
	s.e.arena.bury(r.p, size)
}

// bury marks size bytes as dead.
func (a *arena) bury(p unsafe.Pointer, size int) {
	if size > 0 {
		write32(p, deadBit|uint32(size>>a.unit))
	}
}

// kill retires a record that is linked nowhere any more and frees its chain,
// and its segment if it was the last in there.
func (s *shard) kill(l loc) {
	r := s.e.arena.record(l)
	id := s.segOf(l)
	g := &s.segs[id]
	chain := uint32(0)
	if r.large() {
		chain = r.chain()
	}
	s.retire(g, l, r, s.e.arena.sizeOf(r))
	if chain != 0 {
		n := s.e.arena.putChain(chain)
		s.e.used.Add(-int64(n) << s.e.arena.blockShift)
	}
	if s.keep == l {
		s.keep = 0
	}
	switch {
	case g.count > 0 || s.working == id:
	case s.open[g.queue][g.lane] == id && s.keys.Load() > 0:
		s.dead -= int64(g.size)
		g.size, g.soonest, g.latest = 0, maxTime, 0
		if s.walkSeg == id {
			s.walkSeg = 0
		}
	default:
		s.freeSegment(id)
	}
}

// eachRecord calls fn for the live records of a segment from byte off on until
// it returns false, and returns where it stopped.
func (s *shard) eachRecord(g *segment, off uint32, fn func(l loc, r record) bool) uint32 {
	off, _ = s.someRecords(g, off, math.MaxInt, fn)
	return off
}

// someRecords is eachRecord that looks at most records at most, dead ones too, and
// returns at how many it did.
func (s *shard) someRecords(g *segment, off uint32, most int, fn func(l loc, r record) bool) (next uint32, looks int) {
	a := &s.e.arena
	for off < g.size && looks < most {
		looks++
		l := a.locOf(g.start, off)
		r := a.record(l)
		if r.lo&deadBit != 0 {
			off += r.lo &^ deadBit << a.unit
			continue
		}
		off += uint32(a.sizeOf(r))
		if !fn(l, r) {
			break
		}
	}
	return off, looks
}
