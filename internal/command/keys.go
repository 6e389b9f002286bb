package command

import "strconv"

// AppendKeys appends the positions of the keys in args (args[0] is the command
// name) and returns dst. For a container the subcommand decides; an unknown
// subcommand or one without keys gives none, and so does a number of keys that
// is no number or promises more than there is. It allocates only when dst is
// too small. args should have passed ArityOK; positions beyond the end are
// never returned.
func (c *Command) AppendKeys(dst []int, args [][]byte) []int {
	c = c.resolve(args)
	if c.FirstKey == 0 {
		if len(c.KeySpecs) > 0 {
			return c.KeySpecs[0].appendCounted(dst, args)
		}
		return dst
	}
	last := c.LastKey
	if last < 0 {
		last += len(args)
	}
	if last >= len(args) {
		last = len(args) - 1
	}
	for i := c.FirstKey; i <= last; i += c.Step {
		dst = append(dst, i)
	}
	return dst
}

// appendCounted appends the keys that follow their number.
func (s *KeySpec) appendCounted(dst []int, args [][]byte) []int {
	n, ok := s.count(args)
	if !ok {
		return dst
	}
	for i := range n {
		dst = append(dst, s.Index+1+i*s.Step)
	}
	return dst
}

// count reads the number of keys; false if they are not all there.
func (s *KeySpec) count(args [][]byte) (int, bool) {
	if len(args) <= s.Index {
		return 0, false
	}
	n, err := strconv.Atoi(string(args[s.Index]))
	if err != nil || n < 0 || n > len(args) || n > 0 && s.Index+1+(n-1)*s.Step >= len(args) {
		return 0, false
	}
	return n, true
}

// TakesKeys reports whether the command has key arguments. Shard channels lie in
// slots and are none.
func (c *Command) TakesKeys() bool { return len(c.KeySpecs) > 0 && c.KeySpecs[0].Flags[0] != notKey }

// HasKeys reports whether the command, or the subcommand that args name, has
// keys among args.
func (c *Command) HasKeys(args [][]byte) bool {
	c = c.resolve(args)
	if c.FirstKey != 0 {
		return true
	}
	if !c.TakesKeys() {
		return false
	}
	n, ok := c.KeySpecs[0].count(args)
	return ok && n > 0
}

// resolve gives the subcommand that args name, or c itself.
func (c *Command) resolve(args [][]byte) *Command {
	if c.Subs != nil && len(args) > 1 {
		if s := c.Sub(args[1]); s != nil {
			return s
		}
	}
	return c
}

var (
	setFlagsPlain = []string{"OW", "update"}
	setFlagsGet   = []string{"RW", "access", "update"}
	readingWords  = []string{"get", "ifeq", "ifne", "ifdeq", "ifdne"}
)

// KeyFlags gives Redis's key flags for the key at position pos of args, as
// COMMAND GETKEYSANDFLAGS shows them; nil if no key stands there. The result is
// shared and must not be modified. SET reads its key only with GET or a
// comparison.
func (c *Command) KeyFlags(args [][]byte, pos int) []string {
	c = c.resolve(args)
	if c.ID == Set && pos == 1 {
		return setKeyFlags(args)
	}
	for i := range c.KeySpecs {
		s := &c.KeySpecs[i]
		if s.KeyNum {
			n, _ := s.count(args)
			if at := pos - s.Index - 1; at >= 0 && at%s.Step == 0 && at/s.Step < n {
				return s.Flags
			}
			continue
		}
		last := s.Index + s.LastKey
		if s.LastKey < 0 {
			last = len(args) + s.LastKey
		}
		if pos >= s.Index && pos <= last && (pos-s.Index)%s.Step == 0 {
			return s.Flags
		}
	}
	return nil
}

func setKeyFlags(args [][]byte) []string {
	for i := 3; i < len(args); i++ {
		for _, word := range readingWords {
			if len(args[i]) == len(word) && equalFold(args[i], word) {
				return setFlagsGet
			}
		}
	}
	return setFlagsPlain
}
