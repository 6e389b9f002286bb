package lua

import (
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// concatenate is a..b..c, counted. Without metamethods it takes strings and
// numbers.
func (s *state) concatenate(l *glua.LState) int {
	n := l.GetTop()
	size := 0
	for i := 1; i <= n; i++ {
		switch v := l.Get(i).(type) {
		case glua.LString:
			size += len(v)
		case glua.LNumber:
			size += 24
		default:
			return s.concatMeta(l, n)
		}
	}
	s.charge(l, size)
	var b strings.Builder
	b.Grow(size)
	for i := 1; i <= n; i++ {
		b.WriteString(textOf(l.Get(i)))
	}
	l.Push(glua.LString(b.String()))
	return 1
}

// concatMeta folds the operands from the right and asks __concat where they are
// neither strings nor numbers.
func (s *state) concatMeta(l *glua.LState, n int) int {
	plain := func(v glua.LValue) bool { return v.Type() == glua.LTString || v.Type() == glua.LTNumber }
	acc := l.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := l.Get(i)
		if plain(left) && plain(acc) {
			a, b := textOf(left), textOf(acc)
			s.charge(l, len(a)+len(b))
			acc = glua.LString(a + b)
			continue
		}
		fn := l.GetMetaField(left, "__concat")
		if fn == glua.LNil {
			fn = l.GetMetaField(acc, "__concat")
		}
		if fn == glua.LNil {
			bad := left
			if plain(left) {
				bad = acc
			}
			l.RaiseError("attempt to concatenate a %s value", bad.Type().String())
		}
		l.Push(fn)
		l.Push(left)
		l.Push(acc)
		l.Call(2, 1)
		acc = l.Get(-1)
		l.Pop(1)
	}
	l.Push(acc)
	return 1
}

// before lets check see the arguments of a function of a library.
func (s *state) before(lib *glua.LTable, name string, check func(l *glua.LState)) {
	inner, ok := lib.RawGetString(name).(*glua.LFunction)
	if !ok || !inner.IsG {
		return
	}
	fn := inner.GFunction
	lib.RawSetString(name, s.l.NewFunction(func(l *glua.LState) int {
		check(l)
		return fn(l)
	}))
}

// stringLib bounds the functions whose result may be longer than their
// arguments, or that work longer than these suggest.
func (s *state) stringLib(lib *glua.LTable) {
	lib.RawSetString("dump", glua.LNil)
	s.before(lib, "rep", func(l *glua.LState) {
		text, n := l.CheckString(1), max(l.CheckInt64(2), 0)
		if len(text) > 0 && n > MaxString/int64(len(text)) {
			l.RaiseError("string.rep gives more than %d bytes", MaxString)
		}
		s.charge(l, len(text)*int(n))
	})
	s.before(lib, "format", func(l *glua.LState) {
		size := checkFormat(l, l.CheckString(1))
		for i := 2; i <= l.GetTop(); i++ {
			if v, ok := l.Get(i).(glua.LString); ok {
				size += 4 * len(v) // %q
			}
		}
		s.charge(l, size)
	})
	for _, name := range []string{"lower", "upper", "reverse"} {
		s.before(lib, name, func(l *glua.LState) { s.charge(l, len(l.CheckString(1))) })
	}
	// Views share memory, but strings of many bytes from string.byte do not.
	s.before(lib, "char", func(l *glua.LState) { s.charge(l, l.GetTop()) })
	for _, name := range []string{"find", "match", "gmatch", "gfind"} {
		s.before(lib, name, func(l *glua.LState) {
			if name == "find" && glua.LVAsBool(l.Get(4)) {
				return // a plain search
			}
			checkPattern(l, l.CheckString(1), l.CheckString(2))
		})
	}
	s.gsub(lib)
}

// checkFormat refuses what C's Lua refuses: widths and precisions of more than
// two digits. It returns an upper bound of what the directives add.
func checkFormat(l *glua.LState, format string) int {
	size, digits := len(format), 0
	directive := false
	for i := range len(format) {
		c := format[i]
		switch {
		case c == '%':
			directive, digits = !directive, 0
		case directive && '0' <= c && c <= '9':
			if digits++; digits > 2 {
				l.RaiseError("invalid format (width or precision too long)")
			}
		case directive && (c == '.' || strings.IndexByte("-+ #", c) >= 0):
			digits = 0
		case directive:
			directive = false
			size += 512 // the longest number
		}
	}
	return size
}

// maxPatternSteps bounds the estimate of the steps of one match.
const maxPatternSteps = 1e8

// checkPattern refuses a pattern that may go back over the subject too often:
// each repetition that is followed by another may try every length.
func checkPattern(l *glua.LState, subject, pattern string) {
	repeats := 0
	for i := range len(pattern) {
		if strings.IndexByte("*+-?", pattern[i]) >= 0 {
			repeats++
		}
	}
	steps := math.Pow(float64(len(subject)+1), float64(max(repeats, 1))) * float64(len(pattern)+1)
	if pattern != "" && pattern[0] != '^' {
		steps *= float64(len(subject) + 1)
	}
	if steps > maxPatternSteps && repeats > 0 {
		l.RaiseError("pattern is too complex for a subject of %d bytes", len(subject))
	}
}

// gsub bounds the result before or while it grows.
func (s *state) gsub(lib *glua.LTable) {
	inner := lib.RawGetString("gsub").(*glua.LFunction).GFunction
	lib.RawSetString("gsub", s.l.NewFunction(func(l *glua.LState) int {
		subject := l.CheckString(1)
		checkPattern(l, subject, l.CheckString(2))
		s.charge(l, len(subject))
		switch by := l.Get(3).(type) {
		case glua.LString:
			if size := (len(subject) + 1) * (len(by) + 1); size > MaxString {
				// The estimate takes every byte for a match.
				l.RaiseError("string.gsub may give %d bytes, limit %d", size, MaxString)
			}
			s.charge(l, (len(subject)+1)*(len(by)+1))
		case *glua.LTable, *glua.LFunction:
			l.Replace(3, l.NewFunction(func(l *glua.LState) int {
				var v glua.LValue
				if t, ok := by.(*glua.LTable); ok {
					v = l.GetTable(t, l.Get(1))
				} else {
					n := l.GetTop()
					l.Insert(by, 1)
					l.Call(n, 1)
					v = l.Get(-1)
				}
				s.charge(l, len(v.String()))
				l.Push(v)
				return 1
			}))
		}
		return inner(l)
	}))
}

// maxUnpacked bounds the results of unpack, as C's Lua bounds its stack.
const maxUnpacked = 7999

// unpack refuses ranges that the stack could not hold before it fills it.
func (s *state) unpack(all *glua.LTable) *glua.LFunction {
	inner := all.RawGetString("unpack").(*glua.LFunction).GFunction
	return s.l.NewFunction(func(l *glua.LState) int {
		t := l.CheckTable(1)
		if from, to := l.OptInt(2, 1), l.OptInt(3, t.Len()); from <= to && uint64(to)-uint64(from) >= maxUnpacked {
			l.RaiseError("too many results to unpack")
		}
		return inner(l)
	})
}

func (s *state) tableLib(lib *glua.LTable) {
	s.before(lib, "concat", func(l *glua.LState) {
		t, sep := l.CheckTable(1), l.OptString(2, "")
		from, to := l.OptInt(3, 1), l.OptInt(4, t.Len())
		size := 0
		for i := from; i <= to && i-from < MaxInstructions; i++ {
			size += len(sep)
			switch v := t.RawGetInt(i).(type) {
			case glua.LString:
				size += len(v)
			case glua.LNumber:
				size += 24
			default:
				return // the function itself says what is wrong
			}
			if size > MaxString {
				break
			}
		}
		s.charge(l, size)
	})
}
