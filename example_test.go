package ringcache_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringcache/ringcache"
)

// A cache of this process alone.
func ExampleOpen() {
	cache, err := ringcache.Open(ringcache.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	ctx := context.Background()
	if err := cache.Set(ctx, "greeting", []byte("hello"), time.Minute); err != nil {
		log.Fatal(err)
	}
	value, err := cache.Get(ctx, "greeting")
	fmt.Printf("%s %v\n", value, err)
	_, err = cache.Get(ctx, "absent")
	fmt.Println(errors.Is(err, ringcache.ErrNotFound))
	// Output:
	// hello <nil>
	// true
}

// Two nodes of one cluster in one process; usually each has its own. Redis
// Cluster clients reach them at their addresses.
func ExampleOpen_cluster() {
	first, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	second, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Seeds: []string{first.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()
	ctx := context.Background()
	if err := first.Set(ctx, "shared", []byte("by both"), 0); err != nil {
		log.Fatal(err)
	}
	value, err := second.Get(ctx, "shared")
	fmt.Printf("%s %v\n", value, err)
	// Output: by both <nil>
}

// Counters are atomic, wherever their key lives.
func ExampleNode_Incr() {
	cache, err := ringcache.Open(ringcache.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	for range 3 {
		if _, err := cache.Incr(context.Background(), "visits", 2); err != nil {
			log.Fatal(err)
		}
	}
	n, err := cache.Incr(context.Background(), "visits", -1)
	fmt.Println(n, err)
	// Output: 5 <nil>
}

// A node that leaves in good order: the others have taken over its slots when
// Drain returns.
func ExampleNode_Drain() {
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(node.Drain(ctx))
	// Output: <nil>
}
