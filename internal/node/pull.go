package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/resp"
)

// A slot that this node has opened lately may have keys that are still at its
// previous owner: handoff.Transfer has a window for it. Every command that needs
// to know what is there takes its keys from there first, unless they are here or
// were touched here since. Without any open window that costs one atomic load.

// blind tells whether a command replaces its keys whatever they hold.
func blind(cmd *command.Command, args [][]byte) bool {
	switch cmd.ID {
	case command.MSet, command.SetEx, command.PSetEx:
		return true
	case command.Set:
		for i := 3; i < len(args); i += 2 {
			if w := args[i]; !isWord(w, "ex") && !isWord(w, "px") && !isWord(w, "exat") && !isWord(w, "pxat") {
				return false
			}
		}
		return true
	}
	return false
}

// lacking appends the keys of a command that may still be at the previous owner of
// the slot that is held.
func lacking(dst [][]byte, tx *engine.Txn, cmd *command.Command, args [][]byte) [][]byte {
	if blind(cmd, args) {
		return dst
	}
	var room [32]int
	for _, k := range cmd.AppendKeys(room[:0], args) {
		if tx.Untouched(args[k]) {
			dst = append(dst, args[k])
		}
	}
	return dst
}

// lacks tells whether there is any such key.
func (n *Node) lacks(tx *engine.Txn, slot uint16, cmd *command.Command, args [][]byte) bool {
	if !n.transfer.Open() || n.transfer.Window(slot) == nil {
		return false
	}
	var room [8][]byte
	return len(lacking(room[:0], tx, cmd, args)) > 0
}

// complete takes over what a command lacks, and returns the hold of the slot,
// which it ends and takes again for that; nil if the slot has gone meanwhile. What
// does not come in time counts as absent.
func (n *Node) complete(tx *engine.Txn, slot uint16, cmd *command.Command, args [][]byte) *engine.Txn {
	w := n.transfer.Window(slot)
	if w == nil {
		return tx
	}
	var room [8][]byte
	return n.pull(tx, slot, w, lacking(room[:0], tx, cmd, args))
}

func (n *Node) pull(tx *engine.Txn, slot uint16, w *handoff.Window, keys [][]byte) *engine.Txn {
	if len(keys) == 0 {
		return tx
	}
	tx.Unlock()
	n.transfer.Pull(w, keys)
	tx, err := n.eng.Lock(slot)
	if err != nil {
		return nil
	}
	return tx
}

// completeAll takes over what lack says may still be at the previous owner of the
// slot that is held, and returns the hold, which it ends and takes again for that;
// nil if that was answered or, with again, would have to be waited for.
func (n *Node) completeAll(tx *engine.Txn, slot uint16, w *resp.Writer, mayWait bool, lack func(dst [][]byte, tx *engine.Txn) [][]byte) (held *engine.Txn, again bool) {
	win := n.transfer.Window(slot)
	if win == nil {
		return tx, false
	}
	keys := lack(nil, tx)
	switch {
	case len(keys) == 0:
		return tx, false
	case !mayWait:
		tx.Unlock()
		return nil, true
	}
	if tx = n.pull(tx, slot, win, keys); tx == nil {
		tx = n.await(slot, w) // it has moved on already
	}
	return tx, false
}

// lackingOfWatch returns what the keys of a WATCH lack.
func lackingOfWatch(args [][]byte) func(dst [][]byte, tx *engine.Txn) [][]byte {
	watch := command.ByID(command.Watch)
	return func(dst [][]byte, tx *engine.Txn) [][]byte { return lacking(dst, tx, watch, args) }
}

// lackingOf returns what the commands of a transaction lack.
func lackingOf(t Transaction) func(dst [][]byte, tx *engine.Txn) [][]byte {
	return func(dst [][]byte, tx *engine.Txn) [][]byte {
		var room [8][]byte
		for i := range t.Len() {
			cmd, args := t.Command(i)
			for _, k := range lacking(room[:0], tx, cmd, args) { // valid until the next command is asked for
				dst = append(dst, slices.Clone(k))
			}
		}
		return dst
	}
}

// incoming tells whether keys of the slot may still be at its previous owner.
func (n *Node) incoming(slot uint16) bool {
	return n.transfer.Open() && n.transfer.Window(slot) != nil
}

// flushed follows a flush of this node: what it kept for others is gone, and it
// takes nothing from before.
func (n *Node) flushed() {
	n.transfer.CloseAll()
	n.barrier.DropCeded()
}

// pressure measures how many requests wait for a previous owner.
type pressure struct {
	pulls, commands uint64 // at the last look
	share           atomic.Uint64
}

// shareScale is 1 as pressure.share holds it.
const shareScale = 1 << 20

// look is called once a second.
func (p *pressure) look(pulls, commands uint64) {
	share := uint64(0)
	if d := commands - p.commands; commands > p.commands {
		share = min((pulls-p.pulls)*shareScale/d, shareScale)
	} else if pulls > p.pulls {
		share = shareScale
	}
	p.pulls, p.commands = pulls, commands
	p.share.Store(share)
}

// pressureLoop looks at the pressure once a second. It ends with n.ctx.
func (n *Node) pressureLoop() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			n.pressure.look(n.transfer.Figures().Pulls, n.totalCommands())
		case <-n.ctx.Done():
			return
		}
	}
}

// missPressure is the share of requests, 0 to 1, that had to wait for keys from a
// previous owner in the last second.
func (n *Node) missPressure() float64 { return float64(n.pressure.share.Load()) / shareScale }

// HandoffFigures are totals of what this node took over and gave since its start.
func (n *Node) HandoffFigures() handoff.Figures { return n.transfer.Figures() }

// WindowsOpen is the number of slots that may still take keys from their previous
// owners.
func (n *Node) WindowsOpen() int { return n.transfer.WindowsOpen() }

// CededSlots is the number of slots whose content is kept for their next owners.
func (n *Node) CededSlots() int { return n.barrier.Ceded() }

// Changes lists what moves between this node and others at the moment.
func (n *Node) Changes() []handoff.Change { return n.transfer.Changes() }

// PauseTransfer stops or continues what this node takes over unasked; requests get
// their keys all the while.
func (n *Node) PauseTransfer(on bool) { n.setTransferPaused(on) }

func (n *Node) setTransferPaused(on bool) { n.transfer.SetPaused(on) }

// setTransferRate bounds what is taken over unasked, per second and source; 0: the
// defaults.
func (n *Node) setTransferRate(keys, bytes int) { n.transfer.SetRate(keys, bytes) }

// The rates by CONFIG SET; 0 is the default.
var (
	warmRateParam = variable{
		key: "warm-rate",
		get: func(n *Node) string { keys, _ := n.transfer.Rates(); return strconv.Itoa(keys) },
		check: func(n *Node, v string) (func() error, error) {
			keys, err := strconv.ParseUint(v, 10, 31)
			if err != nil {
				return nil, errors.New("argument must be between 0 and 2147483647 inclusive")
			}
			return func() error {
				_, bytes := n.transfer.Rates()
				n.setTransferRate(int(keys), bytes)
				return nil
			}, nil
		},
	}
	warmBytesParam = variable{
		key: "warm-bytes",
		get: func(n *Node) string { _, bytes := n.transfer.Rates(); return strconv.Itoa(bytes) },
		check: func(n *Node, v string) (func() error, error) {
			bytes, err := parseMemory(v)
			return func() error {
				keys, _ := n.transfer.Rates()
				n.setTransferRate(keys, int(bytes))
				return nil
			}, err
		},
	}
)

func infoHandoff(n *Node, t *infoText) {
	f := n.transfer.Figures()
	t.add("ringcache_handoff_windows", f.Windows) // slots that may still take keys from their previous owners
	t.add("ringcache_handoff_ceded_slots", f.Ceded)
	t.add("ringcache_handoff_pulled_keys", f.Pulled) // because a request needed them
	t.add("ringcache_handoff_pull_misses", f.Missed)
	t.add("ringcache_handoff_pull_share", fmt.Sprintf("%.4f", n.missPressure())) // of the requests of the last second, those that waited
	t.add("ringcache_handoff_pull_timeouts", f.Timeouts)
	t.add("ringcache_handoff_pull_failures", f.Failures)
	t.add("ringcache_handoff_transferred_keys", f.Moved) // unasked
	t.add("ringcache_handoff_transferred_bytes", f.MovedBytes)
	t.add("ringcache_handoff_refused_keys", f.Refused) // there was no room
	t.add("ringcache_handoff_given_keys", f.Given)
	t.add("ringcache_handoff_given_bytes", f.GivenBytes)
	_, returned, dropped := n.Returned()
	t.add("ringcache_return_kept_slots", returned) // after absences
	t.add("ringcache_return_dropped_slots", dropped)
}
