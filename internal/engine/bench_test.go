package engine

import (
	"math/rand/v2"
	"testing"
)

const benchKeys = 1 << 18

func benchEngine(b *testing.B, maxBytes int64) (*Engine, [][]byte) {
	e, _ := newTest(b, Options{MaxBytes: maxBytes})
	keys := make([][]byte, benchKeys)
	for i := range keys {
		keys[i] = keyFor(i)
		mustSet(b, e, slotFor(i), keys[i], make([]byte, 100), 0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	return e, keys
}

func BenchmarkGet(b *testing.B) {
	e, keys := benchEngine(b, 0)
	dst := make([]byte, 0, 128)
	for i := 0; b.Loop(); i++ {
		k := i * 7919 % benchKeys
		if _, _, err := e.Get(slotFor(k), keys[k], dst); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetParallel(b *testing.B) {
	e, keys := benchEngine(b, 0)
	b.RunParallel(func(pb *testing.PB) {
		dst := make([]byte, 0, 128)
		for i := rand.IntN(benchKeys); pb.Next(); i++ {
			k := i * 7919 % benchKeys
			if _, _, err := e.Get(slotFor(k), keys[k], dst); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkOverwrite(b *testing.B) {
	e, keys := benchEngine(b, 0)
	value := make([]byte, 100)
	for i := 0; b.Loop(); i++ {
		k := i * 7919 % benchKeys
		_ = e.Set(slotFor(k), keys[k], value, 0)
	}
}

func BenchmarkOverwriteParallel(b *testing.B) {
	e, keys := benchEngine(b, 0)
	b.RunParallel(func(pb *testing.PB) {
		value := make([]byte, 100)
		for i := rand.IntN(benchKeys); pb.Next(); i++ {
			k := i * 7919 % benchKeys
			_ = e.Set(slotFor(k), keys[k], value, 0)
		}
	})
}

// BenchmarkInsertAtTheLimit writes new keys while others are evicted.
func BenchmarkInsertAtTheLimit(b *testing.B) {
	e, _ := benchEngine(b, 16<<20)
	value := make([]byte, 100)
	key := make([]byte, 12)
	for i := 0; b.Loop(); i++ {
		key[0], key[1], key[2], key[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		_ = e.Set(slotFor(i&(1<<20-1)), key, value, 0)
	}
}

func BenchmarkInsertAtTheLimitParallel(b *testing.B) {
	e, _ := benchEngine(b, 16<<20)
	b.RunParallel(func(pb *testing.PB) {
		value, key := make([]byte, 100), make([]byte, 12)
		for i := rand.Int(); pb.Next(); i++ {
			key[0], key[1], key[2], key[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
			_ = e.Set(slotFor(i&(1<<20-1)), key, value, 0)
		}
	})
}

func BenchmarkLockUnlock(b *testing.B) {
	e, _ := newTest(b, Options{})
	for b.Loop() {
		tx, _ := e.Lock(1)
		tx.Unlock()
	}
}

func BenchmarkSweepOfNothing(b *testing.B) {
	e, _ := newTest(b, Options{})
	for b.Loop() {
		e.Sweep()
	}
}
