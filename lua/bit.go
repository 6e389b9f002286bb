package lua

import (
	"math/bits"
	"strconv"

	glua "github.com/yuin/gopher-lua"
)

// bitLib is the library bit (LuaBitOp): operations on 32 bits, results signed.
func (s *state) bitLib() *glua.LTable {
	l := s.l
	t := l.NewTable()
	arg := func(l *glua.LState, i int) uint32 { return uint32(int64(l.CheckNumber(i))) }
	give := func(l *glua.LState, x uint32) int { l.Push(glua.LNumber(int32(x))); return 1 }
	fold := func(name string, op func(a, b uint32) uint32) {
		t.RawSetString(name, l.NewFunction(func(l *glua.LState) int {
			x := arg(l, 1)
			for i := 2; i <= l.GetTop(); i++ {
				x = op(x, arg(l, i))
			}
			return give(l, x)
		}))
	}
	one := func(name string, op func(a uint32) uint32) {
		t.RawSetString(name, l.NewFunction(func(l *glua.LState) int { return give(l, op(arg(l, 1))) }))
	}
	shift := func(name string, op func(a uint32, n int) uint32) {
		t.RawSetString(name, l.NewFunction(func(l *glua.LState) int { return give(l, op(arg(l, 1), int(arg(l, 2)&31))) }))
	}
	fold("band", func(a, b uint32) uint32 { return a & b })
	fold("bor", func(a, b uint32) uint32 { return a | b })
	fold("bxor", func(a, b uint32) uint32 { return a ^ b })
	one("tobit", func(a uint32) uint32 { return a })
	one("bnot", func(a uint32) uint32 { return ^a })
	one("bswap", bits.ReverseBytes32)
	shift("lshift", func(a uint32, n int) uint32 { return a << n })
	shift("rshift", func(a uint32, n int) uint32 { return a >> n })
	shift("arshift", func(a uint32, n int) uint32 { return uint32(int32(a) >> n) })
	shift("rol", func(a uint32, n int) uint32 { return bits.RotateLeft32(a, n) })
	shift("ror", func(a uint32, n int) uint32 { return bits.RotateLeft32(a, -n) })
	t.RawSetString("tohex", l.NewFunction(func(l *glua.LState) int {
		n := l.OptInt(2, 8)
		digits := "0000000" + strconv.FormatUint(uint64(arg(l, 1)), 16)
		digits = digits[len(digits)-8:]
		n = max(-8, min(n, 8))
		if n < 0 {
			n = -n
			upper := []byte(digits)
			for i, c := range upper {
				if c >= 'a' {
					upper[i] = c - 32
				}
			}
			digits = string(upper)
		}
		l.Push(glua.LString(digits[8-n:]))
		return 1
	}))
	return t
}
