package node

import (
	"math"
	"time"

	"github.com/ringcache/ringcache/internal/handoff"
)

// lost notes that the slots were lost after a silence, of the length that it has now.
func (g *gate) lost(silence time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lostAt = g.clock.time().Add(-silence)
}

// away is how long ago the silence began in which the slots were lost.
func (g *gate) away() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clock.time().Sub(g.lostAt)
}

// parseAway reads what follows AWAY.
func parseAway(q *handoff.Request, args [][]byte) error {
	var ms uint64
	err := numbers(args, &ms, &q.Away)
	q.Silence = time.Duration(min(ms, math.MaxInt64/uint64(2*time.Millisecond))) * time.Millisecond
	return err
}

// Returned is the number of slots whose content from before an absence of this process
// waits for its proof, and how many have kept it and lost it since the start.
func (n *Node) Returned() (waiting, kept, lost int) { return n.barrier.Returned() }
