package node

import (
	"errors"
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// maxPrompt is up to how many commands a transaction ends at once.
const maxPrompt = 128

// TryExec is Exec for a caller that must not wait. It executes commands on keys
// of one slot if this node serves the slot, WATCH and UNWATCH, answers MOVED if
// another node does, and reports false, having done nothing, for everything else:
// commands of the node as a whole, whose time depends on what it holds, scripts,
// commands of peers, and requests for a slot that is changing its owner or is
// held for long, or for keys that may still be at the owner before. Exec must follow
// for those.
func (n *Node) TryExec(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	return n.try(s, cmd, args, w)
}

// try knows of no command with keys that dispatch treats in a way of its own but
// WATCH, SPUBLISH and the scripts: all others are internal or subcommands.
func (n *Node) try(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	switch {
	case cmd.Flags.Has(command.Internal) || cmd.Parent != nil || exec.IsEval(cmd.ID):
		return false
	case cmd.ID == command.Watch:
		return n.watch(s, args, w, false)
	case cmd.ID == command.Publish || cmd.ID == command.SPublish:
		n.publishCommand(cmd, args, w)
		return true
	case cmd.ID == command.Unwatch:
		n.unwatch(s)
		w.Simple("OK")
		return true
	}
	var room [32]int
	keys := cmd.AppendKeys(room[:0], args)
	if len(keys) == 0 {
		return false
	}
	slot := ring.Slot(args[keys[0]])
	for _, k := range keys[1:] {
		if ring.Slot(args[k]) != slot {
			w.Error(errCrossSlot)
			return true
		}
	}
	if n.nudge(s, cmd, args, w) || cmd.ID == command.Get && n.glance(s, slot, args[1], w) {
		return true
	}
	tx, busy := n.tryHold(slot)
	if tx != nil {
		if n.lacks(tx, slot, cmd, args) {
			tx.Unlock()
			return false
		}
		n.under(s, cmd, args, slot, tx, w)
		return true
	}
	if busy {
		return false
	}
	p := n.pub.Load()
	owner := p.view.Owner(slot)
	if owner < 0 || p.isSelf(owner) || p.joining() {
		return false
	}
	if n.readCopy(s, cmd, args, slot, w) {
		return true
	}
	w.Error("MOVED " + strconv.Itoa(int(slot)) + " " + p.addrs[owner])
	return true
}

// glance is GET without a hold of the slot, for a session that nobody has marked: it
// answers unless the slot is not served or may be held for long, or its keys may
// still be at the owner before.
func (n *Node) glance(s Session, slot uint16, key []byte, w *resp.Writer) bool {
	if n.long.Load() > 0 || n.incoming(slot) || n.track.marked.Load() != 0 && s.Marked() {
		return false
	}
	mark := w.StartBulk()
	val, _, err := n.eng.Get(slot, key, w.Buf)
	switch {
	case err == nil:
		w.Buf = val
		w.EndBulk(mark)
		if n.mirroring() {
			n.noteRead(slot, key)
		}
		return true
	case errors.Is(err, errs.ErrNotFound):
		w.CutBulk(mark)
		w.Null()
		return true
	}
	w.CutBulk(mark)
	return false
}

// tryHold takes the hold of a slot unless that may take long: it returns nil if
// the node does not serve the slot, and busy if its shard is held while a script
// or a long transaction is under way, which may be who holds it. Others hold a
// shard for one command.
func (n *Node) tryHold(slot uint16) (tx *engine.Txn, busy bool) {
	tx, busy, _ = n.eng.TryLock(slot)
	switch {
	case !busy:
		return tx, false
	case n.long.Load() > 0:
		return nil, true
	}
	tx, _ = n.eng.Lock(slot)
	return tx, false
}
