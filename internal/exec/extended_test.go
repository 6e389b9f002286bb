package exec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestExtended(t *testing.T) {
	cases := []struct{ a, b, want string }{
		{"0.1", "0.2", "0.3"},
		{"3.0e3", "200", "3200"},
		{"1e18", "0.5", "1000000000000000000.5"},
		{"1e19", "0.5", "10000000000000000000"},
		{"-0", "0", "0"},
		{"-1e-30", "0", "0"},
		{"0x.8p1", "1", "2"},
		{"inf", "1", "no number"},
		{"1e4932", "1e4932", "no number"},
		{"1e4932", "-1e4932", "0"},
		{"1e4933", "0", "no float"},
		{"1e-4950", "0", "0"},
		{"1e-4960", "0", "no float"},
		{strings.Repeat("1", maxFloatText), "0", "no float"},
		{"0." + strings.Repeat("0", 5000) + "1", "0", "no float"},
		{"1" + strings.Repeat("0", 4000) + "e-4000", "1", "2"},
	}
	for _, c := range cases {
		if got := addText(c.a, c.b); got != c.want {
			t.Errorf("%.30s + %.30s = %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

func addText(a, b string) string {
	x, ok := parseExtended([]byte(a))
	y, ok2 := parseExtended([]byte(b))
	if !ok || !ok2 {
		return "no float"
	}
	z, ok := x.add(y)
	if !ok {
		return "no number"
	}
	return string(z.append(nil))
}

func FuzzParseExtended(f *testing.F) {
	for _, s := range []string{"1", "-0x1.8p-3", "1e5000", ".", "inf", "0e99999999999", "1_0", "0x1e+3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, ok := parseExtended([]byte(s))
		if !ok || x.inf {
			return
		}
		text := x.append(nil)
		y, ok := parseExtended(text)
		if !ok {
			t.Fatalf("%q gives %q, which is no number", s, text)
		}
		// 17 fraction digits may lose bits once, but not again.
		if again := string(y.append(nil)); again != string(text) && x.f.MantExp(nil) > 64 {
			t.Fatalf("%q gives %q, then %q", s, text, again)
		}
	})
}

// TestIncrByFloatAgainstRedis compares random sums with the x87 results of a
// real server.
func TestIncrByFloatAgainstRedis(t *testing.T) {
	r := startRedis(t, false)
	rng := rand.New(rand.NewPCG(20, 26))
	for range 4000 {
		a, b := randomNumber(rng), randomNumber(rng)
		r.send(t, []byte("SET"), []byte("f"), []byte(a))
		r.reply(t)
		r.send(t, []byte("INCRBYFLOAT"), []byte("f"), []byte(b))
		want := string(r.reply(t).Str)
		switch want {
		case errNotFloat:
			want = "no float"
		case errNaN:
			want = "no number"
		}
		if got := addText(a, b); got != want {
			t.Fatalf("%s + %s = %s, Redis says %s", a, b, got, want)
		}
	}
}

func randomNumber(rng *rand.Rand) string {
	sign := []string{"", "-", "+"}[rng.IntN(3)]
	switch rng.IntN(7) {
	case 0:
		return fmt.Sprint(rng.Int64())
	case 1:
		return sign + fmt.Sprintf("%d.%d", rng.IntN(1000), rng.IntN(1000000))
	case 2:
		return sign + fmt.Sprintf("%d.%d%019d", rng.IntN(10), rng.Int64(), rng.Int64())
	case 3:
		return sign + fmt.Sprintf("%d.%de%d", rng.IntN(10), rng.Int64(), rng.IntN(10000)-5000)
	case 4:
		return sign + fmt.Sprintf("%d.%de%d", rng.IntN(10), rng.Int64(), rng.IntN(40)-20)
	case 5:
		return sign + fmt.Sprintf("0x%x.%xp%d", rng.Uint64(), rng.Uint64(), rng.IntN(33200)-16600)
	default:
		return fmt.Sprintf("%g", math.Float64frombits(rng.Uint64()))
	}
}

func BenchmarkIncrByFloat(b *testing.B) {
	for _, by := range []string{"0.1", "12345.6789", "1e-4000"} {
		b.Run(by, func(b *testing.B) {
			for b.Loop() {
				addText("10.5", by)
			}
		})
	}
}
