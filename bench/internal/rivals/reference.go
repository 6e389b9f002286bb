package rivals

import (
	"github.com/Yiling-J/theine-go"
	"github.com/dgraph-io/ristretto/v2"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/maypok86/otter/v2"
)

type ott struct {
	c *otter.Cache[string, []byte]
}

func newOtter(l Limit) (Cache, error) {
	o := &otter.Options[string, []byte]{MaximumSize: l.Items}
	if l.Weight > 0 {
		o.MaximumSize, o.MaximumWeight = 0, uint64(l.Weight)
		o.Weigher = func(_ string, v []byte) uint32 { return uint32(len(v)) }
	}
	c, err := otter.New(o)
	if err != nil {
		return nil, err
	}
	return ott{c}, nil
}

func (o ott) Get(_ []byte, key string) ([]byte, bool) { return o.c.GetIfPresent(key) }
func (o ott) Set(key string, value []byte)            { o.c.Set(key, value) }
func (o ott) Len() int                                { return o.c.EstimatedSize() }
func (o ott) Sync()                                   { o.c.CleanUp() }
func (o ott) Close() {
	o.c.InvalidateAll()
	o.c.StopAllGoroutines()
}

type rist struct {
	c      *ristretto.Cache[string, []byte]
	weight bool
}

func newRistretto(l Limit) (Cache, error) {
	cost := int64(l.Items)
	if l.Weight > 0 {
		cost = l.Weight
	}
	c, err := ristretto.NewCache(&ristretto.Config[string, []byte]{
		NumCounters: 10 * int64(max(l.Items, 100)), MaxCost: cost, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, err
	}
	return rist{c, l.Weight > 0}, nil
}

func (r rist) Get(_ []byte, key string) ([]byte, bool) { return r.c.Get(key) }
func (r rist) Set(key string, value []byte) {
	cost := int64(1)
	if r.weight {
		cost = int64(len(value))
	}
	r.c.Set(key, value, cost)
}
func (r rist) Len() int {
	n := 0
	r.c.IterValues(func([]byte) bool {
		n++
		return false
	})
	return n
}
func (r rist) Sync()  { r.c.Wait() }
func (r rist) Close() { r.c.Close() }

type thei struct {
	c      *theine.Cache[string, []byte]
	weight bool
}

func newTheine(l Limit) (Cache, error) {
	size := int64(l.Items)
	if l.Weight > 0 {
		size = l.Weight
	}
	c, err := theine.NewBuilder[string, []byte](size).Build()
	if err != nil {
		return nil, err
	}
	return thei{c, l.Weight > 0}, nil
}

func (t thei) Get(_ []byte, key string) ([]byte, bool) { return t.c.Get(key) }
func (t thei) Set(key string, value []byte) {
	cost := int64(1)
	if t.weight {
		cost = int64(len(value))
	}
	t.c.Set(key, value, cost)
}
func (t thei) Len() int { return t.c.Len() }
func (t thei) Sync()    { t.c.Wait() }
func (t thei) Close()   { t.c.Close() }

type hashi struct {
	c *lru.Cache[string, []byte]
}

func newLRU(l Limit) (Cache, error) {
	c, err := lru.New[string, []byte](l.Items)
	if err != nil {
		return nil, err
	}
	return hashi{c}, nil
}

func (h hashi) Get(_ []byte, key string) ([]byte, bool) { return h.c.Get(key) }
func (h hashi) Set(key string, value []byte)            { h.c.Add(key, value) }
func (h hashi) Len() int                                { return h.c.Len() }
func (h hashi) Sync()                                   {}
func (h hashi) Close()                                  { h.c.Purge() }

type twoQ struct {
	c *lru.TwoQueueCache[string, []byte]
}

func new2Q(l Limit) (Cache, error) {
	c, err := lru.New2Q[string, []byte](l.Items)
	if err != nil {
		return nil, err
	}
	return twoQ{c}, nil
}

func (h twoQ) Get(_ []byte, key string) ([]byte, bool) { return h.c.Get(key) }
func (h twoQ) Set(key string, value []byte)            { h.c.Add(key, value) }
func (h twoQ) Len() int                                { return h.c.Len() }
func (h twoQ) Sync()                                   {}
func (h twoQ) Close()                                  { h.c.Purge() }
