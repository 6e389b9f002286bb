package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// op is one call's way through the cluster.
type op struct {
	slot      int
	read      bool
	now       time.Time // when the present attempt began
	until     time.Time // the total deadline
	at        *endpoint // where the next attempt goes; nil: as the table says
	ask       bool      // with ASKING in front
	redirects int
	retried   bool
	pause     time.Duration   // before the next attempt
	patience  time.Duration   // the pause after the latest TRYAGAIN
	await     <-chan struct{} // a refresh to wait for before the next attempt
	copy      bool            // the next attempt goes to a copy
	cause     *Error          // why it does
	lost      bool            // no connection to the owner can be had: the table may be old
}

// kindLook marks an attempt that was left for a better place (see attempt).
const kindLook = kindReply + 1

func (r *Router) newOp(ctx context.Context, q Request) op {
	now := time.Now()
	o := op{slot: q.Slot, read: q.Read, now: now, until: now.Add(r.o.Timeout)}
	if d, ok := ctx.Deadline(); ok && d.Before(o.until) {
		o.until = d
	}
	return o
}

// Call sends one request and follows redirects within the deadline.
func (r *Router) Call(ctx context.Context, q Request) Result {
	r.stats.calls.Add(1)
	r.bank.earn(1)
	if ctx.Err() != nil {
		return Result{Err: endError(ctx, "", false)}
	}
	o := r.newOp(ctx, q)
	for {
		res := r.attempt(ctx, &o, q.Bytes)
		if !r.again(&o, &res) || !r.ready(ctx, &o, &res) {
			return res
		}
	}
}

// attempt sends the request once and waits.
//
// A read that is unanswered at half of its time looks at the table once more.
// If the slot has another owner meanwhile, or a new connection to the owner
// took the place of the silent one, the read moves there as its retry;
// otherwise it goes on waiting: asking a silent node again would only add load.
func (r *Router) attempt(ctx context.Context, o *op, req []byte) Result {
	e, fromTable := r.stillThere(o), false
	if e == nil {
		e, fromTable = r.pick(o.slot), true
	}
	if e == nil {
		return Result{Err: &Error{Err: errNoOwner, kind: kindNoOwner}}
	}
	spare, by, half := (*endpoint)(nil), o.until, o.now.Add(o.until.Sub(o.now)/2)
	if fromTable {
		spare = r.spare(o, e)
	}
	if spare != nil {
		if by = half; e.isAway(o.now) {
			r.toCopy(o, spare, &Error{Addr: e.addr, Err: errAway, kind: kindDial})
			e, spare, by = spare, nil, o.until
		}
	}
	cl := r.pool.calls.get()
	c, err := r.sendTo(ctx, e, cl, o, req, by)
	if err != nil && spare != nil && kindOf(err) == kindTimeout && ctx.Err() == nil {
		if e.isSilent(time.Now()) {
			cl.release()
			return r.leave(o, e, spare, false)
		}
		c, err = r.sendTo(ctx, e, cl, o, req, o.until)
	}
	if err != nil {
		cl.release()
		return Result{Addr: e.addr, Err: err}
	}
	o.at, o.ask = nil, false
	done := false
	if fromTable && o.read && !o.retried && !r.o.NoRetry {
		if done = cl.wait(ctx, half); !done && ctx.Err() == nil && (r.lookAgain(o, e, c) || spare != nil && e.isSilent(time.Now())) {
			if cl.abandon() {
				c.lost.Add(1)
				if !o.retried {
					return r.leave(o, e, spare, true)
				}
				return Result{Addr: e.addr, Err: &Error{Addr: e.addr, Sent: true, Err: errDeadline, kind: kindLook}}
			}
			done = true
		}
	}
	if !done && !cl.wait(ctx, o.until) && cl.abandon() {
		c.lost.Add(1)
		return Result{Addr: e.addr, Err: endError(ctx, e.addr, true)}
	}
	res := finishedCall(cl, e)
	if spare != nil && !o.retried && kindOf(res.Err) == kindBroken && res.Err != nil && e.isUnreachable(ctx, o.until) {
		o.lost = true
		return r.leave(o, e, spare, true)
	}
	return res
}

// leave moves a read that is not answered to a copy.
func (r *Router) leave(o *op, e, spare *endpoint, sent bool) Result {
	e.isGone()
	r.toCopy(o, spare, &Error{Addr: e.addr, Sent: sent, Err: errDeadline, kind: kindTimeout})
	return Result{Addr: e.addr, Err: &Error{Addr: e.addr, Sent: sent, Err: errDeadline, kind: kindLook}}
}

func finishedCall(cl *call, e *endpoint) Result {
	v, err := cl.take()
	if err == nil {
		e.answered()
	}
	return Result{Value: v, Addr: e.addr, Err: err}
}

// sendTo gives the request to a working connection. A connection that broke
// between the look and the send is replaced once.
// by is until when it waits for one.
func (r *Router) sendTo(ctx context.Context, e *endpoint, cl *call, o *op, req []byte, by time.Time) (*Conn, error) {
	for again := true; ; again = false {
		c, err := e.get(ctx, by)
		if err != nil {
			return nil, err
		}
		if o.copy {
			err = c.sendCopy(cl, req, o.until, o.now)
		} else {
			err = c.send(cl, req, o.until, o.now, o.ask)
		}
		if err == nil || !again || kindOf(err) != kindRetired {
			return c, err
		}
	}
}

// lookAgain tells whether a read should leave c, and spends its retry if so.
func (r *Router) lookAgain(o *op, e *endpoint, c *Conn) bool {
	r.refreshSoon("", true)
	moved := r.table.Load().owner(uint16(max(o.slot, 0))) != e && o.slot >= 0
	if !moved && e.conn.Load() == c {
		return false
	}
	return r.takeRetry(o)
}

// pick gives the owner of slot; for a negative slot any node, in turn, those
// with a working connection first.
func (r *Router) pick(slot int) *endpoint {
	t := r.table.Load()
	if slot >= 0 {
		return t.owner(uint16(slot))
	}
	n := uint32(len(t.nodes))
	if n == 0 {
		return nil
	}
	first := r.next.Add(1)
	for i := range n {
		if e := t.nodes[(first+i)%n]; e.connected() {
			return e
		}
	}
	return t.nodes[first%n]
}

// again decides after an attempt whether there is another one, where, and what
// to wait for. It may turn an error reply into an error.
func (r *Router) again(o *op, res *Result) bool {
	o.pause, o.await = 0, nil
	if o.copy && kindOf(res.Err) != kindLook {
		return r.afterCopy(o, res)
	}
	if res.Err == nil {
		return res.Value.Kind == resp.Error && r.afterReply(o, res)
	}
	switch kindOf(res.Err) {
	case kindLook:
		if o.copy && o.lost {
			o.await = r.refreshSoon("", false)
		}
		return true
	case kindRetired:
		// The table still names a node that left, or a connection that keeps
		// breaking before anything is sent.
		o.at, o.ask = nil, false
		o.await = r.refreshSoon("", false)
		return r.redirect(o)
	case kindNoOwner:
		o.await = r.refreshSoon("", false)
		return o.await != nil && r.redirect(o)
	case kindRefused:
		r.stats.refused.Add(1)
		return r.afterDial(o, res)
	case kindDial:
		if errors.Is(res.Err, errs.ErrAuth) || errors.Is(res.Err, errs.ErrMismatch) {
			return false
		}
		return r.afterDial(o, res)
	case kindBroken:
		r.refreshSoon("", false)
		return o.read && r.takeRetry(o)
	case kindTimeout:
		r.stats.timeouts.Add(1)
		r.refreshSoon("", true)
	case kindShed:
		r.stats.shed.Add(1)
	}
	return false
}

// afterDial handles a node without a connection. Nothing was sent, so writes are
// retried too: elsewhere, if the table says so after a refresh.
func (r *Router) afterDial(o *op, res *Result) bool {
	o.at, o.ask = nil, false
	o.await = r.refreshSoon("", false)
	if r.instead(o, res) {
		return true // once the table has come: a node that has left refuses, too
	}
	if o.await == nil && o.slot >= 0 && r.table.Load().Addr(uint16(o.slot)) == res.Addr {
		return false // nothing new to try: the table is fresh and names this node
	}
	return r.takeRetry(o)
}

// afterReply handles an error reply: those that concern routing are followed or
// become errors, all others are the caller's.
func (r *Router) afterReply(o *op, res *Result) bool {
	text := string(res.Value.Str)
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "MOVED", "ASK":
		return r.follow(o, res, code, text)
	case "TRYAGAIN":
		*res = Result{Addr: res.Addr, Err: &Error{Addr: res.Addr, Err: resp.ReplyError(text), kind: kindReply}}
		return r.tryAgain(o)
	case "LOADING":
		o.pause = retryPause
	case "CLUSTERDOWN", "MASTERDOWN", "READONLY":
		o.pause = retryPause
		o.await = r.refreshSoon("", false)
	default:
		return false
	}
	*res = Result{Addr: res.Addr, Err: &Error{Addr: res.Addr, Err: resp.ReplyError(text), kind: kindReply}}
	return r.takeRetry(o)
}

// tryAgain repeats what a server could not execute yet, for as long as the call lasts.
// As with a redirect, nothing was executed, and so this is not the one retry. The server
// does not wait for the slot itself, since everything behind on the link would wait too.
func (r *Router) tryAgain(o *op) bool {
	if r.o.NoRetry {
		return false
	}
	o.patience = min(max(2*o.patience, firstTryAgain), mostTryAgain)
	o.pause = o.patience
	r.stats.tryAgains.Add(1)
	return true
}

// follow follows a redirect.
func (r *Router) follow(o *op, res *Result, code, text string) bool {
	fail := func(why string) bool {
		err := fmt.Errorf("%s: %w", why, resp.ReplyError(text))
		*res = Result{Addr: res.Addr, Err: &Error{Addr: res.Addr, Err: err, kind: kindReply}}
		return false
	}
	slot, addr, ok := parseRedirect(text, res.Addr)
	if !ok {
		return fail("malformed redirect")
	}
	if !r.redirect(o) {
		return fail(fmt.Sprintf("redirected more than %d times", MaxRedirects))
	}
	e, err := r.pool.endpoint(addr)
	if err != nil {
		return fail(err.Error())
	}
	o.at, o.ask = e, code == "ASK"
	if o.ask {
		r.stats.asked.Add(1)
		return true
	}
	r.stats.moved.Add(1)
	if r.adopt(slot, e) {
		r.refreshSoon(addr, false)
	}
	return true
}

// adopt makes e the owner of slot in the table; false if it was already.
func (r *Router) adopt(slot uint16, e *endpoint) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.table.Load()
	if t.owner(slot) == e {
		return false
	}
	r.table.Store(t.with(slot, e))
	return true
}

func (r *Router) redirect(o *op) bool {
	o.redirects++
	return o.redirects <= MaxRedirects
}

// takeRetry spends the call's one retry, if it has one and the budget allows.
func (r *Router) takeRetry(o *op) bool {
	if r.o.NoRetry || o.retried || !r.bank.spend() {
		return false
	}
	o.retried = true
	r.stats.retries.Add(1)
	return true
}

// ready waits until the next attempt may begin. If there is none, it makes sure
// that the outcome is an error: the last one, or the end of the deadline.
func (r *Router) ready(ctx context.Context, o *op, res *Result) bool {
	if o.pause > 0 || o.await != nil {
		if !r.hold(ctx, o) {
			giveUp(ctx, res)
			return false
		}
	}
	o.now = time.Now()
	if o.now.Before(o.until) {
		return true
	}
	giveUp(ctx, res)
	return false
}

// giveUp ends a call between two attempts.
func giveUp(ctx context.Context, res *Result) {
	if res.Err != nil && ctx.Err() == nil {
		return
	}
	var last *Error
	sent := errors.As(res.Err, &last) && last.Sent
	*res = Result{Addr: res.Addr, Err: endError(ctx, res.Addr, sent)}
}

// hold waits for the pause and the refresh, within the deadline. A copy waits for the
// refresh no longer than half of that.
func (r *Router) hold(ctx context.Context, o *op) bool {
	left := time.Until(o.until)
	if o.pause >= left {
		return false
	}
	if o.copy {
		left /= 2
	}
	t := time.NewTimer(left)
	defer t.Stop()
	if o.await != nil {
		select {
		case <-o.await:
		case <-t.C:
			return o.copy
		case <-ctx.Done():
			return false
		case <-r.ctx.Done():
			return true // the next attempt says that the router is closed
		}
	}
	if o.pause > 0 {
		t.Reset(o.pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// scratch holds an encoded command and its key positions.
type scratch struct {
	req  []byte
	keys []int
}

// keepRequest bounds the encoded commands whose buffers are recycled, in bytes.
const keepRequest = 64 << 10

// CallArgs is Do with the node that answered.
func (r *Router) CallArgs(ctx context.Context, args [][]byte) Result {
	if len(args) == 0 {
		return Result{Err: &Error{Err: fmt.Errorf("%w: no command", errs.ErrConfig), kind: kindReply}}
	}
	if why := shared(args); why != "" {
		return Result{Err: fmt.Errorf("%w: %s %s", errs.ErrConfig, strings.ToUpper(string(args[0])), why)}
	}
	cmd := command.Lookup(args[0])
	s, ok := r.ops.Get().(*scratch)
	if !ok {
		s = &scratch{}
	}
	q := Request{Slot: -1, Read: reads(cmd, args)}
	if key := firstKey(cmd, args, s); key != nil {
		q.Slot = int(ring.Slot(key))
	}
	s.req = resp.AppendCommand(s.req[:0], args...)
	q.Bytes = s.req
	res := r.Call(ctx, q)
	if cap(s.req) <= keepRequest {
		r.ops.Put(s)
	}
	return res
}

// CallNode is DoNode for a command in words; see CallArgs.
func (r *Router) CallNode(ctx context.Context, addr string, args [][]byte) Result {
	if why := shared(args); why != "" {
		return Result{Addr: addr, Err: fmt.Errorf("%w: %s %s", errs.ErrConfig, strings.ToUpper(string(args[0])), why)}
	}
	v, err := r.DoNode(ctx, addr, resp.AppendCommand(nil, args...))
	return Result{Value: v, Addr: addr, Err: err}
}

// budget bounds retries to a tenth of all calls plus a burst.
type budget struct{ units atomic.Int64 }

const (
	retryCost   = 10 // units; a call earns one
	retryBurst  = 10 // retries that may come at once
	budgetLimit = retryCost * retryBurst
)

func (b *budget) fill() { b.units.Store(budgetLimit) }

// earn adds n calls. A full budget costs one load.
func (b *budget) earn(n int64) {
	for {
		have := b.units.Load()
		if have >= budgetLimit || b.units.CompareAndSwap(have, min(have+n, budgetLimit)) {
			return
		}
	}
}

func (b *budget) spend() bool {
	for {
		have := b.units.Load()
		if have < retryCost {
			return false
		}
		if b.units.CompareAndSwap(have, have-retryCost) {
			return true
		}
	}
}
