package acl

import (
	"strings"

	"github.com/ringcache/ringcache/internal/command"
)

// Flags are the flags of a user as ACL GETUSER lists them.
func (r *Rules) Flags() []string {
	flags := []string{"off"}
	if r.on {
		flags[0] = "on"
	}
	if r.noPass {
		flags = append(flags, "nopass")
	}
	if r.sanitize != "" {
		flags = append(flags, r.sanitize)
	}
	return flags
}

// Passwords are the SHA-256 of the passwords in hexadecimal digits. The result is
// shared and must not be modified.
func (r *Rules) Passwords() []string { return r.passwords }

// Selector is what one selector allows, in words.
type Selector struct{ Commands, Keys, Channels string }

// Selectors describes the rules: those of the user itself, then those in
// parentheses.
func (r *Rules) Selectors() []Selector {
	out := []Selector{r.root.describe()}
	for i := range r.more {
		out = append(out, r.more[i].describe())
	}
	return out
}

func (s *selector) describe() Selector {
	return Selector{Commands: s.commandText(), Keys: s.keyText(), Channels: s.channelText()}
}

// commandText is the rules about commands; +@all needs no -@all in front.
func (s *selector) commandText() string { return strings.Join(s.words, " ") }

func (s *selector) keyText() string {
	if s.allKeys {
		return "~*"
	}
	var words []string
	for i := range s.keys {
		p := &s.keys[i]
		sign := map[access]string{reads: "%R~", writes: "%W~", reads | writes: "~"}[p.may]
		words = append(words, sign+string(p.Text()))
	}
	return strings.Join(words, " ")
}

func (s *selector) channelText() string {
	if s.allChannels {
		return "&*"
	}
	var words []string
	for i := range s.channels {
		words = append(words, "&"+string(s.channels[i].Text()))
	}
	return strings.Join(words, " ")
}

// line is the selector as a file has it.
func (s *selector) line() string {
	d := s.describe()
	if !s.allChannels {
		d.Channels = strings.TrimSuffix("resetchannels "+d.Channels, " ")
	}
	return strings.TrimPrefix(d.Keys+" ", " ") + d.Channels + " " + d.Commands
}

// Line is the user as ACL LIST and a file of users have it.
func (r *Rules) Line(name string) string {
	var b strings.Builder
	b.WriteString("user " + name)
	for _, f := range r.Flags() {
		b.WriteString(" " + f)
	}
	for _, p := range r.passwords {
		b.WriteString(" #" + p)
	}
	b.WriteString(" " + r.root.line())
	for i := range r.more {
		b.WriteString(" (" + r.more[i].line() + ")")
	}
	return b.String()
}

func commandNames(category string) []string {
	var names []string
	eachIn(category, func(c *command.Command) { names = append(names, c.FullName()) })
	return names
}
