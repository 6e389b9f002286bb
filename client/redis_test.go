package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/client"
	"github.com/ringcache/ringcache/internal/child"
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
	if !await(func() bool { return answers(addr) }) {
		t.Fatal("redis-server does not answer at ", addr)
	}
	return addr
}

// await polls until ok, for at most a minute.
func await(ok func() bool) bool {
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

func answers(addr string) bool {
	nc, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

func TestAgainstRedis(t *testing.T) {
	addr := startRedis(t)
	c := open(t, []*fakeServer{{addr: addr}}, func(o *client.Options) { o.Name = "sdk" })
	ctx := t.Context()
	if err := c.Set(ctx, "k", []byte("v"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if ok, err := c.Touch(ctx, "k", 2*time.Hour); !ok || err != nil {
		t.Errorf("touch: %v, %v", ok, err)
	}
	v, err := c.Do(ctx, "PTTL", "k")
	if ms, ierr := v.Int(); err != nil || ierr != nil || ms <= 3600_000 || ms > 7200_000 {
		t.Errorf("PTTL after touch: %v, %v", v, err)
	}
	if got, err := c.Get(ctx, "k"); err != nil || string(got) != "v" {
		t.Errorf("touch changed the value: %q, %v", got, err)
	}
	testSetWith(t, c)
	if _, err := c.Incr(ctx, "k", 1); !errors.Is(err, client.ErrNotInteger) {
		t.Errorf("incr of a text: %v", err)
	}
	if n, err := c.Incr(ctx, "n", 1<<62); n != 1<<62 || err != nil {
		t.Errorf("incr: %d, %v", n, err)
	}
	if _, err := c.Incr(ctx, "n", 1<<62); !errors.Is(err, client.ErrNotInteger) {
		t.Errorf("overflow: %v", err)
	}
	testDo(t, c)
}

func testSetWith(t *testing.T, c *client.Client) {
	t.Helper()
	tests := []struct {
		name string
		o    client.SetOptions
		want bool
		old  string
	}{
		{"absent is there", client.SetOptions{IfAbsent: true}, false, ""},
		{"present", client.SetOptions{IfPresent: true, Return: true}, true, "v"},
		{"plain", client.SetOptions{TTL: time.Hour}, true, ""},
		{"old value", client.SetOptions{KeepTTL: true, Return: true}, true, "new"},
		{"absent with the old value", client.SetOptions{IfAbsent: true, Return: true}, false, "new"},
	}
	for _, tt := range tests {
		res, err := c.SetWith(t.Context(), "k", []byte("new"), tt.o)
		if err != nil || res.Stored != tt.want || string(res.Old) != tt.old {
			t.Errorf("%s: %+v, %v", tt.name, res, err)
		}
	}
	res, err := c.SetWith(t.Context(), "fresh", nil, client.SetOptions{IfPresent: true, Return: true})
	if err != nil || res.Stored || res.Old != nil {
		t.Errorf("present, but absent: %+v, %v", res, err)
	}
	res, err = c.SetWith(t.Context(), "fresh", nil, client.SetOptions{IfAbsent: true, Return: true})
	if err != nil || !res.Stored || res.Old != nil {
		t.Errorf("absent: %+v, %v", res, err)
	}
}

func testDo(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	must := func(args ...any) client.Value {
		t.Helper()
		v, err := c.Do(ctx, args...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return v
	}
	must("HSET", "h", "a", 1, "b", 2.5, []byte("c"), true)
	m := must("HGETALL", "h").Map()
	if len(m) != 3 || m["a"].Text() != "1" || m["b"].Text() != "2.5" || m["c"].Text() != "1" {
		t.Errorf("HGETALL = %v", m)
	}
	if f, err := must("HGET", "h", "b").Float(); f != 2.5 || err != nil {
		t.Errorf("%v, %v", f, err)
	}
	must("RPUSH", "l", "x", "y")
	if s := must("LRANGE", "l", 0, -1).String(); s != `["x" "y"]` {
		t.Errorf("LRANGE = %s", s)
	}
	if v := must("GET", "absent"); !v.IsNull() || v.Bytes() != nil || v.Array() != nil {
		t.Errorf("null = %v", v)
	}
	if v := must("EVAL", "return {redis.call('GET', KEYS[1]), redis.error_reply('ERR inner')}", 1, "k").Array(); len(v) != 2 || v[1].Err() == nil {
		t.Errorf("EVAL = %v", v)
	}
	if !must("PING").Bool() && must("PING").Text() != "PONG" {
		t.Error("PING")
	}
	_, err := c.Do(ctx, "LPUSH", "k", "x")
	var se client.ServerError
	if !errors.As(err, &se) || se.Code() != "WRONGTYPE" {
		t.Errorf("wrong type: %v", err)
	}
}

func TestAgainstRedisCluster(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("no redis-cli on this machine")
	}
	var addrs []string
	for range 3 {
		addrs = append(addrs, startRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"))
	}
	args := append([]string{"--cluster", "create"}, addrs...)
	if out, err := exec.Command(cli, append(args, "--cluster-replicas", "0", "--cluster-yes")...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
	}
	c := open(t, []*fakeServer{{addr: addrs[0]}}, nil)
	if !await(func() bool {
		v, err := c.Do(context.Background(), "CLUSTER", "INFO")
		return err == nil && strings.Contains(v.Text(), "cluster_state:ok") && len(c.Nodes()) == 3
	}) {
		t.Fatal("the cluster did not come up")
	}
	items := map[string][]byte{}
	var keys []string
	for i := range 5000 {
		k := fmt.Sprint("key:", i)
		keys = append(keys, k)
		items[k] = []byte(fmt.Sprint("value:", i))
	}
	if !await(func() bool { return c.SetMany(t.Context(), items, time.Hour) == nil }) {
		t.Fatal("SetMany never succeeded")
	}
	got, err := c.GetMany(t.Context(), keys)
	if err != nil || len(got) != len(items) {
		t.Fatalf("%d values, %v", len(got), err)
	}
	for k, v := range items {
		if string(got[k]) != string(v) {
			t.Fatalf("%s = %q", k, got[k])
		}
	}
	if n, err := c.Del(t.Context(), keys...); n != len(keys) || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}
