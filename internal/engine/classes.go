package engine

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// Limits of classes.
const (
	// MaxClasses is the most classes, that of the keys without one included.
	MaxClasses = 8
	// MaxRank bounds Class.Rank on both sides.
	MaxRank = 100
	// maxPrefix bounds Class.Prefix in bytes.
	maxPrefix = 256
)

// Class is a group of keys under the policy priority. When memory is needed,
// classes that are over their quota give it first, those of the lowest rank
// before the others, then classes within their quota in the same order; within
// a class, s3fifo decides. A quota is no cap: a class may use all memory that
// nobody else needs. Counted is what Stats counts as Bytes.
type Class struct {
	Prefix string // keys that begin with it, up to 256 bytes; the longest one wins; "" = all other keys
	Rank   int    // -MaxRank to MaxRank; the higher leaves later. Keys of no class have 0
	Quota  int64  // bytes, of the whole engine; 0 = none, so the class is never over it
}

// ClassStats are the figures of a class; the first is that of the keys of no
// other.
type ClassStats struct {
	Class
	Bytes   int64 // charged to its entries
	Evicted int64 // entries removed to make room
}

// classTable is the configuration of classes, and their use by all shards.
type classTable struct {
	list   []Class // never changed; 0 is that of all other keys
	custom Custom  // gives the classes instead
	use    [MaxClasses]classUse
	faults atomic.Int64 // panics of custom
}

type classUse struct {
	bytes   atomic.Int64
	evicted atomic.Int64
	_       [48]byte // classes are written all the time: each on its cache line
}

func newClasses(o *Options) *classTable {
	if o.Custom != nil {
		return &classTable{list: make([]Class, MaxClasses), custom: o.Custom}
	}
	if len(o.Classes) == 0 {
		return nil
	}
	t := &classTable{list: make([]Class, 1, MaxClasses)}
	for _, c := range o.Classes {
		if c.Prefix == "" {
			t.list[0] = c
		} else {
			t.list = append(t.list, c)
		}
	}
	return t
}

func checkClasses(list []Class) error {
	var faults []error
	seen := map[string]bool{}
	others := 1
	for _, c := range list {
		switch {
		case seen[c.Prefix]:
			faults = append(faults, fmt.Errorf("class %q is given twice", c.Prefix))
		case len(c.Prefix) > maxPrefix:
			faults = append(faults, fmt.Errorf("the prefix of class %.16q... has %d bytes, limit %d", c.Prefix, len(c.Prefix), maxPrefix))
		case c.Rank < -MaxRank || c.Rank > MaxRank:
			faults = append(faults, fmt.Errorf("class %q has rank %d, must be %d to %d", c.Prefix, c.Rank, -MaxRank, MaxRank))
		case c.Quota < 0:
			faults = append(faults, fmt.Errorf("class %q has a quota of %d, must not be negative", c.Prefix, c.Quota))
		}
		if seen[c.Prefix] = true; c.Prefix == "" {
			others = 0
		}
	}
	if n := len(list) + others; n > MaxClasses {
		faults = append(faults, fmt.Errorf("%d classes, that of all other keys included, limit %d", n, MaxClasses))
	}
	return errors.Join(faults...)
}

// of returns the class of a key by its longest prefix.
func (t *classTable) of(key []byte) int {
	best, length := 0, 0
	for i := 1; i < len(t.list); i++ {
		if p := t.list[i].Prefix; len(p) > length && len(key) >= len(p) && string(key[:len(p)]) == p {
			best, length = i, len(p)
		}
	}
	return best
}

// identity tells tables apart that put keys into different classes. What a
// custom policy does cannot be seen from here.
func (t *classTable) identity() uint64 {
	switch {
	case t == nil:
		return 0
	case t.custom != nil:
		return 1
	}
	h := newHasher(1)
	id := uint64(2)
	for _, c := range t.list {
		id = id*0x9e3779b97f4a7c15 + h.sum([]byte(c.Prefix))
	}
	return id
}

// level orders classes: that with the lowest gives memory first.
func (t *classTable) level(c int) int {
	if k := &t.list[c]; k.Quota == 0 || t.use[c].bytes.Load() <= k.Quota {
		return k.Rank + 2*MaxRank + 1
	} else {
		return k.Rank
	}
}

// lowest returns the class among those of a mask that gives memory first.
func (t *classTable) lowest(mask uint32) (class, level int) {
	level = math.MaxInt
	for c := range t.list {
		if mask&(1<<c) == 0 {
			continue
		}
		if l := t.level(c); l < level {
			class, level = c, l
		}
	}
	return class, level
}

func classOfLane(lane uint8) int { return int(lane) / buckets }

// classAt returns the class of a record.
func (s *shard) classAt(l loc) int { return classOfLane(s.segs[s.segOf(l)].lane) }

// reclasses says whether a write of a key may change its class.
func (e *Engine) reclasses() bool { return e.classes != nil && e.classes.custom != nil }

// charge counts bytes of a class.
func (s *shard) charge(class int, bytes int64) {
	if t := s.e.classes; t != nil {
		s.classBytes[class] += bytes
		t.use[class].bytes.Add(bytes)
	}
}

// discharge counts a record that leaves its class.
func (s *shard) discharge(l loc, bytes int64, evicted bool) {
	if t := s.e.classes; t != nil {
		c := s.classAt(l)
		s.charge(c, -bytes)
		if evicted {
			t.use[c].evicted.Add(1)
		}
	}
}

// classOfWrite returns the class of what is being written.
func (s *shard) classOfWrite(w *write) int {
	switch t := s.e.classes; {
	case t == nil:
		return 0
	case t.custom != nil:
		return s.classify(w, s.e.timed(w.now))
	default:
		return t.of(w.key)
	}
}

// byPriority takes from the class that gives memory first, by the share of the
// small queue in it.
func byPriority(s *shard) uint32 {
	t := s.e.classes
	if t == nil {
		return bySmallShare(s)
	}
	for mask := s.present.Load(); mask != 0; {
		class, _ := t.lowest(mask)
		if id := s.victimOf(class); id != 0 {
			return id
		}
		mask &^= 1 << class // it has only the record that is being replaced
	}
	return oldestSegment(s)
}

func (s *shard) victimOf(class int) uint32 {
	var bytes [queues]int64
	var oldest [queues]uint32
	for id := range s.segs {
		g := &s.segs[id]
		if g.blocks == 0 || classOfLane(g.lane) != class || s.onlyKeeps(uint32(id)) {
			continue
		}
		bytes[g.queue] += s.heldBy(g)
		if o := oldest[g.queue]; o == 0 || g.born < s.segs[o].born {
			oldest[g.queue] = uint32(id)
		}
	}
	if oldest[main] == 0 || oldest[small] != 0 && bytes[small]*100 > (bytes[small]+bytes[main])*s.e.smallShare() {
		return oldest[small]
	}
	return oldest[main]
}

// lower evicts from another shard whose class to give memory next is below all
// classes of this one, if the lock of one is free.
func (s *shard) lower(p *policy, now int64) bool {
	t := s.e.classes
	if t == nil || t.custom != nil {
		return false
	}
	_, own := t.lowest(s.present.Load())
	for range olderSamples {
		o := s.e.lowestShard(t, s.rand.below(len(s.e.shards)), own)
		if o == nil {
			return false
		}
		if o != s && o.mu.TryLock() {
			done := o.evictSegment(p, now)
			o.unlock()
			if done {
				return true
			}
		}
	}
	return false
}

// lowestShard returns, from shard number first on, the one whose next class is
// the lowest and below bar.
func (e *Engine) lowestShard(t *classTable, first, bar int) (best *shard) {
	for i := range e.shards {
		o := &e.shards[(first+i)&int(e.mask)]
		if _, l := t.lowest(o.present.Load()); l < bar {
			best, bar = o, l
		}
	}
	return best
}

// classStats returns the figures of all classes.
func (e *Engine) classStats() []ClassStats {
	t := e.classes
	if t == nil {
		return nil
	}
	r := make([]ClassStats, len(t.list))
	for c := range r {
		r[c] = ClassStats{Class: t.list[c], Bytes: t.use[c].bytes.Load(), Evicted: t.use[c].evicted.Load()}
	}
	return r
}
