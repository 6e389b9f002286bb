package membership

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// newLogger routes memberlist's lines to l: its warnings and errors as
// warnings, all else as debug. Errors of memberlist are mostly failed sends to
// peers in trouble; what follows from them is the policy's to say.
func newLogger(l *slog.Logger) *log.Logger { return log.New(lineWriter{l}, "", 0) }

type lineWriter struct{ l *slog.Logger }

// Write implements io.Writer; log.Logger calls it once per line.
func (w lineWriter) Write(line []byte) (int, error) {
	n := len(line)
	level := slog.LevelDebug
	line = bytes.TrimSpace(line)
	if rest, ok := bytes.CutPrefix(line, []byte("[")); ok {
		if tag, text, ok := bytes.Cut(rest, []byte("] ")); ok {
			line = bytes.TrimPrefix(text, []byte("memberlist: "))
			if t := string(tag); t == "WARN" || t == "ERR" || t == "ERROR" {
				level = slog.LevelWarn
			}
		}
	}
	if ctx := context.Background(); w.l.Enabled(ctx, level) {
		w.l.Log(ctx, level, string(line), "from", "memberlist")
	}
	return n, nil
}
