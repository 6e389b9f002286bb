package link

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

const (
	// silentAfter is how long requests must have waited without a byte from their node
	// before reads go to copies. A node that is slow still acknowledges writes, which its
	// copies have a moment later; a read that went there would be older than they are.
	silentAfter = 300 * time.Millisecond
	// awayFor is how long the reads of a node's slots go to their copies at once after
	// it was found silent or gone; then one of them asks it again. When anything comes
	// from it, that ends at once.
	awayFor = 100 * time.Millisecond
	// awayKnown is how long after that the reads of others go to copies while one of
	// them asks, and awayRecalled how long the node needs less proof than others. What
	// was found out earlier says nothing: it may have come back, with nobody to tell.
	awayKnown    = time.Second
	awayRecalled = 10 * time.Second
)

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
	if until == 0 {
		return false
	}
	if c := e.conn.Load(); c != nil && !c.broken.Load() && !c.mute.Load() {
		e.answered()
		return false
	}
	switch at := now.UnixNano(); {
	case at < until:
		return true
	case at-until < int64(awayKnown):
		return !e.away.CompareAndSwap(until, at+int64(awayFor))
	case at-until >= int64(awayRecalled):
		e.away.CompareAndSwap(until, 0)
	}
	return false
}

// wasAway tells whether the node did not answer when it was asked last, lately.
func (e *endpoint) wasAway(now time.Time) bool {
	until := e.away.Load()
	return until != 0 && now.UnixNano()-until < int64(awayRecalled)
}

// isGone notes that the node is silent or gone, unless it has been heard of while
// somebody came to think so.
func (e *endpoint) isGone() {
	now := time.Now()
	if c := e.conn.Load(); c != nil && !c.broken.Load() && !c.mute.Swap(true) && c.silentFor(now) < silentAfter {
		c.mute.Store(false)
		return
	}
	e.away.Store(now.Add(awayFor).UnixNano())
}

// isSilent tells whether there is reason to think that the node answers nobody:
// nothing has come from it for long, a dial has been under way for long, or it was so lately.
func (e *endpoint) isSilent(now time.Time) bool {
	if e.wasAway(now) {
		return true
	}
	if c := e.conn.Load(); c != nil && !c.broken.Load() {
		return c.silentFor(now) >= silentAfter
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flight != nil && now.Sub(e.flight.begun) >= silentAfter
}

// Silent tells whether there is reason to think that the owner of a slot answers nobody.
func (r *Router) Silent(slot uint16) bool {
	e := r.table.Load().owner(slot)
	return e != nil && e.isSilent(time.Now())
}

// Refused tells whether a call failed because its node could not be reached at all:
// nobody listens there, nobody answered the dial, or the connection was ended at once. A deadline that passed while a
// connection was there, or is about to be, is not that.
func Refused(err error) bool {
	k := kindOf(err)
	return k == kindRefused || k == kindDial && (isNoRoute(err) || isCutShort(err))
}

// Broke tells whether a call failed because its connection broke.
func Broke(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.kind == kindBroken
}

// isCutShort tells whether a connection ended before anything was said on it. The kernel
// accepts for a process that is ending, for as long as that takes, and a proxy for one
// that is gone.
func isCutShort(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isUnreachable tells whether no connection to the node can be had, after one broke: its
// process is gone then, or the network. Otherwise it may just have given that one up.
func (e *endpoint) isUnreachable(ctx context.Context, until time.Time) bool {
	_, err := e.get(ctx, until)
	if kindOf(err) == kindTimeout {
		return ctx.Err() == nil && e.isSilent(time.Now())
	}
	return Refused(err)
}

// isNoRoute tells whether a dial failed because nobody answered it. A node that
// refuses a client in words is alive.
func isNoRoute(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

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

// stillThere returns where an attempt at a copy has to go: nil if the slot has another
// owner by now than the one that did not answer. The copy may be of that one's, and
// lack what it has acknowledged a moment ago.
func (r *Router) stillThere(o *op) *endpoint {
	if !o.copy {
		return o.at
	}
	t := r.table.Load()
	owner, to := t.owner(uint16(o.slot)), t.copyOf(uint16(o.slot))
	switch {
	case owner != nil && owner.addr != o.cause.Addr:
		o.at, o.copy, o.cause = nil, false, nil
	case to != nil && to != owner:
		o.at = to
	}
	return o.at
}

// instead moves a read to a copy if the owner of its slot could not be reached.
func (r *Router) instead(o *op, res *Result) bool {
	if !o.read || o.slot < 0 || !Refused(res.Err) {
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
