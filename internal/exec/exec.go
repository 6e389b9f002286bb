// Package exec owns the command handlers: what a command does to the keys of
// one slot that the caller holds, and the few commands that look at all keys
// of the node. Replies and error texts are those of Redis 7.0, and every error
// text is made in errors.go.
//
// It never chooses a slot, takes a lock, blocks or opens a connection: the
// caller checks arity, slot and ownership and holds the transaction for the
// whole call. Functions keep no state, so they may run on any goroutine; a
// Call belongs to one goroutine at a time.
package exec

import (
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/resp"
)

// Call is one command to execute. Callers reuse it.
type Call struct {
	// Cmd is the top-level command or, for containers, also the subcommand.
	Cmd *command.Command
	// Args are all arguments, the name included; borrowed for the call.
	Args [][]byte
	// Slot is the slot of all keys, Tx the hold on it; both unused by Keyless.
	Slot uint16
	Tx   *engine.Txn
	// W receives exactly one reply.
	W   *resp.Writer
	Eng *engine.Engine
	// Scripts runs EVAL; nil if there are none.
	Scripts Scripts
	// Publish sends a message for a script and counts who got it at this node;
	// nil refuses it. It must not block.
	Publish func(channel, message []byte, shard bool) int
	// Read is told of each command with keys that a script calls, before it is
	// executed; nil: nobody wants to know.
	Read func(cmd *command.Command, args [][]byte)
	// Guard is asked about each command that a script calls: it returns the error
	// for one that is refused, "" for others. nil: nothing is.
	Guard func(cmd *command.Command, args [][]byte) string
}

type handler func(c *Call)

// Keyed executes a command whose keys all lie in Slot, with Tx held by the
// caller. Args must have passed the arity check of the top-level command; the
// command must be one that Has reports and must have keys.
func Keyed(c *Call) {
	if IsEval(c.Cmd.ID) {
		eval(c)
		return
	}
	handlers[c.Cmd.ID](c)
}

// IsEval tells the commands that call others: a table cannot hold what refers
// to the table.
func IsEval(id command.ID) bool { return id >= command.Eval && id <= command.EvalSHARO }

// Keyless executes a command without keys over the whole node, or answers HELP
// and unknown subcommands of a container. It reports false, with nothing
// written, when the command is not among them.
func Keyless(c *Call) bool {
	if IsEval(c.Cmd.ID) { // without keys, or with a number that is wrong
		eval(c)
		return true
	}
	if h := keyless[c.Cmd.ID]; h != nil {
		h(c)
		return true
	}
	return false
}

// Has reports whether Keyed or Keyless executes the command.
func Has(id command.ID) bool {
	return id < command.NumCommands && (handlers[id] != nil || keyless[id] != nil || IsEval(id))
}
