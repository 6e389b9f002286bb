package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// prober reaches data ports for membership.
type prober struct{ n *Node }

var _ membership.Prober = prober{}

func (p prober) dial(ctx context.Context, addr string) (*link.Conn, error) {
	return link.Dial(ctx, addr, link.Options{Dialer: p.n.o.Dialer, Peer: p.n.auth, Proto: 2})
}

// pingData asks whether a peer gets at its data.
var pingData = resp.AppendCommandStrings(nil, "RC.PING", "DATA")

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
	// A process may shake hands and still not serve: it must get at its data too.
	v, err := c.Do(ctx, pingData)
	switch {
	case err != nil:
		return fmt.Errorf("its data: %w", err)
	case v.Kind == resp.Error:
		return fmt.Errorf("%w: %s: %s", errs.ErrUnavailable, m.Addr(), v.Text())
	}
	p.n.gate.contact()
	return nil
}

// Contact implements membership.Prober.
func (p prober) Contact(ctx context.Context, seed string) (gossip string, id topology.NodeID, err error) {
	c, err := p.dial(ctx, seed)
	if err != nil {
		return "", id, seedError{seed, err}
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

// seedError is a failed contact in the words of whoever lists it by its seed.
type seedError struct {
	seed string
	err  error
}

func (e seedError) Unwrap() error { return e.err }

func (e seedError) Error() string {
	switch {
	case errors.Is(e.err, errs.ErrMismatch), errors.Is(e.err, errs.ErrAuth):
	case errors.Is(e.err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(e.err, context.DeadlineExceeded), errors.Is(e.err, errs.ErrTimeout):
		return "no answer"
	}
	text := strings.TrimPrefix(e.err.Error(), e.seed+": ")
	text = strings.TrimPrefix(text, "no connection: ")
	// What the other side answered names itself "this node".
	for _, code := range []string{"RCMISMATCH " + errs.ErrMismatch.Error() + ": ", "RCAUTH " + errs.ErrAuth.Error() + ": "} {
		text = strings.Replace(text, code, "it answers: ", 1)
	}
	return text
}
