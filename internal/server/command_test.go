package server

import (
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// Every entry must have the ten elements of Redis 7 with their types, which is
// what client libraries build their tables from.
func TestCommandTable(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.send("HELLO 3\r\nCOMMAND\r\nCOMMAND COUNT\r\nCOMMAND LIST\r\nCOMMAND DOCS\r\n")
	var replies [5]resp.Value
	for i := range replies {
		var err error
		if replies[i], err = c.value(); err != nil {
			t.Fatal(err)
		}
	}
	all, count, list, docs := replies[1], replies[2], replies[3], replies[4]
	public := 0
	names := 0
	for _, cmd := range command.All() {
		if !cmd.Flags.Has(command.Internal) {
			public++
			names += 1 + len(cmd.Subs)
		}
	}
	if len(all.Elems) != public || count.Int != int64(public) || len(list.Elems) != names || len(docs.Elems) != 2*public {
		t.Errorf("%d commands, count %d, %d names, %d docs; the table has %d commands and %d names",
			len(all.Elems), count.Int, len(list.Elems), len(docs.Elems)/2, public, names)
	}
	for _, e := range all.Elems {
		checkEntry(t, e)
	}
	for i := 1; i < len(docs.Elems); i += 2 {
		for _, field := range []string{"summary", "since", "group"} {
			if v, ok := docs.Elems[i].Find(field); !ok || v.Text() == "" {
				t.Errorf("%s has no %s", docs.Elems[i-1].Text(), field)
			}
		}
	}
}

// COMMAND DOCS with 60,000 times the same name built 600 MB of reply, 14 s long,
// and then closed the connection because of it.
func TestCommandDocsOfManyNamesIsBounded(t *testing.T) {
	s, _ := start(t, Options{OutputLimit: 100 << 10})
	c := dial(t, s)
	for _, sub := range []string{"DOCS", "INFO"} {
		args := []string{"COMMAND", sub}
		for range 5000 {
			args = append(args, "client")
		}
		c.send(string(resp.AppendCommandStrings(nil, args...)))
		v, err := c.value()
		if err != nil || !strings.HasPrefix(v.Text(), "RCTOOLARGE the reply is above 102400 bytes") {
			t.Errorf("COMMAND %s: %.100q, %v", sub, v.Text(), err)
		}
	}
	c.ask("PING", "PONG")
}

func checkEntry(t *testing.T, e resp.Value) {
	t.Helper()
	kinds := []resp.Kind{resp.Bulk, resp.Integer, resp.Set, resp.Integer, resp.Integer, resp.Integer, resp.Set, resp.Set, resp.Set, resp.Set}
	if e.Kind != resp.Array || len(e.Elems) != len(kinds) {
		t.Fatalf("entry %q has %d elements", e.Text(), len(e.Elems))
	}
	for i, k := range kinds {
		if e.Elems[i].Kind != k {
			t.Errorf("%s: element %d is a %v, want a %v", e.Elems[0].Text(), i, e.Elems[i].Kind, k)
		}
	}
	for _, spec := range e.Elems[8].Elems {
		for _, field := range []string{"flags", "begin_search", "find_keys"} {
			if _, ok := spec.Find(field); !ok {
				t.Errorf("%s: key specification without %s", e.Elems[0].Text(), field)
			}
		}
	}
	for _, sub := range e.Elems[9].Elems {
		checkEntry(t, sub)
	}
}
