package command

// AppendKeys appends the positions of the keys in args (args[0] is the command
// name) and returns dst. For a container the subcommand decides; an unknown
// subcommand or one without keys gives none. It allocates only when dst is too
// small. args should have passed ArityOK; positions beyond the end are never
// returned.
func (c *Command) AppendKeys(dst []int, args [][]byte) []int {
	c = c.resolve(args)
	if c.FirstKey == 0 {
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

// HasKeys reports whether the command, or the subcommand that args name, takes
// keys.
func (c *Command) HasKeys(args [][]byte) bool { return c.resolve(args).FirstKey != 0 }

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
)

// KeyFlags gives Redis's key flags for the key at position pos of args, as
// COMMAND GETKEYSANDFLAGS shows them; nil if no key stands there. The result is
// shared and must not be modified. SET reads its key only with GET or IFEQ.
func (c *Command) KeyFlags(args [][]byte, pos int) []string {
	c = c.resolve(args)
	if c.ID == Set && pos == 1 {
		return setKeyFlags(args)
	}
	for i := range c.KeySpecs {
		s := &c.KeySpecs[i]
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
		a := args[i]
		if len(a) == 3 && equalFold(a, "get") || len(a) == 4 && equalFold(a, "ifeq") {
			return setFlagsGet
		}
	}
	return setFlagsPlain
}
