package node

import (
	"context"
	"net"
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// Session is what the node needs of an accepted connection.
type Session interface {
	ID() uint64 // 1, 2, 3 ... in the order in which a server accepts
	RemoteAddr() net.Addr
	Name() string // what the client calls itself
	// Attachment is a place for the node's own state of the session.
	Attachment() any
	SetAttachment(any)
	// SetPeer marks the session as that of a proven peer.
	SetPeer(bool)
	// CloseAfterReply ends the session once its replies are flushed.
	CloseAfterReply()
	// NoTouch tells whether its reads leave the recency of keys as it is, Tracks
	// whether the keys that its current command reads are to be remembered.
	// Neither, unless the session is marked.
	NoTouch() bool
	Tracks() bool
	// Marked tells whether Mark was called with true last.
	Marked() bool
	// Invalidate tells the client that a key is not what it has read; own says
	// that the client changed it itself. InvalidateAll says it of all keys. They
	// do not block, and any goroutine may call them, also under a hold.
	Invalidate(key []byte, own bool)
	InvalidateAll()
	// ReadOnly tells whether the client has said READONLY: it takes copies.
	ReadOnly() bool
	// TriesAgain tells whether the client repeats on its own what is answered
	// TRYAGAIN: its session is not held up, since others wait behind.
	TriesAgain() bool
	// Guard decides about the commands of scripts, see exec.Call; nil for a user
	// who may do everything.
	Guard() func(cmd *command.Command, args [][]byte) string
}

const errCrossSlot = "CROSSSLOT Keys in request don't hash to the same slot"

// Exec executes one command and appends exactly one reply to w. cmd is the
// subcommand for a container that has one of that name; the arity was checked.
// args are borrowed for the call. It may block, up to about a second, while a slot
// changes its owner.
func (n *Node) Exec(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	n.dispatch(s, cmd, args, w)
}

// Closed tells the node that a session ended.
func (n *Node) Closed(s Session) {
	n.Forget(s)
	s.SetAttachment(nil)
}

func (n *Node) dispatch(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	group := cmd
	if cmd.Parent != nil {
		group = cmd.Parent
	}
	switch group.ID {
	case command.RCHello, command.RCAuth, command.RCPing, command.RCView, command.RCRelease, command.RCForward,
		command.RCPublish, command.RCTake, command.RCTakeMany, command.RCTaken, command.RCHave, command.RCPins, command.RCRing,
		command.RCStanding, command.RCTenure, command.RCCopy:
		n.peerCommand(s, cmd, args, w)
	case command.Cluster:
		n.cluster(s, cmd, args, w)
	case command.Ring:
		n.ring(cmd, args, w)
	case command.Wait:
		n.waitCommand(n.copies.waits, args, w)
	case command.Eval, command.EvalRO:
		if n.o.Scripts != nil {
			// Compiled before the slot is held; what fails is told there.
			_, _ = n.o.Scripts.Load(args[1])
		}
		n.onData(s, cmd, args, w)
	case command.Watch:
		n.watch(s, args, w, true)
	case command.Unwatch:
		n.unwatch(s)
		w.Simple("OK")
	case command.Info:
		n.info(args, w)
	case command.Config:
		n.config(cmd, args, w)
	case command.SlowLog, command.CommandLog:
		n.logCommand(cmd, args, w)
	case command.Latency:
		n.latencyCommand(cmd, args, w)
	case command.HotKeys:
		hotKeys(cmd, args, w)
	case command.Memory:
		n.memoryCommand(s, cmd, args, w)
	case command.Debug:
		n.debug(s, args, w)
	case command.Publish, command.SPublish:
		n.publishCommand(cmd, args, w)
	case command.Role:
		role(w)
	case command.Shutdown:
		n.shutdownCommand(s, args, w)
	default: // a case for a command with keys must be unknown to try as well
		n.onData(s, cmd, args, w)
	}
}

// onData runs a command of a client on the data.
func (n *Node) onData(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	if !n.nudge(s, cmd, args, w) {
		n.execute(n.ctx, s, cmd, args, w)
	}
}

// execute runs a command on the data: on its slot, or over the whole node. s is
// nil where it comes from no client of this node.
func (n *Node) execute(ctx context.Context, s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	var room [32]int
	keys := cmd.AppendKeys(room[:0], args)
	if len(keys) == 0 {
		n.keyless(s, cmd, args, w)
		return
	}
	slot := ring.Slot(args[keys[0]])
	for _, k := range keys[1:] {
		if ring.Slot(args[k]) != slot {
			w.Error(errCrossSlot)
			return
		}
	}
	if !n.onSlot(s, cmd, args, slot, w) {
		n.elsewhere(ctx, s, cmd, args, slot, w)
	}
}

// keyless runs a command that has no keys.
func (n *Node) keyless(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	c := n.calls.Get().(*exec.Call)
	*c = exec.Call{Cmd: cmd, Args: args, W: w, Eng: n.eng, Scripts: n.o.Scripts, Publish: n.publish}
	guard(s, c)
	done := exec.Keyless(c)
	*c = exec.Call{}
	n.calls.Put(c)
	if cmd.ID == command.FlushAll || cmd.ID == command.FlushDB {
		n.flushed()
	}
	if !done {
		w.Error("ERR command '" + cmd.Name + "' is not served by a node")
	}
}

// onSlot executes the command if this node serves the slot. The serving bit,
// read under the shard lock, alone decides.
func (n *Node) onSlot(s Session, cmd *command.Command, args [][]byte, slot uint16, w *resp.Writer) bool {
	if exec.IsEval(cmd.ID) {
		n.long.Add(1)
		defer n.long.Add(-1)
	}
	tx, err := n.eng.Lock(slot)
	if err != nil {
		return false
	}
	if n.transfer.Open() {
		if tx = n.complete(tx, slot, cmd, args); tx == nil {
			return false
		}
	}
	n.under(s, cmd, args, slot, tx, w)
	return true
}

// under executes the command under the hold of its slot, and ends the hold.
func (n *Node) under(s Session, cmd *command.Command, args [][]byte, slot uint16, tx *engine.Txn, w *resp.Writer) {
	c := n.calls.Get().(*exec.Call)
	*c = exec.Call{Cmd: cmd, Args: args, Slot: slot, Tx: tx, W: w, Eng: n.eng, Scripts: n.o.Scripts, Publish: n.publish}
	if s != nil && n.track.marked.Load() != 0 && s.Marked() {
		n.attend(s, c)
	}
	guard(s, c)
	exec.Keyed(c)
	tx.Unlock()
	if n.mirroring() {
		n.noteReads(cmd, args, slot)
	}
	*c = exec.Call{}
	n.calls.Put(c)
}

// guard lets a script do what its session's user may do, and nothing else.
func guard(s Session, c *exec.Call) {
	if s != nil && exec.IsEval(c.Cmd.ID) {
		c.Guard = s.Guard()
	}
}

// elsewhere answers a request for a slot whose serving bit is off: MOVED if
// another node is its owner. If this node is the owner and waits to take over,
// the request goes once to whoever served the slot before, or waits for the
// bit; MOVED back is never answered, so that redirects cannot loop. A node that
// is joining waits until it has a place: no client knows it yet, unless as the
// process that ran here before, whose place the others keep for it. A script of a
// user with fewer rights is not forwarded: its rights are known here only.
func (n *Node) elsewhere(ctx context.Context, s Session, cmd *command.Command, args [][]byte, slot uint16, w *resp.Writer) {
	ctx, cancel := context.WithTimeout(ctx, serveWait)
	defer cancel()
	var asked uint64 // hash of the View whose former owners were asked
	for {
		changed := n.barrier.Changed() // before the look, so that no change is missed
		if n.onSlot(s, cmd, args, slot, w) {
			return
		}
		p := n.pub.Load()
		owner := p.view.Owner(slot)
		if owner >= 0 && !p.isSelf(owner) && !p.joining() {
			if n.readCopy(s, cmd, args, slot, w) {
				return
			}
			w.Error("MOVED " + strconv.Itoa(int(slot)) + " " + p.addrs[owner])
			return
		}
		if owner >= 0 && p.isSelf(owner) && asked != p.view.Hash() && !(s != nil && exec.IsEval(cmd.ID) && s.Guard() != nil) {
			asked = p.view.Hash()
			if n.answerFromCopy(s, cmd, args, slot, w) {
				return // whoever served it is gone, and the copy becomes the content
			}
			if n.forward(ctx, p, cmd, args, slot, w) {
				n.disown(s, cmd, args)
				return
			}
			continue // the bit may have been set meanwhile
		}
		if !wait(ctx, s, changed) {
			w.Error("TRYAGAIN slot " + strconv.Itoa(int(slot)) + " is changing its owner; repeat the command")
			return
		}
	}
}

// wait waits until changed is closed; false if ctx ends before. A client that tries
// again by itself does not wait here: on a session that its callers share, everything
// behind the command would wait too, though other slots, and reads of this one, could be
// answered.
func wait(ctx context.Context, s Session, changed <-chan struct{}) bool {
	if s != nil && s.TriesAgain() {
		return false
	}
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}
