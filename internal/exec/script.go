package exec

import (
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// Scripts runs the scripts of EVAL and keeps those that EVALSHA names. The
// package lua has the one that the server uses.
type Scripts interface {
	// Run executes a script and appends exactly one reply to r.W. It must end
	// within bounds of its own: the caller holds a slot.
	Run(r *Script)
	// Load compiles a script, keeps it and returns its SHA-1 in hexadecimal
	// digits.
	Load(source []byte) (sha string, err error)
	// Exists tells whether a script of that SHA-1 is kept.
	Exists(sha []byte) bool
	// Flush forgets all scripts.
	Flush()
}

// Script is one execution of a script.
type Script struct {
	// Source is the text; nil for EVALSHA, which gives SHA.
	Source, SHA []byte
	Keys, Args  [][]byte
	// Call executes one command of the script and appends its reply, or the
	// error for which it was not executed, to w.
	Call func(args [][]byte, w *resp.Writer)
	W    *resp.Writer
}

const (
	errNoScripts     = "ERR scripts are not served here"
	errScriptUnknown = "ERR Unknown Redis command called from script"
	errScriptArity   = "ERR Wrong number of args calling Redis command from script"
	errScriptRefused = "ERR This Redis command is not allowed from script"
	errScriptWrite   = "ERR Write commands are not allowed from read-only scripts."
	errScriptSlot    = "ERR Script attempted to access a non local key in a cluster node"
	errKeysNegative  = "ERR Number of keys can't be negative"
	errKeysTooMany   = "ERR Number of keys can't be greater than number of args"
)

// eval: EVAL script numkeys [key ...] [arg ...], and EVALSHA, EVAL_RO and
// EVALSHA_RO. Without keys it runs without a hold, and can call nothing that
// needs one.
func eval(c *Call) {
	if c.Scripts == nil {
		c.W.Error(errNoScripts)
		return
	}
	n, ok := c.integer(c.Args[2])
	if !ok {
		return
	}
	rest := c.Args[3:]
	switch {
	case n < 0:
		c.W.Error(errKeysNegative)
		return
	case n > int64(len(rest)):
		c.W.Error(errKeysTooMany)
		return
	}
	r := Script{Keys: rest[:n], Args: rest[n:], W: c.W}
	if id := c.Cmd.ID; id == command.Eval || id == command.EvalRO {
		r.Source = c.Args[1]
	} else {
		r.SHA = c.Args[1]
	}
	inner := *c
	r.Call = func(args [][]byte, w *resp.Writer) {
		inner.Args, inner.W = args, w
		inner.fromScript(c.Cmd.Flags.Has(command.ReadOnly))
	}
	c.Scripts.Run(&r)
}

// fromScript executes a command that a script calls.
func (c *Call) fromScript(readOnly bool) {
	cmd := command.Lookup(c.Args[0])
	if cmd == nil || cmd.Flags.Has(command.Internal) {
		c.W.Error(errScriptUnknown)
		return
	}
	if cmd.Subs != nil && len(c.Args) > 1 {
		if cmd = cmd.Sub(c.Args[1]); cmd == nil {
			c.W.Error(errScriptUnknown)
			return
		}
	}
	c.Cmd = cmd
	hasKeys := cmd.HasKeys(c.Args)
	refusal := ""
	switch {
	case !cmd.ArityOK(len(c.Args)):
		c.W.Error(errScriptArity)
	case cmd.Flags.Has(command.NoScript):
		c.W.Error(errScriptRefused)
	case c.denies(cmd, &refusal):
		c.W.Error(refusal)
	case readOnly && (cmd.Flags.Has(command.Write) || publishes(cmd.ID)):
		c.W.Error(errScriptWrite)
	case hasKeys && !c.owns():
		c.W.Error(errScriptSlot)
	case publishes(cmd.ID) && c.Publish != nil:
		c.W.Int(int64(c.Publish(c.Args[1], c.Args[2], cmd.ID == command.SPublish)))
	case hasKeys && Has(cmd.ID):
		if c.Read != nil {
			c.Read(cmd, c.Args)
		}
		Keyed(c)
	case cmd.ID == command.Ping && len(c.Args) == 1:
		c.W.Simple("PONG")
	case cmd.ID == command.Echo:
		c.W.Bulk(c.Args[1])
	case HoldSafe(cmd.ID):
		Keyless(c)
	default:
		c.W.Error(errScriptRefused)
	}
}

func publishes(id command.ID) bool { return id == command.Publish || id == command.SPublish }

// denies asks the guard.
func (c *Call) denies(cmd *command.Command, refusal *string) bool {
	if c.Guard != nil {
		*refusal = c.Guard(cmd, c.Args)
	}
	return *refusal != ""
}

// owns tells whether all keys lie in the slot that is held.
func (c *Call) owns() bool {
	if c.Tx == nil {
		return false
	}
	var room [32]int
	for _, k := range c.Cmd.AppendKeys(room[:0], c.Args) {
		if ring.Slot(c.Args[k]) != c.Slot {
			return false
		}
	}
	return true
}

// script: SCRIPT LOAD | EXISTS | FLUSH | KILL | HELP
func script(c *Call) {
	sub := c.subcommand()
	switch {
	case sub == nil:
	case sub.ID == command.ScriptHelp:
		help(c.W, sub)
	case c.Scripts == nil:
		c.W.Error(errNoScripts)
	case sub.ID == command.ScriptKill:
		// A script ends by its own bounds before anybody could ask.
		c.W.Error("NOTBUSY No scripts in execution right now.")
	case sub.ID == command.ScriptExists:
		c.W.Array(len(c.Args) - 2)
		for _, sha := range c.Args[2:] {
			c.writeBool(c.Scripts.Exists(sha))
		}
	case sub.ID == command.ScriptFlush:
		if len(c.Args) > 3 || len(c.Args) == 3 && !is(c.Args[2], "SYNC") && !is(c.Args[2], "ASYNC") {
			c.W.Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
			return
		}
		c.Scripts.Flush()
		c.W.Simple("OK")
	default:
		sha, err := c.Scripts.Load(c.Args[2])
		if err != nil {
			c.W.Error("ERR Error compiling script (new function): " + err.Error())
			return
		}
		c.W.BulkString(sha)
	}
}
