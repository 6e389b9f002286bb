// Package report owns how a benchmark shows its results: tables, JSON, a
// progress bar, and the machine that they were measured on. It measures nothing.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Machine describes where a benchmark ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	OS     string `json:"os"`
	Go     string `json:"go"`
	Commit string `json:"commit,omitempty"`
	Date   string `json:"date"`
	Args   string `json:"args"`
}

// ThisMachine looks at the machine and the command line.
func ThisMachine() Machine {
	m := Machine{
		CPU: field("/proc/cpuinfo", "model name"), Memory: field("/proc/meminfo", "MemTotal"),
		Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Date: time.Now().UTC().Format("2006-01-02"), Args: strings.Join(os.Args[1:], " "),
	}
	if kb, err := strconv.Atoi(strings.TrimSuffix(m.Memory, " kB")); err == nil {
		m.Memory = fmt.Sprintf("%.1f GiB", float64(kb)/(1<<20))
	}
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
	}
	return m
}

// field returns the first value of a "name: value" file of /proc.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// String is the machine in one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, %s, commit %s, %s", m.CPU, m.Cores, m.Memory, m.OS, m.Go, m.Commit, m.Date)
}

// Table is text in columns; the first is flush left, the others flush right.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// WriteTo writes the table as Markdown, which also reads well in a terminal.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c), 3)
		}
	}
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "%s\n\n", t.Title)
	}
	line := func(cells []string) {
		for i, c := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i == 0 {
				b.WriteString("| " + c + pad + " |")
			} else {
				b.WriteString(" " + pad + c + " |")
			}
		}
		b.WriteByte('\n')
	}
	line(t.Head)
	for i, n := range widths {
		if i == 0 {
			b.WriteString("|" + strings.Repeat("-", n+2) + "|")
		} else {
			b.WriteString(strings.Repeat("-", n+1) + ":|")
		}
	}
	b.WriteByte('\n')
	for _, row := range t.Rows {
		line(row)
	}
	b.WriteByte('\n')
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// Output is where and how results go.
type Output struct {
	Format string // "table" or "json"
	W      io.Writer
}

// Check says whether the format exists.
func (o Output) Check() error {
	if o.Format != "table" && o.Format != "json" {
		return fmt.Errorf("output format %q is unknown; use table or json", o.Format)
	}
	return nil
}

// Write writes the tables, or the machine and results as one JSON object.
func (o Output) Write(m Machine, results any, tables ...*Table) error {
	if o.Format == "json" {
		enc := json.NewEncoder(o.W)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Machine Machine `json:"machine"`
			Results any     `json:"results"`
		}{m, results})
	}
	if _, err := fmt.Fprintf(o.W, "%s\n\n", m); err != nil {
		return err
	}
	for _, t := range tables {
		if _, err := t.WriteTo(o.W); err != nil {
			return err
		}
	}
	return nil
}

// barWidth is the number of characters of a progress bar.
const barWidth = 30

// Progress is a bar on a terminal, and nothing elsewhere. A nil one is silent.
// It belongs to one goroutine.
type Progress struct {
	w     io.Writer
	total int
	done  int
	shown int // columns of the last line
}

// NewProgress returns a bar of total steps on stderr if that is a terminal,
// otherwise nil.
func NewProgress(total int) *Progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return &Progress{w: os.Stderr, total: total}
}

// Step shows what is being done now and counts the step before as done.
func (p *Progress) Step(what string) {
	if p == nil {
		return
	}
	full := 0
	if p.total > 0 {
		full = min(barWidth, barWidth*p.done/p.total)
	}
	line := fmt.Sprintf("[%s%s] %d/%d %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), p.done, p.total, what)
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.shown-len(line))))
	p.shown = len(line)
	p.done++
}

// End removes the bar.
func (p *Progress) End() {
	if p != nil {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.shown))
	}
}

// Bytes writes a number of bytes with a unit.
func Bytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size {
			return strconv.FormatFloat(float64(n)/float64(u.size), 'g', 4, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}
