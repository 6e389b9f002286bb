package server

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// flushAt ends a turn early when that many bytes of replies wait.
const flushAt = 64 << 10

// turnCommands ends a turn early after that many commands: a client that sends
// many tiny ones holds up the others on its loop no longer than that.
const turnCommands = 1024

// maxUnpaid bounds the replies that a session gets before it authenticates.
const maxUnpaid = 64 << 10

// verdict is what a turn leaves for the transport to do, after it has flushed
// the replies.
type verdict uint8

const (
	needBytes  verdict = iota // read more
	runAgain                  // the rest of the bytes waits for another turn
	endSession                // close
	handOff                   // a command may have to wait: call turn on another goroutine
)

// turn parses and executes the commands in in, which holds everything read and
// not consumed yet. It returns how many bytes it consumed; the transport moves
// the rest to the front for the next turn. Replies are appended to s.w.Buf, which
// the transport flushes and empties.
//
// If it returns handOff, one command was read and not executed. Its arguments are
// borrowed from in, which must stay as it is until the next turn, called with
// mayWait set, has executed it.
func (s *Session) turn(in []byte) (n int, v verdict) {
	s.now = s.srv.now()
	s.enterTurn()
	s.srv.counters.largest[0].note(len(in))
	s.watch.since = s.now.Sub(s.srv.made)
	s.stale = int64(s.watch.since) > s.srv.holdAfter.Load()
	var args [][]byte // of the last command
	defer s.settle(&v, &args)
	if s.later != nil {
		s.takePushes()
		s.resume()
		if s.closing {
			return 0, endSession
		}
	}
	shown := 1 // the first command is executed at once
	for n < len(in) {
		if n >= shown && s.srv.previewer != nil {
			shown = n + max(1, s.srv.preview(in[n:]))
		}
		next, size, err := s.parser.Next(in[n:], s.limits)
		n += size
		switch {
		case err != nil:
			s.unreadable(err, size)
		case size == 0:
			return n, needBytes
		case len(next) > 0:
			args = next
			s.most = max(s.most, int32(len(args)))
			if s.outbox.Load() != nil {
				s.takePushes()
			}
			s.execute(args, size)
		}
		if s.closing {
			return n, endSession
		}
		if s.later != nil {
			return n, handOff
		}
		if n < len(in) && (s.tight || len(s.w.Buf) >= flushAt || s.commands >= turnCommands) {
			return n, runAgain
		}
	}
	return n, needBytes
}

// settle ends a turn: it turns a panic of the Handler into an error reply and
// the end of the session, and publishes what others may see of it. args are those
// of the last command.
func (s *Session) settle(v *verdict, args *[][]byte) {
	if cause := recover(); cause != nil {
		s.later, s.laterArgs = nil, nil
		s.watch = stopwatch{}
		s.srv.counters.panics.Add(1)
		s.srv.log.Error("command panicked; session closed", "session", s.id, "remote", addrText(s.remote),
			"command", commandName(s.lastSeen), "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		s.w.Buf = s.w.Buf[:s.mark]
		s.w.Error("ERR internal error, see the log of the node")
		s.commands++
		s.errors++
		s.closing = true
		*v = endSession
	}
	if s.watch.calls > 0 {
		s.took(s.lastSeen, *args)
	}
	s.leaveTurn()
	s.srv.counters.largest[1].note(len(s.w.Buf))
	s.active.Store(s.now.Sub(s.created).Milliseconds())
	s.last.Store(s.lastSeen)
	s.srv.counters.turn(s.now, uint64(s.commands), uint64(s.errors))
	s.commands, s.errors = 0, 0
}

// unreadable answers a parser's error about a command of n bytes.
func (s *Session) unreadable(err error, n int) {
	s.begin()
	var large *resp.TooLargeError
	if errors.As(err, &large) {
		if s.busy != "" {
			s.w.Error(s.busy)
			s.busy = ""
		} else {
			s.srv.counters.tooLarge.Add(1)
			s.refuse(large)
		}
		s.finish(nil, nil, n)
		return
	}
	s.srv.counters.protocolErrors.Add(1)
	s.w.Error("ERR " + err.Error())
	s.srv.log.Debug("protocol error", "session", s.id, "remote", addrText(s.remote), "err", err)
	s.closing = true
}

// refuse answers a command that was too large to be kept.
func (s *Session) refuse(e *resp.TooLargeError) {
	if e.Query {
		s.w.Error("RCTOOLARGE " + e.Error() + "; send fewer or shorter arguments in one command")
		return
	}
	limit := e.Limit
	if !s.peer {
		limit = s.srv.o.MaxValue
	}
	s.w.Error(fmt.Sprintf("RCTOOLARGE value is %d bytes, limit %d; raise max-value on every node or store the value in parts", e.Size, limit))
}

// execute runs one command of size bytes and settles its reply.
func (s *Session) execute(args [][]byte, size int) {
	s.begin()
	cmd := s.dispatch(args)
	if s.later == nil {
		s.finish(cmd, args, size)
		return
	}
	if s.watch.calls > 0 {
		s.took(nil, nil)
	}
}

// resume executes the command that was put off.
func (s *Session) resume() {
	cmd, args := s.later, s.laterArgs
	s.later, s.laterArgs = nil, nil
	s.mark, s.watch.ran = len(s.w.Buf), true
	switch {
	case s.postponed:
		s.postponed = false
		if s.outwait(cmd) {
			s.perform(cmd, args)
		} else {
			s.closing = true
		}
	case cmd.Conn: // EXEC
		s.connection(cmd, args)
	default:
		s.handle(cmd, args)
	}
	s.finish(cmd, args, wireSize(args))
}

// handle lets the Handler execute a command.
func (s *Session) handle(cmd *command.Command, args [][]byte) {
	switch p := s.srv.prompt; {
	case s.stale && !s.fresh(cmd):
		s.later, s.laterArgs = cmd, args
		return
	case s.mayWait:
		s.srv.o.Handler.Exec(s, cmd, args, &s.w)
	case p == nil || !p.TryExec(s, cmd, args, &s.w):
		s.later, s.laterArgs = cmd, args
		return
	}
	if len(s.w.Buf) == s.mark && !s.closing {
		s.w.Error("ERR internal error, the command gave no reply")
	}
}

// begin notes where the reply of the next command starts and whether CLIENT
// REPLY SKIP drops it.
func (s *Session) begin() {
	s.mark, s.watch.ran = len(s.w.Buf), false
	s.w.Limit = s.srv.OutputLimit()
	s.skip, s.skipNext = s.skipNext, false
}

// finish does what follows every command, known (cmd) or not (nil), of size bytes.
func (s *Session) finish(cmd *command.Command, args [][]byte, size int) {
	s.commands++
	if s.srv.observer != nil {
		s.observe(cmd, args, size)
	}
	if s.srv.monitors.n.Load() != 0 && s.watch.ran && cmd != nil {
		s.show(cmd, args)
	}
	if len(s.w.Buf) > s.mark && s.w.Buf[s.mark] == '-' {
		s.errors++
		if s.multi != nil {
			s.multiFailed(cmd)
		}
	}
	if cmd == nil || cmd.ID != command.Asking {
		s.asking = false
	}
	if s.caching && s.multi == nil && !keepsCaching(cmd) {
		s.caching = false
	}
	if s.replyOff || s.skip {
		s.w.Buf = s.w.Buf[:s.mark]
	}
	if cap(s.w.Buf) > s.paid {
		s.replyGrew()
	}
	if s.trusted() {
		return
	}
	if s.unpaid += int32(len(s.w.Buf) - s.mark); s.unpaid > maxUnpaid {
		s.srv.counters.outputLimit.Add(1)
		s.closing = true
	}
}

// dispatch finds the command, checks what may be checked without executing it
// in Redis's order, and executes it. It returns the command, nil if unknown.
func (s *Session) dispatch(args [][]byte) *command.Command {
	cmd := command.Lookup(args[0])
	if cmd == nil || cmd.Flags.Has(command.Internal) && !s.mayUse(cmd) {
		s.unknown(args)
		return nil
	}
	if cmd.Subs != nil && len(args) > 1 {
		sub := cmd.Sub(args[1])
		if sub == nil {
			s.w.Error(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], strings.ToUpper(cmd.Name)))
			return cmd
		}
		cmd = sub
	}
	s.lastSeen = cmd
	switch {
	case !cmd.ArityOK(len(args)):
		s.wrongArity(cmd)
	case s.surplus && cmd.ID != command.RCHello && cmd.ID != command.RCAuth:
		s.w.Error(errMaxClients)
		s.srv.counters.rejected.Add(1)
		s.closing = true
	case !s.authed && !s.peer && !cmd.Flags.Has(command.NoAuth):
		s.w.Error("NOAUTH Authentication required.")
	case !s.free() && !s.permit(cmd, args):
	case s.confined() && !mayListen(cmd.ID):
		s.refuseConfined(cmd)
	case s.srv.pause.active.Load() && s.paused(cmd):
		s.later, s.laterArgs, s.postponed = cmd, args, true
	default:
		s.perform(cmd, args)
	}
	return cmd
}

// perform executes or queues a command that was checked.
func (s *Session) perform(cmd *command.Command, args [][]byte) {
	switch {
	case s.multi != nil && queues(cmd.ID):
		s.enqueue(cmd, args)
	case cmd.Conn:
		s.lap(cmd)
		s.watch.ran = true
		s.connection(cmd, args)
	default:
		s.lap(cmd)
		s.watch.ran = true
		s.handle(cmd, args)
	}
}

// mayUse tells whether the session may use an internal command: a peer may use
// all, anybody the two that prove a peer.
func (s *Session) mayUse(cmd *command.Command) bool {
	return s.peer || cmd.ID == command.RCHello || cmd.ID == command.RCAuth
}

// unknown answers a command that does not exist. A browser that was tricked
// into speaking to this port is cut off without an answer, as Redis does.
func (s *Session) unknown(args [][]byte) {
	if bytes.EqualFold(args[0], []byte("post")) || bytes.EqualFold(args[0], []byte("host:")) {
		s.srv.log.Warn("possible cross protocol attack: POST or Host: sent to the data port; session closed",
			"session", s.id, "remote", addrText(s.remote))
		s.closing = true
		return
	}
	const most = 128
	var b []byte
	b = append(b, "ERR unknown command '"...)
	b = append(b, args[0][:min(len(args[0]), most)]...)
	b = append(b, "', with args beginning with: "...)
	start := len(b)
	for _, a := range args[1:] {
		used := len(b) - start
		if used >= most {
			break
		}
		b = append(b, '\'')
		if nul := bytes.IndexByte(a, 0); nul >= 0 {
			a = a[:nul] // as C prints it
		}
		b = append(b, a[:min(len(a), most-used)]...)
		b = append(b, "' "...)
	}
	s.w.Error(string(b))
}

func commandName(c *command.Command) string {
	if c == nil {
		return "NULL"
	}
	return c.FullName()
}
