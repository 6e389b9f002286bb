package command

import (
	"slices"
	"strings"
)

// sinceFirst marks what ring-cache has and Redis has not.
const sinceFirst = "ring-cache 0.1.0"

// table is what the data in the table_*.go files becomes when the package is
// loaded: derived fields filled in, sorted and indexed.
var table = build(
	connectionCommands, stringCommands, valueCommands, bitmapCommands, transactionCommands, scriptCommands, keyCommands, ttlCommands,
	serverCommands, introspectionCommands, aclCommands, pubSubCommands, clusterCommands, ringCommands, internalCommands,
)

type commandTable struct {
	all   []*Command // sorted by name, internal commands included
	byID  [NumCommands]*Command
	index *index
}

// ByID returns the command or subcommand of an ID, nil for None.
func ByID(id ID) *Command { return table.byID[id] }

// All returns every top-level command sorted by name, internal ones included.
// Callers must not modify the slice.
func All() []*Command { return table.all }

func build(groups ...[]*Command) commandTable {
	all := slices.Concat(groups...)
	for _, c := range all {
		complete(c)
	}
	slices.SortFunc(all, byName)
	t := commandTable{all: all, index: newIndex(all)}
	for _, c := range all {
		t.byID[c.ID] = c
		for _, s := range c.Subs {
			t.byID[s.ID] = s
		}
	}
	return t
}

func byName(a, b *Command) int { return strings.Compare(a.Name, b.Name) }

// complete fills in what follows from other fields: legacy key positions from
// the key specs, implied ACL categories from the flags, and the parents of
// subcommands.
func complete(c *Command) {
	for i, s := range c.KeySpecs {
		if s.KeyNum { // first, last and step cannot say it
			c.Flags |= MovableKeys
			continue
		}
		last := s.LastKey
		if last >= 0 {
			last += s.Index
		}
		if i == 0 {
			c.FirstKey, c.LastKey, c.Step = s.Index, last, s.Step
		} else {
			c.LastKey = last // further specs follow the first without a gap
		}
	}
	if c.Flags&Internal == 0 {
		c.Categories = categories(c.Flags, c.Categories)
	}
	if c.Subs == nil {
		return
	}
	c.Subs = slices.Clone(c.Subs)
	slices.SortFunc(c.Subs, byName)
	for _, s := range c.Subs {
		s.Parent = c
		complete(s)
	}
}

// categoryOrder is the order of ACL categories in replies.
var categoryOrder = []string{
	"@keyspace", "@read", "@write", "@bitmap", "@string", "@pubsub", "@admin", "@fast", "@slow", "@dangerous", "@connection",
	"@transaction", "@scripting",
}

// categories adds the categories that flags imply to the explicit ones.
func categories(f Flag, explicit []string) []string {
	has := func(name string) bool {
		switch name {
		case "@read":
			return f&ReadOnly != 0 && !slices.Contains(explicit, "@scripting") // scripts are a class of their own
		case "@write":
			return f&Write != 0
		case "@admin":
			return f&Admin != 0 || slices.Contains(explicit, name)
		case "@dangerous":
			return f&Admin != 0 || slices.Contains(explicit, name)
		case "@fast":
			return f&Fast != 0
		case "@slow":
			return f&Fast == 0
		}
		return slices.Contains(explicit, name)
	}
	var out []string
	for _, name := range categoryOrder {
		if has(name) {
			out = append(out, name)
		}
	}
	return out
}

// The words that the data is written in.

func keyAt(index int, flags ...string) KeySpec {
	return KeySpec{Flags: flags, Index: index, Step: 1}
}

func keysFrom(index, step int, flags ...string) KeySpec {
	return KeySpec{Flags: flags, Index: index, LastKey: -1, Step: step}
}

// keysCounted is a number at index with as many keys behind it.
func keysCounted(index, step int, flags ...string) KeySpec {
	return KeySpec{Flags: flags, Index: index, Step: step, KeyNum: true}
}

// notKey marks a name that lies in a slot like a key and is none.
const notKey = "not_key"

var keyArg = arg("key", "key")

func arg(name, typ string) Arg { return Arg{Name: name, Type: typ} }

// word is an argument that stands for itself: its name in capitals.
func word(name string) Arg {
	return Arg{Name: name, Type: "pure-token", Token: strings.ToUpper(name)}
}

func oneOf(name string, of ...Arg) Arg { return Arg{Name: name, Type: "oneof", Args: of} }

func block(name string, of ...Arg) Arg { return Arg{Name: name, Type: "block", Args: of} }

func (a Arg) token(t string) Arg { a.Token = t; return a }

func (a Arg) since(v string) Arg { a.Since = v; return a }

func (a Arg) deprecated(v string) Arg { a.DeprecatedSince = v; return a }

func (a Arg) spec(i int) Arg { a.KeySpec = i; return a }

func (a Arg) optional() Arg { a.Optional = true; return a }

func (a Arg) multiple() Arg { a.Multiple = true; return a }

func (a Arg) multipleToken() Arg { a.MultipleToken = true; return a }
