package clustertest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A script is a text that tells what happens to a cluster, and what must follow:
//
//	# a comment
//	start a b c
//	wait agreed
//	----
//	a active, b active, c active
//
// A command has a line. A line of four hyphens below it begins what it must print,
// up to an empty line or the end. A command that prints nothing needs no block.
// Where a number or a duration need not be exact, "1..5" or "6s..7s" stands for it.
// DESIGN.md lists the commands.

// divider begins the expected output.
const divider = "----"

// step is one command of a script.
type step struct {
	before []string // comments and empty lines above it
	line   int
	text   string
	words  []string
	want   []string
}

// parseScript reads a script; name stands in errors.
func parseScript(name, text string) ([]step, []string, error) {
	var steps []step
	var before []string
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t")
		switch {
		case line == "" || line[0] == '#':
			before = append(before, line)
		case line == divider:
			if len(steps) == 0 || len(before) > 0 || steps[len(steps)-1].want != nil {
				return nil, nil, fmt.Errorf("%s:%d: output without a command; allowed: %q directly below a command, once", name, i+1, divider)
			}
			s := &steps[len(steps)-1]
			s.want = []string{}
			for i+1 < len(lines) && strings.TrimSpace(lines[i+1]) != "" {
				i++
				s.want = append(s.want, strings.TrimRight(lines[i], " \t"))
			}
		default:
			words, err := splitWords(line)
			if err != nil {
				return nil, nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
			steps = append(steps, step{before: before, line: i + 1, text: line, words: words})
			before = nil
		}
	}
	return steps, before, nil
}

// splitWords cuts a line at spaces; a word in double quotes is a Go string.
func splitWords(line string) (words []string, err error) {
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		if rest[0] == '"' {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("%q is not a quoted word; allowed: a Go string with both quotes", rest)
			}
			word, _ := strconv.Unquote(quoted) // a quoted prefix is one
			words, rest = append(words, word), rest[len(quoted):]
			continue
		}
		word, after, _ := strings.Cut(rest, " ")
		words, rest = append(words, word), after
	}
	return words, nil
}

// formatScript writes a script; below is what stands after the last command.
func formatScript(steps []step, below []string) string {
	var b strings.Builder
	for i, s := range steps {
		for _, l := range s.before {
			b.WriteString(l + "\n")
		}
		b.WriteString(s.text + "\n")
		if len(s.want) == 0 {
			continue
		}
		b.WriteString(divider + "\n")
		for _, l := range s.want {
			b.WriteString(l + "\n")
		}
		next := below
		if i+1 < len(steps) {
			next = append(slices.Clone(steps[i+1].before), steps[i+1].text)
		}
		if len(next) > 0 && next[0] != "" {
			b.WriteString("\n")
		}
	}
	for _, l := range below {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// agrees tells whether a command has printed what is expected of it.
func agrees(want, got []string) bool {
	return slices.EqualFunc(want, got, func(w, g string) bool {
		return w == g || slices.EqualFunc(strings.Fields(w), strings.Fields(g), wordAgrees)
	})
}

var spanned = regexp.MustCompile(`^(\D*?)(-?\d[^.]*(?:\.\d[^.]*)?)\.\.(-?\d[\w.]*)(\W*)$`)

// wordAgrees compares a word with an expected one, which may be a span of numbers
// or durations between marks, as in ":10..20" and "6s..7s,".
func wordAgrees(want, got string) bool {
	if want == got {
		return true
	}
	m := spanned.FindStringSubmatch(want)
	if m == nil || !strings.HasPrefix(got, m[1]) || !strings.HasSuffix(got, m[4]) {
		return false
	}
	low, ok1 := quantity(m[2])
	high, ok2 := quantity(m[3])
	is, ok3 := quantity(strings.TrimSuffix(strings.TrimPrefix(got, m[1]), m[4]))
	return ok1 && ok2 && ok3 && low <= is && is <= high
}

// quantity reads a number, or a duration as its seconds.
func quantity(s string) (float64, bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f, true
	}
	d, err := time.ParseDuration(s)
	return d.Seconds(), err == nil
}

// RunScript runs a script file in a cluster that is closed at the end, and reports
// every fault with file and line. With update, outputs that differ are written into
// the file instead; commands that fail are reported all the same. It must be called
// inside synctest.Test.
func (s *Sim) RunScript(path string, update bool) {
	s.tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.tb.Fatal(err)
	}
	out, faults := s.runText(path, string(text), update)
	for _, f := range faults {
		s.tb.Error(f)
	}
	if update && out != string(text) {
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			s.tb.Fatal(err)
		}
	}
}

// runText runs a script and returns it with its outputs, and what was wrong.
func (s *Sim) runText(name, text string, update bool) (string, []string) {
	steps, below, err := parseScript(name, text)
	if err != nil {
		return text, []string{err.Error()}
	}
	r := newScriptRun(s)
	defer r.close()
	var faults []string
	for i := range steps {
		st := &steps[i]
		where := fmt.Sprintf("%s:%d: %s", name, st.line, st.text)
		out, err := r.do(st.words)
		for _, f := range r.takeFaults() {
			faults = append(faults, where+": "+f)
		}
		if err != nil {
			// What follows would only be an echo of this.
			return formatScript(steps, below), append(faults, fmt.Sprintf("%s: %v", where, err))
		}
		got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if out == "" {
			got = nil
		}
		switch {
		case agrees(st.want, got):
		case update:
			st.want = got
		default:
			faults = append(faults, fmt.Sprintf("%s: printed\n\t%s\nwant\n\t%s", where, strings.Join(got, "\n\t"), strings.Join(st.want, "\n\t")))
		}
	}
	if err := r.unfinished(); err != nil {
		faults = append(faults, fmt.Sprintf("%s: at its end: %v", name, err))
	}
	return formatScript(steps, below), faults
}
