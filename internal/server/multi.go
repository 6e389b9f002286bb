package server

import (
	"fmt"
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// Transactor is a Handler that executes transactions. Behind a Handler that is
// none, MULTI is refused.
type Transactor interface {
	// Admit is asked before a command is queued. It reports false after it has
	// appended an error to w; the transaction fails then. args are borrowed.
	Admit(s *Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool
	// Transact ends the transaction of the session: it executes the commands
	// of t in order as one step and appends one reply for all to w, or an
	// error, or null if a watched key was changed. It also ends the watches.
	Transact(s *Session, t *Transaction, w *resp.Writer)
	// Forget ends the watches and drops what Admit noted. It must not block.
	Forget(s *Session)
}

// PromptTransactor is a Transactor that can tell the transactions that end at
// once. Loops hand every session over for EXEC if the Handler is none.
type PromptTransactor interface {
	Transactor
	// TryTransact is Transact if that needs to wait for nobody. Otherwise it
	// reports false, and has neither changed nor appended anything: Transact
	// follows on another goroutine, before any other command of the session.
	TryTransact(s *Session, t *Transaction, w *resp.Writer) bool
}

const (
	// maxQueued and maxQueuedBytes bound one transaction: its commands, and the
	// bytes of their arguments.
	maxQueued      = 8192
	maxQueuedBytes = 32 << 20
	// queueStep is by how many bytes a transaction books memory.
	queueStep = 4 << 10
)

const errNoMulti = "ERR Command not allowed inside a transaction"

// Transaction is the queue between MULTI and EXEC. It belongs to the goroutine
// of its session.
type Transaction struct {
	s      *Session
	cmds   []queuedCommand
	ends   []int32 // where each argument ends in bytes
	bytes  []byte
	args   [][]byte // of the last Command
	booked int64    // what the budget of all sessions counts for it
	failed bool     // a command could not be queued

	account int32 // of the first command that has one, and one more; see Accountant
}

type queuedCommand struct {
	cmd *command.Command
	end int32 // where its arguments end in ends
}

// Len returns the number of commands.
func (t *Transaction) Len() int { return len(t.cmds) }

// Failed tells that a command could not be queued, so that none is executed.
func (t *Transaction) Failed() bool { return t.failed }

// Command returns command i and its arguments, valid until the next call.
func (t *Transaction) Command(i int) (*command.Command, [][]byte) {
	first := int32(0)
	if i > 0 {
		first = t.cmds[i-1].end
	}
	from := int32(0)
	if first > 0 {
		from = t.ends[first-1]
	}
	t.args = t.args[:0]
	for _, end := range t.ends[first:t.cmds[i].end] {
		t.args = append(t.args, t.bytes[from:end:end])
		from = end
	}
	return t.cmds[i].cmd, t.args
}

// Connection executes command i, which concerns the connection itself, and
// appends its reply.
func (t *Transaction) Connection(i int) {
	cmd, args := t.Command(i)
	mark := t.s.mark
	t.s.mark, t.s.watch.inExec = len(t.s.w.Buf), true
	t.s.connection(cmd, args)
	t.s.mark, t.s.watch.inExec = mark, false
}

// add queues a command and tells why it cannot.
func (t *Transaction) add(cmd *command.Command, args [][]byte) (refusal string) {
	size := len(t.bytes)
	for _, a := range args {
		size += len(a)
	}
	if len(t.cmds) == maxQueued || size > maxQueuedBytes {
		return fmt.Sprintf("RCTOOLARGE a transaction holds at most %d commands with %d bytes; use more of them", maxQueued, maxQueuedBytes)
	}
	const perArg, perCommand = 4 + 24, 16
	need := int64(size + (len(t.ends)+len(args))*perArg + (len(t.cmds)+1)*perCommand)
	need += need / 4 // slices grow by a quarter once they are large
	if more := need - t.booked; more > 0 {
		more = (more + queueStep - 1) / queueStep * queueStep
		if !t.s.srv.budget.take(more) {
			return t.s.srv.budget.refuse("the transaction is dropped: repeat it later")
		}
		t.booked += more
	}
	for _, a := range args {
		t.bytes = append(t.bytes, a...)
		t.ends = append(t.ends, int32(len(t.bytes)))
	}
	t.cmds = append(t.cmds, queuedCommand{cmd, int32(len(t.ends))})
	t.s.queued.Store(int64(len(t.cmds)) + 1)
	return ""
}

// fail drops the queue: nothing of it will be executed.
func (t *Transaction) fail() {
	t.failed = true
	t.cmds, t.ends, t.bytes, t.args = nil, nil, nil, nil
	t.s.srv.budget.held.Add(-t.booked)
	t.booked = 0
}

// endMulti drops the transaction, if there is one.
func (s *Session) endMulti() {
	if s.multi == nil {
		return
	}
	s.multi.fail()
	s.multi = nil
	s.queued.Store(0)
}

// abandon drops transaction and watches.
func (s *Session) abandon() {
	s.endMulti()
	if s.srv.transactor != nil {
		s.srv.transactor.Forget(s)
	}
}

// queues tells whether the command goes to enqueue if a transaction is open.
func queues(id command.ID) bool {
	switch id {
	case command.Multi, command.Exec, command.Discard, command.Quit, command.Reset:
		return false
	}
	return true
}

// enqueue puts a command into the open transaction.
func (s *Session) enqueue(cmd *command.Command, args [][]byte) {
	if cmd.ID == command.Watch {
		s.w.Error("ERR WATCH inside MULTI is not allowed")
		return
	}
	if cmd.Flags.Has(command.NoMulti) {
		s.w.Error(errNoMulti)
		return
	}
	if !cmd.Conn && !s.srv.transactor.Admit(s, cmd, args, &s.w) {
		return
	}
	if !s.multi.failed {
		if refusal := s.multi.add(cmd, args); refusal != "" {
			s.w.Error(refusal)
			return
		}
		if s.srv.notable.Load().Each {
			s.chargeQueued(cmd, args)
		}
	}
	s.w.Simple("QUEUED")
}

// multiFailed notes an error reply to cmd, nil if unknown, in an open
// transaction. A nested MULTI and a WATCH leave it as it is.
func (s *Session) multiFailed(cmd *command.Command) {
	if cmd == nil || cmd.ID != command.Multi && cmd.ID != command.Watch {
		s.multi.fail()
	}
}

// transaction executes MULTI, EXEC and DISCARD. An EXEC that may have to wait is
// put off where the session must not, with the transaction as it is.
func (s *Session) transaction(cmd *command.Command, args [][]byte) {
	w := &s.w
	switch {
	case s.srv.transactor == nil:
		w.Error("ERR transactions are not served here")
	case cmd.ID == command.Multi && s.multi != nil:
		w.Error("ERR MULTI calls can not be nested")
	case cmd.ID == command.Multi:
		s.multi = &Transaction{s: s}
		s.queued.Store(1)
		w.Simple("OK")
	case s.multi == nil:
		w.Error("ERR " + map[command.ID]string{command.Exec: "EXEC", command.Discard: "DISCARD"}[cmd.ID] + " without MULTI")
	case cmd.ID == command.Discard:
		s.abandon()
		w.Simple("OK")
	case s.stale && !s.fresh(cmd):
		s.later, s.laterArgs = cmd, args
	case s.mayWait:
		s.srv.transactor.Transact(s, s.multi, w)
		s.concluded()
	case s.srv.promptTransactor != nil && s.srv.promptTransactor.TryTransact(s, s.multi, w):
		s.concluded()
	default:
		s.later, s.laterArgs = cmd, args
	}
}

// concluded follows the end of a transaction by EXEC.
func (s *Session) concluded() {
	s.showTransaction(s.multi)
	s.watch.paying = s.multi.account
	s.endMulti()
}

// wrongArity answers a wrong number of arguments. Redis ends a transaction with
// an EXEC that has some.
func (s *Session) wrongArity(cmd *command.Command) {
	if cmd.ID == command.Exec {
		s.w.Error("EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command")
		s.abandon()
		return
	}
	s.w.Error("ERR wrong number of arguments for '" + cmd.FullName() + "' command")
	if s.multi != nil {
		s.multi.fail()
	}
}

// queuedText is the number of queued commands as CLIENT LIST shows it.
func (s *Session) queuedText() string { return strconv.FormatInt(s.queued.Load()-1, 10) }
