package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
)

// Retry says whether a call may be repeated once.
type Retry uint8

const (
	// RetryOnce is the default: at most one retry per call, at most a tenth
	// of all calls, inside the call's deadline. A command that was answered
	// TRYAGAIN was not executed, and is repeated until then.
	RetryOnce Retry = iota
	// NoRetry never repeats a call. Redirects are followed even so: a
	// redirected command was not executed.
	NoRetry
)

// Defaults of Options.
const (
	DefaultTimeout      = link.DefaultTimeout      // 50 ms
	DefaultDialTimeout  = link.DefaultDialTimeout  // 1 s
	DefaultStallAfter   = link.DefaultStallAfter   // 1 s
	DefaultMaxInFlight  = link.DefaultMaxInFlight  // 16384 requests
	DefaultMaxReply     = link.DefaultMaxReply     // 64 MiB
	DefaultRefreshEvery = link.DefaultRefreshEvery // 30 s
)

// Options of a Client. Only Seeds is required; every other zero value means its
// default. Open copies the options.
type Options struct {
	// Seeds are addresses (host:port) of some nodes; one that answers is
	// enough.
	Seeds []string
	// Username and Password authenticate the connections. A password alone is
	// that of the default user.
	Username, Password string
	// Name is shown by CLIENT LIST; printable ASCII without spaces.
	Name string
	// Timeout is the total deadline of every call, 50 ms by default. The
	// deadline of a call's context counts if it is earlier.
	Timeout time.Duration
	// DialTimeout bounds making one connection, TLS and authentication
	// included; 1 s by default. It is independent of Timeout: a dial goes on
	// when the calls that waited for it have given up.
	DialTimeout time.Duration
	// StallAfter is the age of the oldest unanswered request at which a
	// connection counts as hung and is replaced; 1 s by default, and never
	// before that request's own deadline.
	StallAfter time.Duration
	// Retry is RetryOnce by default; see NoRetry.
	Retry Retry
	// OwnersOnly: without it, in a cluster with replicas, a read is answered by a
	// copy while the owner of its slot cannot be reached, or has said nothing for
	// 300 ms though requests wait (Stats.Copies). A copy may lack the changes of the owner's
	// last milliseconds. With it such reads fail as writes do.
	OwnersOnly bool
	// MaxInFlight bounds the unanswered requests per node, 16384 by default.
	// Above it calls fail at once with ErrShed.
	MaxInFlight int
	// MaxReply bounds one reply in bytes, 64 MiB by default.
	MaxReply int
	// RefreshEvery is the period at which the slot table is learnt again even
	// if nothing happened; 30 s by default, negative for never.
	RefreshEvery time.Duration
	// TLS, if set, wraps every connection. An empty ServerName means the host
	// that is dialled.
	TLS *tls.Config
	// Dialer replaces the TCP dialer, for example to go through a tunnel or to
	// map addresses. It must heed its context.
	Dialer func(ctx context.Context, addr string) (net.Conn, error)
}

// router translates the options; all faults at once.
func (o Options) router() (link.RouterOptions, error) {
	ro := link.RouterOptions{
		Seeds: append([]string(nil), o.Seeds...), Timeout: o.Timeout,
		NoRetry: o.Retry == NoRetry, OwnersOnly: o.OwnersOnly, RefreshEvery: o.RefreshEvery,
		Link: link.Options{
			Dialer: o.Dialer, Username: o.Username, Password: o.Password, ClientName: o.Name,
			DialTimeout: o.DialTimeout, StallAfter: o.StallAfter, MaxInFlight: o.MaxInFlight, MaxReply: o.MaxReply,
		},
	}
	if o.TLS != nil {
		ro.Link.Dialer = tlsDialer(o.Dialer, o.TLS)
	}
	var faults []error
	if o.Retry > NoRetry {
		faults = append(faults, fmt.Errorf("%w: retry policy %d", errs.ErrConfig, o.Retry))
	}
	if err := ro.Validate(); err != nil {
		faults = append(faults, err)
	}
	return ro, errors.Join(faults...)
}
