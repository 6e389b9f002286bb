package node

import (
	"context"
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// Transaction is the queue between MULTI and EXEC.
type Transaction interface {
	// Len is the number of commands.
	Len() int
	// Command returns command i and its arguments, valid until the next call.
	Command(i int) (*command.Command, [][]byte)
	// Connection executes command i, which concerns the connection itself, and
	// appends its reply.
	Connection(i int)
	// Failed tells that a command could not be queued.
	Failed() bool
	// Denied returns the error for command i if the user may no longer execute it,
	// "" otherwise.
	Denied(i int) string
}

const (
	// maxWatched bounds the keys that one session watches, maxWatchedBytes what
	// those of all sessions take together.
	maxWatched      = 1024
	maxWatchedBytes = 64 << 20
	// watchCost is what a watched key takes beside its bytes.
	watchCost = 128
)

const (
	errExecAbort = "EXECABORT Transaction discarded because of previous errors."
	errMixed     = "ERR this command looks at the whole node and cannot stand in a transaction with keys"
)

// clientState is the node's state of a client's session.
type clientState struct {
	watch  engine.Watch
	bytes  int64  // counted in Node.watched
	keys   int    // counted in Node.watchedKeys
	keyed  bool   // the open transaction has commands with keys
	wide   bool   // it has commands over the whole node
	nudged uint64 // the last round of nudges that it had its own in
}

func stateOf(s Session) *clientState {
	st, _ := s.Attachment().(*clientState)
	return st
}

func openState(s Session) *clientState {
	st := stateOf(s)
	if st == nil {
		st = new(clientState)
		s.SetAttachment(st)
	}
	return st
}

// slotOf returns the slot of the keys of a command. one is false if they lie in
// several; any tells whether there are keys.
func slotOf(cmd *command.Command, args [][]byte) (slot uint16, any, one bool) {
	var room [32]int
	keys := cmd.AppendKeys(room[:0], args)
	if len(keys) == 0 {
		return 0, false, true
	}
	slot = ring.Slot(args[keys[0]])
	for _, k := range keys[1:] {
		if ring.Slot(args[k]) != slot {
			return 0, true, false
		}
	}
	return slot, true, true
}

// await takes the hold of a slot, waiting like elsewhere while it changes its
// owner. It returns nil after it has answered MOVED or TRYAGAIN. Nothing is
// forwarded: a hold cannot be taken at another node.
func (n *Node) await(slot uint16, w *resp.Writer) *engine.Txn {
	if tx, err := n.eng.Lock(slot); err == nil {
		return tx
	}
	ctx, cancel := context.WithTimeout(n.ctx, serveWait)
	defer cancel()
	for {
		changed := n.barrier.Changed() // before the look, so that no change is missed
		if tx, err := n.eng.Lock(slot); err == nil {
			return tx
		}
		if n.moved(slot, w) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			w.Error("TRYAGAIN slot " + strconv.Itoa(int(slot)) + " is changing its owner; repeat the command")
			return nil
		}
	}
}

// moved answers MOVED if another node is the owner of the slot.
func (n *Node) moved(slot uint16, w *resp.Writer) bool {
	p := n.pub.Load()
	owner := p.view.Owner(slot)
	if owner < 0 || p.isSelf(owner) || p.joining() {
		return false
	}
	w.Error("MOVED " + strconv.Itoa(int(slot)) + " " + p.addrs[owner])
	return true
}

// watch: WATCH key [key ...]. All watched keys of a session lie in one slot,
// since EXEC looks at them under one hold. It reports false, having done nothing,
// if it would have to wait and may not.
func (n *Node) watch(s Session, args [][]byte, w *resp.Writer, mayWait bool) bool {
	st := openState(s)
	slot := ring.Slot(args[1])
	bytes := int64(0)
	for _, key := range args[1:] {
		if ring.Slot(key) != slot || st.watch.Keys() > 0 && st.watch.Slot() != slot {
			w.Error(errCrossSlot)
			return true
		}
		bytes += int64(2*len(key) + watchCost)
	}
	if st.watch.Keys()+len(args)-1 > maxWatched {
		w.Error("RCTOOLARGE a connection watches at most " + strconv.Itoa(maxWatched) + " keys; watch fewer")
		return true
	}
	if n.watched.Add(bytes) > maxWatchedBytes {
		n.watched.Add(-bytes)
		w.Error("RCBUSY the watched keys of all connections take " + strconv.Itoa(maxWatchedBytes) + " bytes, the limit; repeat later")
		return true
	}
	tx, answered := n.hold(slot, w, mayWait), mayWait
	if tx != nil && n.transfer.Open() {
		// A key that came from its previous owner later would count as changed.
		again := false
		tx, again = n.completeAll(tx, slot, w, mayWait, lackingOfWatch(args))
		answered = !again
	}
	if tx == nil {
		n.watched.Add(-bytes)
		return answered
	}
	st.bytes += bytes
	for _, key := range args[1:] {
		tx.Watch(&st.watch, key)
	}
	tx.Unlock()
	if st.keys == 0 {
		n.watchers.Add(1)
	}
	n.watchedKeys.Add(int64(st.watch.Keys() - st.keys))
	st.keys = st.watch.Keys()
	w.Simple("OK")
	return true
}

// hold is await, or without waiting: it then returns nil, having answered
// nothing, where that would be needed.
func (n *Node) hold(slot uint16, w *resp.Writer, mayWait bool) *engine.Txn {
	if mayWait {
		return n.await(slot, w)
	}
	tx, _ := n.tryHold(slot)
	return tx
}

// unwatch ends the watches of a session. It waits for no script or long
// transaction: a loop calls it.
func (n *Node) unwatch(s Session) {
	st := stateOf(s)
	if st == nil {
		return
	}
	if st.watch.Keys() > 0 && n.long.Load() > 0 {
		s.SetAttachment(&clientState{keyed: st.keyed, wide: st.wide, nudged: st.nudged})
		n.wg.Go(func() { n.endWatch(st) }) // ends when the shard is free
		return
	}
	n.endWatch(st)
}

func (n *Node) endWatch(st *clientState) {
	if st.watch.Keys() > 0 {
		tx := n.eng.LockAny(st.watch.Slot())
		tx.Unwatch(&st.watch)
		tx.Unlock()
	}
	n.watched.Add(-st.bytes)
	if st.keys > 0 {
		n.watchers.Add(-1)
		n.watchedKeys.Add(-int64(st.keys))
	}
	st.bytes, st.keys = 0, 0
}

// Forget ends the watches of a session and what is known of its transaction.
func (n *Node) Forget(s Session) {
	n.unwatch(s)
	if st := stateOf(s); st != nil {
		st.keyed, st.wide = false, false
	}
}

// Admit tells whether a command may be queued, and answers if not.
func (n *Node) Admit(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	slot, any, one := slotOf(cmd, args)
	switch {
	case !one:
		w.Error(errCrossSlot)
		return false
	case any:
		// Where this node waits to take the slot over, EXEC will wait.
		if !n.eng.Serving(slot) && n.moved(slot, w) {
			return false
		}
		openState(s).keyed = true
	case !exec.HoldSafe(cmd.ID) && cmd.ID != command.Unwatch && cmd.ID != command.Publish:
		openState(s).wide = true
	}
	if st := stateOf(s); st != nil && st.keyed && st.wide {
		w.Error(errMixed)
		return false
	}
	return true
}

// Transact executes a transaction under one hold of the slot of its keys and
// ends the watches of the session. It may wait up to about a second for a slot
// that changes its owner.
func (n *Node) Transact(s Session, t Transaction, w *resp.Writer) {
	n.long.Add(1)
	defer n.long.Add(-1)
	n.conclude(s, t, w, true)
}

// TryTransact is Transact for a caller that must not wait. It reports false,
// having done nothing, for transactions that are long, have scripts or commands
// over the whole node, or would have to wait for their slot.
func (n *Node) TryTransact(s Session, t Transaction, w *resp.Writer) bool {
	return t.Len() <= maxPrompt && n.conclude(s, t, w, false)
}

func (n *Node) conclude(s Session, t Transaction, w *resp.Writer, mayWait bool) (done bool) {
	st := openState(s)
	slot, held := st.watch.Slot(), st.watch.Keys() > 0
	if !mayWait && st.wide && !t.Failed() {
		return false
	}
	for i := range t.Len() {
		cmd, args := t.Command(i)
		if !mayWait && (exec.IsEval(cmd.ID) || cmd.Parent != nil && cmd.Parent.ID == command.ScriptCmd) {
			return false
		}
		own, any, _ := slotOf(cmd, args)
		if any && held && own != slot {
			w.Error(errCrossSlot)
			n.Forget(s)
			return true
		}
		if any {
			slot, held = own, true
		}
	}
	var tx *engine.Txn
	if held {
		again := !mayWait
		if tx = n.hold(slot, w, mayWait); tx != nil && n.transfer.Open() {
			tx, again = n.completeAll(tx, slot, w, mayWait, lackingOf(t))
		}
		if tx == nil && again {
			return false
		}
	}
	defer n.Forget(s)
	if held && tx == nil {
		return true // it is answered
	}
	if held {
		// The watches end in the same hold. Without keys there is nothing left
		// to hold the slot for.
		changed := tx.Changed(&st.watch)
		tx.Unwatch(&st.watch)
		if changed || t.Failed() || !st.keyed {
			tx.Unlock()
			tx = nil
		}
		if changed && !t.Failed() {
			w.NullArray()
			return true
		}
	}
	if t.Failed() {
		w.Error(errExecAbort)
		return true
	}
	n.transact(s, t, slot, tx, w)
	if tx != nil {
		tx.Unlock()
	}
	return true
}

// transact executes the commands and appends the reply of all of them. If it
// grows above the limit of a session the rest is executed without replies.
func (n *Node) transact(s Session, t Transaction, slot uint16, tx *engine.Txn, w *resp.Writer) {
	mark := len(w.Buf)
	w.Array(t.Len())
	over := false
	since := n.clock.elapsed()
	for i := range t.Len() {
		cmd, args := t.Command(i)
		start := len(w.Buf)
		denied := t.Denied(i)
		switch {
		case denied != "":
			w.Error(denied)
		case cmd.Conn:
			t.Connection(i)
		case cmd.ID == command.Unwatch:
			w.Simple("OK")
		case cmd.ID == command.Publish || cmd.ID == command.SPublish:
			n.publishCommand(cmd, args, w)
		case cmd.ID == command.Wait:
			n.waitCommand(ended, args, w)
		case tx == nil:
			n.Exec(s, cmd, args, w)
		default:
			n.underHold(s, cmd, args, slot, tx, w)
		}
		now := n.clock.elapsed()
		if denied != "" {
			n.Failed(cmd, false, w.Buf[start:])
		} else {
			n.told(s, cmd, args, w.Buf[start:], now-since)
		}
		since = now
		if over = over || w.Over(mark); over {
			w.Buf = w.Buf[:start]
		}
	}
	if over {
		w.Buf = w.Buf[:mark]
		w.Error("RCTOOLARGE the transaction was executed, but its reply is above " + strconv.Itoa(w.Limit) +
			" bytes, the output limit of a session; use more of them, or raise output-limit")
	}
}

// underHold executes a command with or without keys while a slot is held.
func (n *Node) underHold(s Session, cmd *command.Command, args [][]byte, slot uint16, tx *engine.Txn, w *resp.Writer) {
	c := n.calls.Get().(*exec.Call)
	*c = exec.Call{Cmd: cmd, Args: args, Slot: slot, Tx: tx, W: w, Eng: n.eng, Scripts: n.o.Scripts, Publish: n.publish}
	guard(s, c)
	if cmd.HasKeys(args) {
		if n.track.marked.Load() != 0 && s.Marked() {
			n.attend(s, c)
		}
		exec.Keyed(c)
	} else {
		exec.Keyless(c)
	}
	*c = exec.Call{}
	n.calls.Put(c)
}
