package server

import (
	"time"

	"github.com/ringcache/ringcache/internal/command"
)

// Observer is a Handler that is told what commands did and how long they took.
// Its methods are called on the goroutine that drives the session, must not
// block, and borrow what they are given.
type Observer interface {
	// Took says that commands of one session took d together, one after the
	// other. Commands that were refused before they were executed are not among
	// them.
	Took(s *Session, runs []Run, d time.Duration)
	// Failed tells of an error reply to cmd, nil if there is no such command.
	// executed is false if the server refused the command itself. It returns
	// true if the Handler refused it, so that it does not count as a call.
	Failed(s *Session, cmd *command.Command, executed bool, reply []byte) (refused bool)
	// Stood tells of a command that reached a limit that SetNotable gave.
	Stood(s *Session, n Notable)
}

// Accountant is an Observer that charges commands to accounts. It is asked only
// while Limits.Each is set; the rest is as for Observer.
type Accountant interface {
	// Account gives the account of a command by its keys, below 0 if it has none.
	// It borrows args.
	Account(cmd *command.Command, args [][]byte) int32
	// Spent charges an account with bytes of a request and a reply on the wire, and
	// with the time of a command.
	Spent(account int32, in, out int, d time.Duration)
}

// Run is a number of calls of one command.
type Run struct {
	ID    command.ID
	Calls uint8
}

// Kind says why a command is worth a log.
type Kind uint8

// The kinds of Notable commands.
const (
	Slow Kind = iota
	LargeRequest
	LargeReply
)

// Notable is a command that stood out.
type Notable struct {
	Kind
	Cmd  *command.Command
	Args [][]byte
	// Size is the bytes of request or reply on the wire, Took the time of the
	// command or, if there were Others before it in the same run, of all.
	Size   int64
	Took   time.Duration
	Others int
}

// Limits are the least values for which Stood is called; below 0 it never is.
type Limits struct {
	Slow           time.Duration
	Request, Reply int64 // bytes
	// Each has every command timed by itself, and charged by an Accountant.
	Each bool
}

const (
	// maxRun is how many brief commands are timed together at most.
	maxRun = 32
	// runKinds is how many different commands are.
	runKinds = 4
	// exactBelow is the limit of slow commands below which each command is timed
	// by itself.
	exactBelow = time.Millisecond
)

// brief are the commands that take little longer than reading a clock: those on
// one key, and PING. In a pipeline up to maxRun of them are timed together and
// count as equally long. All others are timed by themselves.
var brief = func() (set [command.NumCommands]bool) {
	for _, c := range command.All() {
		set[c.ID] = c.FirstKey == 1 && c.LastKey == 1 && !c.Flags.Has(command.MovableKeys)
	}
	set[command.Ping] = true
	return set
}()

// stopwatch measures a session's commands. It belongs to the goroutine that
// drives the session.
type stopwatch struct {
	since time.Duration // of the server's clock
	runs  [runKinds]Run
	calls uint8 // since then
	kinds uint8

	ran    bool // the current command was executed, not refused by the server
	inExec bool // it is one of a transaction

	paying int32 // the account of the transaction that the current EXEC has ended, and one more; 0: none
}

// SetNotable sets the limits for Observer.Stood, and whether an Accountant is asked.
// Any goroutine may call it.
func (s *Server) SetNotable(l Limits) {
	l.Each = l.Each && s.accountant != nil
	s.notable.Store(&l)
}

// elapsed is the time since the server was made. It costs one reading of the
// monotonic clock, half of time.Now.
func (s *Server) elapsed() time.Duration {
	if s.steady {
		return time.Since(s.made)
	}
	return s.o.Now().Sub(s.made)
}

// now is the time, from one reading of the monotonic clock where time.Now takes
// two. Steps of the wall clock since the server was made do not show in it.
func (s *Server) now() time.Time {
	if s.steady {
		return s.made.Add(time.Since(s.made))
	}
	return s.o.Now()
}

// lap ends a run of brief commands before a command that is timed by itself.
func (s *Session) lap(cmd *command.Command) {
	if s.srv.observer != nil && s.watch.calls > 0 && !brief[cmd.ID] {
		s.took(nil, nil)
	}
}

// count notes a command that was executed, and ends the run if it must. It returns
// how long the command took, if each is timed by itself.
func (s *Session) count(l *Limits, cmd *command.Command, args [][]byte) (d time.Duration) {
	w := &s.watch
	i := int(w.kinds) - 1
	for ; i >= 0 && w.runs[i].ID != cmd.ID; i-- {
	}
	if i < 0 {
		i = int(w.kinds)
		w.runs[i] = Run{ID: cmd.ID}
		w.kinds++
	}
	w.runs[i].Calls++
	w.calls++
	if w.calls == maxRun || w.kinds == runKinds || !brief[cmd.ID] || l.Slow >= 0 && l.Slow < exactBelow || l.Each {
		calls := w.calls // above 1 if Each has just been set
		d = s.took(cmd, args) / time.Duration(calls)
	}
	return d
}

// charge charges a command that was executed to its account.
func (s *Session) charge(cmd *command.Command, args [][]byte, size int, d time.Duration) {
	var account int32
	if cmd.ID == command.Exec {
		account, s.watch.paying = s.watch.paying-1, 0
		size += multiSize
	} else {
		account = s.srv.accountant.Account(cmd, args)
	}
	if account < 0 {
		return
	}
	reply := len(s.w.Buf) - s.mark
	if s.replyOff || s.skip {
		reply = 0
	}
	s.srv.accountant.Spent(account, size, reply, d)
}

// multiSize is how many bytes MULTI takes.
const multiSize = len("*1\r\n$5\r\nMULTI\r\n")

// chargeQueued charges the request of a command that was queued. The account of the
// first of a transaction pays for EXEC, with its time and its reply.
func (s *Session) chargeQueued(cmd *command.Command, args [][]byte) {
	account := s.srv.accountant.Account(cmd, args)
	if account < 0 {
		return
	}
	if s.multi.account == 0 {
		s.multi.account = account + 1
	}
	s.srv.accountant.Spent(account, wireSize(args), 0, 0)
}

// wireSize is how many bytes a command takes as RESP.
func wireSize(args [][]byte) int {
	digits := func(n int) int {
		d := 1
		for ; n >= 10; n /= 10 {
			d++
		}
		return d
	}
	size := 3 + digits(len(args))
	for _, a := range args {
		size += 5 + digits(len(a)) + len(a)
	}
	return size
}

// took ends a run and returns its time; cmd is its last command, nil if its arguments
// are gone.
func (s *Session) took(cmd *command.Command, args [][]byte) (d time.Duration) {
	w := &s.watch
	now := s.srv.elapsed()
	d = now - w.since
	w.since = now
	s.srv.observer.Took(s, w.runs[:w.kinds], d)
	if slow := s.srv.notable.Load().Slow; slow >= 0 && d >= slow {
		last := cmd
		if last == nil {
			last = command.ByID(w.runs[w.kinds-1].ID)
		}
		if !last.Flags.Has(command.SkipSlowLog) {
			s.srv.observer.Stood(s, Notable{Kind: Slow, Cmd: last, Args: args, Took: d, Others: int(w.calls) - 1})
		}
	}
	w.calls, w.kinds = 0, 0
	return d
}

// observe does what follows a command for the Observer: size is that of the
// request on the wire.
func (s *Session) observe(cmd *command.Command, args [][]byte, size int) {
	if len(s.w.Buf) > s.mark && s.w.Buf[s.mark] == '-' {
		refused := s.srv.observer.Failed(s, cmd, s.watch.ran, s.w.Buf[s.mark:])
		s.watch.ran = s.watch.ran && !refused
	}
	if !s.watch.ran || cmd == nil {
		return
	}
	l := s.srv.notable.Load()
	if l.Request >= 0 && int64(size) >= l.Request {
		s.srv.observer.Stood(s, Notable{Kind: LargeRequest, Cmd: cmd, Args: args, Size: int64(size)})
	}
	if reply := int64(len(s.w.Buf) - s.mark); l.Reply >= 0 && reply >= l.Reply {
		s.srv.observer.Stood(s, Notable{Kind: LargeReply, Cmd: cmd, Args: args, Size: reply})
	}
	d := s.count(l, cmd, args)
	if l.Each {
		s.charge(cmd, args, size, d)
	}
}
