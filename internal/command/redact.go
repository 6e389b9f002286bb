package command

// Secret tells whether argument i must not be shown by logs and monitors:
// passwords, and what else Redis hides.
func (c *Command) Secret(args [][]byte, i int) bool {
	switch {
	case c.ID == Auth:
		return i > 0
	case c.ID == Hello: // HELLO 3 AUTH user password
		return is(args, i-1, "auth") && i > 2 || is(args, i-2, "auth") && i > 3
	case c.ID == ConfigSet:
		return i >= 3 && i%2 == 1 && is(args, i-1, "requirepass")
	case c.Parent != nil && c.Parent.Name == "acl":
		return i >= 2 && c.Name == "setuser"
	}
	return false
}

// is compares an argument, which may lie outside, with a lower-case word.
func is(args [][]byte, i int, word string) bool {
	return i >= 0 && i < len(args) && len(args[i]) == len(word) && equalFold(args[i], word)
}
