package node

import (
	"errors"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

var (
	errJoining    = errors.New("the node is joining its cluster")
	errWaiting    = errors.New("the node waits until it is its turn to take slots over: one member does at a time")
	errDraining   = errors.New("the node is draining: others take its slots over")
	errStopping   = errors.New("the node is stopping and will be back")
	errSuperseded = errors.New("another process has taken over the ID of this node")
)

// Ready returns nil while the node serves clients: from the end of Start, and the
// first step of its join, until it drains, is superseded or closed. A member that
// waits for some slots of a new View is ready; it answers for them all the same.
func (n *Node) Ready() error {
	switch {
	case n.ctx.Err() != nil:
		return errs.ErrClosed
	case n.superseded.Load():
		return errSuperseded
	case n.draining.Load():
		return errDraining
	case n.stay.Load():
		return errStopping
	}
	p := n.pub.Load()
	i, ok := p.view.Index(n.id)
	switch {
	case !n.running.Load() || !ok || !p.isSelf(i) || p.view.Member(i).State == topology.Joining:
		return errJoining
	case p.view.Member(i).Presence() == 0:
		return errWaiting
	}
	return nil
}
