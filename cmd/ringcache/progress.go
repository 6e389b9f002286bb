package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is a bar on one line of a terminal. On anything else it prints
// nothing, so that logs and pipes stay clean.
type progress struct {
	w          io.Writer
	verb, noun string
	terminal   bool
	start      time.Time
	last       time.Time
}

const (
	barWidth  = 30
	barPeriod = 100 * time.Millisecond
)

func newProgress(w io.Writer, verb, noun string) *progress {
	return &progress{w: w, verb: verb, noun: noun, terminal: isTerminal(w), start: time.Now()}
}

// isTerminal tells whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show draws the bar, at most once a period, and not after ctx has ended.
func (p *progress) show(ctx context.Context, done, total int) {
	if !p.terminal || total <= 0 || ctx.Err() != nil || time.Since(p.last) < barPeriod && done < total {
		return
	}
	p.last = time.Now()
	filled := barWidth * done / total
	rest := ""
	if elapsed := time.Since(p.start); done > 0 && done < total {
		rest = ", " + (elapsed * time.Duration(total-done) / time.Duration(done)).Round(time.Second).String() + " left"
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s [%s%s] %d of %d %s%s", p.verb,
		strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), done, total, p.noun, rest)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// say writes a line in the place of the bar, at most once a period.
func (p *progress) say(text string) {
	if !p.terminal || time.Since(p.last) < barPeriod {
		return
	}
	p.last = time.Now()
	fmt.Fprint(p.w, "\r\x1b[K"+text)
}

// barLine is a bar with a name in front and a text behind.
func barLine(name string, done float64, text string) string {
	filled := int(barWidth * min(max(done, 0), 1))
	return fmt.Sprintf("%s [%s%s] %5.1f%% %s", name, strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), 100*done, text)
}

// maxBars bounds the lines of bars; what is beyond is counted in one more.
const maxBars = 12

// bars are lines on a terminal that are drawn again in their place. On anything
// else they print nothing.
type bars struct {
	w        io.Writer
	terminal bool
	drawn    int // lines that stand there
}

func newBars(w io.Writer) *bars { return &bars{w: w, terminal: isTerminal(w)} }

// show draws the lines in the place of those before.
func (b *bars) show(lines []string) {
	if !b.terminal {
		return
	}
	if more := len(lines) - maxBars; more > 0 {
		lines = append(lines[:maxBars:maxBars], fmt.Sprintf("and %d more", more))
	}
	b.clear()
	for _, l := range lines {
		fmt.Fprint(b.w, l+"\n")
	}
	b.drawn = len(lines)
}

// clear removes the lines.
func (b *bars) clear() {
	if b.terminal && b.drawn > 0 {
		fmt.Fprintf(b.w, "\r\x1b[%dA\x1b[J", b.drawn)
	}
	b.drawn = 0
}
