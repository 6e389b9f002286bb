package ringcache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/resp"
)

// cachingClient keeps what it reads until it is told that it changed.
type cachingClient struct {
	t      *testing.T
	c      *rawConn
	before []string // sent before each read
	cache  map[string]string
	told   int

	broadcast bool
}

func newCachingClient(t *testing.T, addr, mode string) *cachingClient {
	c, err := dialRaw(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for _, args := range [][]string{{"HELLO", "3"}, append([]string{"CLIENT", "TRACKING", "ON"}, strings.Fields(mode)...)} {
		if reply, err := c.do(args); err != nil || strings.HasPrefix(reply, "-") {
			t.Fatal(args, reply, err)
		}
	}
	k := &cachingClient{t: t, c: c, cache: map[string]string{}}
	k.broadcast = strings.HasPrefix(mode, "BCAST")
	if mode == "OPTIN" {
		k.before = []string{"CLIENT", "CACHING", "YES"}
	}
	return k
}

// reply returns the next reply and heeds the messages before it.
func (k *cachingClient) reply() (resp.Value, bool) {
	for {
		v, err := k.c.receive()
		if err != nil {
			k.t.Error(err)
			return v, false
		}
		if v.Kind != resp.Push {
			return v, true
		}
		k.told++
		if v.Elems[1].Kind == resp.Null {
			clear(k.cache)
			continue
		}
		for _, key := range v.Elems[1].Elems {
			delete(k.cache, key.Text())
		}
	}
}

// read fetches keys that are not in the cache, in one pipeline.
func (k *cachingClient) read(keys []string) bool {
	var cmds [][]string
	var wanted []string
	for _, key := range keys {
		if _, ok := k.cache[key]; ok {
			continue
		}
		if k.before != nil {
			cmds = append(cmds, k.before)
		}
		cmds = append(cmds, []string{"GET", key})
		wanted = append(wanted, key)
	}
	if err := k.c.send(cmds); err != nil {
		k.t.Error(err)
		return false
	}
	for _, key := range wanted {
		if k.before != nil {
			if v, ok := k.reply(); !ok || v.Kind == resp.Error {
				k.t.Error(show(v))
				return false
			}
		}
		v, ok := k.reply()
		if !ok {
			return false
		}
		if v.Kind != resp.Error { // MOVED
			k.cache[key] = show(v)
		}
	}
	return true
}

// sync reads what was on its way when it was called.
func (k *cachingClient) sync() bool {
	if err := k.c.send([][]string{{"PING"}}); err != nil {
		k.t.Error(err)
		return false
	}
	_, ok := k.reply()
	return ok
}

// What a client that tracks has in its cache once all changes are told is what the
// cluster has: whoever changes it, by whatever way it leaves, and wherever its slot
// goes meanwhile.
func TestCachesAreNeverStale(t *testing.T) {
	for _, tt := range []struct {
		name, io string
		memory   int64
		join     bool
	}{
		{"std", "std", 64 << 20, false},
		{"epoll", "epoll", 64 << 20, false},
		{"uring", "uring", 64 << 20, false},
		{"evictions", "epoll", 256 << 10, false},
		{"slots move", "epoll", 64 << 20, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: tt.memory, IO: tt.io, Loops: 2})
			if err != nil {
				t.Skip(err)
			}
			defer node.Close()
			staleness(t, node, tt.join)
			c, err := dialRaw(node.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			info, err := c.do([]string{"INFO", "stats"})
			if evicted := !strings.Contains(info, `evicted_keys:0\r\n`); err != nil || evicted != (tt.name == "evictions") {
				t.Errorf("evicted: %v, %v", evicted, err)
			}
		})
	}
}

func staleness(t *testing.T, node *ringcache.Node, join bool) {
	const keys, each, rounds, writes = 300, 3, 60, 1500
	key := func(i int) string { return "key:" + strconv.Itoa(i) }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var readers, writers sync.WaitGroup
	var stop atomic.Bool
	for w := range 3 {
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		c, err := dialRaw(node.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		large := strings.Repeat("x", 12000)
		writers.Go(func() {
			for n := 0; n < writes || !stop.Load(); n++ { // however the processors are shared
				k := key(rng.IntN(keys))
				err := error(nil)
				switch rng.IntN(8) {
				case 0:
					_, err = node.Delete(ctx, k)
				case 1:
					err = node.Set(ctx, k, []byte(fmt.Sprint(w, n)), 20*time.Millisecond)
				case 2, 3:
					err = node.Set(ctx, k, []byte(fmt.Sprint(w, n)), 0)
				case 4:
					err = node.Set(ctx, k, []byte(fmt.Sprint(large, w, n)), 0)
				case 5:
					_, err = c.do([]string{"MULTI"})
					for _, args := range [][]string{{"SET", k, "1"}, {"INCR", k}, {"EXEC"}} {
						if err == nil {
							_, err = c.do(args)
						}
					}
				case 6:
					if rng.IntN(40) == 0 {
						_, err = c.do([]string{"FLUSHALL"})
						break
					}
					fallthrough
				default:
					_, err = c.do([]string{"APPEND", k, "z"})
				}
				if err != nil && !errors.Is(err, ringcache.ErrUnavailable) {
					t.Error(err)
					return
				}
			}
		})
	}
	var clients []*cachingClient
	for i, mode := range []string{"", "NOLOOP", "OPTIN", "OPTOUT", "BCAST", "BCAST PREFIX key:1 PREFIX key:2"} {
		k := newCachingClient(t, node.Addr(), mode)
		only := ""
		if strings.HasPrefix(mode, "BCAST PREFIX") {
			only = "key:1"
		}
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		clients = append(clients, k)
		readers.Go(func() {
			for range rounds {
				var some []string
				for range each * 10 {
					if name := key(rng.IntN(keys)); strings.HasPrefix(name, only) {
						some = append(some, name)
					}
				}
				if !k.read(some) {
					return
				}
			}
		})
	}
	if join {
		other, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Seeds: []string{node.Addr()}, MaxMemory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
	}
	readers.Wait()
	stop.Store(true)
	writers.Wait()
	told, cached := 0, 0
	for _, k := range clients { // the last change may have been a flush
		if !k.read([]string{key(1), key(10), key(100), key(2), key(20), key(200)}) {
			return
		}
	}
	poll(t, "what expires has expired", func() bool {
		wrong := 0
		for _, k := range clients {
			if !k.sync() {
				return true
			}
		}
		cached = 0
		for i := range keys {
			want := "(nil)"
			switch v, err := node.Get(ctx, key(i)); {
			case err == nil:
				want = "bulk string " + strconv.Quote(string(v))
			case errors.Is(err, ringcache.ErrUnavailable):
				return false // its slot is on its way
			case !errors.Is(err, ringcache.ErrNotFound):
				t.Fatal(err)
			}
			for _, k := range clients {
				have, ok := k.cache[key(i)]
				if have == "(nil)" && k.broadcast && join {
					continue // a slot leaves with the keys that it has; nobody knows the others
				}
				if ok {
					cached++
				}
				if ok && have != want {
					wrong++
				}
			}
		}
		return wrong == 0
	})
	for _, k := range clients {
		told += k.told
	}
	if told == 0 || cached == 0 {
		t.Errorf("%d messages, %d keys in caches: nothing was tested", told, cached)
	}
	t.Logf("%d messages, %d keys in caches", told, cached)
}

// The table of tracked keys is bounded, and what it forgets is told.
func TestTrackingTableIsBounded(t *testing.T) {
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", TrackingKeys: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	k := newCachingClient(t, node.Addr(), "")
	for i := range 20 {
		var some []string
		for j := range 50 {
			some = append(some, fmt.Sprintf("key:%d:%d", i, j))
		}
		k.read(some)
	}
	k.sync()
	if len(k.cache) != 100 || k.told != 900 {
		t.Errorf("%d keys are cached, %d were taken back", len(k.cache), k.told)
	}
	admin, err := dialRaw(node.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	expectInfo := func(want ...string) {
		t.Helper()
		info, err := admin.do([]string{"INFO"})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(info, w+`\r\n`) {
				t.Errorf("INFO lacks %s", w)
			}
		}
	}
	expectInfo("tracking_clients:1", "tracking_total_keys:100", "tracking_total_items:100", "tracking_total_prefixes:0")
	for _, args := range [][]string{{"CONFIG", "SET", "tracking-table-max-keys", "10"}, {"GET", "none"}} {
		if reply, err := admin.do(args); err != nil || strings.HasPrefix(reply, "-") {
			t.Fatal(reply, err)
		}
	}
	k.sync()
	if len(k.cache) != 10 {
		t.Errorf("%d keys are cached after the limit was lowered to 10", len(k.cache))
	}
	expectInfo("tracking_clients:1", "tracking_total_keys:10", "tracking_total_items:10")
	if reply, err := admin.do([]string{"CONFIG", "GET", "tracking-table-max-keys"}); err != nil || !strings.Contains(reply, `"10"`) {
		t.Error(reply, err)
	}
	other := newCachingClient(t, node.Addr(), "BCAST PREFIX a PREFIX b")
	expectInfo("tracking_clients:2", "tracking_total_prefixes:2")
	list, err := admin.do([]string{"CLIENT", "LIST"})
	if err != nil || !strings.Contains(list, "flags=t ") || !strings.Contains(list, "flags=tB ") || !strings.Contains(list, "redir=0 ") {
		t.Error(list, err)
	}
	k.c.Close()
	other.c.Close()
	poll(t, "they are gone", func() bool {
		info, err := admin.do([]string{"INFO"})
		return err == nil && strings.Contains(info, `tracking_clients:0\r\n`) && strings.Contains(info, `tracking_total_prefixes:0\r\n`)
	})
}
