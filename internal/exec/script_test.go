package exec

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/resp"
)

// The scripts in testdata tell stories in commands and replies. Lines:
//
//	# text         a comment
//	> SET k v      a command; arguments in double quotes are Go strings
//	>ours GET k    a command where we differ on purpose, not sent to Redis
//	~ 20ms         time passes
//	:90..100       an integer in a range
//
// Everything else is the expected reply, as render writes it. The same files
// run against the handlers and against a real redis-server, so an expectation
// is what Redis says. With -update the expectations are rewritten: from Redis
// for ordinary commands, from the handlers for ours.

var update = flag.Bool("update", false, "rewrite the expected replies in testdata")

// testSlot holds every key of a test: the handlers do not look at slots.
const testSlot = 7

// local executes commands as the node does: arity, then keyed or keyless.
type local struct {
	eng  *engine.Engine
	now  int64
	w    resp.Writer
	call Call
}

func newLocal(tb testing.TB, o engine.Options) *local {
	tb.Helper()
	l := &local{now: time.Now().UnixMilli()}
	o.NoBackground = true
	o.Now = func() int64 { return l.now }
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	eng, err := engine.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = eng.Close() })
	for s := range uint16(engine.Slots) {
		eng.SetServing(s, true)
	}
	l.eng, l.w.Proto = eng, 2
	return l
}

// do executes one command and returns the raw reply, valid until the next.
func (l *local) do(args ...[]byte) []byte {
	l.w.Buf = l.w.Buf[:0]
	cmd := command.Lookup(args[0])
	if cmd == nil {
		l.w.Error("ERR unknown command")
		return l.w.Buf
	}
	if !cmd.ArityOK(len(args)) {
		WrongArity(&l.w, cmd.FullName())
		return l.w.Buf
	}
	l.call = Call{Cmd: cmd, Args: args, Slot: testSlot, W: &l.w, Eng: l.eng}
	if !cmd.HasKeys(args) {
		if !Keyless(&l.call) {
			l.w.Error("ERR not executed here")
		}
		return l.w.Buf
	}
	tx, err := l.eng.Lock(testSlot)
	if err != nil {
		l.w.Error("ERR " + err.Error())
		return l.w.Buf
	}
	l.call.Tx = tx
	Keyed(&l.call)
	tx.Unlock()
	return l.w.Buf
}

func (l *local) line(line string) []byte { return l.do(parseLine(line)...) }

// parseLine splits a command line at spaces; "..." is a Go string.
func parseLine(line string) [][]byte {
	var args [][]byte
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' {
			s, _ := strconv.Unquote(quoted)
			args = append(args, []byte(s))
			line = line[len(quoted):]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		args = append(args, []byte(word))
		line = rest
	}
	return args
}

// render writes a reply as lines: +simple, -error, :integer, "bulk", nil, and
// *n followed by the indented elements.
func render(v resp.Value) string {
	switch v.Kind {
	case resp.SimpleString:
		return "+" + string(v.Str) + "\n"
	case resp.Error:
		return "-" + string(v.Str) + "\n"
	case resp.Integer:
		return ":" + strconv.FormatInt(v.Int, 10) + "\n"
	case resp.Bulk:
		return strconv.Quote(string(v.Str)) + "\n"
	case resp.Null:
		return "nil\n"
	case resp.Array:
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\n", len(v.Elems))
		for _, e := range v.Elems {
			for line := range strings.Lines(render(e)) {
				b.WriteString("  " + line)
			}
		}
		return b.String()
	}
	return fmt.Sprintf("unexpected %v\n", v.Kind)
}

func renderRaw(tb testing.TB, raw []byte) string {
	tb.Helper()
	var p resp.ReplyParser
	v, n, err := p.Next(raw, nil)
	if err != nil || n != len(raw) {
		tb.Fatalf("not exactly one reply: %q (%v)", raw, err)
	}
	return render(v)
}

// agrees compares a reply with its expectation, which may be a range.
func agrees(want, got string) bool {
	lo, hi, isRange := strings.Cut(strings.TrimSpace(want), "..")
	if !isRange || !strings.HasPrefix(lo, ":") {
		return want == got
	}
	from, _ := strconv.ParseInt(lo[1:], 10, 64)
	to, _ := strconv.ParseInt(hi, 10, 64)
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(got, ":")), 10, 64)
	return err == nil && from <= n && n <= to
}

// step is one command of a script with what stands before it.
type step struct {
	before []string // comments and blank lines, kept by -update
	verb   string   // ">", ">ours" or "~"
	text   string
	want   string
	line   int
}

func readScript(tb testing.TB, path string) []step {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	var steps []step
	var before []string
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		switch {
		case line == "" || line[0] == '#':
			before = append(before, line)
		case line[0] == '>' || line[0] == '~':
			verb, text, _ := strings.Cut(line, " ")
			steps = append(steps, step{before: before, verb: verb, text: text, line: i + 1})
			before = nil
		default:
			steps[len(steps)-1].want += line + "\n"
		}
	}
	return steps
}

func writeScript(tb testing.TB, path string, steps []step) {
	tb.Helper()
	var b bytes.Buffer
	for _, s := range steps {
		for _, l := range s.before {
			fmt.Fprintln(&b, l)
		}
		fmt.Fprintf(&b, "%s %s\n%s", s.verb, s.text, s.want)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func scripts(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no scripts in testdata: %v", err)
	}
	return paths
}

func TestScripts(t *testing.T) {
	for _, path := range scripts(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			l := newLocal(t, engine.Options{MaxValue: 4096, MaxKey: 256})
			steps := readScript(t, path)
			for i := range steps {
				s := &steps[i]
				switch s.verb {
				case "~":
					d, err := time.ParseDuration(s.text)
					if err != nil {
						t.Fatalf("line %d: %v", s.line, err)
					}
					l.now += d.Milliseconds()
				case ">", ">ours":
					got := renderRaw(t, l.line(s.text))
					if *update && s.verb == ">ours" && !strings.Contains(s.want, "..") {
						s.want = got
					}
					if !agrees(s.want, got) {
						t.Errorf("line %d: %s\ngot  %swant %s", s.line, s.text, got, s.want)
					}
				}
			}
			if *update {
				writeScript(t, path, steps)
			}
		})
	}
}
