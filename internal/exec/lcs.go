package exec

// maxLCSCells bounds the work of one LCS: the product of the two lengths. It is
// about ten milliseconds, in which the shard is held.
const maxLCSCells = 4 << 20

// lcsOptions are the options of LCS.
type lcsOptions struct {
	length, index, withLength bool
	minLength                 int64
}

func (o *lcsOptions) parse(c *Call) bool {
	for i := 3; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case is(a, "IDX"):
			o.index = true
		case is(a, "LEN"):
			o.length = true
		case is(a, "WITHMATCHLEN"):
			o.withLength = true
		case is(a, "MINMATCHLEN") && i+1 < len(c.Args):
			var ok bool
			if o.minLength, ok = c.integer(c.Args[i+1]); !ok {
				return false
			}
			i++
		default:
			c.W.Error(errSyntax)
			return false
		}
	}
	if o.index && o.length {
		c.W.Error(errLCSBoth)
		return false
	}
	return true
}

// lcs: LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]: the longest
// sequence of bytes that both values have in the same order.
func lcs(c *Call) {
	var o lcsOptions
	x, _ := c.Tx.Get(c.Args[1])
	y, _ := c.Tx.Get(c.Args[2])
	if !o.parse(c) {
		return
	}
	a, b := x.Value, y.Value
	if len(a)*len(b) > maxLCSCells {
		tooLarge(c, "the product of both lengths of LCS", len(a)*len(b), maxLCSCells, "compare shorter values")
		return
	}
	if o.length {
		c.W.Int(int64(lcsTable(a, b, nil)))
		return
	}
	path := make([]uint64, (len(a)*len(b)+63)/64)
	length := lcsTable(a, b, path)
	if o.index {
		c.lcsMatches(a, b, path, length, &o)
		return
	}
	out := make([]byte, length)
	at := length
	lcsRuns(a, b, path, func(i, _, n int) {
		at -= n
		copy(out[at:], a[i:i+n])
	})
	c.W.Bulk(out)
}

// lcsTable returns the length of the longest common subsequence by dynamic
// programming (Wagner and Fischer 1974) with two rows. If path is not nil, bit
// i*len(b)+j of it tells that the way back from (i, j), whose bytes differ,
// leads to a shorter a.
func lcsTable(a, b []byte, path []uint64) int {
	row := make([]uint32, len(b)+1)
	for i := range a {
		var diagonal uint32 // of the row above, one to the left
		for j := range b {
			above := row[j+1]
			switch {
			case a[i] == b[j]:
				row[j+1] = diagonal + 1
			case above > row[j]:
				if path != nil {
					bit := i*len(b) + j
					path[bit/64] |= 1 << (bit % 64)
				}
			default:
				row[j+1] = row[j]
			}
			diagonal = above
		}
	}
	return int(row[len(b)])
}

// lcsRuns calls fn for the runs of equal bytes of the subsequence, the last
// first: n bytes at a[i] and b[j].
func lcsRuns(a, b []byte, path []uint64, fn func(i, j, n int)) {
	i, j := len(a), len(b)
	for i > 0 && j > 0 {
		n := 0
		for i > 0 && j > 0 && a[i-1] == b[j-1] {
			i, j, n = i-1, j-1, n+1
		}
		if n > 0 {
			fn(i, j, n)
			continue
		}
		bit := (i-1)*len(b) + j - 1
		if path[bit/64]>>(bit%64)&1 == 1 {
			i--
		} else {
			j--
		}
	}
}

// lcsMatches answers LCS IDX.
func (c *Call) lcsMatches(a, b []byte, path []uint64, length int, o *lcsOptions) {
	count := 0
	lcsRuns(a, b, path, func(_, _, n int) {
		if int64(n) >= o.minLength {
			count++
		}
	})
	w := c.W
	mark := len(w.Buf)
	w.Map(2)
	w.BulkString("matches")
	w.Array(count)
	lcsRuns(a, b, path, func(i, j, n int) {
		if int64(n) < o.minLength || w.Over(mark) {
			return
		}
		parts := 2
		if o.withLength {
			parts = 3
		}
		w.Array(parts)
		for _, at := range [2]int{i, j} {
			w.Array(2)
			w.Int(int64(at))
			w.Int(int64(at + n - 1))
		}
		if o.withLength {
			w.Int(int64(n))
		}
	})
	if TooLong(w, mark) {
		return
	}
	w.BulkString("len")
	w.Int(int64(length))
}
