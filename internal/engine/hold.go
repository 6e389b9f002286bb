package engine

// Work that nobody waits for (the sweep, compaction ahead of need, a slot that is
// dropped, a limit that sinks) holds a shard's lock for a few records at a time:
// a reader that meets such a hold waits for its rest, so it may not be longer than
// what the reader can wait for without going to sleep.
const (
	// holdRecords is the most records that one such hold removes or moves.
	holdRecords = 5
	// holdLooks is the most that it looks at, dead ones too. They lie one behind
	// the other, so a look costs a tenth of a removal.
	holdLooks = 64
	// holdHomes is the most homes of an index page that a hold visits for the
	// entries of one slot: others of the page are passed over one by one.
	holdHomes = 8
	// visitHolds is how many holds in a row a shard gets before the next one has its
	// turn: its index then is in the processor's cache.
	visitHolds = 32
)

// shardSet is a set of shards that a work in rounds has still to visit.
type shardSet struct {
	bits  [Slots / 64]uint64
	n     int
	round int
}

func (v *shardSet) fill(n int) {
	v.n, v.round = n, 0
	for i := range n {
		v.bits[i/64] |= 1 << (i % 64)
	}
}

// visit gives every shard of the set some holds of work, which says whether there is
// more; first is the shard's first one. Between two holds those are let in who wait.
func (e *Engine) visit(v *shardSet, b *breath, work func(s *shard, first bool) (more bool)) {
	for i := range e.shards {
		if v.bits[i/64]&(1<<(i%64)) == 0 {
			continue
		}
		s := &e.shards[i]
		more := true
		for n := 0; n < visitHolds && more; n++ {
			s.mu.Lock()
			more = work(s, v.round == 0 && n == 0)
			s.unlock()
			s.mu.letIn()
			b.take()
		}
		if !more {
			v.bits[i/64] &^= 1 << (i % 64)
			v.n--
		}
	}
	v.round++
}
