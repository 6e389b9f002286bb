package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/server"
)

// RealNode is a node on loopback sockets with real gossip.
type RealNode struct {
	Addr   string
	Node   *node.Node
	Server *server.Server
}

// front is a server as its node sees it.
type front struct{ *server.Server }

// SetNotable is not passed on: nobody looks at the logs of a test's cluster.
func (front) SetNotable(time.Duration, int64, int64, bool) {}

func (f front) Stats() node.FrontStats {
	s := f.Server.Stats()
	return node.FrontStats{Connected: int64(s.Clients), Peers: int64(s.Peers), Total: s.Total, Commands: s.Commands}
}

// OpenReal starts a node on free ports; change may alter its options. It
// returns once the node is a member of the cluster of its seeds.
func OpenReal(change func(*node.Options), seeds ...string) (*RealNode, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	o := node.Options{Cluster: "test", Host: "127.0.0.1", Port: uint16(number), Weight: 1,
		JoinTimeout: time.Minute, // for machines that are busy with other tests
		Discovery:   fixed(seeds), Membership: membership.Options{Bind: "127.0.0.1:0"}, Version: "7.4.0", MaxClients: 10000,
		Engine: engine.Options{MaxBytes: 64 << 20}}
	if change != nil {
		change(&o)
	}
	r := &RealNode{Addr: ln.Addr().String()}
	if r.Node, err = node.Open(o); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if r.Server, err = server.New(server.Options{Listener: ln, Handler: handler{r.Node}, Logger: o.Logger}); err != nil {
		return nil, errors.Join(err, ln.Close(), r.Node.Close())
	}
	r.Node.Attach(front{r.Server})
	if err = r.Server.Start(); err == nil {
		err = r.Node.Start(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close ends the node at once.
func (r *RealNode) Close() error { return errors.Join(r.Server.Close(), r.Node.Close()) }

// Await polls a condition in real time; it gives up with the context.
func Await(ctx context.Context, what string, ok func() bool) error {
	t := time.NewTicker(2 * time.Millisecond)
	defer t.Stop()
	for !ok() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
	return nil
}

// Agreed tells whether the nodes are in one View of their number and every slot
// is served by its owner and nobody else.
func Agreed(nodes ...*RealNode) bool {
	view := nodes[0].Node.View()
	if view.Len() != len(nodes) {
		return false
	}
	for _, n := range nodes {
		v := n.Node.View()
		if v.Hash() != view.Hash() {
			return false
		}
		self, _ := v.Index(n.Node.ID())
		for s := range uint16(ring.Slots) {
			if n.Node.Serving(s) != (v.Owner(s) == self) {
				return false
			}
		}
	}
	return true
}
