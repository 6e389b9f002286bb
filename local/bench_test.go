package local

import (
	"encoding/binary"
	"testing"
)

func benchKey(b *[16]byte, i int) []byte {
	binary.BigEndian.PutUint64(b[8:], uint64(i)*0x9e3779b97f4a7c15>>44)
	return b[:]
}

func BenchmarkGet(b *testing.B) {
	c := open(b, Options{})
	var k [16]byte
	for i := range 1 << 20 {
		if err := c.Set(benchKey(&k, i), make([]byte, 64), 0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var k [16]byte
		dst := make([]byte, 0, 64)
		for i := 0; pb.Next(); i++ {
			c.Get(dst, benchKey(&k, i))
		}
	})
}

func BenchmarkSet(b *testing.B) {
	c := open(b, Options{})
	value := make([]byte, 64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var k [16]byte
		for i := 0; pb.Next(); i++ {
			if err := c.Set(benchKey(&k, i), value, 0); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkTypedGet(b *testing.B) {
	c := openTyped(b, Codecs[int, int]{})
	for i := range 1 << 16 {
		if err := c.Set(i, i, 0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok, _ := c.Get(i & (1<<16 - 1)); !ok {
			b.Fatal("gone")
		}
	}
}
