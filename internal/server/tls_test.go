package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("authority", true)
	a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

func (a *authority) write(name, kind string, raw []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func (a *authority) sign(name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.last++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(a.last), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := a.cert, a.key
	if ca {
		parent, signer, c.ExtKeyUsage = c, key, nil
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(raw); err != nil {
		a.t.Fatal(err)
	}
	return c, key
}

// files writes a new certificate under fixed names.
func (a *authority) files(name string) TLSFiles {
	c, key := a.sign(name, false)
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return TLSFiles{Cert: a.write("node.pem", "CERTIFICATE", c.Raw), Key: a.write("node-key.pem", "EC PRIVATE KEY", raw),
		CA: filepath.Join(a.dir, "ca.pem")}
}

// dial connects with a certificate of the authority, or without any.
func (a *authority) dial(s *Server, shown bool) (*tls.Conn, error) {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	conf := &tls.Config{RootCAs: roots, InsecureSkipVerify: true}
	if shown {
		c, key := a.sign("client", false)
		conf.Certificates = []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}
	}
	return tls.Dial("tcp", s.Addr().String(), conf)
}

func subject(c *tls.Conn) string { return c.ConnectionState().PeerCertificates[0].Subject.CommonName }

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	conf, err := NewTLS(a.files("first"), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s, node := start(t, Options{TLS: conf, IO: IOAuto})
	node.set("k", []byte(strings.Repeat("v", 100<<10)))
	first, err := a.dial(s, true)
	if err != nil {
		t.Fatal(err)
	}
	c := wrap(t, first)
	c.ask("PING", "PONG")
	// A client that reads late makes writes wait, which TLS would not survive.
	c.send(strings.Repeat("GET k\r\n", 200))
	eventually(t, "replies wait", func() bool { return waiting(s) > 1<<20 })
	for range 200 {
		c.expect(string(node.value("k")))
	}
	if conn, err := a.dial(s, false); err == nil {
		conn.Write([]byte("PING\r\n"))
		if _, err = conn.Read(make([]byte, 1)); err == nil {
			t.Error("a client without a certificate is served")
		}
		conn.Close()
	}
	plain := dial(t, s)
	plain.send("PING\r\n\r\n")
	if v, err := plain.value(); err == nil {
		t.Errorf("plain text is answered: %v", v)
	}
	// Peers come with the node's own certificate.
	peer, err := conf.Dialer(&net.Dialer{})(t.Context(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	wrap(t, peer).ask("RC.AUTH ok\r\nRC.PING", "OK", "PONG")
	other, err := NewTLS(newAuthority(t).files("foreign"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := other.Dialer(&net.Dialer{})(t.Context(), s.Addr().String()); err == nil {
		conn.Close()
		t.Error("a peer trusts a foreign authority")
	}
	// A new certificate is for the connections that follow.
	a.files("second")
	if err := conf.Reload(); err != nil {
		t.Fatal(err)
	}
	second, err := a.dial(s, true)
	if err != nil {
		t.Fatal(err)
	}
	wrap(t, second).ask("PING", "PONG")
	c.ask("PING\r\nQUIT", "PONG", "OK")
	c.ended()
	if subject(first) != "first" || subject(second) != "second" {
		t.Errorf("%s, then %s", subject(first), subject(second))
	}
}

// Files that change are noticed by handshakes, those that are broken are not used.
func TestTLSFilesChange(t *testing.T) {
	a := newAuthority(t)
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	var log logBuffer
	conf, err := NewTLS(a.files("first"), func() time.Time { return time.Unix(0, clock.Load()) }, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, Options{TLS: conf})
	meets := func(want string) {
		t.Helper()
		c, err := a.dial(s, true)
		if err != nil {
			t.Fatal(err)
		}
		wrap(t, c).ask("PING", "PONG")
		if got := subject(c); got != want {
			t.Errorf("met %s, want %s", got, want)
		}
	}
	files := a.files("a certificate with a longer name")
	meets("first") // nobody has looked yet
	clock.Add(int64(tlsCheckEvery))
	meets("a certificate with a longer name")
	if err := os.WriteFile(files.Key, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.Add(int64(tlsCheckEvery))
	meets("a certificate with a longer name")
	if !strings.Contains(log.String(), "node-key.pem") {
		t.Errorf("log: %s", log.String())
	}
	if err := conf.Reload(); !errors.Is(err, errs.ErrConfig) {
		t.Errorf("Reload: %v", err)
	}
	if _, err := NewTLS(TLSFiles{Cert: "absent.pem", Key: "absent.pem"}, nil, nil); !errors.Is(err, errs.ErrConfig) {
		t.Errorf("absent files: %v", err)
	}
}

// A handshake that never ends is bounded like any silence before authentication,
// and stops with the server.
func TestTLSHandshakeThatStalls(t *testing.T) {
	a := newAuthority(t)
	conf, err := NewTLS(a.files("node"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	whileBusy(t, func(limit time.Duration) (early bool) {
		s, _ := start(t, Options{TLS: conf, Password: "secret", PreAuthTimeout: limit})
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		eventually(t, "it is cut off", func() bool { return s.Stats().PreAuthTimeouts == 1 })
		good, err := a.dial(s, true)
		if err != nil {
			t.Logf("within %v: %v", limit, err)
			return true
		}
		w := wrap(t, good)
		if w.try("AUTH secret") != "OK" {
			return true
		}
		value := strings.Repeat("v", 200<<10)
		w.send(string(resp.AppendCommandStrings(nil, "SET", "k", value)))
		w.expect("OK")
		w.ask("GET k", value)
		return false
	})
}
