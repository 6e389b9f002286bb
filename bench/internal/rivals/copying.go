package rivals

import (
	"context"
	"time"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/allegro/bigcache/v3"
	"github.com/coocood/freecache"

	"github.com/ringcache/ringcache/local"
)

type ours struct{ c *local.Bytes }

func newOurs(l Limit, policy string) (Cache, error) {
	c, err := local.New(local.Options{MaxMemory: l.Memory, Policy: policy, Seed: l.Seed, MaxValue: l.MaxValue})
	if err != nil {
		return nil, err
	}
	return ours{c}, nil
}

func (o ours) Get(dst []byte, key string) ([]byte, bool) { return o.c.Get(dst, bytesOf(key)) }
func (o ours) Set(key string, value []byte)              { _ = o.c.Set(bytesOf(key), value, 0) }
func (o ours) Len() int                                  { return o.c.Len() }
func (o ours) Sync()                                     {}
func (o ours) Close()                                    { o.c.Close() }

type free struct{ c *freecache.Cache }

func newFreecache(l Limit) (Cache, error) { return free{freecache.NewCache(int(l.Memory))}, nil }

func (f free) Get(dst []byte, key string) ([]byte, bool) {
	// GetFn lends the value out of the ring buffer: it is the way without an
	// allocation.
	err := f.c.GetFn(bytesOf(key), func(v []byte) error {
		dst = append(dst, v...)
		return nil
	})
	return dst, err == nil
}
func (f free) Set(key string, value []byte) { _ = f.c.Set(bytesOf(key), value, 0) }
func (f free) Len() int                     { return int(f.c.EntryCount()) }
func (f free) Sync()                        {}
func (f free) Close()                       { f.c.Clear() }

type big struct {
	c    *bigcache.BigCache
	stop context.CancelFunc
}

func newBigcache(l Limit) (Cache, error) {
	cfg := bigcache.DefaultConfig(24 * time.Hour)
	cfg.Verbose, cfg.CleanWindow = false, 0
	cfg.HardMaxCacheSize = int(max(1, l.Memory>>20))
	if l.Shards > 0 {
		cfg.Shards = l.Shards
	}
	cfg.MaxEntriesInWindow = max(l.Items, cfg.Shards)
	cfg.MaxEntrySize = int(min(l.Memory/int64(max(l.Items, 1)), 64<<10))
	ctx, stop := context.WithCancel(context.Background())
	c, err := bigcache.New(ctx, cfg)
	if err != nil {
		stop()
		return nil, err
	}
	return big{c, stop}, nil
}

func (b big) Get(_ []byte, key string) ([]byte, bool) {
	v, err := b.c.Get(key) // always allocates
	return v, err == nil
}
func (b big) Set(key string, value []byte) { _ = b.c.Set(key, value) }
func (b big) Len() int                     { return b.c.Len() }
func (b big) Sync()                        {}
func (b big) Close() {
	b.c.Close()
	b.stop()
}

type fast struct{ c *fastcache.Cache }

func newFastcache(l Limit) (Cache, error) { return fast{fastcache.New(int(l.Memory))}, nil }

func (f fast) Get(dst []byte, key string) ([]byte, bool) { return f.c.HasGet(dst, bytesOf(key)) }
func (f fast) Set(key string, value []byte)              { f.c.Set(bytesOf(key), value) }
func (f fast) Len() int {
	var s fastcache.Stats
	f.c.UpdateStats(&s)
	return int(s.EntriesCount)
}
func (f fast) Sync()  {}
func (f fast) Close() { f.c.Reset() }
