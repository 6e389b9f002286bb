package engine

import (
	"math/bits"
	"unsafe"
)

// An index page is one block of 64-byte buckets (Dash: Lu et al. 2020): 12 tags
// of one byte, four bytes of meta data, 12 locations. A key's home bucket is a
// monotone function of its hash, so a page is ordered by hash bucket by bucket;
// a key that finds its home full goes to the next bucket, or to the stash, the
// last bucket (of small pages) or buckets. Home buckets count those keys, so a
// search that ends at home knows it.
const (
	bucketBytes = 64
	ways        = 12
	metaAt      = 12 // next: displaced, 13: stashed; of bucket 0 also 14: depth, of bucket 1 14 and 15: number of keys
	locsAt      = 16
	lowBits     = 0x0101010101010101
)

// page is a page of the index; all of it is guarded by the shard's lock.
type page struct {
	p     unsafe.Pointer
	homes uint32 // buckets that are homes
	stash uint32 // buckets behind them
}

func (a *arena) page(block uint32) page {
	return page{a.blockAt(block), a.homes, a.stash}
}

func stashOf(buckets uint32) uint32 { return (buckets + 15) / 16 }

func (g page) byteAt(bucket, off uint32) *byte {
	return (*byte)(unsafe.Add(g.p, bucket*bucketBytes+off))
}

func (g page) depth() uint8             { return *g.byteAt(0, metaAt+2) }
func (g page) setDepth(d uint8)         { *g.byteAt(0, metaAt+2) = d }
func (g page) displaced(b uint32) *byte { return g.byteAt(b, metaAt) }
func (g page) stashed(b uint32) *byte   { return g.byteAt(b, metaAt+1) }

func (g page) count() int {
	return int(*g.byteAt(1, metaAt+2)) | int(*g.byteAt(1, metaAt+3))<<8
}

func (g page) add(n int) {
	n += g.count()
	*g.byteAt(1, metaAt+2), *g.byteAt(1, metaAt+3) = byte(n), byte(n>>8)
}

func (g page) capacity() int { return int(g.homes+g.stash) * ways }

func (g page) clear(depth uint8) {
	clear(view(g.p, 0, int(g.homes+g.stash)*bucketBytes))
	g.setDepth(depth)
}

func (g page) loc(bucket, way uint32) loc {
	return loc(read32(unsafe.Add(g.p, bucket*bucketBytes+locsAt+way*4)))
}

func (g page) put(bucket, way uint32, tag byte, l loc) {
	*g.byteAt(bucket, way) = tag
	write32(unsafe.Add(g.p, bucket*bucketBytes+locsAt+way*4), uint32(l))
}

// tagOf is never 0, which is a free place. It uses bits of the hash that
// neither the home nor the directory of a page does.
func tagOf(h uint64) byte { return byte(h) | byte((h&0xff-1)>>63) }

// home returns the home bucket of hash h in a page whose prefix has as many
// bits of the hash. It depends on the upper 32 bits only: those are a cursor.
func (g page) home(h uint64, prefix uint8) uint32 {
	return uint32(uint64(uint32(h>>32)<<prefix) * uint64(g.homes) >> 32)
}

// start returns the smallest upper half of a hash, without the page's prefix,
// whose home is b.
func (g page) start(b uint32, prefix uint8) uint64 {
	x := (uint64(b)<<32 + uint64(g.homes) - 1) / uint64(g.homes)
	return (x + 1<<prefix - 1) >> prefix
}

// matches returns a bit per way whose tag is equal.
func (g page) matches(bucket uint32, tag byte) uint32 {
	p := unsafe.Add(g.p, bucket*bucketBytes)
	pattern := uint64(tag) * lowBits
	low := zeroBytes(read64(p) ^ pattern)
	high := zeroBytes(uint64(read32(unsafe.Add(p, 8))) ^ pattern&0xffffffff)
	return (low | high<<8) & (1<<ways - 1)
}

// zeroBytes returns a bit per byte of x that is zero, exactly.
func zeroBytes(x uint64) uint32 {
	return uint32((zeroMarks(x) >> 7) * 0x0102040810204080 >> 56)
}

// zeroMarks returns the highest bit of every byte of x that is zero, exactly.
func zeroMarks(x uint64) uint64 {
	const most = 0x7f7f7f7f7f7f7f7f
	return ^((x&most + most) | x | most)
}

// free returns a bit per free way.
func (g page) free(bucket uint32) uint32 { return g.matches(bucket, 0) }

func (g page) next(b uint32) uint32 {
	if b++; b == g.homes {
		return 0
	}
	return b
}

// after returns the bucket that a search goes on with behind b, false at its end.
// passed is what the home counts: keys in the next bucket, and above these 8 bits
// keys in the stash.
func (g page) after(b, home, passed uint32) (uint32, bool) {
	switch {
	case b == home && passed&0xff != 0:
		return g.next(home), true
	case b < g.homes:
		return g.homes, passed>>8 != 0
	}
	return b + 1, b+1 < g.homes+g.stash
}

// room says whether a key with this home can be put in.
func (g page) room(home uint32) bool {
	if g.free(home) != 0 || g.free(g.next(home)) != 0 {
		return true
	}
	for b := g.homes; b < g.homes+g.stash; b++ {
		if g.free(b) != 0 {
			return true
		}
	}
	return false
}

// insert puts l in and says whether there was room.
func (g page) insert(home uint32, tag byte, l loc) bool {
	next := g.next(home)
	at, near := g.free(home), g.free(next)
	switch {
	case at != 0 && bits.OnesCount32(at) >= bits.OnesCount32(near):
		g.put(home, uint32(bits.TrailingZeros32(at)), tag, l)
	case near != 0:
		g.put(next, uint32(bits.TrailingZeros32(near)), tag, l)
		*g.displaced(home)++
	default:
		for b := g.homes; ; b++ {
			if b == g.homes+g.stash {
				return false
			}
			if f := g.free(b); f != 0 {
				g.put(b, uint32(bits.TrailingZeros32(f)), tag, l)
				*g.stashed(home)++
				break
			}
		}
	}
	g.add(1)
	return true
}

// place is where a location stands in a page.
type place struct{ bucket, way uint32 }

// relocate changes the location at a place.
func (g page) relocate(at place, l loc) {
	write32(unsafe.Add(g.p, at.bucket*bucketBytes+locsAt+at.way*4), uint32(l))
}

// locate returns the place of l, which must be in.
func (g page) locate(home uint32, tag byte, l loc) (place, bool) {
	for _, b := range [2]uint32{home, g.next(home)} {
		for m := g.matches(b, tag); m != 0; m &= m - 1 {
			if w := uint32(bits.TrailingZeros32(m)); g.loc(b, w) == l {
				return place{b, w}, true
			}
		}
	}
	for b := g.homes; b < g.homes+g.stash; b++ {
		for m := g.matches(b, tag); m != 0; m &= m - 1 {
			if w := uint32(bits.TrailingZeros32(m)); g.loc(b, w) == l {
				return place{b, w}, true
			}
		}
	}
	return place{}, false
}

// take removes what stands at a place; home is the home of its key.
func (g page) take(home uint32, at place) {
	g.put(at.bucket, at.way, 0, 0)
	switch {
	case at.bucket >= g.homes:
		*g.stashed(home)--
	case at.bucket != home:
		*g.displaced(home)--
	}
	g.add(-1)
}

// each calls fn for every location with its tag.
func (g page) each(fn func(at place, tag byte, l loc)) {
	for b := range g.homes + g.stash {
		for m := ^g.free(b) & (1<<ways - 1); m != 0; m &= m - 1 {
			w := uint32(bits.TrailingZeros32(m))
			fn(place{b, w}, *g.byteAt(b, w), g.loc(b, w))
		}
	}
}
