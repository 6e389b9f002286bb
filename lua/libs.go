package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"log/slog"
	"math"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/ringcache/ringcache/internal/resp"
)

// baseNames are the base functions that scripts get. What loads code, reaches
// environments or prints is left out.
var baseNames = []string{
	"assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "select",
	"setmetatable", "tonumber", "type", "xpcall", "_VERSION",
}

// openLibs builds the sandbox. Every table that scripts can reach without
// having made it is read-only, so that nothing stays for the next script.
func (s *state) openLibs() {
	l := s.l
	for _, open := range []struct {
		name string
		fn   glua.LGFunction
	}{{"", glua.OpenBase}, {glua.TabLibName, glua.OpenTable}, {glua.StringLibName, glua.OpenString}, {glua.MathLibName, glua.OpenMath}} {
		l.Push(l.NewFunction(open.fn))
		l.Push(glua.LString(open.name))
		l.Call(1, 0)
	}
	all := l.G.Global
	s.globals = l.CreateTable(0, 32)
	for _, name := range baseNames {
		s.globals.RawSetString(name, all.RawGetString(name))
	}
	s.concat = l.NewFunction(s.concatenate)
	s.globals.RawSetString("tostring", s.tostring(all))
	s.globals.RawSetString("unpack", s.unpack(all))
	s.globals.RawSetString("pcall", s.pcall(all))
	s.stringLib(all.RawGetString("string").(*glua.LTable))
	s.tableLib(all.RawGetString("table").(*glua.LTable))
	maths := all.RawGetString("math").(*glua.LTable)
	maths.RawSetString("randomseed", l.NewFunction(func(*glua.LState) int { return 0 }))
	s.seed(maths)
	for name, lib := range map[string]*glua.LTable{
		"string": all.RawGetString("string").(*glua.LTable), "table": all.RawGetString("table").(*glua.LTable), "math": maths,
		"redis": s.redisLib(), "bit": s.bitLib(), "cjson": s.jsonLib(),
	} {
		s.globals.RawSetString(name, s.readOnly(lib))
	}
	s.globals.RawSetString("rawset", l.NewFunction(s.rawset))
	s.globals.RawSetString("loadstring", l.NewFunction(s.loadstring))
	if meta, ok := l.GetMetatable(glua.LString("")).(*glua.LTable); ok {
		meta.RawSetString("__index", s.globals.RawGetString("string"))
		meta.RawSetString("__metatable", glua.LFalse)
	}
	s.env = s.readOnly(s.globals)
	meta := s.env.Metatable.(*glua.LTable)
	meta.RawSetString("__index", l.NewFunction(func(l *glua.LState) int {
		v := s.globals.RawGet(l.Get(2))
		if v == glua.LNil {
			l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.Get(2).String())
		}
		l.Push(v)
		return 1
	}))
	s.globals.RawSetString("_G", s.env)
	// Functions without an environment of their own must not see the rest.
	l.G.Global = s.env
	l.Env = s.env
}

// tostring prints numbers as C's Lua does.
func (s *state) tostring(all *glua.LTable) *glua.LFunction {
	inner := all.RawGetString("tostring").(*glua.LFunction).GFunction
	return s.l.NewFunction(func(l *glua.LState) int {
		if n, ok := l.Get(1).(glua.LNumber); ok {
			l.Push(glua.LString(textOf(n)))
			return 1
		}
		return inner(l)
	})
}

// pcall gives the text of an error that redis.call raised, as Redis does.
func (s *state) pcall(all *glua.LTable) *glua.LFunction {
	inner := all.RawGetString("pcall").(*glua.LFunction).GFunction
	return s.l.NewFunction(func(l *glua.LState) int {
		n := inner(l)
		if n != 2 || l.Get(-2) != glua.LFalse {
			return n
		}
		if t, ok := l.Get(-1).(*glua.LTable); ok {
			if text, ok := t.RawGetString("err").(glua.LString); ok {
				l.Pop(1)
				l.Push(text)
			}
		}
		return n
	})
}

// textOf prints a value as concatenation does: a number with 14 significant
// digits.
func textOf(v glua.LValue) string {
	n, ok := v.(glua.LNumber)
	if !ok {
		return v.String()
	}
	f := float64(n)
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'g', 14, 64)
}

// seed makes math.random deterministic in each script, as in Redis.
func (s *state) seed(lib *glua.LTable) {
	lib.RawSetString("random", s.l.NewFunction(func(l *glua.LState) int {
		s.random += 0x9e3779b97f4a7c15 // SplitMix64 (Steele et al. 2014)
		z := s.random
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		f := float64((z^z>>31)>>11) / (1 << 53)
		low, high := 1.0, 0.0
		switch l.GetTop() {
		case 0:
			l.Push(glua.LNumber(f))
			return 1
		case 1:
			high = float64(l.CheckInt64(1))
		default:
			low, high = float64(l.CheckInt64(1)), float64(l.CheckInt64(2))
		}
		if low > high {
			l.RaiseError("bad argument #%d to 'random' (interval is empty)", l.GetTop())
		}
		l.Push(glua.LNumber(low + float64(int64(f*(high-low+1)))))
		return 1
	}))
}

// readOnly returns an empty table that shows t and refuses writes.
func (s *state) readOnly(t *glua.LTable) *glua.LTable {
	front, meta := s.l.NewTable(), s.l.NewTable()
	meta.RawSetString("__index", t)
	meta.RawSetString("__newindex", s.l.NewFunction(func(l *glua.LState) int {
		l.RaiseError("Attempt to modify a readonly table")
		return 0
	}))
	meta.RawSetString("__metatable", glua.LFalse)
	front.Metatable = meta
	s.locked[front] = true
	return front
}

func (s *state) rawset(l *glua.LState) int {
	t := l.CheckTable(1)
	if s.locked[t] {
		s.raise(l, "ERR Attempt to modify a readonly table")
	}
	t.RawSet(l.CheckAny(2), l.CheckAny(3))
	l.SetTop(1)
	return 1
}

// loadstring compiles a text within the sandbox.
func (s *state) loadstring(l *glua.LState) int {
	source := l.CheckString(1)
	s.charge(l, len(source))
	proto, err := compile(source)
	if err != nil {
		l.Push(glua.LNil)
		l.Push(glua.LString(err.Error()))
		return 2
	}
	inner := l.NewFunctionFromProto(proto)
	inner.Env = s.env
	l.Push(l.NewFunction(func(l *glua.LState) int {
		l.SetTop(0)
		l.Push(inner)
		l.Push(s.concat)
		l.Call(1, glua.MultRet)
		return l.GetTop()
	}))
	return 1
}

func (s *state) redisLib() *glua.LTable {
	l := s.l
	t := l.NewTable()
	set := func(name string, fn glua.LGFunction) { t.RawSetString(name, l.NewFunction(fn)) }
	set("call", func(l *glua.LState) int { return s.call(l, true) })
	set("pcall", func(l *glua.LState) int { return s.call(l, false) })
	set("error_reply", func(l *glua.LState) int {
		text := s.oneText(l)
		if !strings.HasPrefix(text, "-") {
			text = "-ERR " + text
		}
		return s.field(l, "err", text[1:])
	})
	set("status_reply", func(l *glua.LState) int { return s.field(l, "ok", s.oneText(l)) })
	set("sha1hex", func(l *glua.LState) int {
		sum := sha1.Sum([]byte(s.oneText(l)))
		l.Push(glua.LString(hex.EncodeToString(sum[:])))
		return 1
	})
	set("setresp", func(l *glua.LState) int {
		if n, ok := l.Get(1).(glua.LNumber); l.GetTop() != 1 || !ok || n != 2 && n != 3 {
			s.raise(l, "ERR RESP version must be 2 or 3.")
		} else {
			s.proto = int(n)
		}
		return 0
	})
	levels := []slog.Level{slog.LevelDebug, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn}
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		t.RawSetString(name, glua.LNumber(i))
	}
	set("log", func(l *glua.LState) int {
		if l.GetTop() < 2 {
			s.raise(l, "ERR redis.log() requires two arguments or more.")
		}
		n, ok := l.Get(1).(glua.LNumber)
		if !ok || n < 0 || int(n) >= len(levels) {
			s.raise(l, "ERR Invalid log level.")
		}
		var parts []string
		for i := 2; i <= l.GetTop(); i++ {
			if v := l.Get(i); v.Type() == glua.LTString || v.Type() == glua.LTNumber {
				parts = append(parts, v.String())
			}
		}
		text := strings.Join(parts, " ")
		s.e.log.Log(&s.budget, levels[int(n)], "script", "text", text[:min(len(text), 1024)])
		return 0
	})
	// There is no replication of scripts; those that ask for that of their
	// effects get what they want.
	set("replicate_commands", func(l *glua.LState) int { l.Push(glua.LTrue); return 1 })
	t.RawSetString("REDIS_VERSION", glua.LString("7.0.0"))
	t.RawSetString("REDIS_VERSION_NUM", glua.LNumber(0x070000))
	return t
}

// oneText returns the only argument of a function.
func (s *state) oneText(l *glua.LState) string {
	v := l.Get(1)
	if l.GetTop() != 1 || v.Type() != glua.LTString && v.Type() != glua.LTNumber {
		s.raise(l, "ERR wrong number or type of arguments")
	}
	return v.String()
}

func (s *state) field(l *glua.LState, name, text string) int {
	t := l.CreateTable(0, 1)
	t.RawSetString(name, glua.LString(text))
	l.Push(t)
	return 1
}

// raise ends the running function with an error of Redis's form.
func (s *state) raise(l *glua.LState, text string) {
	t := l.CreateTable(0, 3)
	t.RawSetString("err", glua.LString(text))
	t.RawSetString("source", glua.LString(chunkName))
	t.RawSetString("line", glua.LString(line(l)))
	l.Error(t, 0)
}

// call executes a command: an error is raised, or for pcall returned.
func (s *state) call(l *glua.LState, raise bool) int {
	fail := func(text string) int {
		if raise {
			s.raise(l, text)
		}
		return s.field(l, "err", text)
	}
	n := l.GetTop()
	if n == 0 {
		return fail("ERR Please specify at least one argument for this redis lib call")
	}
	args := make([][]byte, n)
	size := 0
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case glua.LString:
			args[i] = []byte(v)
		case glua.LNumber:
			args[i] = []byte(numberText(float64(v)))
		default:
			return fail("ERR Lua redis lib command arguments must be strings or integers")
		}
		size += len(args[i])
	}
	s.charge(l, size)
	s.w.Buf, s.w.Proto, s.w.Limit = s.w.Buf[:0], s.proto, MaxString
	s.script.Call(args, &s.w)
	v, _, err := s.parser.Next(s.w.Buf, nil)
	if err != nil {
		return fail("ERR " + err.Error())
	}
	if v.Kind == resp.Error {
		return fail(string(v.Str))
	}
	l.Push(s.value(l, v))
	if cap(s.w.Buf) > 64<<10 {
		s.w.Buf = nil
	}
	return 1
}

// numberText prints a number as Redis passes it to commands: integers as such,
// others with 17 significant digits.
func numberText(f float64) string {
	if i := int64(f); float64(i) == f && i != -1<<63 {
		return strconv.FormatInt(i, 10)
	}
	return string(resp.AppendDouble(nil, f))
}
