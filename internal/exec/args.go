package exec

import "github.com/ringcache/ringcache/internal/resp"

// is compares an argument with a word in capitals, ignoring case.
func is(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i := range arg {
		c := arg[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// integer parses an argument by Redis's strict rule and answers if it is none.
func (c *Call) integer(arg []byte) (int64, bool) {
	n, ok := resp.ParseInt(arg)
	if !ok {
		c.W.Error(errNotInteger)
	}
	return n, ok
}
