// Package link owns reaching a node: one pipelined connection per address,
// dialling with back-off, the handshake between peers, the slot table of a
// client with its redirects and refreshes, deadlines and the one retry.
//
// It never stores keys, never places slots (it reads tables that servers
// answer or that a node installs) and never splits a command over slots.
//
// Conn, Peers and Router are safe for concurrent use. A connection has one
// reader and one writer goroutine; a Router has one refresh goroutine; every
// dial has one goroutine. All end with Close, which waits for them. No lock is
// held over I/O, a channel send or a caller's function.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// Dialer opens a connection to addr ("host:port"). It must return soon after
// ctx ends. A dialer that wraps connections in TLS performs the handshake
// itself, inside ctx.
type Dialer func(ctx context.Context, addr string) (net.Conn, error)

// Defaults and limits of Options.
const (
	DefaultDialTimeout = time.Second
	DefaultStallAfter  = time.Second
	DefaultMaxInFlight = 16384
	DefaultMaxQueued   = 16 << 20
	DefaultMaxReply    = 64 << 20
	DefaultMaxLinks    = 1024

	maxReplyElems = 1 << 20
	maxReplyDepth = 16
)

// Options of one link. The zero value is usable: RESP3 where the server has
// it, no authentication, the defaults above.
type Options struct {
	// Dialer opens connections; nil is a net.Dialer over TCP.
	Dialer Dialer
	// Username and Password authenticate an ordinary client. A password
	// without a username is the default user's.
	Username, Password string
	// ClientName is shown by CLIENT LIST; no spaces. Empty sets none.
	ClientName string
	// Proto 0 or 3 asks for RESP3 by HELLO and falls back to RESP2 where the
	// server has no HELLO; 2 never sends HELLO.
	Proto int
	// TryAgain tells the server that what it answers TRYAGAIN is repeated here, so that
	// it does not hold the command up, and those behind it. A Router repeats, and sets it.
	TryAgain bool
	// Peer, if set, makes the link a peer link: RC.HELLO and RC.AUTH first.
	Peer *PeerAuth
	// DialTimeout bounds connecting, TLS and handshake together. It does not
	// depend on the deadline of the call that needs the connection.
	DialTimeout time.Duration
	// StallAfter breaks the connection once its oldest unanswered request is
	// older than this and past its own deadline: the peer hangs.
	StallAfter time.Duration
	// MaxInFlight bounds the requests without a reply on one connection, those
	// that their callers abandoned included. A request above it is refused
	// with ErrShed at once; nobody waits for room.
	MaxInFlight int
	// MaxQueued bounds the bytes that wait to be written on one connection.
	// A request above it is refused with ErrShed, unless nothing waits.
	MaxQueued int
	// MaxReply bounds one reply, in bytes; a longer one breaks the connection.
	MaxReply int
	// MaxLinks bounds the addresses that a Peers or Router keeps links to.
	MaxLinks int
	// OnPush receives RESP3 push frames, in order, on the reader goroutine of
	// the connection: it must not block and must not close the connection. The
	// value is borrowed until it returns.
	OnPush func(addr string, v resp.Value)
}

// withDefaults returns o with every zero field set.
func (o Options) withDefaults() Options {
	if o.Dialer == nil {
		d := &net.Dialer{}
		o.Dialer = func(ctx context.Context, addr string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	set := func(p *int, def int) {
		if *p == 0 {
			*p = def
		}
	}
	set(&o.Proto, 3)
	set(&o.MaxInFlight, DefaultMaxInFlight)
	set(&o.MaxQueued, DefaultMaxQueued)
	set(&o.MaxReply, DefaultMaxReply)
	set(&o.MaxLinks, DefaultMaxLinks)
	if o.DialTimeout == 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.StallAfter == 0 {
		o.StallAfter = DefaultStallAfter
	}
	return o
}

// validate returns every fault of o at once, each wrapping ErrConfig.
func (o Options) validate() error {
	var faults []error
	bad := func(format string, a ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{errs.ErrConfig}, a...)...))
	}
	if o.Proto != 0 && o.Proto != 2 && o.Proto != 3 {
		bad("protocol version %d; it must be 2 or 3", o.Proto)
	}
	for _, c := range o.ClientName {
		if c <= ' ' || c > '~' {
			bad("client name %q; it must be printable ASCII without spaces", o.ClientName)
			break
		}
	}
	if o.Username != "" && o.Password == "" {
		bad("user %q without a password", o.Username)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"dial timeout", int64(o.DialTimeout)}, {"stall bound", int64(o.StallAfter)},
		{"in-flight limit", int64(o.MaxInFlight)}, {"queue limit", int64(o.MaxQueued)},
		{"reply limit", int64(o.MaxReply)}, {"link limit", int64(o.MaxLinks)},
	} {
		if f.value < 0 {
			bad("%s %d is negative", f.name, f.value)
		}
	}
	return errors.Join(faults...)
}

// kind says what went wrong, for the retry rule and for errors.Is.
type kind uint8

const (
	kindBroken   kind = iota // the connection broke while the request was on it
	kindTimeout              // the deadline of the call passed
	kindCanceled             // the caller's context was cancelled
	kindShed                 // a local limit refused the request
	kindClosed               // closed by its user
	kindDial                 // no connection, but not refused
	kindRefused              // nobody listens at the address
	kindRetired              // nothing was sent: the connection or link was given up before
	kindNoOwner              // no node owns the slot
	kindReply                // the server answered that it cannot serve at the moment
)

// Error is the failure of one call: where, and whether the request may have
// been executed.
type Error struct {
	// Addr is the address of the node, empty if none was chosen yet.
	Addr string
	// Sent says that the request was given to a connection, so the server may
	// have executed it or may still do so.
	Sent bool
	// Err says what happened.
	Err error

	kind kind
}

// Error names the address and what happened.
func (e *Error) Error() string {
	if e.Addr == "" {
		return e.Err.Error()
	}
	return e.Addr + ": " + e.Err.Error()
}

// Unwrap gives the sentinel of the failure and its cause. A cancelled context
// is neither ErrUnavailable nor ErrTimeout: it says nothing about the node.
func (e *Error) Unwrap() []error {
	switch e.kind {
	case kindTimeout:
		return []error{errs.ErrUnavailable, errs.ErrTimeout, e.Err}
	case kindCanceled:
		return []error{e.Err}
	case kindShed:
		return []error{errs.ErrShed, e.Err}
	case kindClosed:
		return []error{errs.ErrClosed, e.Err}
	}
	return []error{errs.ErrUnavailable, e.Err}
}

var (
	errStalled   = errors.New("the peer stopped answering")
	errDeadline  = errors.New("no answer within the deadline")
	errInFlight  = errors.New("MaxInFlight requests wait for replies on this link; send fewer at a time, or raise it")
	errQueueFull = errors.New("MaxQueued bytes wait to be sent on this link; send less at a time, or raise it")
	errTooMany   = errors.New("too many addresses have a link")
	errRetired   = errors.New("the node left the table")
	errNoOwner   = errors.New("no known node owns the slot; it may have one in a moment")
	errSpurious  = fmt.Errorf("%w: a reply without a request", errs.ErrProtocol)
)

// dialError classifies why a connection could not be had.
func dialError(addr string, err error) *Error {
	k := kindDial
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		k = kindRefused
	case errors.Is(err, errs.ErrClosed):
		k = kindClosed
	}
	return &Error{Addr: addr, Err: fmt.Errorf("no connection: %w", err), kind: k}
}

// endError says why a call was left: the caller's context or the deadline.
func endError(ctx context.Context, addr string, sent bool) *Error {
	err := ctx.Err()
	if d, ok := ctx.Deadline(); err == nil && ok && !time.Now().Before(d) {
		err = context.DeadlineExceeded // the context's own timer is about to say so
	}
	switch {
	case err == nil:
		return &Error{Addr: addr, Sent: sent, Err: errDeadline, kind: kindTimeout}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Addr: addr, Sent: sent, Err: err, kind: kindTimeout}
	default:
		return &Error{Addr: addr, Sent: sent, Err: err, kind: kindCanceled}
	}
}
