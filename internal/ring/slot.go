package ring

import "bytes"

// crcTable[k][b] is the CRC16 of the byte b followed by k zero bytes, so that
// eight bytes are folded in with eight independent loads ("slicing by eight",
// Kounavis and Berry 2005). Row 0 is the usual table of the XMODEM variant:
// polynomial 0x1021, initial value 0, nothing reflected.
var crcTable = makeCRCTable()

func makeCRCTable() (t [8][256]uint16) {
	for b := range 256 {
		crc := uint16(b) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
		t[0][b] = crc
	}
	for k := 1; k < 8; k++ {
		for b := range 256 {
			prev := t[k-1][b]
			t[k][b] = prev<<8 ^ t[0][prev>>8]
		}
	}
	return t
}

func crc16[T string | []byte](s T) uint16 {
	var crc uint16
	for len(s) >= 8 {
		crc = crcTable[7][s[0]^byte(crc>>8)] ^ crcTable[6][s[1]^byte(crc)] ^
			crcTable[5][s[2]] ^ crcTable[4][s[3]] ^
			crcTable[3][s[4]] ^ crcTable[2][s[5]] ^
			crcTable[1][s[6]] ^ crcTable[0][s[7]]
		s = s[8:]
	}
	for i := 0; i < len(s); i++ {
		crc = crc<<8 ^ crcTable[0][byte(crc>>8)^s[i]]
	}
	return crc
}

// Slot returns the slot of a key: CRC16 (XMODEM) of its hash tag, modulo
// 16384, as the Redis Cluster specification demands. It allocates nothing.
func Slot(key []byte) uint16 { return crc16(HashTag(key)) % Slots }

// SlotString is Slot for a string.
func SlotString(key string) uint16 {
	for i := 0; i < len(key); i++ {
		if key[i] != '{' {
			continue
		}
		for j := i + 1; j < len(key); j++ {
			if key[j] == '}' {
				if j > i+1 {
					key = key[i+1 : j]
				}
				break
			}
		}
		break
	}
	return crc16(key) % Slots
}

// HashTag returns the part of a key that decides its slot: what stands between
// the first '{' and the first '}' after it. Without such a pair, or with
// nothing in between, it is the whole key. The result shares key's memory.
func HashTag(key []byte) []byte {
	open := bytes.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	n := bytes.IndexByte(key[open+1:], '}')
	if n <= 0 {
		return key
	}
	return key[open+1 : open+1+n]
}
