package engine

import "slices"

const (
	minHeadBits = 2 // a page starts with 4 bucket heads
	maxHeadBits = 6 // and splits beyond 64
	// maxPrefix bounds the hash bits that tell buckets apart, so that the upper
	// 32 bits of a hash are a complete scan position.
	maxPrefix = 32
)

// index finds the entries of one slot: an extendible hash table (Fagin et al.
// 1979) that is ordered by hash. The directory is indexed by the upper depth
// bits of a hash; a page owns one prefix; a bucket owns a longer one. A split
// or merge therefore never moves an entry across a scan position, growth costs
// one page (and at times one copy of the directory of pointers), and walking
// costs what the slot holds. The zero value is an empty index.
type index struct {
	dir   []*page // 1 << depth pointers; nil when empty
	depth uint8
	deep  int32 // pages whose depth is the directory's; 0 only when depth is 0 or dir is nil
}

type page struct {
	heads []*entry // 1 << bits chains
	count int32
	depth uint8 // hash bits that all its entries share
	bits  uint8
}

func (x *index) pageOf(h uint64) *page { return x.dir[h>>(64-x.depth)] }

// bucket returns the place of h among the page's heads.
func (p *page) bucket(h uint64) int { return int(h << p.depth >> (64 - p.bits)) }

func (x *index) find(h uint64, key []byte) *entry {
	if x.dir == nil {
		return nil
	}
	p := x.pageOf(h)
	for e := p.heads[p.bucket(h)]; e != nil; e = e.next {
		if e.hash == h && e.is(key) {
			return e
		}
	}
	return nil
}

// insert adds e, whose key must be absent.
func (x *index) insert(e *entry) {
	if x.dir == nil {
		x.dir = []*page{newPage(0, minHeadBits)}
		x.depth, x.deep = 0, 1
	}
	p := x.pageOf(e.hash)
	if int(p.count) >= len(p.heads) {
		switch {
		case p.bits < maxHeadBits:
			p.rebucket(p.depth, p.bits+1)
		case int(p.depth)+maxHeadBits < maxPrefix:
			x.split(p, e.hash)
			p = x.pageOf(e.hash)
		}
	}
	p.push(e)
}

// remove takes e out; it must be in.
func (x *index) remove(e *entry) {
	p := x.pageOf(e.hash)
	at := &p.heads[p.bucket(e.hash)]
	for *at != e {
		at = &(*at).next
	}
	*at, e.next = e.next, nil
	p.count--
	switch {
	case int(p.count) >= len(p.heads)/4:
	case p.depth > 0:
		x.merge(p, e.hash)
	case p.count == 0:
		*x = index{}
	case p.bits > minHeadBits:
		p.rebucket(p.depth, p.bits-1)
	}
}

func newPage(depth, bits uint8) *page {
	return &page{heads: make([]*entry, 1<<bits), depth: depth, bits: bits}
}

func (p *page) push(e *entry) {
	b := p.bucket(e.hash)
	e.next = p.heads[b]
	p.heads[b] = e
	p.count++
}

// pour moves every entry of p into the page that to gives for its hash.
func (p *page) pour(to func(h uint64) *page) {
	for _, e := range p.heads {
		for e != nil {
			next := e.next
			to(e.hash).push(e)
			e = next
		}
	}
}

func (p *page) rebucket(depth, bits uint8) {
	n := newPage(depth, bits)
	p.pour(func(uint64) *page { return n })
	*p = *n
}

// split replaces p, the page of h, by two pages one bit deeper.
func (x *index) split(p *page, h uint64) {
	if p.depth == x.depth {
		dir := make([]*page, 2*len(x.dir))
		for i, q := range x.dir {
			dir[2*i], dir[2*i+1] = q, q
		}
		x.dir, x.deep = dir, 0
		x.depth++
	}
	depth := p.depth + 1
	pair := [2]*page{newPage(depth, maxHeadBits-1), newPage(depth, maxHeadBits-1)}
	p.pour(func(h uint64) *page { return pair[h>>(64-depth)&1] })
	for _, q := range pair {
		if int(q.count) > len(q.heads) {
			q.rebucket(depth, maxHeadBits)
		}
	}
	first, n := x.span(h, p.depth)
	fill(x.dir[first:first+n/2], pair[0])
	fill(x.dir[first+n/2:first+n], pair[1])
	if depth == x.depth {
		x.deep += 2
	}
}

// merge joins the page p of h with its buddy when both are sparse, and halves
// the directory when no page needs its last bit any more.
func (x *index) merge(p *page, h uint64) {
	buddyHash := h ^ 1<<(64-p.depth)
	buddy := x.pageOf(buddyHash)
	if buddy.depth != p.depth || p.count+buddy.count > 1<<(maxHeadBits-1) {
		if p.bits > minHeadBits {
			p.rebucket(p.depth, p.bits-1)
		}
		return
	}
	n := newPage(p.depth-1, maxHeadBits-1)
	to := func(uint64) *page { return n }
	p.pour(to)
	buddy.pour(to)
	if p.depth == x.depth {
		x.deep -= 2
	}
	first, count := x.span(h, n.depth)
	fill(x.dir[first:first+count], n)
	for x.deep == 0 && x.depth > 0 {
		x.halve()
	}
}

func (x *index) halve() {
	dir := make([]*page, len(x.dir)/2)
	x.depth--
	for i := range dir {
		dir[i] = x.dir[2*i]
		if dir[i].depth == x.depth {
			x.deep++
		}
	}
	x.dir = dir
}

// span returns the directory cells that share the upper depth bits of h.
func (x *index) span(h uint64, depth uint8) (first, n int) {
	n = 1 << (x.depth - depth)
	return int(h>>(64-x.depth)) &^ (n - 1), n
}

func fill(cells []*page, p *page) {
	for i := range cells {
		cells[i] = p
	}
}

// from returns the chain of the first non-empty bucket that ends after hash h,
// and the hash where the next bucket begins; 0 as end means that none follows.
// The bucket may begin before h, when pages merged since h was made.
func (x *index) from(h uint64) (chain *entry, end uint64) {
	for x.dir != nil {
		p := x.pageOf(h)
		start := h &^ (1<<(64-p.depth) - 1)
		for b := p.bucket(h); b < len(p.heads); b++ {
			if p.heads[b] != nil {
				return p.heads[b], start + uint64(b+1)<<(64-p.depth-p.bits)
			}
		}
		if h = start + 1<<(64-p.depth); h == 0 {
			break
		}
	}
	return nil, 0
}

// volatiles lists the entries that have a deadline, densely and in no order, so
// that a sample costs nothing but the entries it reads. It grows by chunks:
// no growth copies what is there.
type volatiles struct {
	chunks [][]*entry
	n      int
}

const chunkBits = 8

func (v *volatiles) at(i int) *entry { return v.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

func (v *volatiles) put(i int, e *entry) {
	v.chunks[i>>chunkBits][i&(1<<chunkBits-1)] = e
	if e != nil {
		e.vol = int32(i)
	}
}

func (v *volatiles) add(e *entry) {
	if c := v.n >> chunkBits; c == len(v.chunks) {
		size := 1 << chunkBits
		if c == 0 {
			size = 4
		}
		v.chunks = append(v.chunks, make([]*entry, size))
	} else if v.n == len(v.chunks[0]) && c == 0 {
		v.chunks[0] = slices.Grow(v.chunks[0], v.n)[:2*v.n]
	}
	v.put(v.n, e)
	v.n++
}

func (v *volatiles) remove(e *entry) {
	i := int(e.vol)
	v.n--
	if i != v.n {
		v.put(i, v.at(v.n))
	}
	v.put(v.n, nil)
	e.vol = -1
	// One empty chunk stays, so that a list at the edge does not allocate for
	// every second change.
	if last := len(v.chunks) - 1; last > 0 && v.n <= (last-1)<<chunkBits {
		v.chunks[last] = nil
		v.chunks = v.chunks[:last]
	}
}
