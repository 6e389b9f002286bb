// Package ringcache runs a node of a distributed in-memory cache inside the
// calling process. Nodes speak the Redis Cluster protocol: every Redis Cluster
// client is a client of them. Open with zero Options gives a cache of this
// process alone; with an address it serves clients, and with seeds it joins a
// cluster. Many nodes may live in one process.
//
// Keys live in 16384 slots; a hash ring gives every slot one owner among the
// members. Calls on a Node reach the owner of their key, this node or another.
// A cache may forget: a key that was set may be gone at any time, by eviction,
// or because its owner died or changed.
package ringcache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/server"
)

// SessionTimeout is how long Drain lets sessions finish once the slots are handed
// over.
const SessionTimeout = 10 * time.Second

// shutdownSessions is SessionTimeout after the command SHUTDOWN, or after another
// process took over the node's ID.
const shutdownSessions = 5 * time.Second

// Node is a running node. All methods are safe for concurrent use.
type Node struct {
	n    *node.Node
	srv  *server.Server // nil without a listener
	tls  *server.TLS    // nil without TLS
	reg  *registration  // nil without a Registrar
	done chan struct{}

	closing  sync.Once
	closeErr error
}

// Open starts a node and returns once it serves: with seeds, once it is a
// member of their cluster (or, see Options.Seeds, has started its own). Where that
// cluster has content the node takes its slots over in steps, see
// Options.JoinSteps, and Open returns after the first of them, or after two
// seconds if other nodes join or leave before it. Errors
// wrap ErrConfig (all faults at once), ErrNoSeed, ErrMismatch or ErrAuth, or say
// that the address is taken. Close the node after use.
func Open(o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Node{done: make(chan struct{})}
	no := r.nodeOptions(o)
	dialer := &net.Dialer{}
	if ip := net.ParseIP(o.SourceAddr); ip != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: ip}
		no.Dialer = func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }
	}
	if o.TLSCert != "" && o.Addr != "" {
		var err error
		if r.tls, err = server.NewTLS(server.TLSFiles{Cert: o.TLSCert, Key: o.TLSKey, CA: o.TLSCA}, nil, o.Logger); err != nil {
			return nil, err
		}
		no.Dialer = r.tls.Dialer(dialer)
	}
	if o.Addr == "" {
		return r.start(no, nil, o)
	}
	ln, err := o.listen()
	if err != nil {
		return nil, err
	}
	if no.Host, no.Port, err = o.advertised(ln); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	no.Membership.Bind = o.gossipBind(ln)
	if host := no.Host; net.ParseIP(host) != nil || o.Advertise != "" {
		no.Membership.Advertise = host
	}
	return r.start(no, ln, o)
}

// nodeOptions translates the options.
func (r *Node) nodeOptions(o Options) node.Options {
	return node.Options{
		DataDir: o.DataDir, WarmDir: o.WarmDir, Cluster: o.ClusterName, Secret: []byte(o.ClusterSecret),
		Standalone: o.Standalone, Weight: o.Weight, Zone: o.Zone, Replicas: o.Replicas, Params: o.params(), Placement: o.PlaceSlots,
		Steps:     o.steps(),
		Discovery: seeds{fixed: append([]string(nil), o.Seeds...), more: o.Discovery}, JoinTimeout: o.JoinTimeout,
		Membership: membership.Options{ProbeInterval: o.ProbeInterval, ProbeTimeout: o.ProbeTimeout,
			SuspicionMult: o.SuspicionMult, HoldDown: o.HoldDown, TCPOnly: o.GossipTCP, Source: net.ParseIP(o.SourceAddr)},
		Engine: engine.Options{MaxBytes: o.MaxMemory, MaxValue: o.MaxValue, Policy: o.Policy,
			Classes: o.Classes, Custom: o.Eviction}, WholeProcess: o.WholeProcess,
		Scripts: o.Scripts, Diagnostics: o.Diagnostics,
		Version: o.Version, Password: o.Password, MaxClients: o.MaxClients, TrackingKeys: o.TrackingKeys, Logger: o.Logger,
		WarmRate: o.WarmRate, WarmBytes: o.WarmBytes, MirrorReads: o.MirrorReads,
		OnShutdown: func(string) {
			// In good order: the reply of the session that asked, and those
			// before it, must still be flushed.
			ctx, cancel := context.WithTimeout(context.Background(), o.DrainTimeout+shutdownSessions)
			defer cancel()
			// What fails is reported to whoever calls Close again.
			_ = r.drain(ctx, shutdownSessions)
		},
	}
}

// start opens node and server, in this order, and joins the cluster.
func (r *Node) start(no node.Options, ln net.Listener, o Options) (*Node, error) {
	var err error
	if r.n, err = node.Open(no); err != nil {
		if ln != nil {
			err = errors.Join(err, ln.Close())
		}
		return nil, err
	}
	if ln != nil {
		r.srv, err = server.New(server.Options{Listener: ln, Handler: handler{r.n}, Password: o.Password, Users: o.Users, ACLFile: o.ACLFile, Unprotected: o.ClusterSecret != "",
			MaxClients: o.MaxClients, MaxClientsPerAddress: o.MaxClientsPerAddress, PeerReserve: membership.MaxPeers, MaxValue: o.MaxValue, OutputLimit: o.OutputLimit,
			BufferLimit: o.BufferLimit, Version: o.Version, Logger: o.Logger,
			IO: o.IO, Loops: o.Loops, HoldProcessor: o.HoldProcessors, TLS: r.tls})
		if err != nil {
			return nil, errors.Join(err, ln.Close(), r.n.Close())
		}
		r.n.Attach(front{r.srv})
		if err := r.srv.Start(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.reg = register(o.Discovery, net.JoinHostPort(no.Host, strconv.Itoa(int(no.Port))), o.Logger)
	}
	if err := r.n.Start(context.Background()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Get returns a copy of the value of a key, or ErrNotFound.
func (r *Node) Get(ctx context.Context, key string) ([]byte, error) { return r.n.Get(ctx, key) }

// Set stores a copy of the value. A ttl of 0 keeps it until it is evicted or
// deleted; others are rounded up to milliseconds; a negative one is ErrConfig.
// Other errors: ErrTooLarge, ErrNoMemory, ErrUnavailable.
func (r *Node) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return r.n.Set(ctx, key, value, ttl)
}

// Delete removes a key and reports whether it was there.
func (r *Node) Delete(ctx context.Context, key string) (bool, error) { return r.n.Delete(ctx, key) }

// Touch gives a key a new TTL and leaves its value; 0 removes the TTL, a
// negative one is ErrConfig. ErrNotFound if there is no such key. (Client.Touch
// of package client takes positive TTLs only and reports absence by false.)
func (r *Node) Touch(ctx context.Context, key string, ttl time.Duration) error {
	return r.n.Touch(ctx, key, ttl)
}

// GetMany returns the values of the keys that are there. If some owner did not
// answer, its keys are missing and the error wraps ErrUnavailable; the values
// are valid nevertheless.
func (r *Node) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	return r.n.GetMany(ctx, keys...)
}

// Incr adds delta to the counter at a key, atomically, and returns the sum. An
// absent key counts as 0; the TTL stays. ErrNotInteger if the value is no 64-bit
// integer or the sum would overflow.
func (r *Node) Incr(ctx context.Context, key string, delta int64) (int64, error) {
	return r.n.Incr(ctx, key, delta)
}

// Addr is the address that the node listens on, "" without a listener.
func (r *Node) Addr() string {
	if r.srv == nil {
		return ""
	}
	return r.srv.Addr().String()
}

// ReloadTLS reads the files of Options.TLSCert, TLSKey and TLSCA again, for the
// connections that follow. On an error, what was read before stays in force.
func (r *Node) ReloadTLS() error {
	if r.tls == nil {
		return nil
	}
	return r.tls.Reload()
}

// IO is how the node serves connections: "std", "epoll" or "uring"; "" without a
// listener.
func (r *Node) IO() string {
	if r.srv == nil {
		return ""
	}
	return r.srv.IO()
}

// Info is the text of the command INFO with every section, CRLF between lines;
// ClusterInfo that of CLUSTER INFO. Their cost does not depend on keys or clients.
func (r *Node) Info() string        { return r.n.Info() }
func (r *Node) ClusterInfo() string { return r.n.ClusterInfo() }

// Ready returns nil while the node serves, otherwise why it does not: it waits
// for its turn to join, is draining, closed, or superseded by another process with
// its ID. A node is ready from the first step of its join.
func (r *Node) Ready() error { return r.n.Ready() }

// ID is the node's ID, 40 hex digits.
func (r *Node) ID() string { return r.n.ID().String() }

// Done is closed when the node has been closed: by Close, by the command
// SHUTDOWN, or because another process took over its ID.
func (r *Node) Done() <-chan struct{} { return r.done }

// Drain leaves the cluster in good order: the other members take over the slots
// and fetch their content, for Options.DrainTimeout at most, then sessions end, for
// SessionTimeout at most, then the node is closed. When ctx ends first, what is
// left is cut off and the error says so. A node without others keeps its entries
// for the next start, see Options.WarmDir.
func (r *Node) Drain(ctx context.Context) error { return r.drain(ctx, SessionTimeout) }

func (r *Node) drain(ctx context.Context, sessions time.Duration) error {
	r.reg.end()
	var err error
	if r.n.Staying() {
		// The entries are written while the port still answers, lest the others
		// take this node for dead before it is back.
		err = r.n.Close()
	} else {
		err = r.n.Drain(ctx)
	}
	if r.srv != nil {
		last, cancel := context.WithTimeout(ctx, sessions)
		defer cancel()
		err = errors.Join(err, r.srv.Drain(last))
	}
	if err != nil {
		err = fmt.Errorf("drain: %w", err)
	}
	return errors.Join(err, r.Close())
}

// Close ends the node at once. The others find out by themselves. The entries stay
// in their file, if there is one (Options.WarmDir), for a node that is back
// before anybody has taken its slots over. It waits for everything that the node
// started and may be called more than once.
func (r *Node) Close() error {
	r.closing.Do(func() {
		r.reg.end()
		var err error
		if r.srv != nil {
			// Closed already by Drain is no failure.
			if err = r.srv.Close(); errors.Is(err, ErrClosed) {
				err = nil
			}
		}
		r.closeErr = errors.Join(err, r.n.Close())
		close(r.done)
	})
	return r.closeErr
}
