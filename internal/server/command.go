package server

import (
	"bytes"
	"fmt"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/glob"
	"github.com/ringcache/ringcache/internal/resp"
)

// command executes a subcommand of COMMAND. What it tells comes from the command
// table; internal commands are never shown.
func (s *Session) command(cmd *command.Command, args [][]byte) {
	switch cmd.ID {
	case command.CommandCount:
		n := 0
		for range public {
			n++
		}
		s.w.Int(int64(n))
	case command.CommandInfo:
		s.commandInfo(args[2:])
	case command.CommandDocs:
		s.commandDocs(args[2:])
	case command.CommandList:
		s.commandList(args[2:])
	case command.CommandGetKeys:
		s.commandGetKeys(args[2:], false)
	case command.CommandGetKeysAndFlags:
		s.commandGetKeys(args[2:], true)
	case command.CommandHelp:
		s.help("COMMAND", commandHelp)
	}
}

// public yields the commands that clients may know of, sorted by name.
func public(yield func(*command.Command) bool) {
	for _, c := range command.All() {
		if !c.Flags.Has(command.Internal) && !yield(c) {
			return
		}
	}
}

// find returns the public command or subcommand ("client|list") of a name, or
// nil.
func find(name []byte) *command.Command {
	container, sub, isSub := bytes.Cut(name, []byte{'|'})
	c := command.Lookup(container)
	if c == nil || c.Flags.Has(command.Internal) {
		return nil
	}
	if isSub {
		return c.Sub(sub)
	}
	return c
}

// commandAll is COMMAND without arguments.
func (s *Session) commandAll() { s.commandInfo(nil) }

func (s *Session) commandInfo(names [][]byte) {
	if len(names) > 0 {
		s.w.Array(len(names))
		for _, name := range names {
			if c := find(name); c != nil {
				writeInfo(&s.w, c)
			} else {
				s.w.Null()
			}
			if s.tooLong() {
				return
			}
		}
		return
	}
	var all []*command.Command
	for c := range public {
		all = append(all, c)
	}
	s.w.Array(len(all))
	for _, c := range all {
		writeInfo(&s.w, c)
	}
}

// tooLong replaces the reply of the current command by an error if it is above
// the output limit: one short argument may ask for kilobytes, and 64 Ki of them
// for more than memory holds.
func (s *Session) tooLong() bool {
	if !s.w.Over(s.mark) {
		return false
	}
	s.w.Buf = s.w.Buf[:s.mark]
	s.w.Error(fmt.Sprintf("RCTOOLARGE the reply is above %d bytes, the output limit of a session; ask for fewer names at once", s.w.Limit))
	return true
}

// writeInfo appends the ten elements that describe a command.
func writeInfo(w *resp.Writer, c *command.Command) {
	w.Array(10)
	w.BulkString(c.FullName())
	w.Int(int64(c.Arity))
	writeWords(w, c.Flags.AppendNames(nil))
	w.Int(int64(c.FirstKey))
	w.Int(int64(c.LastKey))
	w.Int(int64(c.Step))
	writeWords(w, c.Categories)
	w.Set(len(c.Tips))
	for _, tip := range c.Tips {
		w.BulkString(tip)
	}
	w.Set(len(c.KeySpecs))
	for i := range c.KeySpecs {
		writeKeySpec(w, &c.KeySpecs[i])
	}
	w.Set(len(c.Subs))
	for _, sub := range c.Subs {
		writeInfo(w, sub)
	}
}

// writeWords appends a set of simple strings.
func writeWords(w *resp.Writer, words []string) {
	w.Set(len(words))
	for _, word := range words {
		w.Simple(word)
	}
}

func writeKeySpec(w *resp.Writer, k *command.KeySpec) {
	w.Map(3)
	w.BulkString("flags")
	writeWords(w, k.Flags)
	w.BulkString("begin_search")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("index")
	w.BulkString("spec")
	w.Map(1)
	w.BulkString("index")
	w.Int(int64(k.Index))
	w.BulkString("find_keys")
	w.Map(2)
	w.BulkString("type")
	if k.KeyNum {
		w.BulkString("keynum")
		w.BulkString("spec")
		w.Map(3)
		w.BulkString("keynumidx")
		w.Int(0)
		w.BulkString("firstkey")
		w.Int(1)
		w.BulkString("keystep")
		w.Int(int64(k.Step))
		return
	}
	w.BulkString("range")
	w.BulkString("spec")
	w.Map(3)
	w.BulkString("lastkey")
	w.Int(int64(k.LastKey))
	w.BulkString("keystep")
	w.Int(int64(k.Step))
	w.BulkString("limit")
	w.Int(0)
}

func (s *Session) commandList(opts [][]byte) {
	keep := func(*command.Command) bool { return true }
	switch {
	case len(opts) == 0:
	case len(opts) != 3 || !isWord(opts[0], "FILTERBY"):
		s.w.Error(errSyntax)
		return
	case isWord(opts[1], "MODULE"):
		keep = func(*command.Command) bool { return false }
	case isWord(opts[1], "ACLCAT"):
		category := "@" + string(bytes.ToLower(opts[2]))
		keep = func(c *command.Command) bool {
			for _, have := range c.Categories {
				if have == category {
					return true
				}
			}
			return false
		}
	case isWord(opts[1], "PATTERN"):
		pattern := string(bytes.ToLower(opts[2]))
		keep = func(c *command.Command) bool { return glob.Match(pattern, c.FullName()) }
	default:
		s.w.Error(errSyntax)
		return
	}
	var names []string
	for c := range public {
		if keep(c) {
			names = append(names, c.FullName())
		}
		for _, sub := range c.Subs {
			if keep(sub) {
				names = append(names, sub.FullName())
			}
		}
	}
	s.w.Array(len(names))
	for _, name := range names {
		s.w.BulkString(name)
	}
}

// commandGetKeys is GETKEYS and GETKEYSANDFLAGS.
func (s *Session) commandGetKeys(args [][]byte, flags bool) {
	w := &s.w
	c := command.Lookup(args[0])
	if c != nil && c.Subs != nil && len(args) > 1 {
		c = c.Sub(args[1])
	}
	switch {
	case c == nil || c.Flags.Has(command.Internal):
		w.Error("ERR Invalid command specified")
		return
	case !c.TakesKeys():
		w.Error("ERR The command has no key arguments")
		return
	case !c.ArityOK(len(args)):
		w.Error("ERR Invalid number of arguments specified for command")
		return
	}
	keys := c.AppendKeys(nil, args)
	if len(keys) == 0 && !c.Flags.Has(command.NoMandatoryKeys) {
		w.Error("ERR Invalid arguments specified for command")
		return
	}
	w.Array(len(keys))
	for _, pos := range keys {
		if !flags {
			w.Bulk(args[pos])
			continue
		}
		w.Array(2)
		w.Bulk(args[pos])
		writeWords(w, c.KeyFlags(args, pos))
	}
}

var commandHelp = []string{
	"(no subcommand)",
	"    Return details about all Redis commands.",
	"COUNT",
	"    Return the total number of commands in this Redis server.",
	"LIST",
	"    Return a list of all commands in this Redis server.",
	"INFO [<command-name> ...]",
	"    Return details about multiple Redis commands.",
	"    If no command names are given, documentation details for all",
	"    commands are returned.",
	"DOCS [<command-name> ...]",
	"    Return documentation details about multiple Redis commands.",
	"    If no command names are given, documentation details for all",
	"    commands are returned.",
	"GETKEYS <full-command>",
	"    Return the keys from a full Redis command.",
	"GETKEYSANDFLAGS <full-command>",
	"    Return the keys and the access flags from a full Redis command.",
}
