package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// Back-off between failed dials of one address: it doubles from the first value
// to the second, each time varied by half up or down.
const (
	minBackOff = 25 * time.Millisecond
	maxBackOff = time.Second
)

// pool keeps one endpoint per address and knows every connection that lives.
type pool struct {
	o     Options // with defaults
	calls callPool
	ctx   context.Context // ends with the pool; dials run under it
	stop  context.CancelFunc
	dials sync.WaitGroup
	count counters

	mu     sync.Mutex
	byAddr map[string]*endpoint
	conns  map[*Conn]struct{} // until their goroutines ended
	closed bool
}

// counters of rare events.
type counters struct {
	dials, dialErrors, lost atomic.Uint64
}

func newPool(o Options) *pool {
	p := &pool{o: o.withDefaults(), byAddr: map[string]*endpoint{}, conns: map[*Conn]struct{}{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// endpoint returns the one for addr; it dials nothing yet.
func (p *pool) endpoint(addr string) (*endpoint, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byAddr[addr]; e != nil {
		return e, nil
	}
	switch {
	case p.closed:
		return nil, &Error{Addr: addr, Err: errs.ErrClosed, kind: kindClosed}
	case len(p.byAddr) >= p.o.MaxLinks:
		return nil, &Error{Addr: addr, Err: fmt.Errorf("%w: limit %d", errTooMany, p.o.MaxLinks), kind: kindShed}
	}
	e := &endpoint{pool: p, addr: addr}
	p.byAddr[addr] = e
	return e, nil
}

// forget gives up the link to addr: replies that are due still come in, new
// calls on a held endpoint fail unsent.
func (p *pool) forget(addr string) {
	p.mu.Lock()
	e := p.byAddr[addr]
	p.mu.Unlock()
	if e != nil {
		p.giveUp(e)
	}
}

// giveUp is forget for one endpoint; a later one for the same address stays.
func (p *pool) giveUp(e *endpoint) {
	p.mu.Lock()
	if p.byAddr[e.addr] == e {
		delete(p.byAddr, e.addr)
	}
	p.mu.Unlock()
	e.retire()
}

// addrs returns every address with an endpoint.
func (p *pool) addrs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]string, 0, len(p.byAddr))
	for a := range p.byAddr {
		list = append(list, a)
	}
	return list
}

// endpoints returns every endpoint.
func (p *pool) endpoints() []*endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.byAddr))
}

// dial opens a connection and keeps account of it.
func (p *pool) dial(addr string) (*Conn, error) {
	p.count.dials.Add(1)
	c, err := dial(p.ctx, addr, &p.o, &p.calls, p.drop)
	if err == nil {
		p.mu.Lock()
		select {
		case <-c.gone: // broke at once: there is nothing to keep
		default:
			p.conns[c] = struct{}{}
		}
		p.mu.Unlock()
		return c, nil
	}
	p.count.dialErrors.Add(1)
	if p.ctx.Err() != nil {
		err = errs.ErrClosed
	}
	return nil, dialError(addr, err)
}

func (p *pool) drop(c *Conn) {
	p.count.lost.Add(c.lost.Load())
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// close breaks every connection and waits for every goroutine.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.dials.Wait()
	p.mu.Lock()
	conns := make([]*Conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// endpoint is one address and its link. The connection is dialled on demand;
// all who need it share one dial, which goes on when they leave.
type endpoint struct {
	pool *pool
	addr string
	conn atomic.Pointer[Conn]
	away atomic.Int64 // until when, in ns since 1970, reads go to copies; 0: it answers

	mu        sync.Mutex
	flight    *flight
	fails     int       // dials that failed since the last success
	notBefore time.Time // no dial until then
	lastErr   error     // why the last dial failed
	retired   bool
}

// flight is one dial. conn and err are set before done is closed.
type flight struct {
	begun time.Time
	done  chan struct{}
	conn  *Conn
	err   error
}

// get returns a working connection, dialling if there is none, within ctx and
// until the time given (zero: no bound but the dial's own). During back-off it
// fails at once with the reason of the last failure.
func (e *endpoint) get(ctx context.Context, until time.Time) (*Conn, error) {
	if c := e.conn.Load(); c != nil && !c.broken.Load() {
		return c, nil
	}
	f, err := e.dial()
	if err != nil {
		return nil, err
	}
	var expired <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-f.done:
		return f.conn, f.err
	case <-ctx.Done():
	case <-expired:
	}
	return nil, endError(ctx, e.addr, false)
}

// dial joins the dial under way or starts one.
func (e *endpoint) dial() (*flight, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flight != nil {
		return e.flight, nil
	}
	if c := e.conn.Load(); c != nil && !c.broken.Load() {
		f := &flight{done: make(chan struct{}), conn: c}
		close(f.done)
		return f, nil
	}
	switch {
	case e.pool.ctx.Err() != nil:
		return nil, &Error{Addr: e.addr, Err: errs.ErrClosed, kind: kindClosed}
	case e.retired:
		return nil, &Error{Addr: e.addr, Err: errRetired, kind: kindRetired}
	case time.Now().Before(e.notBefore):
		return nil, e.lastErr
	}
	if !e.pool.admit() {
		return nil, &Error{Addr: e.addr, Err: errs.ErrClosed, kind: kindClosed}
	}
	e.flight = &flight{begun: time.Now(), done: make(chan struct{})}
	go e.run(e.flight) // ends within DialTimeout, or when the pool closes
	return e.flight, nil
}

// admit lets one more dial begin, unless the pool is closed.
func (p *pool) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.dials.Add(1)
	return true
}

// run dials and publishes the outcome.
func (e *endpoint) run(f *flight) {
	defer e.pool.dials.Done()
	f.conn, f.err = e.pool.dial(e.addr)
	e.mu.Lock()
	e.flight = nil
	if f.err == nil {
		e.fails, e.lastErr = 0, nil
		e.conn.Store(f.conn)
	} else {
		e.fails++
		e.lastErr = f.err
		e.notBefore = time.Now().Add(backOff(e.fails))
	}
	retired := e.retired
	e.mu.Unlock()
	close(f.done)
	if retired && f.conn != nil {
		f.conn.retire()
	}
}

// backOff gives the pause after the nth failure in a row.
func backOff(n int) time.Duration {
	d := maxBackOff
	if n <= 6 {
		d = min(minBackOff<<(n-1), maxBackOff)
	}
	return d/2 + rand.N(d)
}

func (e *endpoint) retire() {
	e.mu.Lock()
	e.retired = true
	c := e.conn.Load()
	e.mu.Unlock()
	if c != nil {
		c.retire()
	}
}

// connected tells whether a call could be sent without a dial.
func (e *endpoint) connected() bool {
	c := e.conn.Load()
	return c != nil && !c.broken.Load()
}

// kindOf gives the kind of a link error; errors of other origin count as broken.
func kindOf(err error) kind {
	var e *Error
	if errors.As(err, &e) {
		return e.kind
	}
	return kindBroken
}
