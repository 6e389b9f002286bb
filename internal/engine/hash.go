package engine

import (
	"encoding/binary"
	"math/bits"
)

// hasher is a keyed 64-bit hash for the index: wyhash's construction (Wang Yi,
// public domain: 64x64 -> 128 bit multiplications folded by xor) with secrets
// derived from a random seed, so that a client cannot choose keys that collide.
// It is not meant to be stable across processes.
type hasher struct {
	s0, s1, s2, s3 uint64
}

func newHasher(seed uint64) hasher {
	r := rng{seed}
	return hasher{r.next(), r.next() | 1, r.next() | 1, r.next() | 1}
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (h *hasher) sum(b []byte) uint64 {
	n := len(b)
	acc := h.s0
	var x, y uint64
	switch {
	case n > 16:
		p := b
		for len(p) > 16 {
			acc = fold(binary.LittleEndian.Uint64(p)^h.s1, binary.LittleEndian.Uint64(p[8:])^acc)
			p = p[16:]
		}
		x = binary.LittleEndian.Uint64(b[n-16:])
		y = binary.LittleEndian.Uint64(b[n-8:])
	case n >= 8:
		x = binary.LittleEndian.Uint64(b)
		y = binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		x = uint64(binary.LittleEndian.Uint32(b))
		y = uint64(binary.LittleEndian.Uint32(b[n-4:]))
	case n > 0:
		x = uint64(b[0])<<16 | uint64(b[n>>1])<<8 | uint64(b[n-1])
	}
	return fold(h.s3^uint64(n), fold(x^h.s2, y^acc))
}

// rng is splitmix64 (Steele, Lea, Flood 2014): sampling only, no secrets.
type rng struct{ state uint64 }

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n); n must be positive.
func (r *rng) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}
