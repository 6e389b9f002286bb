package node

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/ring"
)

// slotAccount is what the commands of clients on the keys of one slot have cost
// since this node serves it, since the accounts were opened, or since CONFIG
// RESETSTAT, whichever was last.
type slotAccount struct {
	took    atomic.Uint64 // ns
	in, out atomic.Uint64 // bytes of requests and replies on the wire
}

func (a *slotAccount) reset() {
	a.took.Store(0)
	a.in.Store(0)
	a.out.Store(0)
}

// accounts are those of all slots, 384 KiB that exist only while
// cluster-slot-stats-enabled is on.
type accounts struct {
	of atomic.Pointer[[ring.Slots]slotAccount]
}

// set begins to count, or forgets the accounts; those that are open stay as they are.
func (a *accounts) set(on bool) {
	if !on {
		a.of.Store(nil)
	} else if !a.kept() {
		a.of.CompareAndSwap(nil, new([ring.Slots]slotAccount))
	}
}

// kept tells whether there are accounts.
func (a *accounts) kept() bool { return a.of.Load() != nil }

func (a *accounts) resetAll() {
	if all := a.of.Load(); all != nil {
		for i := range all {
			all[i].reset()
		}
	}
}

// show gives the figures of a slot: µs, bytes in, bytes out.
func (a *accounts) show(slot uint16) (took, in, out int64) {
	all := a.of.Load()
	if all == nil {
		return 0, 0, 0
	}
	s := &all[slot]
	return int64(s.took.Load() / uint64(time.Microsecond)), int64(s.in.Load()), int64(s.out.Load())
}

// Account is the slot that a command of a client is charged to, by its first key or
// shard channel: all of them lie in one, else nothing is executed. Below 0: none.
func (n *Node) Account(cmd *command.Command, args [][]byte) int32 {
	var room [32]int
	keys := cmd.AppendKeys(room[:0], args)
	if len(keys) == 0 {
		return -1
	}
	return int32(ring.Slot(args[keys[0]]))
}

// Spent charges a slot with the bytes of a request and its reply, and with the time of
// a command.
func (n *Node) Spent(slot int32, in, out int, d time.Duration) {
	all := n.accounts.of.Load()
	if all == nil {
		return
	}
	a := &all[slot]
	a.in.Add(uint64(in))
	a.out.Add(uint64(out))
	a.took.Add(uint64(max(d, 0)))
}

// spentOnMessage charges a slot with a message that so many listeners of a shard
// channel got.
func (n *Node) spentOnMessage(channel, message []byte, heard int) {
	if heard == 0 || !n.accounts.kept() {
		return
	}
	size := len("*3\r\n$8\r\nsmessage\r\n") + bulkSize(len(channel)) + bulkSize(len(message))
	n.Spent(int32(ring.Slot(channel)), 0, heard*size, 0)
}

// bulkSize is how many bytes a bulk string of n bytes takes on the wire.
func bulkSize(n int) int {
	digits := 1
	for rest := n; rest >= 10; rest /= 10 {
		digits++
	}
	return len("$\r\n\r\n") + digits + n
}

// countedSlots are the node's slots; an account begins anew with each time of serving.
type countedSlots struct {
	*handoff.Transfer
	accounts *accounts
}

func (c countedSlots) SetServing(slot uint16, on bool) {
	if all := c.accounts.of.Load(); all != nil && on {
		all[slot].reset()
	}
	c.Transfer.SetServing(slot, on)
}

// slotStatsParam opens and closes the accounts.
var slotStatsParam = variable{
	key: "cluster-slot-stats-enabled",
	get: func(n *Node) string {
		if n.accounts.kept() {
			return "yes"
		}
		return "no"
	},
	check: func(n *Node, v string) (func() error, error) {
		on := isWord([]byte(v), "yes")
		if !on && !isWord([]byte(v), "no") {
			return nil, errors.New("argument must be 'yes' or 'no'")
		}
		return func() error {
			n.accounts.set(on)
			n.tellFront()
			return nil
		}, nil
	},
}
