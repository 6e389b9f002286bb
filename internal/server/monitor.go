package server

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/command"
)

// monitors are the sessions that MONITOR shows every command. Without any, a
// command costs one load of n.
type monitors struct {
	n atomic.Int32

	mu  sync.Mutex
	all map[*Session]struct{}
}

// monitor executes MONITOR: a second one is ignored, as in Redis.
func (s *Session) monitor() {
	if s.watch.inExec {
		s.w.Error("ERR MONITOR isn't allowed for DENY BLOCKING client")
		return
	}
	if s.monitors.Swap(true) {
		return
	}
	m := &s.srv.monitors
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[*Session]struct{}{}
	}
	m.all[s] = struct{}{}
	m.n.Store(int32(len(m.all)))
	s.w.Simple("OK")
}

// endMonitor lets the session be shown nothing more.
func (s *Session) endMonitor() {
	if !s.monitors.Swap(false) {
		return
	}
	m := &s.srv.monitors
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, s)
	m.n.Store(int32(len(m.all)))
}

// show tells the monitors of a command that was executed. One that does not read
// is cut off by the bounds of Push.
func (s *Session) show(cmd *command.Command, args [][]byte) {
	if cmd.Flags&(command.Admin|command.SkipMonitor|command.Internal) != 0 {
		return
	}
	now := s.srv.o.Now()
	line := fmt.Appendf(nil, "+%d.%06d [0 %s]", now.Unix(), now.Nanosecond()/1000, addrText(s.remote))
	for i, a := range args {
		line = append(line, ' ')
		if cmd.Secret(args, i) {
			line = append(line, `"(redacted)"`...)
			continue
		}
		line = appendQuoted(line, a)
	}
	line = append(line, '\r', '\n')
	m := &s.srv.monitors
	m.mu.Lock()
	defer m.mu.Unlock()
	for to := range m.all {
		to.Push(line)
	}
}

// showTransaction shows the commands of a transaction, unless it was not executed.
func (s *Session) showTransaction(t *Transaction) {
	if s.srv.monitors.n.Load() == 0 || len(s.w.Buf) == s.mark || s.w.Buf[s.mark] != '*' || t.Len() == 0 {
		return
	}
	if reply := s.w.Buf[s.mark:]; len(reply) > 1 && reply[1] == '-' {
		return // a watched key had changed
	}
	for i := range t.Len() {
		s.show(t.Command(i))
	}
}

// appendQuoted appends an argument in double quotes, with what is not printable
// escaped as Redis escapes it.
func appendQuoted(b, arg []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range arg {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\a':
			b = append(b, `\a`...)
		case c == '\b':
			b = append(b, `\b`...)
		case strconv.IsPrint(rune(c)) && c < 0x7f:
			b = append(b, c)
		default:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	return append(b, '"')
}
