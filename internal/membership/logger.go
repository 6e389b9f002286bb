package membership

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// newLogger routes memberlist's lines to l. Its errors are mostly failed sends
// to peers in trouble, and its warnings what a restart or a late packet leaves
// behind ("Got ping for unexpected node"); what follows from them is the
// policy's to say, so they go to debug. Only what nobody else would notice,
// somebody with a wrong key, name or version and an overload, is a warning.
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
			if t := string(tag); (t == "WARN" || t == "ERR" || t == "ERROR") && matters(line) {
				level = slog.LevelWarn
			}
		}
	}
	if ctx := context.Background(); w.l.Enabled(ctx, level) {
		w.l.Log(ctx, level, string(line), "from", "memberlist")
	}
	return n, nil
}

// matters tells which of memberlist's warnings and errors an operator has to
// see: nothing else in this package would show their cause.
func matters(line []byte) bool {
	for _, part := range []string{
		"without encryption", "crypt", "unacceptable label", "label header", "protocol version", "Conflicting address",
		"Too many pending", "queue full", "accepting TCP", "reading UDP", "misconfigured", "state size", "shutdown transport",
	} {
		if bytes.Contains(line, []byte(part)) {
			return true
		}
	}
	return false
}
