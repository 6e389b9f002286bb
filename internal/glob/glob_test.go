package glob

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	cases := []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "anything", true},
		{"**", "", false}, // as in Redis,
		{"a*", "a", true},
		{"*a", "bba", true},
		{"*a", "ab", false},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXcYb", false},
		{"*ab*ab*", "aabab", true},
		{"?", "", false},
		{"?", "x", true},
		{"??", "x", false},
		{"h[ae]llo", "hallo", true},
		{"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hallo", true},
		{"h[^e]llo", "hello", false},
		{"h[a-c]llo", "hbllo", true},
		{"h[c-a]llo", "hbllo", true},
		{"h[a-c]llo", "hdllo", false},
		{"[]", "]", false},
		{"[^]", "x", true},
		{"[a", "a", true},
		{"[a", "b", false},
		{"[^a", "b", true},
		{"[", "a", false},
		{"[^", "a", true},
		{"[a-]", "-", false}, // the range a to ], without an end
		{"[a-]", "_", true},
		{`[\]]`, "]", true},
		{`[\`, `\`, true},
		{`\*`, "*", true},
		{`\*`, "x", false},
		{`\`, `\`, true},
		{`a\`, `a\`, true},
		{`\\`, `\`, true},
		{"[\x80-\xff]", "\x90", true},
		{"[a-\xff]", "z", false}, // signed: from -1 to 'a'
		{"[a-\xff]", "A", true},
		{"a*", "b", false},
		{"*?", "", false},
		{"*?", "x", true},
		{"abc", "ab", false},
		{"*a*b*c*", "xxaxxbxxc", true},
		{"*a*b*c*", "xxaxxcxxb", false},
		{"a*c", "abcbc", true},
		{"client|*", "client|list", true},
	}
	for _, c := range cases {
		if got := Match([]byte(c.pattern), []byte(c.s)); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.s, got)
		}
		if got := Match(c.pattern, c.s); got != c.want {
			t.Errorf("Match(%q, %q) of strings = %v", c.pattern, c.s, got)
		}
		p := Pattern{text: []byte(c.pattern), auto: compile([]byte(c.pattern))}
		if got := p.Match([]byte(c.s)); got != c.want {
			t.Errorf("compile(%q).match(%q) = %v", c.pattern, c.s, got)
		}
	}
}

// matchReference is the definition, by recursion, with the same elements.
func matchReference(p, s []byte) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	if p[0] == '*' {
		return matchReference(p[1:], s) || len(s) > 0 && matchReference(p, s[1:])
	}
	if len(s) == 0 {
		return false
	}
	next, ok := matchOne(p, 0, s[0])
	return ok && matchReference(p[next:], s[1:])
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b*c", "aXbYc")
	f.Add("*[^a-c]?\\*", "zzb*")
	f.Add("[a", "a")
	f.Add("**a", "aaa")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if strings.Count(pattern, "*") > 4 || len(pattern) > 40 || len(s) > 40 {
			return // the reference is exponential
		}
		p, b := []byte(pattern), []byte(s)
		want := matchReference(p, b)
		if len(b) == 0 && pattern != "*" {
			want = pattern == "" // what Redis does
		}
		if got := Match(p, b); got != want {
			t.Errorf("Match(%q, %q) = %v", pattern, s, got)
		}
		if got := len(b) > 0 && compile(p).match(b); len(b) > 0 && got != want {
			t.Errorf("compile(%q).match(%q) = %v", pattern, s, got)
		}
	})
}

// CVE-2022-36021 and CVE-2024-31228: patterns that made Redis run for ever or
// exhaust its stack. With recursion this test would not end.
func TestCVE202236021AndCVE202431228MatchIsBounded(t *testing.T) {
	key := bytes.Repeat([]byte("a"), 64<<10)
	for _, pattern := range []string{
		strings.Repeat("*a", MaxPattern/2-1) + "*b",
		strings.Repeat("*", MaxPattern-1) + "b",
		strings.Repeat("a*", MaxPattern/2-1) + "[b]",
		"*" + strings.Repeat("?", MaxPattern-2) + "b",
	} {
		if newPatternOf(pattern).Match(key) {
			t.Errorf("%.20s... matches", pattern)
		}
	}
}

// KEYS with a pattern of 1,000 bytes took 0.2 s for each key of 64 KiB and kept
// a core busy for minutes, even after its client had left.
func TestKeysWithALongPatternTakesMinutes(t *testing.T) {
	key := bytes.Repeat([]byte("a"), 64<<10)
	for _, text := range []string{
		"*" + strings.Repeat("a", MaxPattern-2) + "b",
		"*" + strings.Repeat("?a", MaxPattern/2-2) + "b*",
		"*" + strings.Repeat("[a]", MaxPattern/3-2) + "b*",
	} {
		p := New([]byte(text))
		if p.auto == nil {
			t.Fatalf("%.20s... is matched by going back", text)
		}
		if p.Match(key) {
			t.Errorf("%.20s... matches", text)
		}
		if key[0] = 'b'; !newPatternOf("b*" + strings.Repeat("a", MaxPattern-2)).Match(key) {
			t.Error("the right key does not match")
		}
		key[0] = 'a'
	}
}

func newPatternOf(text string) *Pattern {
	p := New([]byte(text))
	return &p
}

// Short and long patterns must mean the same.
func TestCompiledPatternsMeanTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 27))
	random := func(alphabet string, n int) []byte {
		b := make([]byte, 1+rng.IntN(n))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return b
	}
	hits := 0
	for range 3000 {
		text, s := random("aabbc**??[]^-\\\xff", 1+rng.IntN(150)), random("aabbc]", 150)
		want := Match(text, s)
		if want {
			hits++
		}
		if compile(text).match(s) != want {
			t.Fatalf("compile(%q).match(%q) = %v", text, s, !want)
		}
	}
	if hits < 20 {
		t.Errorf("only %d of the patterns matched", hits)
	}
}

func TestMatchAllocates(t *testing.T) {
	p, s := []byte("user:*:[a-f0-9]*"), []byte("user:12345:abcdef")
	if n := testing.AllocsPerRun(100, func() { Match(p, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	p, s := []byte("user:*:[a-f0-9]*"), []byte("user:12345:abcdef")
	for b.Loop() {
		if !Match(p, s) {
			b.Fatal("no match")
		}
	}
}
