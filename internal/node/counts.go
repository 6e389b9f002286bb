package node

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/latency"
)

const (
	// countLanes spreads the command counters, so that sessions on different
	// cores seldom write the same cache line.
	countLanes = 8
	// maxErrorCodes bounds the error codes that are told apart; the rest is
	// counted together, as Redis does.
	maxErrorCodes = 128
	otherErrors   = "ERRORSTATS_OVERFLOW"
)

// counters are the node's own statistics of commands. What one lane never
// executed takes no memory there.
type counters struct {
	took     [countLanes][command.NumCommands]atomic.Pointer[latency.Histogram]
	failed   [command.NumCommands]atomic.Uint64
	rejected [command.NumCommands]atomic.Uint64
	errors   atomic.Uint64

	mu    sync.Mutex
	codes map[string]uint64
}

// add counts calls that took d each.
func (c *counters) add(session uint64, id command.ID, calls int, d time.Duration) {
	at := &c.took[session%countLanes][id]
	h := at.Load()
	if h == nil {
		at.CompareAndSwap(nil, new(latency.Histogram))
		h = at.Load()
	}
	h.Add(d, uint64(calls))
}

// of sums up the calls of a command.
func (c *counters) of(id command.ID) (s latency.Summary) {
	for i := range c.took {
		if h := c.took[i][id].Load(); h != nil {
			s.Add(h)
		}
	}
	return s
}

// failure counts an error reply to a command, nil if there is none of that name.
func (c *counters) failure(cmd *command.Command, executed bool, reply []byte) {
	switch {
	case cmd == nil:
	case executed:
		c.failed[cmd.ID].Add(1)
	default:
		c.rejected[cmd.ID].Add(1)
	}
	c.errors.Add(1)
	code := reply[1:]
	if i := bytes.IndexAny(code, " \r"); i >= 0 {
		code = code[:i]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.codes[string(code)]; !known && len(c.codes) >= maxErrorCodes {
		code = []byte(otherErrors)
	}
	if c.codes == nil {
		c.codes = map[string]uint64{}
	}
	c.codes[string(code)]++
}

func (c *counters) errorCodes() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.codes)
}

func (c *counters) reset() {
	for i := range c.took {
		for id := range c.took[i] {
			if h := c.took[i][id].Load(); h != nil {
				h.Reset()
			}
		}
	}
	for id := range c.failed {
		c.failed[id].Store(0)
		c.rejected[id].Store(0)
	}
	c.errors.Store(0)
	c.mu.Lock()
	clear(c.codes)
	c.mu.Unlock()
}

// totalCommands is the number of commands executed, those of the connection
// included where a server counts them.
func (n *Node) totalCommands() uint64 {
	if n.front != nil {
		return n.front.Stats().Commands
	}
	var sum uint64
	for id := range command.NumCommands {
		s := n.counts.of(id)
		sum += s.Count
	}
	return sum
}

// Took tells the node that a session had calls of a command executed, which took
// as long each.
func (n *Node) Took(s Session, id command.ID, calls int, each time.Duration) {
	n.counts.add(s.ID(), id, calls, each)
	if t := n.diag.events.Threshold(); t > 0 && each >= time.Duration(t)*time.Millisecond {
		n.slowEvent(command.ByID(id), each)
	}
}

func (n *Node) slowEvent(cmd *command.Command, d time.Duration) {
	kind := eventCommand
	if cmd.Flags.Has(command.Fast) {
		kind = eventFast
	}
	n.diag.events.Add(kind, n.clock.millis()/1000, d.Milliseconds())
}

// redirects are the errors that refuse a command because of its slot.
var redirects = [][]byte{[]byte("-MOVED "), []byte("-CROSSSLOT "), []byte("-ASK "), []byte("-TRYAGAIN ")}

// Failed tells the node of an error reply to a command, nil if there is no such
// command; executed is false if it never came to the node. It returns true if the
// node refused the command because of its slot.
func (n *Node) Failed(cmd *command.Command, executed bool, reply []byte) (refused bool) {
	refused = slices.ContainsFunc(redirects, func(p []byte) bool { return bytes.HasPrefix(reply, p) })
	n.counts.failure(cmd, executed && !refused, reply)
	return refused
}
