// Package glob owns the glob patterns of Redis: *, ?, [a-z], [^a] and \\x, in a
// time that patterns cannot blow up. It never recurses. Everything may be called
// from any goroutine.
package glob

// MaxPattern is the longest pattern in bytes that users of this package accept.
// It bounds, with the longest key, what one comparison costs.
const MaxPattern = 1024

// Match compares s with a glob pattern as Redis's stringmatchlen does,
// including its reading of classes without an end. It does not recurse: a
// mismatch goes back to the last star only, which is enough because everything
// but a star takes exactly one byte.
func Match[P, S []byte | string](p P, s S) bool {
	if len(p) == 1 && p[0] == '*' {
		return true
	}
	if len(s) == 0 {
		return len(p) == 0 // in Redis even two stars do not match nothing
	}
	pi, si := 0, 0
	star, from := -1, 0 // pattern after the last star, and where its run began
	for si < len(s) {
		if pi < len(p) && p[pi] == '*' {
			pi++
			star, from = pi, si
			continue
		}
		if pi < len(p) {
			if next, ok := matchOne(p, pi, s[si]); ok {
				pi, si = next, si+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		pi, si = star, from
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}

// matchOne compares one byte with the element at p[i], which is no star, and
// gives the position after it.
func matchOne[P []byte | string](p P, i int, c byte) (next int, ok bool) {
	switch p[i] {
	case '?':
		return i + 1, true
	case '[':
		return matchClass(p, i+1, c)
	case '\\':
		if i+1 < len(p) {
			i++
		}
	}
	return i + 1, p[i] == c
}

// matchClass compares one byte with the class whose content begins at p[i]. A
// class without "]" ends with the pattern. Bytes in ranges compare as signed
// characters, as they do in Redis.
func matchClass[P []byte | string](p P, i int, c byte) (next int, ok bool) {
	not := i < len(p) && p[i] == '^'
	if not {
		i++
	}
	found := false
	for i < len(p) && p[i] != ']' {
		switch {
		case p[i] == '\\' && i+1 < len(p):
			i++
			found = found || p[i] == c
		case i+2 < len(p) && p[i+1] == '-':
			lo, hi := int8(p[i]), int8(p[i+2])
			if lo > hi {
				lo, hi = hi, lo
			}
			found = found || lo <= int8(c) && int8(c) <= hi
			i += 2
		default:
			found = found || p[i] == c
		}
		i++
	}
	if i < len(p) {
		i++ // the bracket
	}
	return i, found != not
}
