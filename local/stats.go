package local

// Stats are the figures of a cache.
type Stats struct {
	Len       int   // entries, expired ones that were not met yet included
	Bytes     int64 // charged against MaxMemory: keys, values and overhead
	MaxMemory int64 // the limit of Bytes

	Hits    int64 // reads that found their key
	Misses  int64 // reads that did not
	Sets    int64 // successful writes
	Expired int64 // entries that left because their deadline had passed
	Evicted int64 // entries that left to make room
	Deleted int64 // entries that left by Delete, or by a write with a negative TTL
	Cleared int64 // entries that left by Clear

	PolicyFaults int64 // panics of Options.Eviction
}

// HitRatio returns Hits / (Hits + Misses), and 0 before the first read.
func (s Stats) HitRatio() float64 {
	if s.Hits+s.Misses == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// Stats returns the figures of the cache. It looks at every shard, so it is not
// meant for hot paths.
func (c *Bytes) Stats() Stats {
	s := c.e.Stats()
	return Stats{
		Len: int(s.Keys), Bytes: s.Bytes, MaxMemory: s.MaxBytes,
		Hits: s.Hits, Misses: s.Misses, Sets: s.Sets,
		Expired: s.Expired, Evicted: s.Evicted, Deleted: s.Deleted, Cleared: s.Invalidated,
		PolicyFaults: s.PolicyFaults,
	}
}

// ClassStats returns the figures of the classes of Options.Classes, that of the
// keys of no other class first, or of all MaxClasses classes of
// Options.Eviction; nil where there are none.
func (c *Bytes) ClassStats() []ClassStats { return c.e.Stats().Classes }
