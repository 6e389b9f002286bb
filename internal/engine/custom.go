package engine

// Custom is an eviction policy of the embedding program. It is asked about
// writes and, when memory is needed, about segments and the records in the
// chosen one; never about reads, which only count in the entry.
//
// Its methods are called under a lock of the cache: they must be quick, must
// not block and must not call the cache. They are called from many goroutines
// at once. What they are given is valid during the call only. A panic is
// recovered and counted (Stats.PolicyFaults): a write that panicked has class 0,
// a segment that did leaves first, a record that did leaves.
//
// The memory limit comes before the policy: when 16 segments in a row gave
// nothing back, what is in the next one leaves unasked.
type Custom interface {
	// Class returns the class of an entry that is being written, 0 to
	// MaxClasses-1; a number outside of that counts as the nearest. Entries of
	// one segment share their class. An entry keeps its class until it is
	// written again.
	Class(w Write) int
	// Score orders the segments of a shard: that with the lowest score is the
	// next to be emptied, the older one of two that are equal.
	Score(g Segment) int64
	// Judge decides about an entry of a segment that is being emptied.
	Judge(r Record) Verdict
}

// Verdict is what becomes of an entry.
type Verdict uint8

const (
	// Drop evicts the entry.
	Drop Verdict = iota
	// Keep moves the entry to the newest segment of its class; its count of reads
	// begins anew.
	Keep
	// Demote is Keep in the class below, if there is one. Where segments of both
	// classes are full, an entry may also stay in its own, or follow others into
	// the class below.
	Demote
)

// Write is an entry on its way in.
type Write struct {
	Key      []byte // valid during the call
	Size     int    // bytes of the value
	Deadline int64  // absolute ms, 0 = none
	Now      int64  // ms
}

// Segment is a run of entries of one class that were written, or kept, one after
// the other.
type Segment struct {
	Class    int
	Age      uint64 // segments of the whole cache begun since this one
	Entries  int    // that live
	Bytes    int64  // of memory
	Volatile int    // of Entries, those with a deadline
	Soonest  int64  // no deadline in it is before this one; 0 = there is none
	Latest   int64  // no deadline in it is after this one; 0 = there is none
	Now      int64  // ms
}

// Record is an entry of a segment that is being emptied.
type Record struct {
	Key        []byte // valid during the call
	Size       int    // bytes of the value
	Class      int
	Reads      int   // accesses since it was written or last kept; counts to 3
	LastAccess int64 // ms, in whole seconds; after 17 minutes modulo that
	Deadline   int64 // absolute ms, 0 = none
	Now        int64 // ms
	Pressure   int   // segments that this eviction emptied without gain: 0 to 15
}

// classify asks for the class of a write.
func (s *shard) classify(w *write, now int64) (class int) {
	t := s.e.classes
	b := s.e.newBatch()
	defer s.e.freeBatch(b)
	defer t.caught()
	b.bytes = append(b.bytes[:0], w.key...) // a copy: the caller's key would have to be on the heap
	class = t.custom.Class(Write{Key: b.bytes, Size: len(w.value), Deadline: w.deadline, Now: now})
	return max(0, min(class, MaxClasses-1))
}

// caught ends a panic of the program's policy.
func (t *classTable) caught() {
	if recover() != nil {
		t.faults.Add(1)
	}
}

// score asks for the score of a segment.
func (s *shard) score(g *segment, now int64) (score int64) {
	t := s.e.classes
	info := Segment{
		Class: classOfLane(g.lane), Age: s.e.births.Load() - g.born, Entries: int(g.count), Bytes: s.heldBy(g),
		Volatile: int(g.vols), Now: now,
	}
	if g.vols > 0 {
		info.Soonest, info.Latest = g.soonest, g.latest
	}
	score = minTime
	defer t.caught()
	return t.custom.Score(info)
}

// byScore returns the segment with the lowest score.
func byScore(s *shard) uint32 {
	best, low := uint32(0), int64(maxTime)
	now := s.e.now()
	for id := range s.segs {
		g := &s.segs[id]
		if g.blocks == 0 || s.onlyKeeps(uint32(id)) {
			continue
		}
		if v := s.score(g, now); best == 0 || v < low || v == low && g.born < s.segs[best].born {
			best, low = uint32(id), v
		}
	}
	if best == 0 {
		return oldestSegment(s)
	}
	return best
}

// judge asks what becomes of a record.
func (s *shard) judge(l loc, r record, now int64, round int) (verdict Verdict) {
	t := s.e.classes
	defer t.caught()
	return t.custom.Judge(Record{
		Key: s.key(r), Size: r.vlen(), Class: s.classAt(l), Reads: r.freq(), LastAccess: lastAccess(r, now),
		Deadline: s.deadline(r), Now: now, Pressure: round,
	})
}

// leastScore is the score of the segment to leave next.
func leastScore(s *shard) (int64, bool) {
	id := byScore(s)
	if id == 0 {
		return 0, false
	}
	return s.score(&s.segs[id], s.e.now()), true
}

// ask returns the lane and count with which a record stays, if it does.
func (s *shard) ask(l loc, r record, lane int, now int64, round int) (to, freq int, stay bool) {
	if round >= forceAll {
		return lane, 0, false
	}
	switch v := s.judge(l, r, now, round); {
	case v == Demote && lane >= buckets:
		return lane - buckets, 0, true
	case v == Keep || v == Demote:
		return lane, 0, true
	}
	return lane, 0, false
}

// reclass counts a record in the class of the lane to which it is about to move.
func (s *shard) reclass(l loc, r record, lane int) {
	from, to := s.classAt(l), classOfLane(uint8(lane))
	if from == to {
		return
	}
	n := s.e.arena.chargeOf(r)
	s.charge(from, -n)
	s.charge(to, n)
}
