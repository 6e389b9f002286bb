package server

const (
	// The buffers of a pool have one of these sizes or, those that replies made
	// grow, up to keepSize.
	poolSmall  = firstRead
	poolMedium = 4 << 10
	poolLarge  = readSize
	// poolKeep bounds the bytes that a pool keeps of each size.
	poolKeep = 1 << 20
)

// pool keeps buffers that the connections of one loop use for moments: the
// beginning of a command whose rest is on its way, and replies until they are
// sent. It belongs to the loop's goroutine.
type pool struct {
	free [3][][]byte
	held [3]int
}

// class is the place of buffers of at least size bytes, which are at most
// poolLarge.
func class(size int) (int, int) {
	switch {
	case size <= poolSmall:
		return 0, poolSmall
	case size <= poolMedium:
		return 1, poolMedium
	}
	return 2, poolLarge
}

// get returns an empty buffer with a capacity of at least size bytes, which are
// at most poolLarge.
func (p *pool) get(size int) []byte {
	i, size := class(size)
	if n := len(p.free[i]); n > 0 {
		b := p.free[i][n-1]
		p.free[i][n-1] = nil
		p.free[i] = p.free[i][:n-1]
		p.held[i] -= cap(b)
		return b
	}
	return make([]byte, 0, size)
}

// put takes a buffer that nobody uses any more, or leaves it to the collector.
func (p *pool) put(b []byte) {
	i := 0
	switch c := cap(b); {
	case c < poolSmall || c > keepSize:
		return
	case c >= poolLarge:
		i = 2
	case c >= poolMedium:
		i = 1
	}
	if p.held[i]+cap(b) > poolKeep {
		return
	}
	p.held[i] += cap(b)
	p.free[i] = append(p.free[i], b[:0])
}
