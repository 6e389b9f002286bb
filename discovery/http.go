package discovery

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// registry speaks JSON over HTTP.
type registry struct {
	name   string // for messages
	client *http.Client
}

func newRegistry(name string, o Options) (*registry, error) {
	rt := o.Transport
	if rt == nil {
		conf, err := tlsConfig(o)
		if err != nil {
			return nil, err
		}
		rt = &http.Transport{TLSClientConfig: conf, Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: Timeout, ForceAttemptHTTP2: true}
	}
	return &registry{name, &http.Client{Transport: rt, Timeout: Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

func tlsConfig(o Options) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: authorities of the registry: %w", errs.ErrConfig, err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: %s has no certificate in PEM form", errs.ErrConfig, o.CA)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, fmt.Errorf("%w: the certificate for the registry needs its key, and the key its certificate", errs.ErrConfig)
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: certificate for the registry: %w", errs.ErrConfig, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// statusError is an answer that is no success.
type statusError struct {
	who    string
	status int
	text   string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%s answers %d %s", e.who, e.status, http.StatusText(e.status))
	if e.text != "" {
		s += ": " + e.text
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		s += "; check discovery-token"
	case http.StatusNotFound:
		s += "; check the address and that it is the registry that was meant"
	}
	return s
}

func statusOf(err error) int {
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	return 0
}

// do sends in as JSON (nothing if nil) and decodes the first JSON value of a 200
// into out (nothing if nil).
func (g *registry) do(ctx context.Context, method, target string, header http.Header, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := g.client.Do(req)
	if err != nil {
		var u *url.Error // which repeats the whole URL
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("%s at %s does not answer: %w", g.name, req.URL.Host, err)
	}
	defer resp.Body.Close()
	limited := &io.LimitedReader{R: resp.Body, N: MaxBody}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(limited, 512)) // what cannot be read is not told
		return &statusError{g.name + " at " + req.URL.Host, resp.StatusCode, strings.TrimSpace(string(text))}
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(limited).Decode(out); err != nil {
		if limited.N <= 0 {
			return fmt.Errorf("%s at %s answers more than %d bytes", g.name, req.URL.Host, MaxBody)
		}
		return fmt.Errorf("%s at %s does not answer in JSON, is it that registry? %w", g.name, req.URL.Host, err)
	}
	return nil
}

// parseRegistry splits "http://host:port[,host:port]/path".
func parseRegistry(kind, rest string) (bases []string, path string, err error) {
	bad := func(why string) error {
		return fmt.Errorf("%w: %s:%s %s; write for example %s:http://10.0.0.1:2379/ringcache", errs.ErrConfig, kind, redact(rest), why, kind)
	}
	scheme, after, ok := strings.Cut(rest, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, "", bad("does not begin with http:// or https://")
	}
	hosts, path, _ := strings.Cut(after, "/")
	path = strings.Trim(path, "/")
	if path == "" || strings.ContainsAny(path, "?#") {
		return nil, "", bad("does not end with a name")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse(scheme + "://" + host)
		if err != nil || u.Host == "" || u.User != nil {
			return nil, "", bad("has no valid host (credentials belong into the token)")
		}
		bases = append(bases, scheme+"://"+u.Host)
	}
	return bases, path, nil
}

// redact hides what stands before an @.
func redact(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "..." + s[i:]
	}
	return s
}
