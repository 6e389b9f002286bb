package exec

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/engine"
)

// TestFieldsAgainstBigIntegers holds reading, writing and overflow of bit fields
// against arithmetic without a limit, bit by bit.
func TestFieldsAgainstBigIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		f := field{at: int64(r.IntN(100)), width: int64(1 + r.IntN(64)), signed: r.IntN(2) == 0}
		if !f.signed && f.width == 64 {
			f.width = 63
		}
		v := make([]byte, 24)
		for i := range v {
			v[i] = byte(r.Uint32())
		}
		want := new(big.Int)
		for i := f.at; i < f.at+f.width; i++ {
			want.Lsh(want, 1).Or(want, big.NewInt(int64(v[i/8]>>(7-i%8)&1)))
		}
		span := new(big.Int).Lsh(big.NewInt(1), uint(f.width))
		half := new(big.Int).Rsh(span, 1)
		if f.signed && want.Cmp(half) >= 0 {
			want.Sub(want, span)
		}
		got := f.read(v)
		if text(f, got) != want.String() {
			t.Fatalf("%+v: read %s, want %s", f, text(f, got), want)
		}
		by := int64(r.Uint64()) >> r.IntN(64)
		sum := new(big.Int).Add(want, big.NewInt(by))
		lo, hi := new(big.Int), new(big.Int).Sub(span, big.NewInt(1))
		if f.signed {
			lo.Neg(half)
			hi.Sub(half, big.NewInt(1))
		}
		wrapped := new(big.Int).Sub(sum, lo)
		wrapped.Mod(wrapped, span).Add(wrapped, lo)
		n, over := f.sum(got, by, overflowWrap)
		if text(f, n) != wrapped.String() || over != (wrapped.Cmp(sum) != 0) {
			t.Fatalf("%+v: %s + %d = %s (%v), want %s", f, want, by, text(f, n), over, wrapped)
		}
		if sum.Cmp(lo) < 0 {
			sum = lo
		} else if sum.Cmp(hi) > 0 {
			sum = hi
		}
		if n, _ := f.sum(got, by, overflowSat); text(f, n) != sum.String() {
			t.Fatalf("%+v: %s + %d saturates at %s, want %s", f, want, by, text(f, n), sum)
		}
		before := bytes.Clone(v)
		f.write(v, n)
		if f.read(v) != n {
			t.Fatalf("%+v: wrote %d, read %d", f, n, f.read(v))
		}
		for i := range int64(len(v) * 8) {
			if (i < f.at || i >= f.at+f.width) && (v[i/8]^before[i/8])>>(7-i%8)&1 != 0 {
				t.Fatalf("%+v: bit %d changed", f, i)
			}
		}
	}
}

func text(f field, n uint64) string {
	if f.signed {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(n, 10)
}

func TestBitsAgainstSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		v := make([]byte, 1+r.IntN(40))
		fill := byte(r.Uint32())
		if r.IntN(3) > 0 {
			fill = []byte{0, 0xff}[r.IntN(2)]
		}
		for i := range v {
			v[i] = fill
		}
		v[r.IntN(len(v))] ^= 1 << r.IntN(8)
		size := int64(len(v) * 8)
		from := r.Int64N(size)
		to := from + 1 + r.Int64N(size-from)
		first, ones := [2]int64{-1, -1}, int64(0)
		for i := from; i < to; i++ {
			b := v[i/8] >> (7 - i%8) & 1
			ones += int64(b)
			if first[b] < 0 {
				first[b] = i
			}
		}
		for bit := range byte(2) {
			if got := findBit(v, from, to, bit); got != first[bit] {
				t.Fatalf("%x: first %d in [%d, %d) is %d, want %d", v, bit, from, to, got, first[bit])
			}
		}
		if got := countBits(v, from, to); got != ones {
			t.Fatalf("%x: %d ones in [%d, %d), want %d", v, got, from, to, ones)
		}
	}
}

// What would not fit is refused before anything is reserved.
func TestBitLimits(t *testing.T) {
	l := newLocal(t, engine.Options{MaxValue: 10})
	const large = "-RCTOOLARGE value is 11 bytes, limit 10; raise max-value on every node or store the value in parts"
	expect(t, l, "SETBIT a 79 1", ":0")
	expect(t, l, "SETBIT a 80 1", large)
	expect(t, l, "SETBIT a 80 0", large)
	expect(t, l, "BITFIELD a SET u8 72 255 SET u8 80 1", large)
	expect(t, l, "BITFIELD a GET u8 80", "*1\n  :0")
	expect(t, l, "BITFIELD a SET u8 #9 255", "*1\n  :1")
	expect(t, l, "GETBIT a 4294967295", ":0")
	expect(t, l, "GETBIT a 4294967296", "-"+errBitOffset)
	expect(t, l, "STRLEN a", ":10")
}

func TestLCSLimit(t *testing.T) {
	l := newLocal(t, engine.Options{})
	l.line("SET a " + strings.Repeat("a", 2048))
	l.line("SET b " + strings.Repeat("a", 2048))
	l.line("SET c " + strings.Repeat("a", 2049))
	expect(t, l, "LCS a b LEN", ":2048")
	expect(t, l, "LCS a c", "-RCTOOLARGE the product of both lengths of LCS is 4196352 bytes, limit 4194304; compare shorter values")
}

func TestBitAllocates(t *testing.T) {
	l := newLocal(t, engine.Options{})
	l.line("SETBIT a 1000 1")
	for _, line := range []string{"GETBIT a 7", "SETBIT a 8 1", "SETBIT a 8 0", "BITCOUNT a", "BITPOS a 1", "BITFIELD_RO a GET u8 0", "BITOP OR b a a"} {
		args := parseLine(line)
		l.do(args...)
		if n := testing.AllocsPerRun(100, func() { l.do(args...) }); n != 0 {
			t.Errorf("%s: %v allocations", line, n)
		}
	}
}
