package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
)

// dns are the addresses behind one name (A and AAAA records), all with one port.
type dns struct {
	name string
	port string
	r    Resolver
}

func newDNS(rest string, o Options) (Source, error) {
	d := dns{name: rest, port: strconv.Itoa(DefaultPort), r: o.Resolver}
	if host, port, err := net.SplitHostPort(rest); err == nil {
		d.name, d.port = host, port
	}
	if err := checkAddr(net.JoinHostPort(d.name, d.port)); err != nil || strings.Contains(d.name, ":") {
		return nil, fmt.Errorf("%w: dns:%s is not a name with or without a port; write for example dns:cache.internal:7001", errs.ErrConfig, rest)
	}
	return d, nil
}

// Seeds implements Source.
func (d dns) Seeds(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	ips, err := d.r.LookupNetIP(ctx, "ip", d.name)
	if err != nil {
		return nil, dnsError(d.name, err)
	}
	addrs := make([]string, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), d.port))
	}
	return bounded(addrs), nil
}

// srv are the hosts and ports of one SRV record. The hosts are resolved, so that a
// node recognises its own address.
type srv struct {
	name string
	r    Resolver
}

func newSRV(rest string, o Options) (Source, error) {
	service, after, ok := strings.Cut(rest, ".")
	proto, name, ok2 := strings.Cut(after, ".")
	if !ok || !ok2 || !strings.HasPrefix(service, "_") || !strings.HasPrefix(proto, "_") || name == "" || len(rest) > maxName {
		return nil, fmt.Errorf("%w: srv:%s is no name of an SRV record; write for example srv:_ringcache._tcp.cache.internal", errs.ErrConfig, rest)
	}
	return srv{rest, o.Resolver}, nil
}

// Seeds implements Source.
func (s srv) Seeds(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	_, records, err := s.r.LookupSRV(ctx, "", "", s.name)
	if err != nil {
		return nil, dnsError(s.name, err)
	}
	var addrs []string
	var slips faults
	for _, r := range records[:min(len(records), MaxSeeds)] {
		if r.Port == 0 {
			slips.add(fmt.Errorf("SRV record %s: the port of %s is 0; nodes need their data port", s.name, strings.TrimSuffix(r.Target, ".")))
			continue
		}
		ips, err := s.r.LookupNetIP(ctx, "ip", r.Target)
		if err != nil {
			slips.add(dnsError(strings.TrimSuffix(r.Target, "."), err))
			continue
		}
		for _, ip := range ips {
			addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(int(r.Port))))
		}
	}
	if len(addrs) > 0 {
		return bounded(addrs), nil
	}
	return nil, slips.err()
}

// dnsError says what to do about a name that has no answer.
func dnsError(name string, err error) error {
	var d *net.DNSError
	switch {
	case !errors.As(err, &d):
	case d.IsNotFound:
		return fmt.Errorf("%s has no address in DNS: create the record; "+
			"a headless service of Kubernetes needs publishNotReadyAddresses: true, or pods wait for each other: %w", name, err)
	case d.IsTimeout || d.IsTemporary:
		return fmt.Errorf("DNS does not answer for %s: check the resolver of this machine: %w", name, err)
	}
	return fmt.Errorf("looking up %s: %w", name, err)
}
