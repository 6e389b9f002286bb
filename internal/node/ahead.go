package node

import (
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/ring"
)

// Preview is told what may be the keys of commands that follow at once, up to
// engine.MaxAhead of them. It changes nothing.
func (n *Node) Preview(keys [][]byte) {
	var slots [engine.MaxAhead]uint16
	keys = keys[:min(len(keys), len(slots))]
	for i, k := range keys {
		slots[i] = ring.Slot(k)
	}
	n.eng.LookAhead(slots[:len(keys)], keys)
}
