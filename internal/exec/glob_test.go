package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/ringcache/ringcache/internal/glob"
)

// TestMatchAgainstRedis compares random patterns over a small alphabet by KEYS.
func TestMatchAgainstRedis(t *testing.T) {
	r := startRedis(t, false)
	rng := rand.New(rand.NewPCG(20, 26))
	random := func(alphabet string, n int) []byte {
		b := make([]byte, rng.IntN(n+1))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return b
	}
	keys := make(map[string]bool)
	for range 400 {
		key := random("abc-]^\\\xff", 5)
		keys[string(key)] = true
		r.send(t, []byte("SET"), key, []byte("1"))
		r.reply(t)
	}
	for range 3000 {
		pattern := random("abc**??[[]]^--\\\xff", 7)
		r.send(t, []byte("KEYS"), pattern)
		got := make(map[string]bool)
		for _, e := range r.reply(t).Elems {
			got[string(e.Str)] = true
		}
		for key := range keys {
			if m := glob.Match(pattern, []byte(key)); m != got[key] {
				t.Fatalf("match(%q, %q) = %v, Redis says %v", pattern, key, m, got[key])
			}
		}
	}
}
