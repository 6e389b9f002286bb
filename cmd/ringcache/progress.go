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
