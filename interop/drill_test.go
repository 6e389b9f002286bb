package interop

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/ringcache/ringcache/internal/drill"
)

// A longer drill, for instance INTEROP_DRILL=join,leave,kill,pause INTEROP_DRILL_TIME=1m,
// with INTEROP_DRILL_KEYS keys (100000) and INTEROP_DRILL_FAULTS faults (as the scenario
// has); INTEROP_DRILL_HTML names a file for the report.
const (
	drillEnv       = "INTEROP_DRILL"
	drillTimeEnv   = "INTEROP_DRILL_TIME"
	drillKeysEnv   = "INTEROP_DRILL_KEYS"
	drillFaultsEnv = "INTEROP_DRILL_FAULTS"
	drillHTMLEnv   = "INTEROP_DRILL_HTML"
	drillTimeout   = time.Second // of one call of a stock client
)

// The drill of `ringcache drill`, with its checker, through stock clients.
func TestDrillWithStockClients(t *testing.T) {
	scenarios := []string{"mixed"}
	o := drill.Options{Binary: binary, Timeout: drillTimeout, Keys: 5000, Rate: 500, BinRequests: 1000, Faults: 4,
		Before: 2 * time.Second, Duration: 6 * time.Second, MaxMemory: "32mb", Args: []string{"--loops", "1"}, Seed: 11}
	if text := os.Getenv(drillEnv); text != "" {
		scenarios = strings.Split(text, ",")
		o = drill.Options{Binary: binary, Timeout: drillTimeout, Rate: 2000, Workers: 200, Args: o.Args}
	}
	if text := os.Getenv(drillTimeEnv); text != "" {
		var err error
		if o.Duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for env, to := range map[string]*int{drillKeysEnv: &o.Keys, drillFaultsEnv: &o.Faults} {
		if text := os.Getenv(env); text != "" {
			var err error
			if *to, err = strconv.Atoi(text); err != nil {
				t.Fatalf("%s: %v", env, err)
			}
		}
	}
	var reports []*drill.Report
	for _, scenario := range scenarios {
		for name, open := range map[string]func(context.Context, []string) (drill.Driver, error){"go-redis": openGoRedis, "rueidis": openRueidis} {
			t.Run(scenario+"/"+name, func(t *testing.T) {
				o := o
				o.Scenario, o.Client, o.Open = scenario, name, open
				r, err := drill.Run(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				r.Judge(drill.Limits{})
				reports = append(reports, r)
				s := r.Summary
				t.Logf("%d faults: hit ratio %.4f before, worst bin %+.2f points, origin peak %.2f, p99 %.2f times the control's; %d errors (control %d); first success of %d slots p99 %.0f ms, %d without; %d reads checked, %d old after a crash",
					r.Faults, s.HitBefore, -s.WorstDrop, s.OriginPeak, s.P99Ratio, s.Errors, s.ControlErrs, s.Slots, s.SlotP99, s.NoAnswer, s.Check.Reads, s.Check.Excused)
				for _, missed := range r.Missed {
					t.Errorf("%s: %s", missed, strings.Join(s.Check.Examples, "\n"))
				}
				if s.Check.Values < 500 || s.HitBefore < 0.9 {
					t.Errorf("%d values checked, hit ratio %.2f before: the drill shows nothing", s.Check.Values, s.HitBefore)
				}
			})
		}
	}
	if path := os.Getenv(drillHTMLEnv); path != "" {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(drill.WriteHTML(f, reports), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// goRedisDriver is go-redis. Its sockets wait longer than a call, so that a write
// that ran into its deadline is not sent again: the first one could land last.
type goRedisDriver struct{ c *redis.ClusterClient }

func openGoRedis(ctx context.Context, seeds []string) (drill.Driver, error) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: seeds, ContextTimeoutEnabled: true,
		ReadTimeout: 3 * drillTimeout, WriteTimeout: 3 * drillTimeout, PoolSize: 64})
	return &goRedisDriver{c}, c.Ping(ctx).Err()
}

func (d *goRedisDriver) Get(ctx context.Context, key string) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	v, err := d.c.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return v, err == nil, err
}

func (d *goRedisDriver) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	return d.c.Set(ctx, key, value, ttl.Round(time.Millisecond)).Err()
}

func (d *goRedisDriver) Del(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	return d.c.Del(ctx, key).Err()
}

func (d *goRedisDriver) Incr(ctx context.Context, key string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	return d.c.Incr(ctx, key).Result()
}

func (d *goRedisDriver) Stats() drill.DriverStats { return drill.DriverStats{} }
func (d *goRedisDriver) Close() error             { return d.c.Close() }

// rueidisDriver is rueidis, which repeats reads only.
type rueidisDriver struct{ c rueidis.Client }

func openRueidis(_ context.Context, seeds []string) (drill.Driver, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: seeds, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return &rueidisDriver{c}, nil
}

func (d *rueidisDriver) Get(ctx context.Context, key string) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	v, err := d.c.Do(ctx, d.c.B().Get().Key(key).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, false, nil
	}
	return v, err == nil, err
}

func (d *rueidisDriver) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	set := d.c.B().Set().Key(key).Value(rueidis.BinaryString(value))
	if ttl == 0 {
		return d.c.Do(ctx, set.Build()).Error()
	}
	return d.c.Do(ctx, set.Px(ttl.Round(time.Millisecond)).Build()).Error()
}

func (d *rueidisDriver) Del(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	return d.c.Do(ctx, d.c.B().Del().Key(key).Build()).Error()
}

func (d *rueidisDriver) Incr(ctx context.Context, key string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, drillTimeout)
	defer cancel()
	return d.c.Do(ctx, d.c.B().Incr().Key(key).Build()).AsInt64()
}

func (d *rueidisDriver) Stats() drill.DriverStats { return drill.DriverStats{} }

func (d *rueidisDriver) Close() error {
	d.c.Close()
	return nil
}
