package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// A node may be a member by every heartbeat and serve badly all the same. Three
// things make that visible, and none of them moves a slot by itself:
//
//   - it looks at itself once a second and tells the others when it is degraded;
//   - requests of nodes to each other that get no answer are reported to
//     membership, which shows the peer as failing and dials it every second;
//   - that dial has to get at the data of the peer, not only at its port.
//
// Whether a peer is dead stays with the dials.

// The self-check: what is bad for checkBad seconds in a row makes a node degraded,
// checkGood good ones in a row end it.
const (
	checkTick    = 100 * time.Millisecond
	checkEvery   = 10 // ticks
	checkBad     = 3
	checkGood    = 5
	lateLimit    = 250 * time.Millisecond // a tick so late means that requests wait too
	buffersAlarm = 0.9                    // of the limit of session buffers
)

// vitals are what one look at the node found.
type vitals struct {
	late            time.Duration // of the latest tick in the last second
	buffers, limit  int64         // bytes of session buffers; limit 0: none
	refused         uint64        // commands refused for want of buffers, ever
	beside, granted int64         // bytes that the process holds beside entries and what it may take from them
}

// selfCheck decides whether this node is degraded. It is not safe for concurrent use.
type selfCheck struct {
	bad, good int
	degraded  bool
	refused   uint64
}

// look takes a second's figures and returns why the node is degraded, "" if it is
// not, and whether that is news.
func (c *selfCheck) look(v vitals) (why string, news bool) {
	var reasons []string
	if v.late >= lateLimit {
		reasons = append(reasons, fmt.Sprintf("its timers are %s late: it lacks processor time", v.late.Round(time.Millisecond)))
	}
	if v.limit > 0 && float64(v.buffers) >= buffersAlarm*float64(v.limit) || v.refused > c.refused {
		reasons = append(reasons, fmt.Sprintf("session buffers hold %d of %d bytes: clients do not read their replies, or send more than is served", v.buffers, v.limit))
	}
	if v.granted > 0 && v.beside > v.granted {
		reasons = append(reasons, fmt.Sprintf("the process holds %d bytes beside its entries, of which these can give %d: raise max-memory or lower its clients' load",
			v.beside, v.granted))
	}
	c.refused = v.refused
	why = strings.Join(reasons, "; ")
	if why == "" {
		c.bad = 0
		c.good++
	} else {
		c.good = 0
		c.bad++
	}
	switch {
	case !c.degraded && c.bad >= checkBad:
		c.degraded = true
		return why, true
	case c.degraded && c.good >= checkGood:
		c.degraded = false
		return "", true
	case c.degraded && why == "":
		return "recovering", false
	}
	return why, false
}

// checkLoop looks at this node once a second; it ends with n.ctx.
func (n *Node) checkLoop() {
	t := time.NewTicker(checkTick)
	defer t.Stop()
	late, last, ticks := time.Duration(0), n.clock.elapsed(), 0
	for {
		select {
		case <-t.C:
		case <-n.ctx.Done():
			return
		}
		now := n.clock.elapsed()
		late, last = max(late, now-last-checkTick), now
		if ticks++; ticks%checkEvery != 0 {
			continue
		}
		f := n.frontStats()
		v := vitals{late: late, buffers: f.BufferBytes, limit: f.BufferLimit, refused: f.BufferRefusals}
		if n.front != nil {
			v.beside, v.granted = n.beside(), n.eng.Stats().MaxBytes/2
		}
		n.checked(v)
		late = 0
	}
}

// checked tells the log and the other members what a look has changed.
func (n *Node) checked(v vitals) {
	why, news := n.check.look(v)
	if !news {
		return
	}
	n.degraded.Store(nil)
	if why != "" {
		n.degraded.Store(&why)
		n.log.Warn("this node is degraded; it stays a member, and the others are told", "why", why)
	} else {
		n.log.Info("this node is well again")
	}
	if r, ok := n.membership().(healthReporter); ok {
		r.SetDegraded(why != "")
	}
}

// healthReporter is what the node needs of membership beyond Members;
// *membership.Membership is one.
type healthReporter interface {
	SetDegraded(on bool)
	Failed(id topology.NodeID)
}

// heard says that a peer has answered a request.
func (n *Node) heard(id topology.NodeID) {
	if m := n.membership(); m != nil {
		m.Heard(id)
	}
	n.gate.contact()
}

// failed says that a request to a peer got no answer, by err. ctx is that of the
// request: where it was cancelled, or this node did not even send, the peer is not
// to blame.
func (n *Node) failed(ctx context.Context, id topology.NodeID, err error) {
	r, ok := n.membership().(healthReporter)
	if !ok || errors.Is(ctx.Err(), context.Canceled) || n.ctx.Err() != nil ||
		errors.Is(err, errs.ErrShed) || errors.Is(err, errs.ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}
	r.Failed(id)
	if link.Broke(err) || link.Refused(err) {
		n.membership().Check(id) // its process may have ended
	}
}

// memberAt finds a member by its address.
func (n *Node) memberAt(addr string) (id topology.NodeID, ok bool) {
	v := n.View()
	for i := range v.Len() {
		if m := v.Member(i); m.Addr() == addr {
			return m.ID, true
		}
	}
	return id, false
}

// pings counts those that look at the data.
type pings struct {
	turn    atomic.Uint32
	waiting atomic.Int32
}

// maxPings bounds the pings that wait for a shard.
const maxPings = 8

// ping answers RC.PING, with data only after it has held one slot, another one each
// time. A shard that is held by a script or a long transaction is no trouble.
func (n *Node) ping(data bool, w *resp.Writer) {
	if data && !n.reachData() {
		w.Error("RCBUSY the data of this node is held by something for long")
		return
	}
	w.Simple("PONG")
}

// reachData takes a slot's hold, and waits for it as long as it takes.
func (n *Node) reachData() bool {
	slot := uint16(n.pings.turn.Add(1021) % engine.Slots)
	tx, busy, _ := n.eng.TryLock(slot)
	switch {
	case tx != nil:
		tx.Unlock()
		return true
	case !busy || n.long.Load() > 0:
		return true
	case n.pings.waiting.Load() >= maxPings:
		return false
	}
	n.pings.waiting.Add(1)
	defer n.pings.waiting.Add(-1)
	if tx, err := n.eng.Lock(slot); err == nil {
		tx.Unlock()
	}
	return true
}
