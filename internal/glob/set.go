package glob

// longPattern is the length from which a pattern is compiled. A shorter one
// costs match at most that many steps for each byte of a key.
const longPattern = 32

// Pattern is a glob pattern that is matched against many keys.
type Pattern struct {
	text []byte
	auto *automaton // nil for a short pattern
}

// New compiles a pattern of at most MaxPattern bytes, which it keeps.
func New(text []byte) Pattern {
	p := Pattern{text: text}
	if len(text) > longPattern && len(text) <= MaxPattern {
		p.auto = compile(text)
	}
	return p
}

// Match gives what the function Match gives for the text of the pattern. A long pattern goes over s once, so
// that no pattern makes one key cost more than a few steps for each byte: going
// back to the last star, 1,000 bytes of pattern take 65 million steps for a key
// of 64 KiB.
func (p *Pattern) Match(s []byte) bool {
	if p.auto == nil || len(s) == 0 {
		return Match(p.text, s)
	}
	return p.auto.match(s)
}

// automaton follows all ways through a pattern at once. State i says that i
// elements (all but stars) have matched; one bit holds each.
type automaton struct {
	words   int
	accepts []uint64 // 256 rows of words: the states that byte c leads on
	stays   []uint64 // the states before a star
	last    int      // the state in which the pattern has matched
}

func compile(text []byte) *automaton {
	a := &automaton{words: len(text)/64 + 1}
	a.accepts = make([]uint64, 256*a.words)
	a.stays = make([]uint64, a.words)
	for i := 0; i < len(text); {
		word, bit := a.last/64, uint64(1)<<(a.last%64)
		if text[i] == '*' {
			a.stays[word] |= bit
			i++
			continue
		}
		next := i
		for c := range 256 {
			var ok bool
			if next, ok = matchOne(text, i, byte(c)); ok {
				a.accepts[c*a.words+word] |= bit
			}
		}
		i = next
		a.last++
	}
	return a
}

func (a *automaton) match(s []byte) bool {
	var room [MaxPattern/64 + 1]uint64 // the states reached
	now := room[:a.words]
	now[0] = 1
	for _, c := range s {
		row := a.accepts[int(c)*a.words:][:a.words]
		var carry, any uint64
		for w, states := range now {
			led := states & row[w]
			states = states&a.stays[w] | led<<1 | carry
			carry = led >> 63
			now[w] = states
			any |= states
		}
		if any == 0 {
			return false
		}
	}
	return now[a.last/64]>>(a.last%64)&1 == 1
}

// Text returns the pattern as it was given.
func (p *Pattern) Text() []byte { return p.text }
