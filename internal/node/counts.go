package node

import (
	"bytes"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/command"
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

// counters are the node's own statistics of commands.
type counters struct {
	calls  [countLanes][command.NumCommands]atomic.Uint64
	failed [command.NumCommands]atomic.Uint64
	errors atomic.Uint64

	mu    sync.Mutex
	codes map[string]uint64
}

func (c *counters) command(session uint64, id command.ID) {
	c.calls[session%countLanes][id].Add(1)
}

// failure counts an error reply.
func (c *counters) failure(id command.ID, reply []byte) {
	c.failed[id].Add(1)
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

func (c *counters) of(id command.ID) (n uint64) {
	for i := range c.calls {
		n += c.calls[i][id].Load()
	}
	return n
}

func (c *counters) errorCodes() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.codes)
}

func (c *counters) reset() {
	for i := range c.calls {
		for id := range c.calls[i] {
			c.calls[i][id].Store(0)
		}
	}
	for id := range c.failed {
		c.failed[id].Store(0)
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
		sum += n.counts.of(id)
	}
	return sum
}
