package interop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// TestRedsync takes, extends and releases distributed locks.
func TestRedsync(t *testing.T) {
	f := startFleet(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rs := redsync.New(redsyncredis.NewPool(goRedis(t, f)))
	for _, name := range []string{"lock:a", "lock:b", "lock:c", "lock:d"} {
		first := rs.NewMutex(name, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
		second := rs.NewMutex(name, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
		if err := first.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		if err := second.LockContext(ctx); err == nil {
			t.Fatal("two hold the lock")
		}
		if ok, err := first.ExtendContext(ctx); !ok || err != nil {
			t.Fatalf("extend: %v %v", ok, err)
		}
		if ok, err := second.UnlockContext(ctx); ok || err == nil {
			t.Fatal("a lock was released by whoever does not hold it")
		}
		if ok, err := first.UnlockContext(ctx); !ok || err != nil {
			t.Fatalf("unlock: %v %v", ok, err)
		}
		if ok, _ := first.UnlockContext(ctx); ok {
			t.Fatal("released twice")
		}
		if err := second.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRedlock is the algorithm over independent nodes.
func TestRedlock(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f := startFleet(t, 1)
	g := startFleet(t, 1)
	h := startFleet(t, 1)
	rs := redsync.New(redsyncredis.NewPool(goRedis(t, f)), redsyncredis.NewPool(goRedis(t, g)), redsyncredis.NewPool(goRedis(t, h)))
	m := rs.NewMutex("lock", redsync.WithExpiry(time.Minute), redsync.WithTries(1))
	if err := m.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	if err := rs.NewMutex("lock", redsync.WithTries(1)).LockContext(ctx); err == nil {
		t.Fatal("two hold the lock")
	}
	if ok, err := m.UnlockContext(ctx); !ok || err != nil {
		t.Fatalf("unlock: %v %v", ok, err)
	}
}

// TestRedisRate spends a budget and is refused beyond it.
func TestRedisRate(t *testing.T) {
	f := startFleet(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	limiter := redis_rate.NewLimiter(goRedis(t, f))
	limit := redis_rate.PerHour(10) // so slow that nothing comes back meanwhile
	for _, key := range []string{"user:1", "user:2", "user:3", "user:4"} {
		for i := range 12 {
			res, err := limiter.Allow(ctx, key, limit)
			if err != nil {
				t.Fatal(err)
			}
			if want := i < 10; (res.Allowed == 1) != want {
				t.Fatalf("%s, request %d: allowed %d, remaining %d", key, i, res.Allowed, res.Remaining)
			}
			if want := max(9-i, 0); res.Remaining != want {
				t.Fatalf("%s, request %d: remaining %d, want %d", key, i, res.Remaining, want)
			}
			if i >= 10 && (res.RetryAfter <= 0 || res.RetryAfter > time.Hour) {
				t.Fatalf("%s: retry after %v", key, res.RetryAfter)
			}
		}
		if res, err := limiter.AllowAtMost(ctx, key+"x", limit, 25); err != nil || res.Allowed != 10 {
			t.Fatalf("at most: %+v %v", res, err)
		}
		if err := limiter.Reset(ctx, key); err != nil {
			t.Fatal(err)
		}
		if res, err := limiter.Allow(ctx, key, limit); err != nil || res.Allowed != 1 {
			t.Fatalf("after a reset: %+v %v", res, err)
		}
	}
}

// TestOptimisticLocking increments a counter by WATCH, MULTI and EXEC from many
// goroutines; none may be lost.
func TestOptimisticLocking(t *testing.T) {
	f := startFleet(t, 3)
	c := goRedis(t, f)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const workers, rounds = 4, 25
	errs := make(chan error, workers)
	for range workers {
		go func() { // ends after its rounds; all are waited for below
			for range rounds {
				for {
					err := c.Watch(ctx, func(tx *redis.Tx) error {
						n, err := tx.Get(ctx, "{n}counter").Int()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, "{n}counter", n+1, 0)
							p.Incr(ctx, "{n}writes")
							return nil
						})
						return err
					}, "{n}counter")
					if err == nil {
						break
					}
					if !errors.Is(err, redis.TxFailedErr) {
						errs <- err
						return
					}
				}
			}
			errs <- nil
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"{n}counter", "{n}writes"} {
		if n, err := c.Get(ctx, key).Int(); err != nil || n != workers*rounds {
			t.Errorf("%s is %d (%v), want %d", key, n, err, workers*rounds)
		}
	}
}
