package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

func goRedis(t *testing.T, f *fleet) *redis.ClusterClient {
	t.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: f.addrs()})
	t.Cleanup(func() { c.Close() })
	return c
}

func rueidisClient(t *testing.T, f *fleet) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: f.addrs(), DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// store is what the tests need of a client.
type store struct {
	name string
	set  func(ctx context.Context, key, value string) error
	get  func(ctx context.Context, key string) (value string, found bool, err error)
}

func stores(t *testing.T, f *fleet) []store {
	g, r := goRedis(t, f), rueidisClient(t, f)
	return []store{
		{"go-redis",
			func(ctx context.Context, k, v string) error { return g.Set(ctx, k, v, 0).Err() },
			func(ctx context.Context, k string) (string, bool, error) {
				v, err := g.Get(ctx, k).Result()
				if errors.Is(err, redis.Nil) {
					return "", false, nil
				}
				return v, err == nil, err
			}},
		{"rueidis",
			func(ctx context.Context, k, v string) error {
				return r.Do(ctx, r.B().Set().Key(k).Value(v).Build()).Error()
			},
			func(ctx context.Context, k string) (string, bool, error) {
				v, err := r.Do(ctx, r.B().Get().Key(k).Build()).ToString()
				if rueidis.IsRedisNil(err) {
					return "", false, nil
				}
				return v, err == nil, err
			}},
	}
}

func TestEverySlotIsReachable(t *testing.T) {
	f := startFleet(t, 3)
	keys := keyPerSlot()
	for _, s := range stores(t, f) {
		t.Run(s.name, func(t *testing.T) {
			each(t, keys, func(k string) error {
				want := s.name + k
				if err := s.set(t.Context(), k, want); err != nil {
					return err
				}
				got, found, err := s.get(t.Context(), k)
				if err != nil || !found || got != want {
					return fmt.Errorf("got %q, %v, %v; want %q", got, found, err, want)
				}
				return nil
			})
		})
	}
	t.Run("redis-cli", func(t *testing.T) { redisCLIEverySlot(t, f, keys) })
}

// each runs fn for all keys on a few goroutines and reports the first errors.
func each(t *testing.T, keys []string, fn func(key string) error) {
	t.Helper()
	work := make(chan string)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for k := range work {
				if err := fn(k); err != nil {
					t.Errorf("key %s (slot %d): %v", k, slotOf(k), err)
				}
			}
		})
	}
	for _, k := range keys {
		if t.Failed() {
			break
		}
		work <- k
	}
	close(work)
	wg.Wait()
}

func redisCLI(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "redis-cli", args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

func redisCLIEverySlot(t *testing.T, f *fleet, keys []string) {
	var in strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&in, "set %s cli-%s\nget %s\n", k, k, k)
	}
	out := redisCLI(t, in.String(), "-c", "-p", port(f.procs[1].addr))
	got := 0
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "cli-") {
			got++
		}
	}
	if got != len(keys) {
		t.Fatalf("%d of %d slots gave their value back; end of output: %s", got, len(keys), out[max(0, len(out)-500):])
	}
}

func TestPipelinesAndMultiKeyCommandsInsideAHashTag(t *testing.T) {
	f := startFleet(t, 3)
	ctx := t.Context()
	g, r := goRedis(t, f), rueidisClient(t, f)

	pipe := g.Pipeline()
	for i := range 2000 {
		pipe.Set(ctx, "p"+strconv.Itoa(i), i, time.Minute)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	cmds := make(rueidis.Commands, 0, 2000)
	for i := range 2000 {
		cmds = append(cmds, r.B().Get().Key("p"+strconv.Itoa(i)).Build())
	}
	for i, res := range r.DoMulti(ctx, cmds...) {
		if v, err := res.AsInt64(); err != nil || v != int64(i) {
			t.Fatalf("p%d: got %d, %v", i, v, err)
		}
	}

	if err := g.MSet(ctx, "{tag}a", "1", "{tag}b", "2").Err(); err != nil {
		t.Fatal(err)
	}
	got, err := g.MGet(ctx, "{tag}a", "{tag}none", "{tag}b").Result()
	if err != nil || fmt.Sprint(got) != "[1 <nil> 2]" {
		t.Fatalf("MGET: %v, %v", got, err)
	}
	if n, err := g.Del(ctx, "{tag}a", "{tag}b").Result(); err != nil || n != 2 {
		t.Fatalf("DEL: %d, %v", n, err)
	}
	one := redis.NewClient(&redis.Options{Addr: f.procs[0].addr})
	defer one.Close()
	if err := one.MGet(ctx, "a", "b").Err(); err == nil || !strings.HasPrefix(err.Error(), "CROSSSLOT") {
		t.Fatalf("MGET over two slots: %v, want CROSSSLOT", err)
	}

	m, err := rueidis.MGet(r, ctx, []string{"p1", "p2", "p1999", "nope"})
	if err != nil || len(m) != 4 {
		t.Fatalf("rueidis MGet over slots: %v, %v", m, err)
	}
	n, err := r.Do(ctx, r.B().Incrby().Key("counter").Increment(7).Build()).AsInt64()
	if err != nil || n != 7 {
		t.Fatalf("INCRBY: %d, %v", n, err)
	}
}

func TestScanOfAllNodesReturnsEveryKey(t *testing.T) {
	f := startFleet(t, 3)
	ctx := t.Context()
	g := goRedis(t, f)
	const n = 20_000
	pipe := g.Pipeline()
	for i := range n {
		pipe.Set(ctx, "scan:"+strconv.Itoa(i), "x", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	err := g.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		it := c.Scan(ctx, 0, "scan:*", 500).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			seen[it.Val()] = true
			mu.Unlock()
		}
		return it.Err()
	})
	if err != nil || len(seen) != n {
		t.Fatalf("SCAN gave %d of %d keys, %v", len(seen), n, err)
	}
	var size int64
	for _, p := range f.procs {
		lines := strings.Fields(redisCLI(t, "", "-p", port(p.addr), "--scan", "--pattern", "scan:*"))
		sort.Strings(lines)
		size += int64(len(lines))
	}
	if size != n {
		t.Fatalf("redis-cli --scan gave %d keys over all nodes, want %d", size, n)
	}
}

func TestRedisBenchmarkRunsWithoutErrors(t *testing.T) {
	f := startFleet(t, 3)
	out, err := exec.CommandContext(t.Context(), "redis-benchmark", "--cluster", "-p", port(f.procs[0].addr),
		"-t", "set,get,incr,mset", "-n", "100000", "-r", "100000", "-q").CombinedOutput()
	text := strings.ReplaceAll(string(out), "\r", "\n")
	if err != nil || strings.Contains(strings.ToLower(text), "error") || !strings.Contains(text, "GET:") {
		t.Fatalf("redis-benchmark --cluster: %v\n%s", err, text[max(0, len(text)-2000):])
	}
}

func TestValueSetOnOneNodeIsReadThroughEveryNode(t *testing.T) {
	f := startFleet(t, 3)
	if out := redisCLI(t, "", "-c", "-p", port(f.procs[0].addr), "set", "user:{42}:name", "x"); strings.TrimSpace(out) != "OK" {
		t.Fatalf("set: %q", out)
	}
	for _, p := range f.procs {
		if out := redisCLI(t, "", "-c", "-p", port(p.addr), "get", "user:{42}:name"); strings.TrimSpace(out) != "x" {
			t.Errorf("get by %s: %q", p.addr, out)
		}
	}
	if out := redisCLI(t, "", "--cluster", "check", f.procs[0].addr); !strings.Contains(out, "All 16384 slots covered") {
		t.Errorf("redis-cli --cluster check:\n%s", out)
	}
}
