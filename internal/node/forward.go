package node

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// forward sends a request to the nodes that served the slot before, newest
// first, and appends the answer of the first that still does. False: none does.
// NOTSERVING means that nothing was executed, so that the next may be asked; a
// write that was sent and not answered is never repeated.
func (n *Node) forward(ctx context.Context, p *published, cmd *command.Command, args [][]byte, slot uint16, w *resp.Writer) bool {
	servers := p.servers(slot)
	if len(servers) == 0 || n.peers == nil {
		return false
	}
	all := make([][]byte, 0, len(args)+2)
	all = append(all, []byte("RC.FORWARD"), []byte(viewHash(p.view)))
	req := resp.AppendCommand(nil, append(all, args...)...)
	for i := range servers {
		v, err := n.peers.Do(ctx, servers[i].Addr(), req)
		if err != nil {
			n.failed(ctx, servers[i].ID, err)
			var le *link.Error
			if errors.As(err, &le) && !le.Sent || readOnly(cmd, args) {
				continue
			}
			w.Error(codeUnavailable + " slot " + strconv.Itoa(int(slot)) + " is changing its owner and the previous one did not answer; " +
				"the command may have been executed")
			return true
		}
		n.heard(servers[i].ID)
		if v.Kind == resp.Error && strings.HasPrefix(string(v.Str), codeNotServing) {
			continue
		}
		w.Value(v)
		return true
	}
	return false
}

func readOnly(cmd *command.Command, args [][]byte) bool {
	if cmd.Subs != nil && len(args) > 1 {
		if sub := cmd.Sub(args[1]); sub != nil {
			cmd = sub
		}
	}
	return cmd.Flags.Has(command.ReadOnly)
}

// forwarded answers RC.FORWARD <view hash> <command> <args...>: it executes the
// command if this node still serves the slot, and never passes it on.
func (n *Node) forwarded(args [][]byte, w *resp.Writer) {
	args = args[2:]
	cmd := command.Lookup(args[0])
	if cmd == nil || cmd.Conn || cmd.Flags.Has(command.Internal) || !exec.Has(cmd.ID) || !cmd.ArityOK(len(args)) {
		w.Error("ERR cannot forward this command")
		return
	}
	var room [32]int
	keys := cmd.AppendKeys(room[:0], args)
	if len(keys) == 0 {
		w.Error("ERR cannot forward a command without keys")
		return
	}
	slot := ring.Slot(args[keys[0]])
	for _, k := range keys[1:] {
		if ring.Slot(args[k]) != slot {
			w.Error(errCrossSlot)
			return
		}
	}
	n.AwaitFresh()
	proto := w.Proto
	w.Proto = 3 // the richer form; the asker turns it into its client's
	if !n.onSlot(nil, cmd, args, slot, w) {
		w.Error(codeNotServing + " slot " + strconv.Itoa(int(slot)))
	}
	w.Proto = proto
}
