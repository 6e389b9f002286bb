package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

// startRedis runs a redis-server on a free port and stops it after the test. The
// test is skipped if there is none on this machine.
func startRedis(t *testing.T, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on this machine")
	}
	addr, err := child.FreeAddr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(bin, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--dir", t.TempDir()}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if !await(t, func() bool { return pingable(addr) }) {
		t.Fatal("redis-server does not answer at ", addr)
	}
	return addr
}

// await polls until ok, for at most a minute.
func await(t *testing.T, ok func() bool) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
	return true
}

func pingable(addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := Dial(ctx, addr, Options{Proto: 2})
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, errs.ErrAuth)
}

// startRedisCluster makes a cluster of three nodes without replicas.
func startRedisCluster(t *testing.T) []string {
	t.Helper()
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("no redis-cli on this machine")
	}
	var addrs []string
	for range 3 {
		addrs = append(addrs, startRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"))
	}
	args := append([]string{"--cluster", "create"}, addrs...)
	out, err := exec.Command(cli, append(args, "--cluster-replicas", "0", "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
	}
	for _, a := range addrs {
		if !await(t, func() bool { return strings.Contains(cli1(t, a, "CLUSTER", "INFO"), "cluster_state:ok") }) {
			t.Fatal("the cluster did not come up")
		}
	}
	return addrs
}

// cli1 runs one command on one node.
func cli1(t *testing.T, addr string, args ...string) string {
	t.Helper()
	c, err := Dial(within(t, time.Minute), addr, Options{Proto: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.Do(within(t, time.Minute), encode(args...))
	if err != nil {
		t.Fatal(err)
	}
	return v.Text()
}

func TestRedisSingle(t *testing.T) {
	addr := startRedis(t, "--requirepass", "secret")
	if _, err := Dial(t.Context(), addr, Options{Password: "wrong", DialTimeout: time.Minute}); !errors.Is(err, errs.ErrAuth) {
		t.Errorf("wrong password: %v", err)
	}
	if _, err := Dial(t.Context(), addr, Options{DialTimeout: time.Minute}); !errors.Is(err, errs.ErrAuth) {
		t.Errorf("no password: %v", err)
	}
	for _, proto := range []int{2, 3} {
		r, err := NewRouter(RouterOptions{Seeds: []string{addr}, Timeout: 30 * time.Second,
			Link: Options{Password: "secret", ClientName: "me", Proto: proto}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !r.Table().Single() {
			t.Error("a single server is not seen as one")
		}
		wantOK(t, r, "OK", "SET", "k", "v")
		wantOK(t, r, "v", "GET", "k")
		wantOK(t, r, "", "GET", "absent")
		wantOK(t, r, "me", "CLIENT", "GETNAME")
		v, err := r.Do(t.Context(), words("GET", "k", "extra")...)
		if err != nil || v.Err() == nil {
			t.Errorf("wrong arity: %v, %v", v, err)
		}
		r.Close()
	}
}

func TestRedisCluster(t *testing.T) {
	addrs := startRedisCluster(t)
	r, err := NewRouter(RouterOptions{Seeds: addrs[2:], Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.Nodes()) != 3 {
		t.Fatalf("nodes %v", r.Nodes())
	}
	reqs := make([]Request, 1000)
	for i := range reqs {
		k := fmt.Sprint("key:", i)
		reqs[i] = Request{Slot: int(ring.SlotString(k)), Bytes: encode("SET", k, k)}
	}
	for i, res := range r.CallAll(t.Context(), reqs) {
		if res.Err != nil || res.Value.Text() != "OK" {
			t.Fatalf("part %d: %v, %v", i, res.Value, res.Err)
		}
	}
	if s := r.Stats(); s.Moved != 0 {
		t.Errorf("%d redirects with a fresh table", s.Moved)
	}
	moveSlot(t, r, "key:7")
	wantOK(t, r, "key:7", "GET", "key:7")
	wantOK(t, r, "key:7", "GET", "key:7")
	if s := r.Stats(); s.Moved != 1 {
		t.Errorf("%d redirects after one slot moved, want 1", s.Moved)
	}
}

// moveSlot hands the slot of a key to the next node, asking for the key in every
// state of the migration.
func moveSlot(t *testing.T, r *Router, key string) {
	t.Helper()
	slot := strconv.Itoa(int(ring.SlotString(key)))
	from := r.Table().Addr(ring.SlotString(key))
	to := r.Nodes()[0]
	if to == from {
		to = r.Nodes()[1]
	}
	idFrom, idTo := cli1(t, from, "CLUSTER", "MYID"), cli1(t, to, "CLUSTER", "MYID")
	ok := func(addr string, args ...string) {
		t.Helper()
		if got := cli1(t, addr, args...); got != "OK" {
			t.Fatalf("%v at %s: %s", args, addr, got)
		}
	}
	ok(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", idFrom)
	ok(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", idTo)
	wantOK(t, r, key, "GET", key)
	_, port, _ := net.SplitHostPort(to)
	ok(from, "MIGRATE", "127.0.0.1", port, key, "0", "5000")
	asked := r.Stats().Asked
	wantOK(t, r, key, "GET", key)
	if r.Stats().Asked != asked+1 {
		t.Error("a key that moved ahead of its slot was found without ASK")
	}
	ok(to, "CLUSTER", "SETSLOT", slot, "NODE", idTo)
	ok(from, "CLUSTER", "SETSLOT", slot, "NODE", idTo)
}

func TestRedisLargeReply(t *testing.T) {
	addr := startRedis(t)
	c, err := Dial(t.Context(), addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	big := bytes.Repeat([]byte("x"), 3<<20)
	if v, err := c.Do(within(t, time.Minute), encode("SET", "k", string(big))); err != nil || v.Err() != nil {
		t.Fatal(v, err)
	}
	v, err := c.Do(within(t, time.Minute), encode("GET", "k"))
	if err != nil || !bytes.Equal(v.Str, big) {
		t.Fatalf("%d bytes, %v", len(v.Str), err)
	}
}
