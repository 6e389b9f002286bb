package command

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// reference is the lookup that needs no proof: a map of lower-cased names.
func reference() map[string]*Command {
	m := make(map[string]*Command)
	for _, c := range All() {
		m[c.Name] = c
	}
	return m
}

func TestLookupFindsEveryNameInAnyCase(t *testing.T) {
	for _, c := range All() {
		if c.Name != strings.ToLower(c.Name) {
			t.Errorf("%s: name is not lower-case", c.Name)
		}
		mixed := []byte(c.Name)
		for i := 0; i < len(mixed); i += 2 {
			mixed[i] = bytes.ToUpper(mixed[i : i+1])[0]
		}
		for _, name := range []string{c.Name, strings.ToUpper(c.Name), string(mixed)} {
			if got := Lookup([]byte(name)); got != c {
				t.Errorf("Lookup(%q) = %v", name, got)
			}
		}
	}
}

// Every name with one byte replaced by every other byte must be unknown,
// unless the map knows it. This covers bytes that differ by the case bit only.
func TestLookupRefusesNeighbours(t *testing.T) {
	ref := reference()
	for _, c := range All() {
		for i := range c.Name {
			for v := range 256 {
				name := []byte(c.Name)
				name[i] = byte(v)
				if got, want := Lookup(name), ref[asciiLower(name)]; got != want {
					t.Fatalf("Lookup(%q) = %v, want %v", name, got, want)
				}
			}
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	for _, name := range []string{"", "g", "ge", "gett", "hgetall", "geu", strings.Repeat("x", 16), strings.Repeat("x", 17), "incrbyfloat\x00", "command|docs"} {
		if got := Lookup([]byte(name)); got != nil {
			t.Errorf("Lookup(%q) = %s", name, got.Name)
		}
	}
}

func asciiLower(b []byte) string {
	out := bytes.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return string(out)
}

func FuzzLookup(f *testing.F) {
	for _, s := range []string{"GET", "pexpiretime", "rc.hello", "\x07et", "IncrByFloat", ""} {
		f.Add([]byte(s))
	}
	ref := reference()
	f.Fuzz(func(t *testing.T, name []byte) {
		if got, want := Lookup(name), ref[asciiLower(name)]; got != want {
			t.Fatalf("Lookup(%q) = %v, want %v", name, got, want)
		}
	})
}

func TestSub(t *testing.T) {
	object := Lookup([]byte("OBJECT"))
	cases := []struct {
		name string
		sub  string
		want ID
	}{
		{"lower", "encoding", ObjectEncoding},
		{"upper", "ENCODING", ObjectEncoding},
		{"mixed", "fReQ", ObjectFreq},
		{"unknown", "nope", None},
		{"prefix", "encodin", None},
		{"case bit on a digit", "enc\x0fding", None},
		{"empty", "", None},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := None
			if s := object.Sub([]byte(c.sub)); s != nil {
				got = s.ID
			}
			if got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
	if s := Lookup([]byte("get")).Sub([]byte("x")); s != nil {
		t.Errorf("GET has a subcommand %s", s.Name)
	}
}

func TestLookupAllocates(t *testing.T) {
	name, sub := []byte("CLUSTER"), []byte("count-FAILURE-reports")
	got := testing.AllocsPerRun(100, func() {
		if Lookup(name).Sub(sub) == nil {
			t.Fatal("not found")
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkLookup(b *testing.B) {
	names := make([][]byte, 256)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range names {
		names[i] = []byte(strings.ToUpper(All()[rng.IntN(len(All()))].Name))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if Lookup(names[i&255]) == nil {
			b.Fatal("not found")
		}
		i++
	}
}

// BenchmarkLookupMap is what BenchmarkLookup has to beat.
func BenchmarkLookupMap(b *testing.B) {
	ref := reference()
	names := make([][]byte, 256)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range names {
		names[i] = []byte(strings.ToUpper(All()[rng.IntN(len(All()))].Name))
	}
	i := 0
	for b.Loop() {
		var buf [maxName]byte
		n := copy(buf[:], names[i&255])
		for j := range n {
			if 'A' <= buf[j] && buf[j] <= 'Z' {
				buf[j] += 'a' - 'A'
			}
		}
		if ref[string(buf[:n])] == nil {
			b.Fatal("not found")
		}
		i++
	}
}
