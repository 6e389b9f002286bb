package command

import (
	"fmt"
	"strings"
)

// docGroups are the sections of the documentation page in their order. The
// names of the groups are Redis's.
var docGroups = []struct{ group, title string }{
	{"string", "Strings"},
	{"bitmap", "Bitmaps"},
	{"generic", "Keys and expiration"},
	{"transactions", "Transactions"},
	{"scripting", "Scripts"},
	{"pubsub", "Pub/Sub"},
	{"connection", "Connection"},
	{"server", "Server"},
	{"cluster", "Cluster"},
}

const docHead = `# Commands

<!-- Written by: go test ./internal/command -run Docs -update -->

These are the commands that ring-cache answers. Syntax, replies and error texts
are those of Redis 7.0 unless noted; "since" is the Redis version that
introduced the command, so that you can tell whether your client knows it.

- All values are strings, all keys live in database 0.
- The keys of one command must lie in one slot (use a hash tag such as
  ` + "`{user:1}`" + `); otherwise the answer is CROSSSLOT. Commands marked *splits*
  carry the tip that lets cluster clients split them by slot.
- A transaction works on the keys of one slot, the watched ones included, and
  EXEC is one step for everybody else; commands that look at the whole node
  (KEYS, FLUSHALL, INFO ...) do not stand in one together with keys.
- A script works on the keys of the slot of its declared keys and is one step for
  everybody else. It ends with an error beyond 1,048,576 instructions, 16 MiB of
  strings or 250 ms; what it wrote until then stays. It has the base functions,
  string, table, math, bit, cjson and redis, but no coroutines, cmsgpack and
  struct; patterns with many repetitions are refused for long subjects.
- PUBLISH reaches whoever listens at any node of the cluster; its reply counts those
  at this one. Shard channels (SSUBSCRIBE, SPUBLISH) stay with the owner of their
  slot. A message is sent at most once: to a node that is away or slow it is lost.
- Commands about keys in general (KEYS, SCAN, DBSIZE, RANDOMKEY, FLUSHALL) see
  the keys of the node that they are sent to, as in Redis Cluster.
`

// Markdown returns docs/commands.md, the documentation page of all commands
// that clients may use.
func Markdown() string {
	var b strings.Builder
	b.WriteString(docHead)
	for _, g := range docGroups {
		fmt.Fprintf(&b, "\n## %s\n\n| Command | What it does | Since | Time |\n|---|---|---|---|\n", g.title)
		for _, c := range All() {
			if c.Flags&Internal != 0 {
				continue
			}
			if c.Subs == nil && c.Group == g.group {
				writeRow(&b, c)
			}
			for _, s := range c.Subs {
				if s.Group == g.group {
					writeRow(&b, s)
				}
			}
			if c.ID == CommandCmd && c.Group == g.group {
				writeRow(&b, c) // a container that also stands alone
			}
		}
	}
	return b.String()
}

func writeRow(b *strings.Builder, c *Command) {
	summary := c.Summary
	if len(c.Tips) > 0 && c.Tips[0] == "request_policy:multi_shard" {
		summary += " *Splits.*"
	}
	if c.DeprecatedSince != "" {
		summary += fmt.Sprintf(" Deprecated since %s: use %s.", c.DeprecatedSince, c.ReplacedBy)
	}
	cell := strings.NewReplacer("|", `\|`)
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", cell.Replace(c.Syntax()), cell.Replace(summary), c.Since, cell.Replace(c.Complexity))
}

// Syntax is the command line in Redis's notation:
// "GETEX key [EX seconds | PX milliseconds | PERSIST]".
func (c *Command) Syntax() string {
	var b strings.Builder
	if c.Parent != nil {
		b.WriteString(strings.ToUpper(c.Parent.Name) + " ")
	}
	b.WriteString(strings.ToUpper(c.Name))
	for _, a := range c.Args {
		b.WriteByte(' ')
		b.WriteString(a.syntax())
	}
	return b.String()
}

func (a Arg) syntax() string {
	var s string
	switch a.Type {
	case "pure-token":
		s = a.Token
	case "oneof":
		s = joinArgs(a.Args, " | ")
		if a.Token != "" {
			s = a.Token + " <" + s + ">"
		} else if !a.Optional && !a.Multiple {
			s = "<" + s + ">"
		}
	case "block":
		s = joinArgs(a.Args, " ")
		if a.Token != "" {
			s = a.Token + " " + s
		}
	default:
		s = a.Name
		if a.Token != "" {
			s = a.Token + " " + s
		}
	}
	if a.Multiple {
		more := s
		if !a.MultipleToken {
			more = strings.TrimPrefix(s, a.Token+" ")
		}
		s += " [" + more + " ...]"
	}
	if a.Optional {
		s = "[" + s + "]"
	}
	return s
}

func joinArgs(args []Arg, sep string) string {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = a.syntax()
	}
	return strings.Join(parts, sep)
}

// HelpLines are the lines of HELP of a container, in the form in which Redis
// gives them: a head, then syntax and explanation of each subcommand.
func (c *Command) HelpLines() []string {
	lines := []string{strings.ToUpper(c.Name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, s := range c.Subs {
		_, syntax, _ := strings.Cut(s.Syntax(), " ")
		lines = append(lines, syntax, "    "+s.Summary)
	}
	return lines
}
