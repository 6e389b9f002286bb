package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// etcd lists nodes as keys PREFIX/ADDRESS under leases. It speaks the JSON gateway
// of etcd 3.4 and later, which takes and gives keys and values in base64 and 64-bit
// numbers as strings: https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/ and
// https://etcd.io/docs/v3.5/dev-guide/api_reference_v3/
type etcd struct {
	g              *registry
	endpoints      []string
	prefix         string // with a slash at its end
	user, password string
	ttl            time.Duration

	mu    sync.Mutex
	first int    // the endpoint that answered last
	token string // of user
}

func newEtcd(rest string, o Options) (Source, error) {
	endpoints, prefix, err := parseRegistry("etcd", rest)
	if err != nil {
		return nil, err
	}
	e := &etcd{endpoints: endpoints, prefix: prefix + "/", ttl: o.TTL}
	if o.Token != "" {
		var ok bool
		if e.user, e.password, ok = strings.Cut(o.Token, ":"); !ok || e.user == "" {
			return nil, fmt.Errorf("%w: the token for etcd is not user:password", errs.ErrConfig)
		}
	}
	if e.g, err = newRegistry("etcd", o); err != nil {
		return nil, err
	}
	return e, nil
}

// The messages of the gateway, as far as they are used. []byte is base64 in JSON.
type (
	rangeRequest struct {
		Key          []byte `json:"key"`
		RangeEnd     []byte `json:"range_end"`
		Limit        int64  `json:"limit,string"`
		Serializable bool   `json:"serializable"`
	}
	rangeResponse struct {
		Kvs []struct {
			Key   []byte `json:"key"`
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	putRequest struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
		Lease string `json:"lease"`
	}
	grantRequest struct {
		TTL int64 `json:"TTL,string"`
	}
	leaseRequest struct {
		ID string `json:"ID"`
	}
	grantResponse struct {
		ID string `json:"ID"`
	}
	// keepAliveResponse is one message of a stream. A lease that is gone has the
	// TTL 0, which the gateway leaves out.
	keepAliveResponse struct {
		Result struct {
			TTL string `json:"TTL"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	authRequest struct {
		Name     string `json:"name"`
		Password string `json:"password"`
	}
	authResponse struct {
		Token string `json:"token"`
	}
)

// Seeds implements Source. It asks for a serializable read: an answer that is a
// little old is as good, and comes without a quorum too.
func (e *etcd) Seeds(ctx context.Context) ([]string, error) {
	end := []byte(e.prefix)
	end[len(end)-1]++ // '/' becomes '0': all keys that begin with the prefix
	var out rangeResponse
	err := e.call(ctx, "/v3/kv/range", rangeRequest{[]byte(e.prefix), end, MaxSeeds, true}, &out)
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, kv := range out.Kvs {
		if err = checkAddr(string(kv.Value)); err != nil {
			err = fmt.Errorf("etcd key %.200q: %w; keys below %s are for nodes only", kv.Key, err, e.prefix)
			continue
		}
		addrs = append(addrs, string(kv.Value))
	}
	if len(addrs) > 0 {
		err = nil
	}
	return bounded(addrs), err
}

// Register implements Registrar.
func (e *etcd) Register(ctx context.Context, addr string) error {
	if err := checkAddr(addr); err != nil {
		return fmt.Errorf("%w: own address: %w", errs.ErrConfig, err)
	}
	var lease grantResponse
	if err := e.call(ctx, "/v3/lease/grant", grantRequest{int64(e.ttl / time.Second)}, &lease); err != nil {
		return done(ctx, err)
	}
	if lease.ID == "" {
		return errors.New("etcd grants a lease without an ID: is it etcd 3.4 or later?")
	}
	// Only what is registered here is taken back, at the end of the node or after
	// a failure: the next lease makes the entry again.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
		defer cancel()
		_ = e.call(ctx, "/v3/lease/revoke", leaseRequest(lease), nil) // else it expires
	}()
	key := []byte(e.prefix + addr)
	if err := e.call(ctx, "/v3/kv/put", putRequest{key, []byte(addr), lease.ID}, nil); err != nil {
		return done(ctx, err)
	}
	tick := time.NewTicker(e.ttl / 3)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var kept keepAliveResponse
		err := e.call(ctx, "/v3/lease/keepalive", leaseRequest(lease), &kept)
		switch {
		case err == nil && kept.Error != nil:
			return fmt.Errorf("etcd does not keep the lease: %s", kept.Error.Message)
		case err == nil && (kept.Result.TTL == "" || kept.Result.TTL == "0"):
			return fmt.Errorf("etcd has dropped the lease of %s: nothing renewed it for %s", addr, time.Since(last).Round(time.Second))
		case err == nil:
			last = time.Now()
		case time.Since(last) >= e.ttl: // before that, the next turn may reach it
			return done(ctx, err)
		}
	}
}

// done is nil once ctx is done: what fails then is no failure.
func done(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// call asks the endpoints in turn, beginning with the one that answered last, and
// authenticates first where a user is given.
func (e *etcd) call(ctx context.Context, path string, in, out any) error {
	e.mu.Lock()
	first, token := e.first, e.token
	e.mu.Unlock()
	var err error
	for i := range e.endpoints {
		n := (first + i) % len(e.endpoints)
		base := e.endpoints[n]
		if e.user != "" && token == "" {
			if token, err = e.authenticate(ctx, base); err != nil {
				if statusOf(err) != 0 && statusOf(err) < 500 {
					return err
				}
				continue
			}
		}
		err = e.g.do(ctx, http.MethodPost, base+path, bearer(token), in, out)
		if statusOf(err) == http.StatusUnauthorized && e.user != "" { // tokens expire
			if token, err = e.authenticate(ctx, base); err == nil {
				err = e.g.do(ctx, http.MethodPost, base+path, bearer(token), in, out)
			}
		}
		if err == nil {
			e.mu.Lock()
			e.first, e.token = n, token
			e.mu.Unlock()
			return nil
		}
		if s := statusOf(err); s != 0 && s < 500 || ctx.Err() != nil {
			return err // another one would say the same
		}
	}
	return err
}

func (e *etcd) authenticate(ctx context.Context, base string) (string, error) {
	var out authResponse
	if err := e.g.do(ctx, http.MethodPost, base+"/v3/auth/authenticate", nil, authRequest{e.user, e.password}, &out); err != nil {
		return "", fmt.Errorf("user %q: %w", e.user, err)
	}
	return out.Token, nil
}

// bearer is the header that carries a token; etcd takes it bare.
func bearer(token string) http.Header {
	if token == "" {
		return nil
	}
	return http.Header{"Authorization": {token}}
}
