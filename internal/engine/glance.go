package engine

import (
	"math/bits"
	"runtime"
	"unsafe"
)

// A glance is a read without the shard's lock: it copies what it finds and
// believes it only if the version of the lock says that nobody held it meanwhile
// (a sequence lock: Lameter 2005). Until then everything it has read may be
// torn, old or foreign, so it follows no location, length or block number that
// leads out of the arena's mapping, which stays until nobody can reach the Engine.
// From the Go heap it reads only single words and what never changes once it is
// published. It leaves to the lock what is rare: expired keys (but see leaves), large
// values, keys that shadows sample.

// glances is how often a read tries before it takes the lock.
const glances = 3

// sight is what a glance came to.
type sight uint8

const (
	sawChange  sight = iota // somebody holds the lock, or held it meanwhile
	sawValue                // the value was appended
	sawNothing              // there is no such key
	sawRefusal              // the slot is not served
	sawOther                // only under the lock
)

// glance is get without the lock; slot is below Slots.
func (e *Engine) glance(s *shard, slot uint16, h uint64, key, dst []byte) (val []byte, deadline int64, saw sight) {
	seen := s.mu.seen()
	if seen&1 != 0 {
		return dst, 0, sawChange
	}
	c := s.cells[slot>>e.bits].Load()
	if c&cellServing == 0 {
		return dst, 0, s.sure(seen, sawRefusal)
	}
	if uint32(h)&s.shadowMask == 0 {
		return dst, 0, sawOther
	}
	r, saw := e.spot(s, c, slot, h, key)
	if saw != sawValue {
		if saw == sawNothing && c&cellWindow != 0 {
			saw = sawOther // a touch log has to note it
		}
		return dst, 0, s.sure(seen, saw)
	}
	if r.lo&(3<<formShift) != 0 {
		deadline = s.deadline(r)
		if expired(deadline, e.now()) {
			if !s.mu.still(seen) {
				return dst, 0, sawChange
			}
			if e.leaves() {
				return dst, 0, sawNothing
			}
			return dst, 0, sawOther
		}
	}
	n := int(r.lo & vlenMask)
	if cap(dst)-len(dst) < n && !s.mu.still(seen) {
		return dst, 0, sawChange // of a length that nobody wrote nothing is allocated
	}
	val = append(dst, view(r.p, r.body()+len(key), n)...)
	if !s.mu.still(seen) {
		return dst, 0, sawChange
	}
	if tick := e.tick(); accessed(r.lo, tick) != r.lo {
		e.note(s, seen, slot, h, key, r, tick)
	}
	runtime.KeepAlive(e) // and with it the mapping
	return val, deadline, sawValue
}

// sure returns saw if it was seen of one state.
func (s *shard) sure(seen uint64, saw sight) sight {
	if s.mu.still(seen) {
		return saw
	}
	return sawChange
}

// note records an access to what a glance saw. If somebody held the lock since,
// only the first access of a key is worth waiting for it: it tells the policies
// a key that is read from one that is not.
func (e *Engine) note(s *shard, seen uint64, slot uint16, h uint64, key []byte, r record, tick uint32) {
	if s.mu.claim(seen) {
		r.lo = read32(r.p) // another glance may have noted one
		r.hit(tick)
		s.mu.disclaim()
		return
	}
	if r.freq() > 0 {
		return
	}
	s.mu.spin()
	s.mu.Lock()
	if l, r := s.find(slot, h, key); l != 0 {
		r.hit(tick)
	}
	s.unlock()
}

// spot is find for a glance; c is the slot's cell. What it returns may be wrong,
// but lies in the arena, deadline, key and value included.
func (e *Engine) spot(s *shard, c uint32, slot uint16, h uint64, key []byte) (r record, saw sight) {
	a := &e.arena
	base, size := a.mem.span()
	block, prefix := c&cellBlock, uint8(0)
	if c&cellDir != 0 {
		if block, prefix = s.inDirectory(int(slot>>e.bits), h); block == 0 {
			return record{}, sawChange
		}
	} else if block == 0 {
		return record{}, sawNothing
	}
	at := uint64(block) << a.blockShift
	if at+uint64(a.blockBytes) > size {
		return record{}, sawChange
	}
	g := page{unsafe.Add(base, at), a.homes, a.stash}
	if prefix == prefixInPage {
		prefix = s.prefixOf(g)
	}
	b := g.home(h, prefix) // below homes, whatever the prefix is
	home, passed := b, uint32(0)
	pattern := uint64(tagOf(h)) * lowBits
	want := uint32(len(key))<<slotBits | uint32(slot)
	for {
		p := unsafe.Add(g.p, b*bucketBytes)
		low, high := read64(p), read64(unsafe.Add(p, 8))
		p = unsafe.Add(p, locsAt)
		m, rest := zeroMarks(low^pattern), zeroMarks(high^pattern)&(1<<32-1)
		for m|rest != 0 {
			if m == 0 {
				m, rest, p = rest, 0, unsafe.Add(p, 32)
			}
			off := uint64(read32(unsafe.Add(p, bits.TrailingZeros64(m)>>3*4))) << a.unit
			m &= m - 1
			if off+headBytes > size {
				return record{}, sawChange
			}
			r.p = unsafe.Add(base, off)
			w := read64(r.p)
			if r.lo, r.hi = uint32(w), uint32(w>>32); r.hi != want {
				continue
			}
			if r.lo&largeBit != 0 {
				return record{}, sawOther
			}
			body := r.body()
			if off+uint64(body+len(key)+int(r.lo&vlenMask)) > size {
				return record{}, sawChange
			}
			if string(view(r.p, body, len(key))) == string(key) {
				return r, sawValue
			}
		}
		if b == home {
			passed = uint32(high >> 32 & 0xffff)
		}
		more := false
		if b, more = g.after(b, home, passed); !more {
			return record{}, sawNothing
		}
	}
}
