package local

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"

	"github.com/ringcache/ringcache/internal/engine"
)

// slotHash spreads keys over the engine's slots, and so over its locks. Keys are
// not routed here, so it need not be the cluster's CRC16, and hash tags have no
// meaning: keys with one tag do not share a lock. The construction is wyhash's
// (Wang Yi, public domain: 64x64 -> 128 bit products folded by xor), with
// secrets from the seed.
type slotHash struct{ a, b uint64 }

func newSlotHash(seed uint64) slotHash {
	return slotHash{a: mix(seed ^ 0x2d358dccaa6c78a5), b: mix(seed^0x8bb84b93962eacc9) | 1}
}

func (h slotHash) slot(key []byte) uint16 {
	n := len(key)
	acc := h.a ^ uint64(n)
	var x, y uint64
	switch {
	case n > 16:
		p := key
		for len(p) > 16 {
			acc = fold(binary.LittleEndian.Uint64(p)^h.b, binary.LittleEndian.Uint64(p[8:])^acc)
			p = p[16:]
		}
		x, y = binary.LittleEndian.Uint64(key[n-16:]), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 8:
		x, y = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		x, y = uint64(binary.LittleEndian.Uint32(key)), uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		x = uint64(key[0])<<16 | uint64(key[n>>1])<<8 | uint64(key[n-1])
	}
	return uint16(fold(x^h.b, y^acc) % engine.Slots)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// mix is splitmix64's finaliser.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func randomSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return binary.LittleEndian.Uint64(b[:]) | 1
}
