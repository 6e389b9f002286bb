package lua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/resp"
)

// run executes a script whose calls all answer OK.
func run(t testing.TB, e *Engine, source string, args ...string) string {
	t.Helper()
	var w resp.Writer
	r := exec.Script{Source: []byte(source), W: &w, Call: func(_ [][]byte, w *resp.Writer) { w.Simple("OK") }}
	for _, a := range args {
		r.Args = append(r.Args, []byte(a))
	}
	e.Run(&r)
	var p resp.ReplyParser
	if _, n, err := p.Next(w.Buf, nil); err != nil || n != len(w.Buf) {
		t.Fatalf("%.80q gives no single reply: %.200q (%v)", source, w.Buf, err)
	}
	return string(w.Buf)
}

// Every script here would take all memory or time; it must end with an error
// within the bound, and the next script must not notice.
func TestBounds(t *testing.T) {
	e := New(nil)
	cases := map[string]string{
		"endless loop":       "while true do end",
		"endless in pcall":   "while true do pcall(function() while true do end end) end",
		"endless recursion":  "local function f() return 1 + f() end return f()",
		"tail calls":         "local function f() return f() end return f()",
		"doubling":           "local s = 'x' while true do s = s .. s end",
		"doubling chain":     "local s = 'x' while true do s = s..s..s..s end",
		"doubling in pcall":  "local s = 'xxxxxxxx' while true do pcall(function() s = s .. s end) end",
		"doubling nested":    "local f = function(s) return s .. (function() return s .. s end)() end local s = 'x' while true do s = f(s) end",
		"doubling in loaded": "local f = loadstring('local s = ... or \"x\" while true do s = s .. s end') f()",
		"rep":                "return ('x'):rep(1e9)",
		"rep of rep":         "return ('x'):rep(4e6):rep(4e6)",
		"many strings":       "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
		"table":              "local t = {} for i = 1, 1e9 do t[i] = {} end",
		"format":             "return string.format('%99999999d', 1)",
		"format precision":   "return string.format('%.99999999f', 1)",
		"concat":             "local t = {} for i = 1, 100 do t[i] = ('x'):rep(1e5) end return table.concat(t)",
		"gsub":               "return ('x'):rep(1e5):gsub('x', ('y'):rep(1e5))",
		"gsub function":      "local y = ('y'):rep(1e5) return ('x'):rep(1e4):gsub('x', function() return y end)",
		"gsub table":         "local y = {x = ('y'):rep(1e5)} return ('x'):rep(1e4):gsub('x', y)",
		"pattern":            "return ('a'):rep(1e5):find('.-.-.-.-.-b')",
		"pattern in match":   "return string.match(('a'):rep(1e4), '(.*)(.*)(.*)(.*)b')",
		"gmatch":             "for x in string.gmatch(('a'):rep(1e5), '.-.-.-b') do end",
		"unpack":             "return {unpack({}, 1, 1e8)}",
		"select":             "return select('#', unpack({}, 1, 1e7))",
		"insert in front":    "local t = {} while true do table.insert(t, 1, 1) end",
		"json":               "local t = {} t[1] = t return cjson.encode(t)",
		"json decode":        "return cjson.decode(('['):rep(1e5))",
		"deep reply":         "local t = {} for i = 1, 1e4 do t = {t} end return t",
		"sort":               "local t = {} for i = 1, 1e4 do t[i] = i end table.sort(t, function(a, b) while true do end end)",
		"metatable":          "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
	}
	for name, source := range cases {
		t.Run(name, func(t *testing.T) {
			if got := run(t, e, source); got[0] != '-' {
				t.Errorf("got %.100q", got)
			}
			if got := run(t, e, "return ('ab'):rep(2) .. #ARGV", "x"); got != "$5\r\nabab1\r\n" {
				t.Errorf("the next script gives %q", got)
			}
		})
	}
}

// What a script does to what it can reach must be gone for the next one.
func TestNothingStays(t *testing.T) {
	e := New(nil)
	for _, source := range []string{
		"string.rep = nil", "redis.call = nil", "_G.x = 1", "x = 1", "rawset(_G, 'x', 1)", "rawset(string, 'x', 1)",
		"setmetatable(_G, nil)", "setmetatable(string, {})", "getmetatable('').__index = {}", "getmetatable(_G).__index = {}",
		"string.x = 1", "table.insert(KEYS, 1); x = 1",
		"return os", "return io", "return require", "return dofile", "return load", "return setfenv", "return getfenv", "return debug",
		"return coroutine", "return print", "return package", "return collectgarbage", "return string.dump.x",
	} {
		if got := run(t, e, source); got[0] != '-' {
			t.Errorf("%s: %q", source, got)
		}
	}
	if got := run(t, e, "return ('ab'):rep(2) .. #KEYS .. tostring(redis.call('x').ok)"); got != "$7\r\nabab0OK\r\n" {
		t.Errorf("%q", got)
	}
	first := run(t, e, "return tostring(math.random())")
	if again := run(t, e, "return tostring(math.random())"); first != again {
		t.Errorf("math.random gives %q, then %q", first, again)
	}
}

func TestScriptsAreBounded(t *testing.T) {
	e := New(nil)
	first, err := e.Load([]byte("return 0"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range MaxScripts + 10 {
		if i%100 == 0 {
			run(t, e, "return 0") // stays in use
		}
		if _, err := e.Load(fmt.Appendf(nil, "return %d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if !e.Exists([]byte(first)) || !e.Exists([]byte(strings.ToUpper(first))) || len(e.scripts) != MaxScripts || e.recent.Len() != MaxScripts {
		t.Errorf("%d scripts are kept", len(e.scripts))
	}
	for i := range 100 {
		_, _ = e.Load([]byte("return '" + strings.Repeat("x", 200_000+i) + "'"))
	}
	if e.bytes > MaxKept {
		t.Errorf("%d bytes are kept", e.bytes)
	}
	if _, err := e.Load(make([]byte, MaxSource+1)); err == nil {
		t.Error("a script above the limit is taken")
	}
	e.Flush()
	if e.Exists([]byte(first)) || e.bytes != 0 {
		t.Error("something is left after a flush")
	}
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{"return 1", "return {KEYS, ARGV}", "local a = 'x' .. 1 return a:rep(3)", "return cjson.decode(ARGV[1])",
		"for i = 1, 10 do redis.call('x') end", "return ('a'):gsub('(.)', '%1%1')", "error({err = 'x'})", "return function() end .. 1"} {
		f.Add(s, "[1, {\"a\": null}]")
	}
	e := New(nil)
	f.Fuzz(func(t *testing.T, source, arg string) {
		run(t, e, source, arg)
	})
}
