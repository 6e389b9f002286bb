package link

import (
	"context"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// Peers keeps one link per address, for a node that talks to its peers. Links
// are dialled on demand, after a failure with back-off, and stay until Forget
// or Close.
type Peers struct {
	pool *pool
}

// NewPeers makes an empty set of links; it dials nothing. Options.Peer should be
// set, or the internal commands are refused by the other side. It fails only
// on invalid options, with all faults at once.
func NewPeers(o Options) (*Peers, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Peers{pool: newPool(o)}, nil
}

// Do sends one encoded request to addr and returns its reply, owned by the
// caller; an error reply is a Value of kind Error. The deadline is that of ctx
// and covers the dial too; without one, an unanswered request fails after
// Options.StallAfter. Nothing is retried. Errors: *Error, which wraps
// ErrUnavailable (with ErrTimeout at the deadline), ErrShed or ErrClosed, and
// ErrAuth or ErrMismatch if the handshake failed.
func (p *Peers) Do(ctx context.Context, addr string, req []byte) (resp.Value, error) {
	for again := true; ; again = false {
		c, err := p.Conn(ctx, addr)
		if err != nil {
			return resp.Value{}, err
		}
		v, err := c.Do(ctx, req)
		if err == nil || !again || kindOf(err) != kindRetired {
			return v, err
		}
		// The connection broke between the look and the send.
	}
}

// Conn returns the working connection to addr, dialling it if needed within
// ctx. It tells who the peer is (PeerID) and what it said of itself (PeerInfo).
// The connection is shared: do not close it.
func (p *Peers) Conn(ctx context.Context, addr string) (*Conn, error) {
	for again := true; ; again = false {
		e, err := p.pool.endpoint(addr)
		if err != nil {
			return nil, err
		}
		c, err := e.get(ctx, time.Time{})
		if err == nil || !again || kindOf(err) != kindRetired {
			return c, err
		}
		// The link was given up between the look and the dial: a new one takes its place.
	}
}

// Forget gives up the link to addr once the replies that are due came in.
func (p *Peers) Forget(addr string) { p.pool.forget(addr) }

// Addrs returns the addresses that have a link or had an attempt at one.
func (p *Peers) Addrs() []string { return p.pool.addrs() }

// Len is the number of addresses that Addrs returns.
func (p *Peers) Len() int {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	return len(p.pool.byAddr)
}

// Close fails what is pending with ErrClosed and waits for every goroutine.
func (p *Peers) Close() error {
	p.pool.close()
	return nil
}
