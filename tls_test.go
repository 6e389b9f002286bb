package ringcache

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// selfSigned writes a certificate that is its own authority, and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("node.pem", "CERTIFICATE", raw), write("node-key.pem", "EC PRIVATE KEY", secret)
}

// Nodes find, join and forward to each other over TLS.
func TestClusterOverTLS(t *testing.T) {
	cert, key := selfSigned(t)
	o := Options{Addr: "127.0.0.1:0", MaxMemory: 16 << 20, TLSCert: cert, TLSKey: key, TLSCA: cert}
	a := open(t, o)
	if a.IO() != "std" {
		t.Errorf("TLS over %s", a.IO())
	}
	o.Seeds = []string{a.Addr()}
	b := open(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} { // of both owners
		if err := a.Set(ctx, k, []byte("value of "+k), 0); err != nil {
			t.Fatal(err)
		}
		if v, err := b.Get(ctx, k); err != nil || string(v) != "value of "+k {
			t.Errorf("%s: %q, %v", k, v, err)
		}
	}
	if err := a.ReloadTLS(); err != nil {
		t.Error(err)
	}
	// A node without TLS cannot join.
	plain := Options{Addr: "127.0.0.1:0", MaxMemory: 16 << 20, Seeds: []string{a.Addr()}, JoinTimeout: time.Second}
	if n, err := Open(plain); err == nil {
		n.Close()
		t.Error("a node without TLS joined")
	}
}

func TestTLSOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no key":       {Addr: "127.0.0.1:0", TLSCert: "x"},
		"no cert":      {Addr: "127.0.0.1:0", TLSCA: "x"},
		"absent files": {Addr: "127.0.0.1:0", TLSCert: "absent.pem", TLSKey: "absent.pem"},
		"epoll":        {Addr: "127.0.0.1:0", TLSCert: "x", TLSKey: "x", IO: "epoll"},
		"io":           {Addr: "127.0.0.1:0", IO: "fast"},
	} {
		if n, err := Open(o); err == nil {
			n.Close()
			t.Errorf("%s: opened", name)
		}
	}
}
