package engine

import (
	"sync"
	"sync/atomic"
)

// The small queue's share adapts: miniature simulations (Waldspurger et al.
// 2017) of S3-FIFO, one per share that may be chosen, see the requests for a
// sample of the keys, taken by hash, and the share whose simulation finds the
// most is used. A few shards have them, on behalf of all: slots spread keys
// evenly. They hold no data, only parts of hashes, in fixed arrays.
const (
	shadowShards = 4   // at most so many shards have shadows
	shadowKeys   = 128 // most keys that one simulated cache holds
	shadowHeads  = 256
	shadowNodes  = 2*shadowKeys*shadowCount + 1 // each cache holds keys and ghosts; 1 is on its way in
	shadowCount  = 3
	// shadowReport is after how many requests a shadow reports what it found,
	// shadowDecide how many of all shadows make a choice; the figures are halved
	// then. shadowGain is by how much, as a share of the requests, another share
	// must be ahead of the one in use.
	shadowReport = 64
	shadowDecide = 1024
	shadowGain   = 200
)

// smallShares are the shares of the small queue in per cent, in shadows' order;
// the engine begins with shareAtFirst.
var smallShares = [shadowCount]int64{2, 10, 30}

const shareAtFirst = 1

// Where a key of a simulated cache is, in bits 2 and 3 of its state; the lower
// two count reads.
const (
	shadowAbsent = iota << 2
	shadowSmall
	shadowMain
	shadowGhost
	shadowWhere = 3 << 2
	shadowReads = 3
)

// shadow is the simulations of one shard; its lock guards it.
type shadow struct {
	nodes [shadowNodes]shadowNode
	heads [shadowHeads]uint16 // chains of nodes; 0 = none
	spare uint16              // chain of free nodes
	used  uint16              // nodes that were ever taken
	caps  int                 // keys that each cache holds now
	sims  [shadowCount]shadowCache
	hits  [shadowCount]int32 // since the last report
	seen  int32
}

type shadowNode struct {
	print uint32
	next  uint16
	in    [shadowCount]uint8
}

// shadowCache is one simulated S3-FIFO: three queues of nodes.
type shadowCache struct{ small, main, ghost shadowQueue }

type shadowQueue struct {
	ring [shadowKeys]uint16
	from uint16
	n    uint16
}

func (q *shadowQueue) push(i uint16) {
	q.ring[(q.from+q.n)%shadowKeys] = i
	q.n++
}

func (q *shadowQueue) pop() uint16 {
	i := q.ring[q.from]
	q.from = (q.from + 1) % shadowKeys
	q.n--
	return i
}

// drop takes out a node from anywhere.
func (q *shadowQueue) drop(i uint16) {
	at := uint16(0)
	for at < q.n && q.ring[(q.from+at)%shadowKeys] != i {
		at++
	}
	for ; at+1 < q.n; at++ {
		q.ring[(q.from+at)%shadowKeys] = q.ring[(q.from+at+1)%shadowKeys]
	}
	q.n--
}

// sample tells the shadows of a request; read is false for a write of a new
// key, which is the end of a read that missed or comes by itself.
func (s *shard) sample(h uint64, read bool) {
	d := s.shadow
	if d == nil {
		return
	}
	print := uint32(h >> 32)
	i := d.node(print)
	for k := range d.sims {
		d.access(k, i, read)
	}
	d.release(i)
	if !read {
		return
	}
	if d.seen++; d.seen == shadowReport {
		s.e.tally.add(d.hits, d.seen)
		d.hits, d.seen = [shadowCount]int32{}, 0
	}
}

// node returns the node of a print, a new one if there is none.
func (d *shadow) node(print uint32) uint16 {
	head := &d.heads[print%shadowHeads]
	for i := *head; i != 0; i = d.nodes[i].next {
		if d.nodes[i].print == print {
			return i
		}
	}
	i := d.spare
	if i != 0 {
		d.spare = d.nodes[i].next
	} else {
		d.used++
		i = d.used
	}
	d.nodes[i] = shadowNode{print: print, next: *head}
	*head = i
	return i
}

// release frees a node that no cache has.
func (d *shadow) release(i uint16) {
	g := &d.nodes[i]
	if g.in != [shadowCount]uint8{} {
		return
	}
	at := &d.heads[g.print%shadowHeads]
	for *at != i {
		at = &d.nodes[*at].next
	}
	*at = g.next
	g.next = d.spare
	d.spare = i
}

func (d *shadow) access(k int, i uint16, read bool) {
	c, in := &d.sims[k], &d.nodes[i].in[k]
	to := &c.small
	state := uint8(shadowSmall)
	switch *in & shadowWhere {
	case shadowSmall, shadowMain:
		if read {
			d.hits[k]++
			if *in&shadowReads < shadowReads {
				*in++
			}
		}
		return
	case shadowGhost:
		c.ghost.drop(i)
		to, state = &c.main, shadowMain
	}
	*in = shadowAbsent
	for int(c.small.n+c.main.n) >= d.caps {
		d.evict(k)
	}
	*in = state
	to.push(i)
}

// evict takes one step towards room in cache k.
func (d *shadow) evict(k int) {
	c := &d.sims[k]
	if c.main.n == 0 || int64(c.small.n)*100 > int64(d.caps)*smallShares[k] {
		i := c.small.pop()
		if in := &d.nodes[i].in[k]; *in&shadowReads >= promoteFrom {
			*in = shadowMain
			c.main.push(i)
			return
		} else {
			*in = shadowGhost
		}
		for int(c.ghost.n) >= d.caps {
			d.forget(k, c.ghost.pop())
		}
		c.ghost.push(i)
		return
	}
	i := c.main.pop()
	if in := &d.nodes[i].in[k]; *in&shadowReads > 0 {
		*in--
		c.main.push(i)
		return
	}
	d.forget(k, i)
}

func (d *shadow) forget(k int, i uint16) {
	d.nodes[i].in[k] = shadowAbsent
	d.release(i)
}

// fitShadow begins the shard's shadow and makes its size and its sample follow
// the number of keys.
func (s *shard) fitShadow() {
	if s.id >= shadowShards {
		return
	}
	if s.shadow == nil {
		s.shadow = new(shadow)
	}
	keys := int(s.keys.Load())
	mask := uint32(0)
	for keys > shadowKeys {
		keys /= 2
		mask = mask<<1 | 1
	}
	s.shadowMask, s.shadow.caps = mask, max(keys, shadowKeys/8)
}

// tally sums up what the shadows of all shards found.
type tally struct {
	mu   sync.Mutex // the last lock to be taken
	hits [shadowCount]int32
	seen int32
	best int
	// share is that of the choice in per cent; 0 before the first one.
	share atomic.Int64
}

// smallShare is the small queue's share of a shard in per cent.
func (e *Engine) smallShare() int64 {
	if v := e.tally.share.Load(); v != 0 {
		return v
	}
	return smallShares[shareAtFirst]
}

func (t *tally) add(hits [shadowCount]int32, seen int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range hits {
		t.hits[k] += hits[k]
	}
	if t.seen += seen; t.seen < shadowDecide {
		return
	}
	for k := range hits {
		if t.hits[k] > t.hits[t.best]+t.seen/shadowGain {
			t.best = k
		}
	}
	for k := range hits {
		t.hits[k] /= 2
	}
	t.seen /= 2
	t.share.Store(smallShares[t.best])
}
