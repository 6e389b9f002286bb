package local_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ringcache/ringcache/local"
)

// sessionsLast is an eviction policy: the sessions of logged-in users leave
// last, and those that were read since are kept.
type sessionsLast struct{}

func (sessionsLast) Class(w local.EvictionWrite) int {
	if bytes.HasPrefix(w.Key, []byte("session:")) {
		return 1
	}
	return 0
}

// Score puts all segments of guests before those of sessions, old ones first.
func (sessionsLast) Score(g local.EvictionSegment) int64 { return int64(g.Class)<<48 - int64(g.Age) }

func (sessionsLast) Judge(r local.EvictionRecord) local.Verdict {
	if r.Class == 1 && r.Reads > 0 {
		return local.Keep
	}
	return local.Drop
}

// Keys of logged-in users leave last.
func ExampleEvictionPolicy_loggedInLast() {
	cache, err := local.New(local.Options{MaxMemory: 1 << 20, Eviction: sessionsLast{}})
	if err != nil {
		panic(err)
	}
	defer cache.Close()
	for i := range 1000 {
		_ = cache.Set(fmt.Appendf(nil, "session:%d", i), make([]byte, 100), 0)
	}
	for i := range 50_000 { // a crawler without an account: several times the memory
		_ = cache.Set(fmt.Appendf(nil, "guest:%d", i), make([]byte, 100), 0)
	}
	sessions := 0
	for i := range 1000 {
		if _, ok := cache.Get(nil, fmt.Appendf(nil, "session:%d", i)); ok {
			sessions++
		}
	}
	fmt.Println(sessions, "of 1000 sessions are left")
	// Output: 1000 of 1000 sessions are left
}

// soonest is an eviction policy: what expires soonest leaves first. Entries are
// divided by their remaining time, so that those of a segment expire together.
type soonest struct{}

func (soonest) Class(w local.EvictionWrite) int {
	left := time.Duration(w.Deadline-w.Now) * time.Millisecond
	switch {
	case w.Deadline == 0:
		return 3
	case left > time.Hour:
		return 2
	case left > time.Minute:
		return 1
	}
	return 0
}

func (soonest) Score(g local.EvictionSegment) int64 {
	if g.Latest == 0 {
		return 1<<62 - int64(g.Age) // never expires: last, old ones first
	}
	return g.Latest
}

func (soonest) Judge(local.EvictionRecord) local.Verdict { return local.Drop }

// The soonest deadline leaves first.
func ExampleEvictionPolicy_soonestDeadlineFirst() {
	cache, err := local.New(local.Options{MaxMemory: 1 << 20, Eviction: soonest{}})
	if err != nil {
		panic(err)
	}
	defer cache.Close()
	for i := range 2000 {
		_ = cache.Set(fmt.Appendf(nil, "hour:%d", i), make([]byte, 100), 2*time.Hour)
	}
	for i := range 50_000 {
		_ = cache.Set(fmt.Appendf(nil, "minute:%d", i), make([]byte, 100), time.Minute)
	}
	left := 0
	for i := range 2000 {
		if _, ok := cache.Get(nil, fmt.Appendf(nil, "hour:%d", i)); ok {
			left++
		}
	}
	fmt.Println(left, "of 2000 with two hours to go are left")
	// Output: 2000 of 2000 with two hours to go are left
}

// The policy priority does the first without code.
func ExampleClass() {
	cache, err := local.New(local.Options{MaxMemory: 1 << 20, Policy: "priority", Classes: []local.Class{
		{Prefix: "session:", Rank: 1},
	}})
	if err != nil {
		panic(err)
	}
	defer cache.Close()
	_ = cache.Set([]byte("session:42"), []byte("Ann"), 0)
	for i := range 50_000 {
		_ = cache.Set(fmt.Appendf(nil, "page:%d", i), make([]byte, 100), 0)
	}
	_, ok := cache.Get(nil, []byte("session:42"))
	fmt.Println(ok, cache.ClassStats()[1].Evicted)
	// Output: true 0
}
