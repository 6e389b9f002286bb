// Package discovery finds the seeds of a cluster in a file, in DNS, in etcd or in
// Consul, over the standard library alone. A Source is a ringcache.Discovery:
//
//	source, err := discovery.Parse("dns:cache.default.svc.cluster.local:7001", discovery.Options{})
//	node, err := ringcache.Open(ringcache.Options{Addr: ":7001", Discovery: source, ...})
//
// Seeds are needed to find the first member only: membership itself depends on no
// registry, and one that does not answer later costs nothing. Etcd and Consul are
// Registrars too: they list the node that is opened with them, for as long as it
// runs.
//
// Nothing is kept between two calls of Seeds but a token of etcd and which of its
// endpoints answered: a file that changed, or a new pod behind a name, is seen at the
// next call. Every answer is bounded: MaxSeeds addresses, MaxBody bytes, and Timeout.
// All methods are safe for concurrent use.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// Source gives the data addresses (host:port) of nodes that may be members.
type Source interface {
	Seeds(ctx context.Context) ([]string, error)
}

// Registrar is a Source that can list a node itself.
type Registrar interface {
	Source
	// Register lists addr until ctx is done, then takes it back within Timeout and
	// returns nil. It returns early, with the reason, when the registry has lost
	// the entry or does not answer: the caller calls again after a pause.
	Register(ctx context.Context, addr string) error
}

// Bounds and defaults.
const (
	MaxSeeds    = 256             // addresses of one answer; further ones are left out
	MaxBody     = 1 << 20         // bytes of a file, or of one answer over HTTP
	Timeout     = 3 * time.Second // of one question to a registry or to DNS
	DefaultTTL  = 15 * time.Second
	DefaultPort = 7001 // of names without one

	minTTL, maxTTL = 5 * time.Second, 10 * time.Minute
	maxName        = 253 // bytes of a DNS name
)

// Resolver is what the DNS sources need; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Options are what a description cannot say. The zero value suits a registry
// without authentication.
type Options struct {
	// Token proves this node: an ACL token for Consul, "user:password" for etcd.
	Token string
	// CA is a PEM file with the authorities of the registry's certificate (default:
	// the system's); Cert and Key are the node's own for it.
	CA, Cert, Key string
	// TTL is how long an entry outlives its node, DefaultTTL if 0; 5 s to 10 min.
	// The entry is renewed three times in it.
	TTL time.Duration

	Resolver  Resolver          // nil: the system's
	Transport http.RoundTripper // nil: over TCP, with CA, Cert and Key
}

// Forms are the descriptions that Parse takes.
const Forms = "static, file:PATH, dns:NAME[:PORT], srv:_service._tcp.NAME, etcd:URL/PREFIX or consul:URL/SERVICE"

// Parse makes the Source of a description, one of Forms; nil for "static" and "",
// which stand for fixed seeds. etcd's URL may name several hosts, separated by
// commas. Errors wrap ringcache.ErrConfig.
func Parse(description string, o Options) (Source, error) {
	kind, rest, _ := strings.Cut(description, ":")
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL < minTTL || o.TTL > maxTTL {
		return nil, fmt.Errorf("%w: TTL of the entry is %s, must be %s to %s", errs.ErrConfig, o.TTL, minTTL, maxTTL)
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	switch {
	case description == "" || description == "static":
		return nil, nil
	case rest == "":
	case kind == "file":
		return file(rest), nil
	case kind == "dns":
		return newDNS(rest, o)
	case kind == "srv":
		return newSRV(rest, o)
	case kind == "etcd":
		return newEtcd(rest, o)
	case kind == "consul":
		return newConsul(rest, o)
	}
	return nil, fmt.Errorf("%w: discovery %q is not one of %s", errs.ErrConfig, description, Forms)
}

// checkAddr says what is wrong with an address, nil if it is host:port.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%.80q is not host:port", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%.80q has no valid port", addr)
	}
	if host == "" || len(host) > maxName || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%.80q has no valid host", addr)
	}
	return nil
}

// maxFaults is how many slips of one answer an error tells: they are logged at every
// question.
const maxFaults = 8

// faults collects slips; the zero value has none.
type faults struct {
	told []error
	more int
}

func (f *faults) add(err error) {
	if len(f.told) < maxFaults {
		f.told = append(f.told, err)
		return
	}
	f.more++
}

func (f *faults) err() error {
	if f.more > 0 {
		return errors.Join(append(f.told, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.told...)
}

// bounded sorts addresses, drops what stands there twice, and keeps MaxSeeds.
func bounded(addrs []string) []string {
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	return addrs[:min(len(addrs), MaxSeeds)]
}
