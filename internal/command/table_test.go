package command

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/commands.md instead of comparing it")

func TestEveryIDIsUsedOnce(t *testing.T) {
	seen := make([]string, NumCommands)
	visit := func(c *Command) {
		if c.ID == None || c.ID >= NumCommands {
			t.Errorf("%s has ID %d", c.FullName(), c.ID)
			return
		}
		if seen[c.ID] != "" {
			t.Errorf("%s and %s share ID %d", seen[c.ID], c.FullName(), c.ID)
		}
		seen[c.ID] = c.FullName()
	}
	for _, c := range All() {
		visit(c)
		for _, s := range c.Subs {
			visit(s)
		}
	}
	for id := None + 1; id < NumCommands; id++ {
		if seen[id] == "" {
			t.Errorf("ID %d has no command", id)
		}
	}
}

func TestConnCommands(t *testing.T) {
	want := strings.Fields("acl asking auth client command discard echo exec hello monitor multi ping psubscribe pubsub punsubscribe quit readonly readwrite reset select ssubscribe subscribe sunsubscribe unsubscribe")
	var got []string
	for _, c := range All() {
		if c.Conn {
			got = append(got, c.Name)
		}
		for _, s := range c.Subs {
			if s.Conn != c.Conn {
				t.Errorf("%s and its container differ in Conn", s.FullName())
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestInternalCommands(t *testing.T) {
	for _, c := range All() {
		if internal := strings.HasPrefix(c.Name, "rc."); internal != c.Flags.Has(Internal) {
			t.Errorf("%s: Internal is %v", c.Name, !internal)
		}
		noAuth := c.Flags.Has(NoAuth)
		if c.Flags.Has(Internal) && noAuth != (c.ID == RCHello || c.ID == RCAuth) {
			t.Errorf("%s: NoAuth is %v", c.Name, noAuth)
		}
	}
}

func TestArityOK(t *testing.T) {
	cases := []struct {
		name string
		n    int
		want bool
	}{
		{"get", 1, false}, {"get", 2, true}, {"get", 3, false},
		{"set", 2, false}, {"set", 3, true}, {"set", 9, true},
		{"ping", 1, true}, {"rc.hello", 4, false}, {"rc.hello", 6, true},
	}
	for _, c := range cases {
		if got := Lookup([]byte(c.name)).ArityOK(c.n); got != c.want {
			t.Errorf("%s with %d arguments: %v", c.name, c.n, got)
		}
	}
}

func split(line string) [][]byte {
	var args [][]byte
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	return args
}

func TestAppendKeys(t *testing.T) {
	cases := []struct {
		line string
		want []int
	}{
		{"get a", []int{1}},
		{"set a 1 EX 5", []int{1}},
		{"mget a b c", []int{1, 2, 3}},
		{"mset a 1 b 2", []int{1, 3}},
		{"msetex 2 a 1 b 2 EX 5", []int{2, 4}},
		{"msetex 2 a 1 b", []int{2, 4}},
		{"msetex 3 a 1 b 2", nil}, // promises more than there is
		{"msetex -1 a 1", nil},
		{"msetex x a 1", nil},
		{"msetex 9223372036854775807 a 1", nil},
		{"msetex 0 a 1", nil},
		{"mset a 1 b", []int{1, 3}}, // wrong arity, but positions stay inside
		{"rename a b", []int{1, 2}},
		{"rename a", []int{1}},
		{"copy a b REPLACE", []int{1, 2}},
		{"object encoding a", []int{2}},
		{"OBJECT HELP", nil},
		{"object nope a", nil},
		{"object", nil},
		{"memory usage a SAMPLES 5", []int{2}},
		{"cluster keyslot a", nil},
		{"scan 0", nil},
		{"ping", nil},
	}
	for _, c := range cases {
		t.Run(c.line, func(t *testing.T) {
			args := split(c.line)
			cmd := Lookup(args[0])
			got := cmd.AppendKeys(nil, args)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if len(got) > 0 && !cmd.HasKeys(args) {
				t.Error("HasKeys says no")
			}
		})
	}
}

func TestAppendKeysAllocates(t *testing.T) {
	args := split("mget a b c d")
	var room [8]int
	if n := testing.AllocsPerRun(100, func() { Lookup(args[0]).AppendKeys(room[:0], args) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSyntax(t *testing.T) {
	cases := map[string]string{
		"get":   "GET key",
		"set":   "SET key value [NX | XX | IFEQ comparison-value | IFNE comparison-value | IFDEQ comparison-digest | IFDNE comparison-digest] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
		"mset":  "MSET key value [key value ...]",
		"mget":  "MGET key [key ...]",
		"hello": "HELLO [protover [AUTH username password] [SETNAME clientname]]",
	}
	for name, want := range cases {
		if got := Lookup([]byte(name)).Syntax(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAllIsSorted(t *testing.T) {
	if !slices.IsSortedFunc(All(), byName) {
		t.Error("the table is not sorted")
	}
	for _, c := range All() {
		if !slices.IsSortedFunc(c.Subs, byName) {
			t.Errorf("the subcommands of %s are not sorted", c.Name)
		}
	}
}

const docsPath = "../../docs/commands.md"

func TestDocs(t *testing.T) {
	got := Markdown()
	if *update {
		if err := os.WriteFile(docsPath, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is out of date; run go test ./internal/command -run Docs -update", docsPath)
	}
}
