package node

import (
	"context"
	"strconv"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// standing asks the owners how this node shall begin: the progress of its join.
// It is 1 where steps would protect nothing, since no owner has a key (a cluster
// that starts), and where the owners still hold the place of this node's process
// before (see keepPlace): then it is what that one had. An owner that does not
// answer counts as one with keys.
func (n *Node) standing(ctx context.Context) float64 {
	var owners []topology.Member
	for _, m := range n.View().Members() {
		if m.ID != n.id && m.Presence() > 0 {
			owners = append(owners, m)
		}
	}
	if len(owners) == 0 || n.peers == nil {
		return 1
	}
	ctx, cancel := context.WithTimeout(ctx, standingWait)
	defer cancel()
	type answer struct {
		keys  int64
		place float64
		err   error
	}
	answers := make(chan answer, len(owners)) // nobody waits who answers late
	req := resp.AppendCommandStrings(nil, "RC.STANDING")
	for _, m := range owners {
		n.wg.Go(func() { // ends with its answer, standingWait at most
			v, err := n.peers.Do(ctx, m.Addr(), req)
			a := answer{err: err}
			if err == nil && v.Kind == resp.Array && len(v.Elems) >= 2 {
				a.keys = v.Elems[0].Int
				a.place, a.err = strconv.ParseFloat(v.Elems[1].Text(), 64)
			} else {
				a.keys = 1
			}
			answers <- a
		})
	}
	keys, place, silent := false, 0.0, 0
	for range owners {
		a := <-answers
		keys = keys || a.keys > 0
		if a.err != nil {
			silent++
			continue
		}
		if a.place >= 0 && a.place <= 1 {
			place = max(place, a.place)
		}
	}
	switch {
	case place > 0:
		return place
	case !keys:
		return 1
	}
	n.log.Info("joining step by step: the owners have content", "steps", n.o.Steps.Join, "owners", len(owners), "silent", silent)
	return 0
}

// standingOf answers RC.STANDING: the keys that this node serves, and the presence
// of the peer in its View.
func (n *Node) standingOf(peer topology.NodeID, w *resp.Writer) {
	place := 0.0
	if v := n.View(); v != nil {
		if i, ok := v.Index(peer); ok {
			place = v.Member(i).Presence()
		}
	}
	w.Array(2)
	w.Int(n.eng.Stats().ServedKeys)
	w.BulkString(strconv.FormatFloat(place, 'g', -1, 64))
}
