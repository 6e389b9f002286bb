package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringcache/ringcache/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBasics(t *testing.T) {
	all := startCluster(t, 3)
	c := open(t, all, nil)
	ctx := t.Context()
	for i := range 3 {
		k := keysOn(all, all[i], 1)[0]
		if _, err := c.Get(ctx, k); err != client.ErrNotFound {
			t.Errorf("absent key: %v", err)
		}
		if err := c.Set(ctx, k, []byte("v"), 1500*time.Microsecond); err != nil {
			t.Error(err)
		}
		all[i].set(func() {
			if all[i].ttl[k] != 2 {
				t.Errorf("time to live %d ms, want 1.5 ms rounded up", all[i].ttl[k])
			}
		})
		if v, err := c.Get(ctx, k); err != nil || string(v) != "v" {
			t.Errorf("GET = %q, %v", v, err)
		}
		if ok, err := c.Touch(ctx, k, time.Minute); !ok || err != nil {
			t.Errorf("touch: %v, %v", ok, err)
		}
		if n, err := c.Del(ctx, k); n != 1 || err != nil {
			t.Errorf("del: %d, %v", n, err)
		}
		if ok, err := c.Touch(ctx, k, time.Minute); ok || err != nil {
			t.Errorf("touch of an absent key: %v, %v", ok, err)
		}
		if n, err := c.Incr(ctx, k, -5); n != -5 || err != nil {
			t.Errorf("incr: %d, %v", n, err)
		}
		if err := c.Set(ctx, k, nil, 0); err != nil {
			t.Error(err)
		}
		if v, err := c.Get(ctx, k); err != nil || v == nil || len(v) != 0 {
			t.Errorf("an empty value is not a miss: %v, %v", v, err)
		}
	}
	if got := c.Nodes(); len(got) != 3 || !slices.IsSorted(got) {
		t.Errorf("nodes %v", got)
	}
	if s := c.Stats(); s.Moved != 0 || s.Links != 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestServerErrors(t *testing.T) {
	tests := []struct {
		name, reply string
		want        error
		not         error
	}{
		{"too large", "RCTOOLARGE value is 300000 bytes, limit 262144; compress it", client.ErrTooLarge, client.ErrUnavailable},
		{"no memory", "OOM command not allowed when used memory > 'maxmemory'.", client.ErrNoMemory, client.ErrUnavailable},
		{"not an integer", "ERR value is not an integer or out of range", client.ErrNotInteger, client.ErrUnavailable},
		{"overflow", "ERR increment or decrement would overflow", client.ErrNotInteger, nil},
		{"no permission", "NOPERM this user has no permissions", client.ErrAuth, nil},
		{"buffers full", "RCBUSY session buffers hold 70000000 bytes, limit 67108864; a command was dropped", client.ErrUnavailable, client.ErrTooLarge},
		{"not serving", "RCNOTSERVING slot 5", client.ErrUnavailable, nil},
		{"loading", "LOADING Redis is loading the dataset in memory", client.ErrUnavailable, nil},
		{"another", "WRONGTYPE Operation against a key holding the wrong kind of value", nil, client.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := startCluster(t, 1)
			all[0].errs["k"] = tt.reply
			c := open(t, all, func(o *client.Options) { o.Retry = client.NoRetry })
			calls := map[string]func() error{
				"GET":    func() error { _, err := c.Get(t.Context(), "k"); return err },
				"SET":    func() error { return c.Set(t.Context(), "k", []byte("v"), 0) },
				"DEL":    func() error { _, err := c.Del(t.Context(), "k"); return err },
				"INCRBY": func() error { _, err := c.Incr(t.Context(), "k", 1); return err },
				"LLEN":   func() error { _, err := c.Do(t.Context(), "llen", "k"); return err },
			}
			for op, call := range calls {
				err := call()
				var oe *client.OpError
				if !errors.As(err, &oe) || oe.Op != op || oe.Key != "k" || oe.Node != all[0].addr {
					t.Errorf("%s: %v does not say where", op, err)
				}
				if tt.want != nil && !errors.Is(err, tt.want) || tt.not != nil && errors.Is(err, tt.not) || errors.Is(err, client.ErrNotFound) {
					t.Errorf("%s: %v, want %v", op, err, tt.want)
				}
				if !strings.Contains(err.Error(), tt.reply) {
					t.Errorf("%s: %v does not carry the server's text", op, err)
				}
				var se client.ServerError
				if code, _, _ := strings.Cut(tt.reply, " "); code != "LOADING" && (!errors.As(err, &se) || se.Code() != code) {
					t.Errorf("%s: no ServerError %s in %v", op, code, err)
				}
			}
		})
	}
}

func TestMissIsNeverAFailure(t *testing.T) {
	all := startCluster(t, 1)
	c := open(t, all, func(o *client.Options) { o.Timeout = 20 * time.Millisecond })
	all[0].set(func() { all[0].silent = true })
	_, err := c.Get(t.Context(), "k")
	if errors.Is(err, client.ErrNotFound) || !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, client.ErrTimeout) {
		t.Errorf("a silent node: %v", err)
	}
	all[0].stop()
	if _, err = c.Get(t.Context(), "k"); errors.Is(err, client.ErrNotFound) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("a dead node: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Get(ctx, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnavailable) {
		t.Errorf("a cancelled context: %v", err)
	}
	c.Close()
	if _, err = c.Get(t.Context(), "k"); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	c.Close()
}

func TestMany(t *testing.T) {
	all := startCluster(t, 3)
	c := open(t, all, nil)
	ctx := t.Context()
	items := map[string][]byte{}
	var keys []string
	for i := range 3000 {
		k := fmt.Sprintf("key%d", i)
		if i%3 == 0 {
			k = fmt.Sprintf("{tag%d}%d", i%7, i) // many keys in few slots
		}
		keys = append(keys, k)
		items[k] = []byte(k + "!")
	}
	if err := c.SetMany(ctx, items, time.Minute); err != nil {
		t.Fatal(err)
	}
	got, err := c.GetMany(ctx, append(keys, "absent", "{tag1}absent", keys[0]))
	if err != nil || len(got) != len(items) {
		t.Fatalf("%d values, %v", len(got), err)
	}
	for k, v := range items {
		if !bytes.Equal(got[k], v) {
			t.Fatalf("%s = %q", k, got[k])
		}
	}
	mgets := 0
	for _, s := range all {
		for _, line := range s.commands() {
			if strings.HasPrefix(line, "MGET ") {
				mgets++
				if n := len(strings.Fields(line)) - 1; n > 256 {
					t.Errorf("one MGET of %d keys", n)
				}
			}
		}
	}
	if mgets == 0 {
		t.Error("keys of one slot were not read by one MGET")
	}
	if n, err := c.Del(ctx, append(keys, "absent", keys[1])...); n != len(items) || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if got, err := c.GetMany(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("no keys: %v, %v", got, err)
	}
}

// TestGetManyPartial: the values that came are returned, and the error tells
// which keys have none for lack of an answer.
func TestGetManyPartial(t *testing.T) {
	all := startCluster(t, 3)
	c := open(t, all, func(o *client.Options) { o.Timeout = 2 * time.Second })
	good, bad := keysOn(all, all[0], 5), keysOn(all, all[1], 4)
	for _, k := range good {
		if err := c.Set(t.Context(), k, []byte("v"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.GetMany(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	all[1].set(func() { all[1].silent = true })
	got, err := c.GetMany(t.Context(), append(append([]string{"absent" + good[0]}, good...), bad...))
	var be *client.BatchError
	if !errors.As(err, &be) || be.Total != 10 || !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrNotFound) {
		t.Fatalf("error %v", err)
	}
	for _, k := range bad {
		if be.Failed[k] == nil {
			t.Errorf("%s is not among the failed", k)
		}
	}
	for _, k := range good {
		if string(got[k]) != "v" || be.Failed[k] != nil {
			t.Errorf("%s = %q, %v", k, got[k], be.Failed[k])
		}
	}
	err = c.SetMany(t.Context(), map[string][]byte{good[0]: nil, bad[0]: nil}, 0)
	if !errors.As(err, &be) || len(be.Failed) != 1 || be.Failed[bad[0]] == nil {
		t.Errorf("SetMany: %v", err)
	}
	n, err := c.Del(t.Context(), good[0], good[1], bad[0])
	if !errors.As(err, &be) || n != 2 || len(be.Failed) != 1 {
		t.Errorf("Del: %d, %v", n, err)
	}
}

func TestArgumentFaults(t *testing.T) {
	all := startCluster(t, 1)
	c := open(t, all, nil)
	ctx := t.Context()
	calls := map[string]func() error{
		"negative ttl":         func() error { return c.Set(ctx, "k", nil, -1) },
		"negative ttl of many": func() error { return c.SetMany(ctx, map[string][]byte{"k": nil}, -1) },
		"touch without ttl":    func() error { _, err := c.Touch(ctx, "k", 0); return err },
		"ttl and keep":         func() error { _, err := c.SetWith(ctx, "k", nil, client.SetOptions{TTL: 1, KeepTTL: true}); return err },
		"absent and present": func() error {
			_, err := c.SetWith(ctx, "k", nil, client.SetOptions{IfAbsent: true, IfPresent: true})
			return err
		},
		"no command":            func() error { _, err := c.Do(ctx); return err },
		"a struct":              func() error { _, err := c.Do(ctx, "SET", "k", struct{}{}); return err },
		"a connection's state":  func() error { _, err := c.Do(ctx, "MULTI"); return err },
		"an ambiguous duration": func() error { _, err := c.Do(ctx, "PEXPIRE", "k", time.Second); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, client.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if seen := all[0].commands(); len(seen) != 0 {
		t.Errorf("sent all the same: %q", seen)
	}
}

func TestOpenFaults(t *testing.T) {
	_, err := client.Open(t.Context(), client.Options{Seeds: []string{"here"}, Timeout: -1, Retry: 9, Name: "a b", MaxInFlight: -1})
	if !errors.Is(err, client.ErrConfig) {
		t.Fatal(err)
	}
	for _, part := range []string{`"here"`, "timeout", "retry policy 9", "client name", "in-flight"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s:\n%v", part, err)
		}
	}
	nobody := "127.0.0.1:1" // no system gives this port to a program that asks for any
	if _, err := client.Open(t.Context(), client.Options{Seeds: []string{nobody}}); !errors.Is(err, client.ErrNoSeed) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestOpErrorText(t *testing.T) {
	err := &client.OpError{Op: "GET", Key: strings.Repeat("k", 100), Node: "n:1", Err: client.ErrUnavailable}
	want := `GET "` + strings.Repeat("k", 64) + `..." at n:1: unavailable`
	if err.Error() != want {
		t.Errorf("%s", err)
	}
	be := &client.BatchError{Op: "GET", Total: 3, Failed: map[string]error{"b": client.ErrShed, "a": client.ErrTimeout}}
	if got := be.Error(); got != "GET: 2 of 3 keys failed; the first: deadline exceeded" {
		t.Errorf("%s", got)
	}
}

// TestGetAllocations: a hit costs its value, a miss nothing.
func TestGetAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for _, tt := range []struct {
		name, reply string
		budget      float64
	}{{"hit", "$5\r\nhello\r\n", 1}, {"miss", "$-1\r\n", 0}} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := client.Open(t.Context(), client.Options{Seeds: []string{constServer(t, tt.reply)}, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx := context.Background()
			got := testing.AllocsPerRun(300, func() {
				if _, err := c.Get(ctx, "some:key"); err != nil && err != client.ErrNotFound {
					t.Fatal(err)
				}
			})
			if got > tt.budget {
				t.Errorf("Get allocates %v times, budget %v", got, tt.budget)
			}
		})
	}
}

// constServer answers every read with the same bytes and allocates nothing,
// after it presented itself as a single server.
func constServer(t testing.TB, answer string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends when the client closes its connection
		defer close(done)
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		buf := make([]byte, 4096)
		hello, cluster, reply := []byte("%0\r\n"), bytes.Repeat([]byte("-ERR This instance has cluster support disabled\r\n"), 3), []byte(answer) // READONLY, CLUSTER, READWRITE
		for {
			n, err := nc.Read(buf)
			if err != nil {
				return
			}
			out := reply
			switch {
			case bytes.Contains(buf[:n], []byte("HELLO")):
				out = hello
			case bytes.Contains(buf[:n], []byte("CLUSTER")):
				out = cluster
			}
			if _, err := nc.Write(out); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String()
}

func TestDoNodeAsksThatNodeAndFollowsNothing(t *testing.T) {
	all := startCluster(t, 2)
	c := open(t, all, nil)
	key := keysOn(all, all[0], 1)[0]
	if err := c.Set(t.Context(), key, []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	v, err := c.DoNode(t.Context(), all[0].addr, "GET", key)
	if err != nil || v.Text() != "v" {
		t.Errorf("its owner: %v, %v", v, err)
	}
	var se client.ServerError
	if _, err := c.DoNode(t.Context(), all[1].addr, "GET", key); !errors.As(err, &se) || se.Code() != "MOVED" {
		t.Errorf("another node: %v, want its MOVED", err)
	}
	if _, err := c.DoNode(t.Context(), all[0].addr, "SUBSCRIBE", "x"); !errors.Is(err, client.ErrConfig) {
		t.Errorf("SUBSCRIBE on a shared link: %v, want ErrConfig", err)
	}
	if _, err := c.DoNode(t.Context(), all[0].addr); !errors.Is(err, client.ErrConfig) {
		t.Errorf("no command: %v, want ErrConfig", err)
	}
}
