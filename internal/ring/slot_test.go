package ring

import (
	"strings"
	"testing"
)

// slowSlot is the definition, bit by bit: the hash tag as the Redis Cluster
// specification words it, and CRC16/XMODEM as long division.
func slowSlot(key string) uint16 {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	return slowCRC(key) % 16384
}

func slowCRC(s string) uint16 {
	var crc uint32
	for i := range len(s) + 2 { // two zero bytes push the message through
		var b byte
		if i < len(s) {
			b = s[i]
		}
		for bit := 7; bit >= 0; bit-- {
			crc = crc<<1 | uint32(b>>bit&1)
			if crc&0x10000 != 0 {
				crc ^= 0x11021
			}
		}
	}
	return uint16(crc)
}

func TestCRCCheckValue(t *testing.T) {
	if got := crc16("123456789"); got != 0x31C3 {
		t.Errorf("crc16 = %#x, want 0x31c3", got)
	}
	if got := slowCRC("123456789"); got != 0x31C3 {
		t.Errorf("slowCRC = %#x, want 0x31c3", got)
	}
}

// The slots are those that redis-server 7 answers to CLUSTER KEYSLOT.
func TestSlotOfKnownKeys(t *testing.T) {
	for key, want := range map[string]uint16{
		"":                     0,
		"06S":                  0,
		"6ZJ":                  16383,
		"foo":                  12182,
		"bar":                  5061,
		"hello":                866,
		"somekey":              11058,
		"foo{hash_tag}":        2515,
		"123456789":            0x31C3,
		"a{foo}b":              12182,
		"{bar}{foo}":           5061,
		"{user1000}.following": 3443,
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
		if got := SlotString(key); got != want {
			t.Errorf("SlotString(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestHashTag(t *testing.T) {
	for key, want := range map[string]string{
		"":                     "",
		"plain":                "plain",
		"{user1000}.following": "user1000",
		"{user1000}":           "user1000",
		"foo{}{bar}":           "foo{}{bar}", // empty first tag: the whole key
		"foo{}":                "foo{}",
		"{}":                   "{}",
		"foo{{bar}}zap":        "{bar",
		"foo{bar}{zap}":        "bar",
		"foo{bar":              "foo{bar", // never closed
		"{":                    "{",
		"}":                    "}",
		"}{":                   "}{",
		"}a{b}":                "b", // a brace before the tag closes nothing
		"a}b{c":                "a}b{c",
	} {
		if got := string(HashTag([]byte(key))); got != want {
			t.Errorf("HashTag(%q) = %q, want %q", key, got, want)
		}
	}
}

// Lengths around multiples of eight meet both loops of crc16.
func TestCRCOfEveryLength(t *testing.T) {
	text := strings.Repeat("\xff\x00qwertz\x80#\x7f", 8)
	for n := range len(text) {
		if got, want := crc16(text[:n]), slowCRC(text[:n]); got != want {
			t.Errorf("length %d: crc16 = %#x, want %#x", n, got, want)
		}
	}
}

func TestSlotAllocatesNothing(t *testing.T) {
	key, text := []byte("session:{user:1234567}:profile"), "session:{user:1234567}:profile"
	var sum uint16
	if n := testing.AllocsPerRun(100, func() { sum += Slot(key) + SlotString(text) }); n != 0 {
		t.Errorf("%v allocations per call, want 0", n)
	}
}

func FuzzSlot(f *testing.F) {
	f.Fuzz(func(t *testing.T, key []byte) {
		want := slowSlot(string(key))
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
		if got := SlotString(string(key)); got != want {
			t.Errorf("SlotString(%q) = %d, want %d", key, got, want)
		}
		if got := slowCRC(string(HashTag(key))) % Slots; got != want {
			t.Errorf("hash tag %q of %q is in slot %d, want %d", HashTag(key), key, got, want)
		}
	})
}

func BenchmarkSlot(b *testing.B) {
	for name, key := range map[string][]byte{
		"16B":     []byte("key:000000001234"),
		"41B+tag": []byte("session:{user:1234567}:profile:settings:x"),
		"200B":    []byte(strings.Repeat("k", 200)),
	} {
		b.Run(name, func(b *testing.B) {
			var sum uint16
			for b.Loop() {
				sum += Slot(key)
			}
			_ = sum
		})
	}
}
