package server

import (
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// field is one entry of a documentation map.
type field struct {
	name  string
	write func(*resp.Writer)
}

func writeFields(w *resp.Writer, fields []field) {
	w.Map(len(fields))
	for _, f := range fields {
		w.BulkString(f.name)
		f.write(w)
	}
}

// addText appends a field unless the text is empty.
func addText(fields []field, name, text string) []field {
	if text == "" {
		return fields
	}
	return append(fields, field{name, func(w *resp.Writer) { w.BulkString(text) }})
}

// commandDocs is COMMAND DOCS; names that do not exist are left out.
func (s *Session) commandDocs(names [][]byte) {
	var cmds []*command.Command
	if len(names) == 0 {
		for c := range public {
			cmds = append(cmds, c)
		}
	}
	for _, name := range names {
		if c := find(name); c != nil {
			cmds = append(cmds, c)
		}
	}
	s.w.Map(len(cmds))
	for _, c := range cmds {
		writeNamedDoc(&s.w, c)
		if s.tooLong() {
			return
		}
	}
}

// writeNamedDoc appends the full name of a command and its documentation.
func writeNamedDoc(w *resp.Writer, c *command.Command) {
	w.BulkString(c.FullName())
	writeDoc(w, c)
}

func writeDoc(w *resp.Writer, c *command.Command) {
	var f []field
	f = addText(f, "summary", c.Summary)
	f = addText(f, "since", c.Since)
	f = addText(f, "group", c.Group)
	f = addText(f, "complexity", c.Complexity)
	if c.DeprecatedSince != "" {
		f = append(f, field{"doc_flags", func(w *resp.Writer) { writeWords(w, []string{"deprecated"}) }})
	}
	f = addText(f, "deprecated_since", c.DeprecatedSince)
	f = addText(f, "replaced_by", c.ReplacedBy)
	if len(c.Args) > 0 {
		f = append(f, field{"arguments", func(w *resp.Writer) { writeArgs(w, c.Args) }})
	}
	if len(c.Subs) > 0 {
		f = append(f, field{"subcommands", func(w *resp.Writer) {
			w.Map(len(c.Subs))
			for _, sub := range c.Subs {
				writeNamedDoc(w, sub)
			}
		}})
	}
	writeFields(w, f)
}

// writeArgs appends the description of arguments; it calls itself for nested
// ones, as deep as the command table goes.
func writeArgs(w *resp.Writer, args []command.Arg) {
	w.Array(len(args))
	for i := range args {
		a := &args[i]
		var f []field
		f = addText(f, "name", a.Name)
		f = addText(f, "type", a.Type)
		if a.Type == "key" {
			f = append(f, field{"key_spec_index", func(w *resp.Writer) { w.Int(int64(a.KeySpec)) }})
		}
		f = addText(f, "token", a.Token)
		f = addText(f, "since", a.Since)
		f = addText(f, "deprecated_since", a.DeprecatedSince)
		var flags []string
		if a.Optional {
			flags = append(flags, "optional")
		}
		if a.Multiple {
			flags = append(flags, "multiple")
		}
		if a.MultipleToken {
			flags = append(flags, "multiple_token")
		}
		if len(flags) > 0 {
			f = append(f, field{"flags", func(w *resp.Writer) { writeWords(w, flags) }})
		}
		if len(a.Args) > 0 {
			f = append(f, field{"arguments", func(w *resp.Writer) { writeArgs(w, a.Args) }})
		}
		writeFields(w, f)
	}
}
