package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestServe(t *testing.T) {
	addr := devAddr(freePorts(t, 1))
	p := start(t, command(t, nil, "serve", "--addr", addr, "--max-memory", "16mb", "--log-format", "json"))
	contains(t, p.first, "serving "+addr, "node ", `cluster "ringcache"`, "max-memory 16mb", "policy s3fifo")
	if got := call(t, addr, "SET k v"); got != "+OK" {
		t.Errorf("SET answers %s", got)
	}
	p.stop(t, syscall.SIGTERM)
}

func TestServeTakenPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, stderr := runTo(t, exitStart, command(t, nil, "serve", "--addr", ln.Addr().String(), "--max-memory", "16mb"))
	contains(t, stderr, ln.Addr().String(), "address already in use")
}

func TestServeNoSeed(t *testing.T) {
	base := freePorts(t, 2)
	_, stderr := runTo(t, exitStart, command(t, nil, "serve", "--addr", devAddr(base), "--seeds", devAddr(base+1), "--join-timeout", "300ms", "--max-memory", "16mb"))
	contains(t, stderr, "no seed reachable", devAddr(base+1), "300ms")
}

// TestServeRefused: a wrong secret and a wrong name are told apart, and
// neither message carries the secret.
func TestServeRefused(t *testing.T) {
	base := freePorts(t, 2)
	p := start(t, command(t, []string{"RINGCACHE_CLUSTER_SECRET=the right secret"}, "serve", "--addr", devAddr(base), "--max-memory", "16mb"))
	join := []string{"serve", "--addr", devAddr(base + 1), "--seeds", devAddr(base), "--join-timeout", "20s", "--max-memory", "16mb"}
	_, stderr := runTo(t, exitStart, command(t, []string{"RINGCACHE_CLUSTER_SECRET=wr0ng, and long enough"}, join...))
	contains(t, stderr, "secret")
	if strings.Contains(stderr, "wr0ng") {
		t.Errorf("the secret is printed: %s", stderr)
	}
	_, stderr = runTo(t, exitStart, command(t, []string{"RINGCACHE_CLUSTER_SECRET=the right secret"}, append(join, "--cluster-name", "other")...))
	contains(t, stderr, "other", "ringcache")
	p.stop(t, syscall.SIGTERM)
}

// TestDev starts the cluster that the README starts, on free ports, and uses it
// as a client would.
func TestDev(t *testing.T) {
	base := freePorts(t, 3)
	p := start(t, command(t, []string{"RINGCACHE_NONSENSE=1"}, "dev", "--port", fmt.Sprint(base), "--max-memory", "16mb"))
	contains(t, p.first, "3 nodes ready in ", devAddr(base), devAddr(base+2))
	accepted, moved := 0, 0
	for i := range 3 {
		switch got := call(t, devAddr(base+i), "SET greeting hello"); {
		case got == "+OK":
			accepted++
		case strings.HasPrefix(got, "-MOVED "):
			moved++
		default:
			t.Errorf("node %d answers %s", i, got)
		}
	}
	if accepted != 1 || moved != 2 {
		t.Errorf("%d nodes accepted the key, %d redirected; want 1 and 2", accepted, moved)
	}
	_, stderr := runTo(t, exitStart, command(t, nil, "dev", "--port", fmt.Sprint(base+2)))
	contains(t, stderr, fmt.Sprintf("port %d", base+2), fmt.Sprintf("port %d (UDP)", base+2+gossipOffset), "try --port ")
	p.stop(t, syscall.SIGINT)
}
