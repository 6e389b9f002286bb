package lua

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"

	glua "github.com/yuin/gopher-lua"
)

// maxJSONDepth bounds nesting in both directions, as Redis's cjson does.
const maxJSONDepth = 1000

// jsonLib is the library cjson: encode, decode and null.
func (s *state) jsonLib() *glua.LTable {
	l := s.l
	t := l.NewTable()
	s.null = l.NewUserData()
	t.RawSetString("null", s.null)
	t.RawSetString("encode", l.NewFunction(func(l *glua.LState) int {
		b := s.encode(l, nil, l.CheckAny(1), 0)
		s.charge(l, len(b))
		l.Push(glua.LString(b))
		return 1
	}))
	t.RawSetString("decode", l.NewFunction(func(l *glua.LState) int {
		text := l.CheckString(1)
		s.charge(l, len(text))
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.UseNumber()
		v := s.decode(l, d, 0)
		if _, err := d.Token(); err != io.EOF {
			l.RaiseError("Expected the end but found invalid token at character %d", d.InputOffset()+1)
		}
		l.Push(v)
		return 1
	}))
	return t
}

func (s *state) encode(l *glua.LState, b []byte, v glua.LValue, depth int) []byte {
	if depth > maxJSONDepth {
		l.RaiseError("Cannot serialise, excessive depth (%d)", depth)
	}
	if len(b) > MaxString {
		l.RaiseError("string is above %d bytes", MaxString)
	}
	switch v := v.(type) {
	case glua.LString:
		return appendJSONString(b, string(v))
	case glua.LNumber:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			l.RaiseError("Cannot serialise number: must not be NaN or Inf")
		}
		return strconv.AppendFloat(b, float64(v), 'g', 14, 64)
	case glua.LBool:
		return strconv.AppendBool(b, bool(v))
	case *glua.LTable:
		return s.encodeTable(l, b, v, depth)
	}
	if v == glua.LNil || v == s.null {
		return append(b, "null"...)
	}
	l.RaiseError("Cannot serialise %s: type not supported", v.Type().String())
	return b
}

func (s *state) encodeTable(l *glua.LState, b []byte, t *glua.LTable, depth int) []byte {
	top, n := 0, 0
	t.ForEach(func(k, _ glua.LValue) {
		n++
		if f, ok := k.(glua.LNumber); ok && f >= 1 && f == glua.LNumber(int(f)) && top >= 0 {
			top = max(top, int(f))
		} else {
			top = -1
		}
	})
	if top > 0 && (top <= 10 || top <= 2*n) {
		b = append(b, '[')
		for i := 1; i <= top; i++ {
			if i > 1 {
				b = append(b, ',')
			}
			b = s.encode(l, b, t.RawGetInt(i), depth+1)
		}
		return append(b, ']')
	}
	if top > 0 {
		l.RaiseError("Cannot serialise table: excessively sparse array")
	}
	b = append(b, '{')
	first := true
	t.ForEach(func(k, v glua.LValue) {
		if !first {
			b = append(b, ',')
		}
		first = false
		switch k.(type) {
		case glua.LString, glua.LNumber:
			b = appendJSONString(b, k.String())
		default:
			l.RaiseError("Cannot serialise table: table key must be a number or string")
		}
		b = append(b, ':')
		b = s.encode(l, b, v, depth+1)
	})
	return append(b, '}')
}

// appendJSONString quotes bytes; those above 127 stay as they are.
func appendJSONString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; c {
		case '"', '\\', '/':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			if c < ' ' || c == 127 {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}

func (s *state) decode(l *glua.LState, d *json.Decoder, depth int) glua.LValue {
	token, err := d.Token()
	if err != nil {
		l.RaiseError("Expected value but found invalid token at character %d", d.InputOffset()+1)
	}
	if depth > maxJSONDepth {
		l.RaiseError("Found too many nested data structures (%d)", depth)
	}
	switch v := token.(type) {
	case string:
		return glua.LString(v)
	case json.Number:
		f, err := v.Float64()
		if err != nil && !math.IsInf(f, 0) {
			l.RaiseError("Expected value but found invalid number")
		}
		return glua.LNumber(f)
	case bool:
		return glua.LBool(v)
	case json.Delim:
		t := l.NewTable()
		for i := 1; d.More(); i++ {
			if v == '[' {
				t.RawSetInt(i, s.decode(l, d, depth+1))
				continue
			}
			k := s.decode(l, d, depth+1)
			t.RawSetString(k.String(), s.decode(l, d, depth+1))
		}
		if _, err := d.Token(); err != nil {
			l.RaiseError("Expected object or array end but found invalid token at character %d", d.InputOffset()+1)
		}
		return t
	}
	return s.null
}
