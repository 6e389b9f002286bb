package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// authority signs certificates for nodes on this machine and their clients.
type authority struct {
	t      *testing.T
	dir    string
	ca     string // its file
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.ca, _ = a.issue("authority", true)
	return a
}

// issue writes a certificate and its key.
func (a *authority) issue(name string, isCA bool) (cert, key string) {
	a.t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	c := &x509.Certificate{SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := a.cert, a.key
	if isCA {
		parent, signer = c, secret
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &secret.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(raw); err != nil {
		a.t.Fatal(err)
	}
	if isCA {
		a.cert, a.key = c, secret
	}
	der, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		a.t.Fatal(err)
	}
	write := func(name, kind string, raw []byte) string {
		path := filepath.Join(a.dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return path
	}
	return write(name+".pem", "CERTIFICATE", raw), write(name+"-key.pem", "EC PRIVATE KEY", der)
}

// tlsNodes starts a cluster whose clients and nodes show certificates of a, on ports
// from base on; stop ends it.
func tlsNodes(t *testing.T, a *authority, n int) (base int, stop func()) {
	t.Helper()
	base = freePorts(t, n)
	var nodes []*process
	for i := range n {
		cert, key := a.issue("node"+strconv.Itoa(i), false)
		args := []string{"serve", "--addr", devAddr(base + i), "--max-memory", "64mb", "--tls-cert", cert, "--tls-key", key, "--tls-ca", a.ca}
		if i > 0 {
			args = append(args, "--seeds", devAddr(base))
		}
		nodes = append(nodes, start(t, command(t, nil, args...)))
	}
	// A load that begins while slots change hands is sent elsewhere now and then.
	cert, key := a.issue("operator", false)
	runTo(t, exitOK, command(t, nil, "cluster", "wait", "--healthy", "--nodes", strconv.Itoa(n), "--addr", devAddr(base),
		"--tls", "--tls-ca", a.ca, "--tls-cert", cert, "--tls-key", key))
	return base, func() {
		for _, node := range nodes {
			node.stop(t, syscall.SIGTERM)
		}
	}
}

// A load over TLS finds the nodes of a cluster, and speaks to each of them with the
// certificates that it was given; it fails where one of the sides is not who it should
// be.
func TestBenchOverTLS(t *testing.T) {
	a := newAuthority(t)
	base, stop := tlsNodes(t, a, 3)
	cert, key := a.issue("client", false)
	stranger, strangerKey := newAuthority(t).issue("stranger", false)
	bench := func(more ...string) []string {
		return append([]string{"bench", "--conns", "6", "--keys", "300", "--warmup", "0s", "--duration", "1s", "-o", "json", devAddr(base), "--tls"}, more...)
	}
	trusted := []string{"--tls-ca", a.ca, "--tls-cert", cert, "--tls-key", key}
	for name, more := range map[string][]string{
		"at saturation":  append([]string{"--rate", "0", "--pipeline", "8", "--size", "64-4kb"}, trusted...),
		"open":           append([]string{"--rate", "500"}, trusted...),
		"without checks": {"--rate", "0", "--insecure", "--tls-cert", cert, "--tls-key", key},
	} {
		out, _ := runTo(t, exitOK, command(t, nil, bench(more...)...))
		r := benchReport(t, out)
		if !r.Cluster || len(r.Nodes) != 3 || r.All.Requests < 50 || r.Misses+r.Errors+r.Unanswered+r.Moved > 0 || r.Hits == 0 {
			t.Errorf("%s: %+v", name, r)
		}
		for _, n := range r.Nodes {
			if n.Requests == 0 {
				t.Errorf("%s: %s got no request", name, n.Addr)
			}
		}
	}
	for name, tt := range map[string]struct {
		args []string
		say  string
	}{
		"no TLS":              {[]string{"bench", "--duration", "300ms", devAddr(base)}, "no server answers"},
		"no authority":        {bench("--tls-cert", cert, "--tls-key", key), "certificate signed by unknown authority"},
		"no certificate":      {bench("--tls-ca", a.ca), "certificate required"},
		"another's":           {bench("--tls-ca", a.ca, "--tls-cert", stranger, "--tls-key", strangerKey), "remote error: tls"},
		"another name":        {bench(append([]string{"--tls-name", "node9"}, trusted...)...), "not node9"},
		"a name of one node":  {bench(append([]string{"--tls-name", "node0"}, trusted...)...), "not node0"},
		"certificate, no key": {bench("--tls-ca", a.ca, "--tls-cert", cert), "--tls-cert, --tls-key"},
	} {
		code := exitFailed
		if name == "certificate, no key" {
			code = exitUsage
		}
		if _, stderr := runTo(t, code, command(t, nil, tt.args...)); !strings.Contains(stderr, tt.say) {
			t.Errorf("%s: %q is not in: %s", name, tt.say, stderr)
		}
	}
	stop()
}

// A redis-server with TLS is loaded like one without.
func TestBenchOnRedisOverTLS(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	a := newAuthority(t)
	cert, key := a.issue("redis", false)
	port := freePorts(t, 1)
	redis := exec.CommandContext(t.Context(), "redis-server", "--port", "0", "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", a.ca, "--tls-auth-clients", "no", "--save", "", "--loglevel", "warning")
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Process.Kill(); redis.Wait() })
	for until := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		if nc, err := net.Dial("tcp", devAddr(port)); err == nil {
			nc.Close()
			break
		} else if time.Now().After(until) {
			t.Skipf("this redis-server does not speak TLS: %v", err)
		}
	}
	out, _ := runTo(t, exitOK, command(t, nil, "bench", "--rate", "0", "--pipeline", "8", "--conns", "4", "--keys", "500", "--warmup", "0s", "--duration", "1s",
		"-o", "json", "--tls", "--tls-ca", a.ca, devAddr(port)))
	if r := benchReport(t, out); r.Cluster || r.All.Requests < 100 || r.Misses+r.Errors > 0 {
		t.Errorf("%+v", r)
	}
}

// redis-cli speaks TLS with a cluster: it follows MOVED to the other nodes, and looks
// at all of them.
func TestRedisCLIOverTLS(t *testing.T) {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip(err)
	}
	a := newAuthority(t)
	base, stop := tlsNodes(t, a, 3)
	cert, key := a.issue("client", false)
	cli := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "redis-cli", append([]string{"--tls", "--cacert", a.ca, "--cert", cert, "--key", key, "-p", strconv.Itoa(base)}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("redis-cli %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	var sets strings.Builder
	for i := range 60 {
		fmt.Fprintf(&sets, "set key:%d value\nget key:%d\n", i, i)
	}
	if out := cli(sets.String(), "-c"); strings.Count(out, "value") < 60 || strings.Contains(out, "rror") {
		t.Errorf("60 keys by -c: %s", out)
	}
	if out := cli("", "-3", "hello"); !strings.Contains(out, "proto") || !strings.Contains(out, "3") {
		t.Error(out)
	}
	contains(t, cli("", "--cluster", "check", devAddr(base)), "60 keys in 3 masters", "[OK] All nodes agree about slots configuration", "[OK] All 16384 slots covered")
	contains(t, cli("", "--cluster", "info", devAddr(base)), "[OK] 60 keys in 3 masters")
	contains(t, cli("", "--bigkeys"), "Biggest string found")
	stop()
}
