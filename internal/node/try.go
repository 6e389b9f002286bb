package node

import (
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// TryExec is Exec for a caller that must not wait. It executes commands on keys
// of one slot if this node serves the slot, answers MOVED if another node does,
// and reports false, having done nothing, for everything else: commands of the
// node as a whole, whose time depends on what it holds, those of peers, and
// requests for a slot that is changing its owner. Exec must follow for those.
func (n *Node) TryExec(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	start := len(w.Buf)
	if !n.try(cmd, args, w) {
		return false
	}
	n.counts.command(s.ID(), cmd.ID)
	if len(w.Buf) > start && w.Buf[start] == '-' {
		n.counts.failure(cmd.ID, w.Buf[start:])
	}
	return true
}

// try knows of no command that dispatch treats in a way of its own: all of those
// are internal, have no keys or are subcommands.
func (n *Node) try(cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	if cmd.Flags.Has(command.Internal) || cmd.Parent != nil {
		return false
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
	if n.onSlot(cmd, args, slot, w) {
		return true
	}
	p := n.pub.Load()
	owner := p.view.Owner(slot)
	if owner < 0 || p.isSelf(owner) || p.joining() {
		return false
	}
	w.Error("MOVED " + strconv.Itoa(int(slot)) + " " + p.addrs[owner])
	return true
}
