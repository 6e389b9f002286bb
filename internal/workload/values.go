package workload

import (
	"bytes"
	"encoding/binary"
)

const hexDigits = "0123456789abcdef"

// TraceKey names a trace's object in the cache: "t:" and 16 hex digits, so that
// every key has the same length and costs the same memory.
func TraceKey(object uint64) string {
	var b [18]byte
	b[0], b[1] = 't', ':'
	for i := range 16 {
		b[2+i] = hexDigits[object>>(60-4*i)&15]
	}
	return string(b[:])
}

// pattern is the body of every value: not compressible to nothing, the same for
// all, so that only the stamp tells values apart.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(mix(uint64(i)))
	}
	return b
}

// stamp writes the object's number into the first 8 bytes, so that a value of
// another key cannot pass for this one.
func stamp(value []byte, object uint64) { binary.BigEndian.PutUint64(value, mix(object)) }

func sameValue(got, want []byte, object uint64) bool {
	return len(got) == len(want) && binary.BigEndian.Uint64(got) == mix(object) && bytes.Equal(got[8:], want[8:])
}

// mix is a bijective finaliser (David Stafford's variant 13 of MurmurHash3's).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
