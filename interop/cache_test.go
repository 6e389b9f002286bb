package interop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// versions are what HELLO tells: clients choose commands by it.
var versions = []string{"7.4.0", "8.0.0"}

// cachedReader reads with rueidis's own cache, which is on unless it is switched
// off, and says where the value came from.
type cachedReader struct {
	t *testing.T
	c rueidis.Client
}

func newCachedReader(t *testing.T, f *fleet) *cachedReader {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: f.addrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &cachedReader{t, c}
}

func (r *cachedReader) get(key string) (value string, found, cached bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	v := r.c.DoCache(ctx, r.c.B().Get().Key(key).Cache(), time.Minute)
	value, err := v.ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		r.t.Fatal(err)
	}
	return value, err == nil, v.IsCacheHit()
}

// kept reads until the value comes from the cache: what is on its way goes first.
func (r *cachedReader) kept(f *fleet, key, want string, there bool) {
	r.t.Helper()
	f.await(patience, "the cache to keep "+key, func() error {
		if v, found, cached := r.get(key); v != want || found != there || !cached {
			return errors.New("got " + v)
		}
		return nil
	})
}

func (r *cachedReader) set(key, value string) {
	r.t.Helper()
	if err := r.c.Do(r.t.Context(), r.c.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
		r.t.Fatal(err)
	}
}

// rueidis keeps what it reads with DoCache, by CLIENT TRACKING with OPTIN, and
// refuses to start where that is not served.
func TestClientSideCacheIsNeverStale(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := startFleet(t, 2, "--redis-version", version)
			r, g := newCachedReader(t, f), goRedis(t, f)
			ctx := t.Context()
			keys := keyPerSlot()
			key := keys[1]
			r.kept(f, key, "", false) // that a key is not there is kept as well
			r.set(key, "own")
			r.kept(f, key, "own", true)
			if err := g.Set(ctx, key, "foreign", 0).Err(); err != nil {
				t.Fatal(err)
			}
			r.kept(f, key, "foreign", true)
			if err := g.Del(ctx, key).Err(); err != nil {
				t.Fatal(err)
			}
			r.kept(f, key, "", false)
			if err := g.Set(ctx, key, "short", 300*time.Millisecond).Err(); err != nil {
				t.Fatal(err)
			}
			f.await(patience, "the key to expire in the cache", func() error {
				if _, found, cached := r.get(key); found || !cached {
					return errors.New("it is still there")
				}
				return nil
			})
			some := keys[:2000]
			for _, k := range some {
				r.set(k, "before")
				r.get(k)
			}
			r.kept(f, some[5], "before", true)
			f.add("--redis-version", version)
			f.settled(3, patience)
			// Slots that moved begin empty. Whatever is there now was not read from
			// the cache of before.
			for _, k := range some {
				if err := g.Set(ctx, k, "after", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for _, k := range some {
				if v, _, _ := r.get(k); v != "after" {
					r.kept(f, k, "after", true)
				}
			}
			for _, addr := range f.addrs() {
				redisCLI(t, "", "-p", port(addr), "FLUSHALL")
			}
			r.kept(f, some[7], "", false)
			r.kept(f, some[1999], "", false)
		})
	}
}
