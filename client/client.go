// Package client is the SDK of ring-cache: a smart client that keeps one
// pipelined link per node, learns which node owns which slot and follows
// redirects. It works unchanged against ring-cache, Redis Cluster, Valkey and a
// single Redis.
//
// What it promises:
//
//   - Options.Timeout (50 ms by default) is the total time of one call:
//     waiting for a connection, writing, reading, redirects and the one retry.
//     The caller's context always counts, too.
//   - A miss is never confused with a failure: ErrNotFound means that the
//     owner answered and does not have the key.
//   - A call that runs into its deadline does not cost the connection.
//   - At most one retry per call and at most a tenth of all calls. After a
//     timeout or a broken connection only reads are retried, because a late
//     write could land after a newer one; after a refused connection, which
//     nothing was sent to, writes are retried too.
//
// What it does not promise: a write that failed with ErrUnavailable may have
// been executed, or may be executed a little later.
//
// It owns the typed operations, splitting many keys over nodes and the errors.
// It never places slots and never stores values. A Client is safe for
// concurrent use; use one for the whole process.
package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/link"
)

// Client talks to one cluster, or to one server without cluster support.
type Client struct {
	router *link.Router
	bufs   sync.Pool // of *buffer
	closed atomic.Bool
}

// Open connects to the cluster that the seeds belong to and learns its table
// of slots. It tries the seeds one after the other, the next one as soon as one
// fails or stays silent for 100 ms, and gives up after 2 s or when ctx ends.
// Errors: every invalid option at once (ErrConfig), or ErrNoSeed with the
// causes, such as ErrAuth. After Open, call Close to release the connections.
func Open(ctx context.Context, o Options) (*Client, error) {
	ro, err := o.router()
	if err != nil {
		return nil, err
	}
	r, err := link.NewRouter(ro)
	if err != nil {
		return nil, err
	}
	if err := r.Refresh(ctx); err != nil {
		r.Close()
		return nil, fmt.Errorf("open: %w", err)
	}
	return &Client{router: r}, nil
}

// Close breaks the connections and waits for the goroutines of the client.
// Calls under way and later ones fail with ErrClosed. It always returns nil;
// closing twice does nothing.
func (c *Client) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		return c.router.Close()
	}
	return nil
}

// Nodes returns the addresses of the nodes that own slots, sorted.
func (c *Client) Nodes() []string { return c.router.Nodes() }

// Stats counts since Open. The counters are read one by one.
type Stats struct {
	Calls         uint64 // requests sent or refused; many keys count by request
	Moved         uint64 // MOVED redirects followed
	Asked         uint64 // ASK redirects followed
	TryAgains     uint64 // requests repeated because their slot was on its way to another node
	Retries       uint64 // retries spent
	Copies        uint64 // reads that went to a copy because the owner did not answer
	Timeouts      uint64 // requests whose deadline passed
	Refused       uint64 // attempts that met a refused connection
	Shed          uint64 // requests refused by a local limit
	Refreshes     uint64 // refreshes of the slot table
	RefreshErrors uint64 // refreshes that failed
	Dials         uint64 // connections attempted
	DialErrors    uint64 // connections that could not be made
	Links         int    // connections open now
}

// Stats returns the counters.
func (c *Client) Stats() Stats { return Stats(c.router.Stats()) }

// buffer holds the encoding of one request. Buffers are recycled unless they
// grew large.
type buffer struct{ b request }

const keepBuffer = 64 << 10 // bytes

func (c *Client) buffer() *buffer {
	if s, ok := c.bufs.Get().(*buffer); ok {
		return s
	}
	return &buffer{}
}

func (c *Client) recycle(s *buffer) {
	if cap(s.b) <= keepBuffer {
		s.b = s.b[:0]
		c.bufs.Put(s)
	}
}

// tlsDialer wraps the connections of a dialer in TLS, inside the same context.
func tlsDialer(dial link.Dialer, conf *tls.Config) link.Dialer {
	if dial == nil {
		d := &net.Dialer{}
		dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		own := conf.Clone()
		if own.ServerName == "" {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			own.ServerName = host
		}
		raw, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		nc := tls.Client(raw, own)
		if err := nc.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, fmt.Errorf("tls: %w", err)
		}
		return nc, nil
	}
}
