package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// tlsCheckEvery is how often a handshake may look whether the files changed.
const tlsCheckEvery = 10 * time.Second

// TLSFiles names PEM files.
type TLSFiles struct {
	Cert string // the node's certificate, intermediate ones behind it
	Key  string // its private key
	// CA are the authorities that the other side's certificate must come from.
	// With it clients and peers have to show one; without it clients need none,
	// and peers are held against the system's authorities.
	CA string
}

// TLS is what a node needs to speak TLS, as a server and to its peers. The files
// are read again when they change, looked at by handshakes at most every 10 s, and
// by Reload; connections that exist keep what they began with. What cannot be
// read leaves the former state in force. Its methods may be called from any
// goroutine.
type TLS struct {
	files TLSFiles
	now   func() time.Time
	log   *slog.Logger

	state atomic.Pointer[tlsState]
	next  atomic.Int64 // unix ns of the next look at the files

	mu sync.Mutex // one loads at a time
}

// tlsState is what the files said. It is replaced, never changed.
type tlsState struct {
	server, client *tls.Config
	seen           [3]fileMark
}

// fileMark tells a file from its successor.
type fileMark struct {
	size int64
	time time.Time
}

// NewTLS reads the files. Its error wraps errs.ErrConfig and names the file. Zero
// now and log are time.Now and slog.Default().
func NewTLS(files TLSFiles, now func() time.Time, log *slog.Logger) (*TLS, error) {
	t := &TLS{files: files, now: now, log: log}
	if t.now == nil {
		t.now = time.Now
	}
	if t.log == nil {
		t.log = slog.Default()
	}
	return t, t.Reload()
}

// Reload reads the files again. On an error what was read before stays in force.
func (t *TLS) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.load()
	if err != nil {
		return err
	}
	t.state.Store(s)
	t.next.Store(t.now().Add(tlsCheckEvery).UnixNano())
	return nil
}

// load reads the files into a new state.
func (t *TLS) load() (*tlsState, error) {
	s := &tlsState{seen: t.marks()}
	cert, err := tls.LoadX509KeyPair(t.files.Cert, t.files.Key)
	if err != nil {
		return nil, fmt.Errorf("tls certificate %q with key %q: %w: %w", t.files.Cert, t.files.Key, err, errs.ErrConfig)
	}
	s.server = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	s.client = &tls.Config{Certificates: s.server.Certificates, MinVersion: tls.VersionTLS12}
	if t.files.CA == "" {
		return s, nil
	}
	text, err := os.ReadFile(t.files.CA)
	if err != nil {
		return nil, fmt.Errorf("tls authorities: %w: %w", err, errs.ErrConfig)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("tls authorities: no certificate in %q: %w", t.files.CA, errs.ErrConfig)
	}
	s.server.ClientCAs, s.server.ClientAuth = pool, tls.RequireAndVerifyClientCert
	s.client.RootCAs = pool
	return s, nil
}

// marks notes the files as they are. One that is not there has none.
func (t *TLS) marks() (m [3]fileMark) {
	for i, name := range []string{t.files.Cert, t.files.Key, t.files.CA} {
		if info, err := os.Stat(name); err == nil {
			m[i] = fileMark{info.Size(), info.ModTime()}
		}
	}
	return m
}

// current returns the state for a new connection.
func (t *TLS) current() *tlsState {
	s := t.state.Load()
	now, due := t.now(), t.next.Load()
	if now.UnixNano() < due || !t.next.CompareAndSwap(due, now.Add(tlsCheckEvery).UnixNano()) || t.marks() == s.seen {
		return s
	}
	if err := t.Reload(); err != nil {
		t.log.Error("changed TLS files are not used", "err", err)
		return s
	}
	t.log.Info("TLS files changed and were read again")
	return t.state.Load()
}

// listener makes the connections of ln speak TLS. Handshakes are made by the
// goroutines of their sessions.
func (t *TLS) listener(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current().server, nil }})
}

// Dialer returns a function that connects to a peer by d and completes the handshake
// before its ctx ends. With a CA, the peer's certificate must come from it and its
// name is not compared: nodes are reached by addresses that come and go, and prove the
// cluster's secret.
func (t *TLS) Dialer(d *net.Dialer) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) { return t.dial(ctx, d, addr) }
}

func (t *TLS) dial(ctx context.Context, by *net.Dialer, addr string) (net.Conn, error) {
	conf := t.current().client.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		conf.ServerName = host
	}
	if roots := conf.RootCAs; roots != nil {
		conf.InsecureSkipVerify = true // in favour of the check below
		conf.VerifyConnection = func(cs tls.ConnectionState) error { return verifyChain(cs.PeerCertificates, roots, t.now()) }
	}
	d := tls.Dialer{NetDialer: by, Config: conf}
	return d.DialContext(ctx, "tcp", addr)
}

// verifyChain checks that a server's certificates lead to one of roots.
func verifyChain(certs []*x509.Certificate, roots *x509.CertPool, now time.Time) error {
	if len(certs) == 0 {
		return errors.New("the peer showed no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	_, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	return err
}
