package link

import (
	"context"
	"errors"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// awayFor is how long the reads of a node's slots go to their copies at once after
// it did not answer; then one of them asks it again.
const awayFor = 100 * time.Millisecond

// What a request for copies has around it. READWRITE follows in the same piece, so
// no request of anybody else is executed in between.
const (
	readOnly  = "*1\r\n$8\r\nREADONLY\r\n"
	readWrite = "*1\r\n$9\r\nREADWRITE\r\n"
)

var errAway = errors.New("the node did not answer lately, and no copy of the key could be had")

// copyOf returns the node that keeps copies of a slot, nil if none is known.
func (t *Table) copyOf(slot uint16) *endpoint {
	c := t.spares[slot/chunkSlots]
	if c == nil {
		return nil
	}
	if i := c[slot%chunkSlots]; int(i) < len(t.holders) {
		return t.holders[i]
	}
	return nil
}

// isAway tells whether the node did not answer lately. From time to time it says no
// to one caller, who finds out.
func (e *endpoint) isAway(now time.Time) bool {
	until := e.away.Load()
	switch at := now.UnixNano(); {
	case until == 0:
		return false
	case at < until:
		return true
	default:
		return !e.away.CompareAndSwap(until, at+int64(awayFor))
	}
}

// isGone notes that the node did not answer.
func (e *endpoint) isGone() { e.away.Store(time.Now().Add(awayFor).UnixNano()) }

// answered notes that the node answers.
func (e *endpoint) answered() {
	if e.away.Load() != 0 {
		e.away.Store(0)
	}
}

// spare gives the node that a read may move to if the owner of its slot does not
// answer.
func (r *Router) spare(o *op, owner *endpoint) *endpoint {
	if !o.read || o.slot < 0 || o.retried || r.o.NoRetry || r.o.OwnersOnly {
		return nil
	}
	e := r.table.Load().copyOf(uint16(o.slot))
	if e == nil || e == owner || e.away.Load() > o.now.UnixNano() {
		return nil
	}
	return e
}

// toCopy makes the next attempt one at a copy. It is the call's one retry, but
// none that the budget counts: it does not go to the node that is in trouble.
func (r *Router) toCopy(o *op, to *endpoint, cause *Error) {
	o.at, o.ask, o.retried = to, false, true
	o.copy, o.cause = true, cause
	r.stats.copies.Add(1)
}

// instead moves a read that failed at the owner of its slot to a copy.
func (r *Router) instead(o *op, res *Result) bool {
	if !o.read || o.slot < 0 {
		return false
	}
	owner := r.table.Load().owner(uint16(o.slot))
	if owner == nil || owner.addr != res.Addr {
		return false
	}
	to := r.spare(o, owner)
	var cause *Error
	if to == nil || !errors.As(res.Err, &cause) {
		return false
	}
	owner.isGone()
	r.toCopy(o, to, cause)
	return true
}

// afterCopy decides after an attempt at a copy. What it does not have, the owner
// may have: that is no answer.
func (r *Router) afterCopy(o *op, res *Result) bool {
	cause := o.cause
	o.copy, o.cause = false, nil
	switch {
	case res.Err != nil, res.Value.Kind == resp.Null:
	case res.Value.Kind != resp.Error:
		return false
	default:
		text := string(res.Value.Str)
		_, addr, ok := parseRedirect(text, res.Addr)
		if ok && addr != cause.Addr {
			return r.afterReply(o, res) // it knows of another owner
		}
		if code := resp.ReplyError(text).Code(); !ok && code != "TRYAGAIN" && code != "LOADING" && code != "CLUSTERDOWN" && code != "MASTERDOWN" {
			return false // the caller's, as from the owner
		}
	}
	*res = Result{Addr: cause.Addr, Err: cause}
	return false
}

// sendCopy is send for a request that copies may answer.
func (c *Conn) sendCopy(cl *call, req []byte, until, now time.Time) error {
	return c.sendCopies([]*call{cl}, [][]byte{req}, len(req), until, now)
}

// sendCopies is sendAll for requests that copies may answer.
func (c *Conn) sendCopies(cls []*call, reqs [][]byte, size int, until, now time.Time) error {
	all := append(make([]*call, 0, len(cls)+2), dropped(c.calls))
	all = append(append(all, cls...), dropped(c.calls))
	bytes := append(make([][]byte, 0, len(reqs)+2), []byte(readOnly))
	bytes = append(append(bytes, reqs...), []byte(readWrite))
	err := c.sendAll(all, bytes, size+len(readOnly)+len(readWrite), until, now)
	if err != nil {
		all[0].release()
		all[len(all)-1].release()
	}
	return err
}

// dropped is a call whose reply nobody waits for.
func dropped(p *callPool) *call {
	cl := p.get()
	cl.state.Store(abandoned)
	return cl
}

// tableReply asks for CLUSTER SLOTS with the nodes that keep copies.
func (c *Conn) tableReply(ctx context.Context, until time.Time) (resp.Value, error) {
	cl := c.calls.get()
	req := resp.AppendCommandStrings(nil, "CLUSTER", "SLOTS")
	if err := c.sendCopy(cl, req, until, time.Now()); err != nil {
		cl.release()
		return resp.Value{}, err
	}
	if !cl.wait(ctx, until) && cl.abandon() {
		c.lost.Add(1)
		return resp.Value{}, endError(ctx, c.addr, true)
	}
	return cl.take()
}
