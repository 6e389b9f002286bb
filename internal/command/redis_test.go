package command

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// realRedis starts the installed redis-server on a unix socket and returns a
// function that sends one command and parses the reply: string, int64, []any,
// nil or error. The test is skipped when Redis is absent or is not 7.0, the
// version whose facts the table holds.
func realRedis(t *testing.T) func(args ...string) any {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server in PATH: the table was not compared with a real server")
	}
	if out, err := exec.Command(bin, "--version").Output(); err != nil || !strings.Contains(string(out), " v=7.0.") {
		t.Skipf("redis-server is not 7.0 (%s): the table was not compared", strings.TrimSpace(string(out)))
	}
	sock := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(bin, "--port", "0", "--unixsocket", sock, "--save", "", "--dir", filepath.Dir(sock))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := bufio.NewReader(stdout)
	for line := ""; !strings.Contains(line, "ready to accept connections"); {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatalf("redis-server did not start: %v", err)
		}
	}
	conn, err := net.Dial("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	replies := bufio.NewReader(conn)
	return func(args ...string) any {
		t.Helper()
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
		if _, err := io.WriteString(conn, b.String()); err != nil {
			t.Fatal(err)
		}
		return readReply(t, replies)
	}
}

func readReply(t *testing.T, r *bufio.Reader) any {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '+':
		return line[1:]
	case '-':
		return fmt.Errorf("%s", line[1:])
	case ':':
		return int64(n)
	case '$':
		if n < 0 {
			return nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	case '*':
		out := make([]any, 0, max(n, 0))
		for range n {
			out = append(out, readReply(t, r))
		}
		return out
	}
	t.Fatalf("unexpected reply %q", line)
	return nil
}

// pairs turns a flat RESP2 map into a map.
func pairs(v any) map[string]any {
	list, _ := v.([]any)
	m := make(map[string]any)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i].(string)] = list[i+1]
	}
	return m
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprint(e))
	}
	return out
}

// younger are the commands that Redis 7.0 does not have; their facts come from
// the versions named in Since.
var younger = []string{"cluster|slot-stats", "commandlog", "hotkeys", "client|capa", "client|no-touch", "client|setinfo", "cluster|myshardid", "delex", "delifeq", "digest", "msetex", "ring"}

// What else differs from Redis 7.0 on purpose:
//   - summaries are our own words, and complexities where ours differ or where
//     Redis's text is a paragraph;
//   - SET has the comparisons of Redis 8.4;
//   - history and the notes on key specs are left out;
//   - containers have only the subcommands that exist here.
func TestTableAgainstRedis(t *testing.T) {
	do := realRedis(t)
	for _, c := range All() {
		if c.Flags.Has(Internal) || slices.Contains(younger, c.Name) {
			continue
		}
		info := do("COMMAND", "INFO", c.Name).([]any)[0]
		doc := pairs(do("COMMAND", "DOCS", c.Name))[c.Name]
		if info == nil {
			t.Errorf("Redis does not know %s", c.Name)
			continue
		}
		compare(t, c, info.([]any), pairs(doc))
		subInfo := make(map[string][]any)
		for _, s := range info.([]any)[9].([]any) {
			subInfo[s.([]any)[0].(string)] = s.([]any)
		}
		subDocs := pairs(pairs(doc)["subcommands"])
		for _, s := range c.Subs {
			name := s.FullName()
			if slices.Contains(younger, name) {
				continue
			}
			if subInfo[name] == nil {
				t.Errorf("Redis does not know %s", name)
				continue
			}
			compare(t, s, subInfo[name], pairs(subDocs[name]))
		}
	}
}

func compare(t *testing.T, c *Command, info []any, doc map[string]any) {
	t.Helper()
	check := func(what string, got, want any) {
		t.Helper()
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			t.Errorf("%s: %s: got %s, want %s", c.FullName(), what, g, w)
		}
	}
	check("name", c.FullName(), info[0])
	check("arity", c.Arity, info[1])
	check("flags", c.Flags.AppendNames(nil), texts(info[2]))
	check("keys", []int{c.FirstKey, c.LastKey, c.Step}, texts(info[3:6]))
	check("categories", c.Categories, texts(info[6]))
	check("tips", c.Tips, texts(info[7]))
	check("key specs", renderSpecs(c.KeySpecs), renderRedisSpecs(info[8].([]any)))
	check("since", c.Since, doc["since"])
	check("group", c.Group, doc["group"])
	check("deprecated since", c.DeprecatedSince, orEmpty(doc["deprecated_since"]))
	args := renderArgs(c.Args, "")
	if c.ID == Set {
		args = comparisons.ReplaceAllString(args, "")
	}
	check("arguments", args, renderRedisArgs(doc["arguments"], ""))
}

var comparisons = regexp.MustCompile(`(?m)^  comparison-\w+ string IF\w+ since 8\.4\.0\n`)

func orEmpty(v any) any {
	if v == nil {
		return ""
	}
	return v
}

func renderSpecs(specs []KeySpec) string {
	var b strings.Builder
	for _, s := range specs {
		if s.KeyNum {
			fmt.Fprintln(&b, s.Flags, "index", s.Index, "number at 0 first 1 step", s.Step)
			continue
		}
		fmt.Fprintln(&b, s.Flags, "index", s.Index, "last", s.LastKey, "step", s.Step)
	}
	return b.String()
}

func renderRedisSpecs(specs []any) string {
	var b strings.Builder
	for _, v := range specs {
		s := pairs(v)
		begin, find := pairs(s["begin_search"]), pairs(s["find_keys"])
		r := pairs(find["spec"])
		if find["type"] == "keynum" {
			fmt.Fprintln(&b, texts(s["flags"]), begin["type"], pairs(begin["spec"])["index"], "number at", r["keynumidx"], "first", r["firstkey"], "step", r["keystep"])
			continue
		}
		fmt.Fprintln(&b, texts(s["flags"]), begin["type"], pairs(begin["spec"])["index"], "last", r["lastkey"], "step", r["keystep"])
	}
	return b.String()
}

func renderArgs(args []Arg, indent string) string {
	var b strings.Builder
	for _, a := range args {
		b.WriteString(indent + a.Name + " " + a.Type)
		if a.Type == "key" {
			fmt.Fprintf(&b, " spec %d", a.KeySpec)
		}
		if a.Token != "" {
			b.WriteString(" " + a.Token)
		}
		if a.Since != "" {
			b.WriteString(" since " + a.Since)
		}
		if a.DeprecatedSince != "" {
			b.WriteString(" until " + a.DeprecatedSince)
		}
		if a.Optional {
			b.WriteString(" optional")
		}
		if a.Multiple {
			b.WriteString(" multiple")
		}
		if a.MultipleToken {
			b.WriteString(" multiple_token")
		}
		b.WriteString("\n" + renderArgs(a.Args, indent+"  "))
	}
	return b.String()
}

func renderRedisArgs(v any, indent string) string {
	list, _ := v.([]any)
	var b strings.Builder
	for _, e := range list {
		a := pairs(e)
		fmt.Fprint(&b, indent, a["name"], " ", a["type"])
		if n, ok := a["key_spec_index"]; ok {
			fmt.Fprint(&b, " spec ", n)
		}
		for _, f := range []struct{ field, text string }{{"token", " "}, {"since", " since "}, {"deprecated_since", " until "}} {
			if s, ok := a[f.field]; ok {
				fmt.Fprint(&b, f.text, s)
			}
		}
		for _, f := range texts(a["flags"]) {
			b.WriteString(" " + f)
		}
		b.WriteString("\n" + renderRedisArgs(a["arguments"], indent+"  "))
	}
	return b.String()
}
