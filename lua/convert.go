package lua

import (
	"math"

	glua "github.com/yuin/gopher-lua"

	"github.com/ringcache/ringcache/internal/resp"
)

// maxDepth bounds how deep replies may nest.
const maxDepth = 100

// reply appends the reply that a Lua value stands for. It reports false if the
// value nests too deep.
func (s *state) reply(w *resp.Writer, v glua.LValue, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch v := v.(type) {
	case glua.LString:
		w.BulkString(string(v))
	case glua.LNumber:
		w.Int(integerOf(float64(v)))
	case glua.LBool:
		switch {
		case s.proto == 3:
			w.Bool(bool(v))
		case bool(v):
			w.Int(1)
		default:
			w.Null()
		}
	case *glua.LTable:
		return s.replyTable(w, v, depth)
	default:
		w.Null()
	}
	return true
}

// integerOf converts as C does on x86-64: towards zero, and what does not fit
// becomes the least integer.
func integerOf(f float64) int64 {
	if f >= -math.MaxInt64-1 && f < math.MaxInt64 {
		return int64(f)
	}
	return math.MinInt64
}

func (s *state) replyTable(w *resp.Writer, t *glua.LTable, depth int) bool {
	if e, ok := t.RawGetString("err").(glua.LString); ok {
		w.Error(string(e))
		return true
	}
	if e, ok := t.RawGetString("ok").(glua.LString); ok {
		w.Simple(string(e))
		return true
	}
	if d, ok := t.RawGetString("double").(glua.LNumber); ok {
		w.Double(float64(d))
		return true
	}
	if n, ok := t.RawGetString("big_number").(glua.LString); ok {
		w.BigNumber(string(n))
		return true
	}
	if m, ok := t.RawGetString("map").(*glua.LTable); ok {
		return s.replyPairs(w, m, depth, true)
	}
	if m, ok := t.RawGetString("set").(*glua.LTable); ok {
		return s.replyPairs(w, m, depth, false)
	}
	n := 0
	for t.RawGetInt(n+1) != glua.LNil {
		n++
	}
	w.Array(n)
	for i := range n {
		if !s.reply(w, t.RawGetInt(i+1), depth+1) {
			return false
		}
	}
	return true
}

// replyPairs appends the table as a map, or its keys as a set.
func (s *state) replyPairs(w *resp.Writer, t *glua.LTable, depth int, values bool) bool {
	n, ok := 0, true
	t.ForEach(func(_, _ glua.LValue) { n++ })
	if values {
		w.Map(n)
	} else {
		w.Set(n)
	}
	t.ForEach(func(k, v glua.LValue) {
		ok = ok && s.reply(w, k, depth+1) && (!values || s.reply(w, v, depth+1))
	})
	return ok
}

// value converts the reply of a command. Strings count against the budget.
func (s *state) value(l *glua.LState, v resp.Value) glua.LValue {
	field := func(name string, x glua.LValue) glua.LValue {
		t := l.CreateTable(0, 1)
		t.RawSetString(name, x)
		return t
	}
	text := func() glua.LValue {
		s.charge(l, len(v.Str))
		return glua.LString(v.Str)
	}
	switch v.Kind {
	case resp.SimpleString:
		return field("ok", text())
	case resp.Error:
		return field("err", text())
	case resp.Integer:
		return glua.LNumber(v.Int)
	case resp.Bulk:
		return text()
	case resp.Double:
		return field("double", glua.LNumber(v.Float))
	case resp.Boolean:
		return glua.LBool(v.Int != 0)
	case resp.BigNumber:
		return field("big_number", text())
	case resp.Map:
		t := l.CreateTable(0, len(v.Elems)/2)
		for i := 0; i+1 < len(v.Elems); i += 2 {
			t.RawSet(s.value(l, v.Elems[i]), s.value(l, v.Elems[i+1]))
		}
		return field("map", t)
	case resp.Set:
		t := l.CreateTable(0, len(v.Elems))
		for i := range v.Elems {
			t.RawSet(s.value(l, v.Elems[i]), glua.LTrue)
		}
		return field("set", t)
	case resp.Array, resp.Push:
		t := l.CreateTable(len(v.Elems), 0)
		for i := range v.Elems {
			t.RawSetInt(i+1, s.value(l, v.Elems[i]))
		}
		return t
	}
	if s.proto == 3 {
		return glua.LNil
	}
	return glua.LFalse
}
