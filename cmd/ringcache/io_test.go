package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A transport that is asked for serves, and is told in the log.
func TestServeTransports(t *testing.T) {
	for _, io := range []string{"std", "epoll"} {
		t.Run(io, func(t *testing.T) {
			if io != "std" && runtime.GOOS != "linux" {
				t.Skip("loops need Linux")
			}
			addr := devAddr(freePorts(t, 1))
			p := start(t, command(t, nil, "serve", "--addr", addr, "--max-memory", "16mb", "--io", io, "--loops", "1", "--log-level", "debug"))
			for _, c := range []struct{ command, want string }{{"SET k v", "+OK"}, {"STRLEN k", ":1"}, {"DBSIZE", ":1"}} {
				if got := call(t, addr, c.command); got != c.want {
					t.Errorf("%s answers %s, want %s", c.command, got, c.want)
				}
			}
			p.stop(t, syscall.SIGTERM)
			if text := p.stderr.String(); io != "std" && !strings.Contains(text, "io="+io+" loops=1") {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// writeCert writes a certificate that signs itself, and its key.
func writeCert(t *testing.T, cert, key, name string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// SIGHUP makes a node take a new certificate without a restart.
func TestServeTLSReload(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCert(t, cert, key, "first")
	addr := devAddr(freePorts(t, 1))
	p := start(t, command(t, nil, "serve", "--addr", addr, "--max-memory", "16mb", "--tls-cert", cert, "--tls-key", key))
	shown := func() string {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := shown(); got != "first" {
		t.Errorf("it shows %q", got)
	}
	writeCert(t, cert, key, "second")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for shown() != "second" {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it never showed the new certificate")
		}
	}
	p.stop(t, syscall.SIGTERM)
	_, stderr := runTo(t, exitUsage, command(t, nil, "serve", "--addr", addr, "--tls-cert", cert))
	contains(t, stderr, "tls-key")
	_, stderr = runTo(t, exitUsage, command(t, nil, "serve", "--addr", addr, "--tls-cert", cert, "--tls-key", key, "--io", "epoll"))
	contains(t, stderr, "does not speak TLS")
}
