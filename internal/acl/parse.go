package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/glob"
)

// Limits of what rules may take.
const (
	MaxUsers     = 10_000
	MaxName      = 512      // bytes of a user's name
	MaxRules     = 64 << 10 // bytes of the patterns and rules of one user
	MaxPasswords = 64       // of one user
	MaxSelectors = 64       // of one user
	MaxFile      = 16 << 20 // bytes of a file of users
)

// refusal is an error with a text of Redis, which begins with a capital letter.
type refusal string

func (r refusal) Error() string { return string(r) }

// Errors with the texts of Redis.
const (
	errUnknownWord  = refusal("Unknown command or category name in ACL")
	errSyntax       = refusal("Syntax error")
	errKeysMoot     = refusal("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns")
	errChannelsMoot = refusal("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels")
	errNoPassword   = refusal("The password you are trying to remove from the user does not exist")
	errHash         = refusal("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errFirstOfSub   = refusal("Allowing first-arg of a subcommand is not supported")
)

// categories are the names that rules may use, in the order of ACL CAT. Some have
// no command here.
var categories = []string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream",
	"pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting"}

// apply changes the rules by one word of ACL SETUSER, a selector in parentheses
// being one. On an error they are undefined.
func (r *Rules) apply(word string) error {
	lower := strings.ToLower(word)
	switch lower {
	case "":
		return nil
	case "on", "off":
		r.on = lower == "on"
		return nil
	case "nopass":
		r.noPass, r.passwords = true, nil
		return nil
	case "resetpass":
		r.noPass, r.passwords = false, nil
		return nil
	case "sanitize-payload", "skip-sanitize-payload":
		r.sanitize = lower
		return nil
	case "clearselectors":
		r.more = nil
		return nil
	case "reset":
		*r = Rules{sanitize: "sanitize-payload", root: newSelector()}
		return nil
	}
	switch word[0] {
	case '>', '<', '#', '!':
		return r.password(word[0], word[1:])
	case '(':
		if word[len(word)-1] != ')' {
			return errSyntax
		}
		if len(r.more) == MaxSelectors {
			return fmt.Errorf("a user has at most %d selectors", MaxSelectors)
		}
		s := newSelector()
		for _, w := range words(word[1 : len(word)-1]) {
			if strings.HasSuffix(w, ")") { // a file could not tell it from the end
				return errSyntax
			}
			if err := s.apply(w); err != nil {
				return err
			}
		}
		r.more = append(r.more, s)
		return nil
	}
	return r.root.apply(word)
}

func (r *Rules) password(sign byte, text string) error {
	hash := text
	switch sign {
	case '>', '<':
		sum := sha256.Sum256([]byte(text))
		hash = hex.EncodeToString(sum[:])
	default:
		if len(hash) != 2*sha256.Size || strings.Trim(hash, "0123456789abcdef") != "" {
			return errHash
		}
	}
	at := slices.Index(r.passwords, hash)
	switch sign {
	case '>', '#':
		r.noPass = false
		if at < 0 {
			if len(r.passwords) == MaxPasswords {
				return fmt.Errorf("a user has at most %d passwords", MaxPasswords)
			}
			r.passwords = append(r.passwords, hash)
		}
	default:
		if at < 0 {
			return errNoPassword
		}
		r.passwords = slices.Delete(r.passwords, at, at+1)
	}
	return nil
}

func newSelector() selector { return selector{words: []string{"-@all"}} }

func (s *selector) apply(word string) error {
	switch strings.ToLower(word) {
	case "allkeys", "~*":
		s.allKeys, s.keys = true, nil
		return nil
	case "resetkeys":
		s.allKeys, s.keys = false, nil
		return nil
	case "allchannels", "&*":
		s.allChannels, s.channels = true, nil
		return nil
	case "resetchannels":
		s.allChannels, s.channels = false, nil
		return nil
	case "allcommands", "+@all":
		s.base(true)
		return nil
	case "nocommands", "-@all":
		s.base(false)
		return nil
	}
	switch word[0] {
	case '~':
		return s.addKey(reads|writes, word[1:])
	case '%':
		return s.addKeyWith(word[1:])
	case '&':
		if s.allChannels {
			return errChannelsMoot
		}
		return s.addChannel(word[1:])
	case '+', '-':
		if len(word) > 1 && word[1] == '@' {
			return s.category(word[0] == '+', strings.ToLower(word[2:]))
		}
		return s.command(word[0] == '+', word[1:])
	}
	return errSyntax
}

func (s *selector) addKeyWith(rest string) error {
	letters, pattern, ok := strings.Cut(rest, "~")
	var may access
	for _, c := range letters {
		switch c {
		case 'r', 'R':
			may |= reads
		case 'w', 'W':
			may |= writes
		default:
			return errSyntax
		}
	}
	if !ok || may == 0 {
		return errSyntax
	}
	return s.addKey(may, pattern)
}

func (s *selector) addKey(may access, pattern string) error {
	if s.allKeys {
		return errKeysMoot
	}
	if err := patternFault(pattern); err != nil {
		return err
	}
	for i := range s.keys {
		if string(s.keys[i].Text()) == pattern {
			keys := slices.Clone(s.keys) // other Rules may share them
			keys[i].may |= may
			s.keys = keys
			return nil
		}
	}
	s.keys = append(slices.Clip(s.keys), keyPattern{glob.New([]byte(pattern)), may})
	return nil
}

func (s *selector) addChannel(pattern string) error {
	if err := patternFault(pattern); err != nil {
		return err
	}
	if !slices.ContainsFunc(s.channels, func(p glob.Pattern) bool { return string(p.Text()) == pattern }) {
		s.channels = append(slices.Clip(s.channels), glob.New([]byte(pattern)))
	}
	return nil
}

// patternFault refuses what could not be written to a file again.
func patternFault(pattern string) error {
	if strings.ContainsAny(pattern, blanks+"\x00") {
		return errSyntax
	}
	if len(pattern) > glob.MaxPattern {
		return fmt.Errorf("the pattern is %d bytes, limit %d", len(pattern), glob.MaxPattern)
	}
	return nil
}

// base begins the rules about commands anew.
func (s *selector) base(all bool) {
	s.allCommands, s.first = all, nil
	s.words = []string{"-@all"}
	fill := uint64(0)
	if all {
		s.words[0], fill = "+@all", ^uint64(0)
	}
	for i := range s.commands {
		s.commands[i] = fill
	}
}

func (s *selector) category(on bool, name string) error {
	if !slices.Contains(categories, name) {
		return errUnknownWord
	}
	eachIn(name, func(c *command.Command) { s.allow(c, on) })
	s.note(on, "@"+name)
	return nil
}

// eachIn calls fn for the commands and subcommands of a category.
func eachIn(category string, fn func(*command.Command)) {
	category = "@" + category
	visit := func(c *command.Command) {
		if slices.Contains(c.Categories, category) {
			fn(c)
		}
	}
	for _, c := range command.All() {
		if c.Flags.Has(command.Internal) {
			continue
		}
		visit(c)
		for _, sub := range c.Subs {
			visit(sub)
		}
	}
}

// allow sets the bit of a command and of its subcommands.
func (s *selector) allow(c *command.Command, on bool) {
	s.commands.set(c.ID, on)
	for _, sub := range c.Subs {
		s.commands.set(sub.ID, on)
	}
	if len(s.first[c.ID]) > 0 {
		s.first = cloneFirst(s.first)
		delete(s.first, c.ID)
	}
}

func cloneFirst(m map[command.ID][]string) map[command.ID][]string {
	out := make(map[command.ID][]string, len(m)+1)
	for id, words := range m {
		out[id] = words
	}
	return out
}

// command allows or forbids a command, a subcommand ("client|id"), or a first
// argument of a command without subcommands ("select|0").
func (s *selector) command(on bool, name string) error {
	top, rest, nested := strings.Cut(name, "|")
	c := command.Lookup([]byte(top))
	if c == nil || c.Flags.Has(command.Internal) {
		return errUnknownWord
	}
	if !nested {
		s.allow(c, on)
		s.note(on, c.Name)
		return nil
	}
	if rest == "" {
		return errSyntax
	}
	if c.Subs != nil {
		subName, _, deeper := strings.Cut(rest, "|")
		sub := c.Sub([]byte(subName))
		switch {
		case deeper && on:
			return errFirstOfSub
		case sub == nil || deeper:
			return errUnknownWord
		}
		s.allow(sub, on)
		s.note(on, sub.FullName())
		return nil
	}
	switch {
	case strings.Contains(rest, "|"):
		return errFirstOfSub
	case !on:
		return errUnknownWord
	case strings.ContainsAny(rest, blanks+"\x00"):
		return errSyntax
	}
	s.first = cloneFirst(s.first)
	if !slices.ContainsFunc(s.first[c.ID], func(have string) bool { return strings.EqualFold(have, rest) }) {
		s.first[c.ID] = append(slices.Clip(s.first[c.ID]), rest)
	}
	s.note(true, c.Name+"|"+rest)
	return nil
}

// note keeps a rule about commands in place of earlier ones about the same, or
// about parts of it.
func (s *selector) note(on bool, name string) {
	s.words = slices.DeleteFunc(slices.Clone(s.words), func(w string) bool {
		return w[1:] == name || strings.HasPrefix(w[1:], name+"|")
	})
	sign := "-"
	if on {
		sign = "+"
	}
	s.words = append(s.words, sign+name)
}

// prune drops the rules about commands that change nothing after those before them.
func (s *selector) prune() {
	replay := newSelector()
	kept := s.words[:0:0]
	for i, w := range s.words {
		commands, first := replay.commands, replay.firsts()
		_ = replay.apply(w) // it was applied before
		if i == 0 || replay.commands != commands || replay.firsts() != first {
			kept = append(kept, w)
		}
	}
	s.words = kept
}

// firsts counts the first arguments that are allowed.
func (s *selector) firsts() (n int) {
	for _, words := range s.first {
		n += len(words)
	}
	return n
}

// settle finishes rules that were changed.
func (r *Rules) settle() error {
	r.size = 0
	weigh := func(s *selector) {
		s.prune()
		for i := range s.keys {
			r.size += len(s.keys[i].Text()) + 4
		}
		for i := range s.channels {
			r.size += len(s.channels[i].Text()) + 4
		}
		for _, w := range s.words {
			r.size += len(w) + 1
		}
	}
	weigh(&r.root)
	for i := range r.more {
		weigh(&r.more[i])
	}
	if r.size > MaxRules {
		return fmt.Errorf("the rules of the user are %d bytes, limit %d", r.size, MaxRules)
	}
	r.Unrestricted = r.root.allCommands && len(r.root.words) == 1 && r.root.allKeys && r.root.allChannels
	return nil
}

// merge joins the words of one selector, which a client sends as several
// arguments: "(+get", "~a)".
func merge(words []string) ([]string, error) {
	var out []string
	open := ""
	for _, w := range words {
		switch {
		case open == "" && strings.HasPrefix(w, "(") && !strings.HasSuffix(w, ")"):
			open = w
		case open == "":
			out = append(out, w)
		default:
			open += " " + w
			if strings.HasSuffix(w, ")") {
				out = append(out, open)
				open = ""
			}
		}
	}
	if open != "" {
		first, _, _ := strings.Cut(open, " ")
		return nil, refusal("Unmatched parenthesis in acl selector starting at '" + first + "'.")
	}
	return out, nil
}
