package link

import (
	"context"
	"sync"
	"time"
)

// One link is given at most this much of a batch at a time; the next part
// follows when the replies are in. So a batch alone never fills a link.
const (
	batchRequests = 512
	batchBytes    = 1 << 20
)

// batch is one CallAll under way. Each index of ops and out belongs to one
// goroutine at a time.
type batch struct {
	r    *Router
	ctx  context.Context
	reqs []Request
	ops  []op
	out  []Result
}

// CallAll sends all requests, grouped by owner, pipelined per link and to all
// owners at once, under one total deadline. Redirects and the one retry apply to
// each request. out[i] is the outcome of reqs[i]: a silent node costs its own
// requests and no others.
func (r *Router) CallAll(ctx context.Context, reqs []Request) []Result {
	b := &batch{r: r, ctx: ctx, reqs: reqs, ops: make([]op, len(reqs)), out: make([]Result, len(reqs))}
	r.stats.calls.Add(uint64(len(reqs)))
	r.bank.earn(int64(len(reqs)))
	first := r.newOp(ctx, Request{})
	all := make([]int, len(reqs))
	for i, q := range reqs {
		b.ops[i] = first
		b.ops[i].slot, b.ops[i].read = q.Slot, q.Read
		all[i] = i
	}
	b.run(all)
	return b.out
}

// part is what one endpoint gets: indexes into the batch.
type part struct {
	e    *endpoint
	idx  []int
	lone bool // with ASKING: one by one
	copy bool // to copies
}

// run performs one round for some requests, then whatever follows for each of
// its groups. The depth is bounded by MaxRedirects, the one retry
// and, where servers say TRYAGAIN, the pauses before each repetition.
func (b *batch) run(idx []int) {
	parts := b.group(idx)
	if len(parts) == 1 {
		b.runPart(parts[0])
		return
	}
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() { b.runPart(p) }) // ends with the deadline of the batch; at most one per node
	}
	wg.Wait()
}

// group sorts requests by the endpoint that they go to.
func (b *batch) group(idx []int) []*part {
	var parts []*part
	type place struct {
		e    *endpoint
		copy bool
	}
	plain := map[place]*part{}
	for _, i := range idx {
		o := &b.ops[i]
		e := b.r.stillThere(o)
		if e == nil {
			if e = b.r.pick(o.slot); e != nil {
				if to := b.r.spare(o, e); to != nil && e.isAway(o.now) {
					b.r.toCopy(o, to, &Error{Addr: e.addr, Err: errAway, kind: kindDial})
					e = to
				}
			}
		}
		if o.ask {
			if n := len(parts); n == 0 || !parts[n-1].lone {
				parts = append(parts, &part{lone: true})
			}
			parts[len(parts)-1].idx = append(parts[len(parts)-1].idx, i)
			continue
		}
		p := plain[place{e, o.copy}]
		if p == nil {
			p = &part{e: e, copy: o.copy}
			plain[place{e, o.copy}] = p
			parts = append(parts, p)
		}
		p.idx = append(p.idx, i)
	}
	return parts
}

// runPart sends a group and follows what its replies ask for.
func (b *batch) runPart(p *part) {
	var follow []int
	settle := func(i int) {
		if b.r.again(&b.ops[i], &b.out[i]) {
			follow = append(follow, i)
		}
	}
	switch {
	case p.lone:
		for _, i := range p.idx {
			b.out[i] = b.r.attempt(b.ctx, &b.ops[i], b.reqs[i].Bytes)
			settle(i)
		}
	case p.e == nil:
		for _, i := range p.idx {
			b.out[i] = Result{Err: &Error{Err: errNoOwner, kind: kindNoOwner}}
			settle(i)
		}
	default:
		for rest := p.idx; len(rest) > 0; {
			n := b.window(rest)
			b.pipeline(p, rest[:n])
			for _, i := range rest[:n] {
				settle(i)
			}
			rest = rest[n:]
		}
	}
	if follow = b.holdAll(follow); len(follow) > 0 {
		b.run(follow)
	}
}

// window says how many of the requests go out together.
func (b *batch) window(idx []int) int {
	size := 0
	for n, i := range idx {
		size += len(b.reqs[i].Bytes)
		if n == batchRequests || n > 0 && size > batchBytes {
			return n
		}
	}
	return len(idx)
}

// holdAll waits once for what the requests have to wait for, and returns those
// that may go on.
func (b *batch) holdAll(idx []int) []int {
	if len(idx) == 0 {
		return nil
	}
	longest := idx[0]
	for _, i := range idx {
		if o := &b.ops[i]; o.await != nil || o.pause > b.ops[longest].pause {
			longest = i
			if o.await != nil {
				break
			}
		}
	}
	if !b.r.ready(b.ctx, &b.ops[longest], &b.out[longest]) {
		for _, i := range idx {
			giveUp(b.ctx, &b.out[i])
		}
		return nil
	}
	now := time.Now()
	for _, i := range idx {
		b.ops[i].now = now
	}
	return idx
}

// by is until when the requests of a part wait for their owner before all of them
// move to copies; until, if some of them cannot.
func (b *batch) by(p *part, idx []int, until time.Time) (by time.Time, all bool) {
	for _, i := range idx {
		if p.copy || b.r.spare(&b.ops[i], p.e) == nil {
			return until, false
		}
	}
	now := b.ops[idx[0]].now
	return now.Add(until.Sub(now) / 2), true
}

// pipeline sends requests to one endpoint in one go and collects the replies.
func (b *batch) pipeline(p *part, idx []int) {
	e := p.e
	cls := make([]*call, len(idx))
	reqs := make([][]byte, len(idx))
	size := 0
	for n, i := range idx {
		cls[n] = b.r.pool.calls.get()
		reqs[n] = b.reqs[i].Bytes
		size += len(reqs[n])
		b.ops[i].at = nil
	}
	until := b.ops[idx[0]].until
	by, movable := b.by(p, idx, until)
	c, err := b.sendAll(p, cls, reqs, size, until, by)
	if err != nil && movable && kindOf(err) == kindTimeout && b.ctx.Err() == nil && !e.isSilent(time.Now()) {
		by, movable = until, false
		c, err = b.sendAll(p, cls, reqs, size, until, by)
	}
	if err != nil {
		for n, i := range idx {
			cls[n].release()
			b.out[i] = Result{Addr: e.addr, Err: err}
			if movable && kindOf(err) == kindTimeout && b.ctx.Err() == nil {
				b.out[i] = b.move(i, e, false)
			}
		}
		return
	}
	late := false
	for n, i := range idx {
		cl := cls[n]
		done := !late && cl.wait(b.ctx, by)
		if !done && !late && movable && b.ctx.Err() == nil && !e.isSilent(time.Now()) {
			by, movable = until, false
			done = cl.wait(b.ctx, by)
		}
		if !done && cl.abandon() {
			late = true
			c.lost.Add(1)
			if movable && b.ctx.Err() == nil {
				b.out[i] = b.move(i, e, true)
				continue
			}
			b.out[i] = Result{Addr: e.addr, Err: endError(b.ctx, e.addr, true)}
			continue
		}
		b.out[i] = finishedCall(cl, e)
		if movable && b.out[i].Err != nil && kindOf(b.out[i].Err) == kindBroken && e.isUnreachable(b.ctx, until) {
			b.ops[i].lost = true
			b.out[i] = b.move(i, e, true)
		}
	}
}

// move makes the next attempt of a read one at a copy, if there still is one.
func (b *batch) move(i int, e *endpoint, sent bool) Result {
	if to := b.r.spare(&b.ops[i], e); to != nil {
		return b.r.leave(&b.ops[i], e, to, sent)
	}
	return Result{Addr: e.addr, Err: endError(b.ctx, e.addr, sent)}
}

// sendAll gives requests to a working connection, for which it waits until by; one
// that broke between the look and the send is replaced once.
func (b *batch) sendAll(p *part, cls []*call, reqs [][]byte, size int, until, by time.Time) (*Conn, error) {
	e := p.e
	for again := true; ; again = false {
		if b.ctx.Err() != nil || !time.Now().Before(until) {
			return nil, endError(b.ctx, e.addr, false)
		}
		c, err := e.get(b.ctx, by)
		if err != nil {
			return nil, err
		}
		if p.copy {
			err = c.sendCopies(cls, reqs, size, until, time.Now())
		} else {
			err = c.sendAll(cls, reqs, size, until, time.Now())
		}
		if err == nil || !again || kindOf(err) != kindRetired {
			return c, err
		}
	}
}
