// Package rivals owns one small interface over ring-cache's local package and
// the Go caches that it is compared with, each configured as its documentation
// advises. It measures nothing.
//
// Two kinds differ in what they keep. Copying caches (ring-cache, freecache,
// bigcache, fastcache) take bytes in and give bytes out, and are limited by
// memory. Reference caches (otter, ristretto, theine, golang-lru) keep a pointer
// to the caller's value, and are limited by a number of items or by a weight
// that the caller names; their values are what the garbage collector scans.
package rivals

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/ringcache/ringcache/local"
)

// Cache is what a benchmark needs of a cache. Values are not changed by anybody
// after Set.
type Cache interface {
	// Get returns the value of key. A copying cache appends it to dst, a
	// reference cache returns what was stored.
	Get(dst []byte, key string) (value []byte, ok bool)
	// Set stores value. What a cache refuses is a miss later.
	Set(key string, value []byte)
	// Len returns the number of entries, as exactly as the cache knows it.
	Len() int
	// Sync returns when earlier writes have taken effect: some caches buffer
	// them.
	Sync()
	Close()
}

// Limit bounds a cache.
type Limit struct {
	Memory int64 // of a copying cache, in the unit that it takes: bytes
	Items  int   // of a reference cache, and the size hint of any
	Weight int64 // of a reference cache instead: the sum of the values' lengths
	Shards int   // of caches whose number of shards can be chosen; 0 = their default
	Seed   uint64

	MaxValue int // largest value; 0 = the default
}

// Kind is one cache that can be made.
type Kind struct {
	Name   string
	Ours   bool
	Copies bool // takes bytes in and out, limited by Limit.Memory
	// Coarse says that Limit.Memory has steps so large that a wanted number
	// of items is met by the size of the values instead.
	Coarse   bool
	Weighted bool // a reference cache that takes Limit.Weight
	Least    int64
	New      func(Limit) (Cache, error)
}

// Default is the name of ring-cache with its default policy.
const Default = "ring-cache"

// All lists every cache; ring-cache comes once per policy.
func All() []Kind {
	var kinds []Kind
	for _, p := range local.Policies() {
		kinds = append(kinds, Kind{Name: Default + "/" + p, Ours: true, Copies: true, Least: 1 << 10,
			New: func(l Limit) (Cache, error) { return newOurs(l, p) }})
	}
	return append(kinds,
		Kind{Name: "freecache", Copies: true, Least: 512 << 10, New: newFreecache},
		Kind{Name: "bigcache", Copies: true, Coarse: true, Least: 1 << 20, New: newBigcache},
		Kind{Name: "fastcache", Copies: true, Coarse: true, Least: 32 << 20, New: newFastcache},
		Kind{Name: "otter", Weighted: true, New: newOtter},
		Kind{Name: "ristretto", Weighted: true, New: newRistretto},
		Kind{Name: "theine", Weighted: true, New: newTheine},
		Kind{Name: "golang-lru", New: newLRU},
		Kind{Name: "golang-lru/2q", New: new2Q},
	)
}

// Select returns the caches of a comma-separated list of names. "" means all;
// ring-cache without a policy means its default policy, and ring-cache/* all of
// its policies.
func Select(list string) ([]Kind, error) {
	all := All()
	if list == "" {
		return all, nil
	}
	var out []Kind
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		n := len(out)
		for _, k := range all {
			switch {
			case k.Name == name, name == Default && k.Name == Default+"/"+local.DefaultPolicy, name == Default+"/*" && k.Ours:
				out = append(out, k)
			}
		}
		if len(out) == n {
			names := []string{Default, Default + "/*"}
			for _, k := range all {
				names = append(names, k.Name)
			}
			return nil, fmt.Errorf("no cache %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	return slices.CompactFunc(out, func(a, b Kind) bool { return a.Name == b.Name }), nil
}

// bytesOf gives the bytes of a key without a copy. They must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
