package node

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/topology"
)

// prober reaches data ports for membership.
type prober struct{ n *Node }

var _ membership.Prober = prober{}

func (p prober) dial(ctx context.Context, addr string) (*link.Conn, error) {
	return link.Dial(ctx, addr, link.Options{Dialer: p.n.o.Dialer, Peer: p.n.auth, Proto: 2})
}

// Probe implements membership.Prober.
func (p prober) Probe(ctx context.Context, m topology.Member) error {
	c, err := p.dial(ctx, m.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	if c.PeerID() != m.ID {
		return fmt.Errorf("%w: %s is node %s, not %s", errs.ErrOtherNode, m.Addr(), c.PeerID(), m.ID)
	}
	if v, ok := c.PeerInfo().Find("boot"); ok && v.Text() != strconv.FormatUint(m.Boot, 10) {
		return fmt.Errorf("%w: %s has restarted", errs.ErrOtherNode, m.Addr())
	}
	return nil
}

// Contact implements membership.Prober.
func (p prober) Contact(ctx context.Context, seed string) (gossip string, id topology.NodeID, err error) {
	c, err := p.dial(ctx, seed)
	if err != nil {
		return "", id, err
	}
	defer c.Close()
	if err := p.n.checkParams(c.PeerInfo(), seed); err != nil {
		return "", id, err
	}
	v, _ := c.PeerInfo().Find("gossip")
	if v.Text() == "" && c.PeerID() != p.n.id {
		return "", id, fmt.Errorf("%w: the node at %s has no gossip address yet", errs.ErrUnavailable, seed)
	}
	return v.Text(), c.PeerID(), nil
}
