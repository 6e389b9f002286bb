package register

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// Header is the least size of a value in bytes.
const Header = 28

// ErrTorn says that bytes are no value of this package: cut, joined or changed.
var ErrTorn = errors.New("the checksum does not fit: the value is torn, or was written by nobody")

// Value is what a stored value says about itself.
type Value struct {
	Key     uint64        // number of the key that it was written under
	Writer  uint32        // who wrote it
	Version uint32        // number of the write among those of the key
	At      time.Duration // when the write began
}

// AppendValue appends the encoding of v, size bytes long and at least Header. What
// follows the header depends on key and version, so that two values joined in
// the middle do not pass the checksum.
func AppendValue(dst []byte, v Value, size int) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, v.Key)
	dst = binary.BigEndian.AppendUint32(dst, v.Writer)
	dst = binary.BigEndian.AppendUint32(dst, v.Version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.At))
	dst = append(dst, 0, 0, 0, 0) // the checksum
	x := v.Key<<32 ^ uint64(v.Version)<<1 | 1
	for len(dst)-start < size {
		x ^= x << 13 // xorshift64 (G. Marsaglia, 2003)
		x ^= x >> 7
		x ^= x << 17
		n := min(8, size-(len(dst)-start))
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], x)
		dst = append(dst, word[:n]...)
	}
	binary.BigEndian.PutUint32(dst[start+24:], sum(dst[start:]))
	return dst
}

// Decode reads a value back. Error: ErrTorn.
func Decode(b []byte) (Value, error) {
	if len(b) < Header || binary.BigEndian.Uint32(b[24:]) != sum(b) {
		return Value{}, ErrTorn
	}
	return Value{
		Key: binary.BigEndian.Uint64(b), Writer: binary.BigEndian.Uint32(b[8:]),
		Version: binary.BigEndian.Uint32(b[12:]), At: time.Duration(binary.BigEndian.Uint64(b[16:])),
	}, nil
}

// sum is the checksum over everything but itself.
func sum(b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(b[:24], table), table, b[Header:])
}
