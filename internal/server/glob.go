package server

// matchGlob matches a name against a pattern with *, ?, [a-z], [^a] and \x, both
// in lower case. It looks back to the last * only, so its time is bounded by the
// product of both lengths.
func matchGlob(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, n
			p++
			continue
		}
		if next, ok := matchOne(pattern, p, name[n]); ok {
			p = next
			n++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, n = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte at pattern[p:] and returns where the pattern goes on.
func matchOne(pattern string, p int, c byte) (next int, ok bool) {
	if p >= len(pattern) {
		return p, false
	}
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchClass(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// matchClass matches c against the class that begins behind its bracket. As in
// Redis, a class that is never closed ends with the pattern.
func matchClass(pattern string, p int, c byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	hit := false
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			hit = hit || pattern[p] == c
		case p+2 < len(pattern) && pattern[p+1] == '-':
			lo, hi := min(pattern[p], pattern[p+2]), max(pattern[p], pattern[p+2])
			hit = hit || lo <= c && c <= hi
			p += 2
		default:
			hit = hit || pattern[p] == c
		}
	}
	return min(p+1, len(pattern)), hit != not
}
