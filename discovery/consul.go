package discovery

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// consul lists nodes as instances of one service with a TTL check, through the
// agent of this machine:
// https://developer.hashicorp.com/consul/api-docs/agent/service,
// https://developer.hashicorp.com/consul/api-docs/agent/check and
// https://developer.hashicorp.com/consul/api-docs/health
type consul struct {
	g       *registry
	base    string
	service string
	header  http.Header
	ttl     time.Duration
}

// deregisterAfter is when Consul removes an entry whose check is critical: not
// below a minute, says its documentation.
const deregisterAfter = time.Minute

func newConsul(rest string, o Options) (Source, error) {
	bases, service, err := parseRegistry("consul", rest)
	if err != nil {
		return nil, err
	}
	if len(bases) != 1 {
		return nil, fmt.Errorf("%w: consul:%s names several hosts; name the agent of this machine, which knows the others", errs.ErrConfig, rest)
	}
	c := &consul{base: bases[0], service: service, ttl: o.TTL}
	if o.Token != "" {
		c.header = http.Header{"X-Consul-Token": {o.Token}}
	}
	if c.g, err = newRegistry("consul", o); err != nil {
		return nil, err
	}
	return c, nil
}

// The messages, as far as they are used.
type (
	healthEntry struct {
		Node    struct{ Address string }
		Service struct {
			Address string
			Port    int
		}
	}
	registration struct {
		ID      string
		Name    string
		Address string
		Port    int
		Check   check
	}
	check struct {
		CheckID                        string
		Name                           string
		TTL                            string
		Status                         string
		DeregisterCriticalServiceAfter string
	}
)

// Seeds implements Source: the instances whose checks pass.
func (c *consul) Seeds(ctx context.Context) ([]string, error) {
	var out []healthEntry
	target := c.base + "/v1/health/service/" + url.PathEscape(c.service) + "?passing=true"
	if err := c.g.do(ctx, http.MethodGet, target, c.header, nil, &out); err != nil {
		return nil, err
	}
	var addrs []string
	var slips faults
	for _, e := range out {
		host := e.Service.Address
		if host == "" { // then it is that of the machine
			host = e.Node.Address
		}
		addr := net.JoinHostPort(host, strconv.Itoa(e.Service.Port))
		if err := checkAddr(addr); err != nil {
			slips.add(fmt.Errorf("consul service %s: %w; register nodes with their data port", c.service, err))
			continue
		}
		addrs = append(addrs, addr)
	}
	if len(addrs) > 0 {
		return bounded(addrs), nil
	}
	return nil, slips.err()
}

// Register implements Registrar.
func (c *consul) Register(ctx context.Context, addr string) error {
	if err := checkAddr(addr); err != nil {
		return fmt.Errorf("%w: own address: %w", errs.ErrConfig, err)
	}
	host, port, _ := net.SplitHostPort(addr) // checkAddr has seen both
	number, _ := strconv.Atoi(port)
	id := c.service + "-" + host + "-" + port
	in := registration{ID: id, Name: c.service, Address: host, Port: number, Check: check{
		CheckID: "service:" + id, Name: "the node renews this", TTL: c.ttl.String(), Status: "passing",
		DeregisterCriticalServiceAfter: deregisterAfter.String()}}
	if err := c.g.do(ctx, http.MethodPut, c.base+"/v1/agent/service/register?replace-existing-checks=true", c.header, in, nil); err != nil {
		return done(ctx, err)
	}
	tick := time.NewTicker(c.ttl / 3)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
			defer cancel()
			// What is not taken back now, the check takes back after a minute.
			_ = c.g.do(ctx, http.MethodPut, c.base+"/v1/agent/service/deregister/"+url.PathEscape(id), c.header, nil, nil)
			return nil
		case <-tick.C:
		}
		err := c.g.do(ctx, http.MethodPut, c.base+"/v1/agent/check/pass/"+url.PathEscape("service:"+id), c.header, nil, nil)
		switch {
		case err == nil:
			last = time.Now()
		case statusOf(err) == http.StatusNotFound, time.Since(last) >= c.ttl:
			return done(ctx, fmt.Errorf("consul has lost the entry of %s: %w", addr, err))
		}
	}
}
