package local_test

import (
	"fmt"
	"log"
	"time"

	"github.com/ringcache/ringcache/local"
)

// A cache of bytes. The buffer that Get appends to is reused.
func Example() {
	cache, err := local.New(local.Options{MaxMemory: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	if err := cache.Set([]byte("greeting"), []byte("hello"), time.Minute); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	buf, ok := cache.Get(buf[:0], []byte("greeting"))
	fmt.Printf("%s %v\n", buf, ok)

	cache.Delete([]byte("greeting"))
	_, ok = cache.Get(buf[:0], []byte("greeting"))
	fmt.Println(ok)
	// Output:
	// hello true
	// false
}

// Integers and strings need no codec.
func ExampleNewCache() {
	names, err := local.NewCache(local.Options{}, local.Codecs[int, string]{})
	if err != nil {
		log.Fatal(err)
	}
	defer names.Close()

	if err := names.Set(7, "seven", 0); err != nil {
		log.Fatal(err)
	}
	name, ok, err := names.Get(7)
	fmt.Println(name, ok, err)
	// Output: seven true <nil>
}

type user struct {
	Name  string
	Admin bool
}

// Other types bring a codec; JSON is the one at hand.
func ExampleJSON() {
	users, err := local.NewCache(local.Options{}, local.Codecs[int64, user]{Value: local.JSON[user]()})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close()

	if err := users.Set(1, user{Name: "Ada", Admin: true}, time.Hour); err != nil {
		log.Fatal(err)
	}
	u, _, _ := users.Get(1)
	fmt.Printf("%+v\n", u)
	// Output: {Name:Ada Admin:true}
}

// userCodec is a codec by hand: one byte for the flag, then the name.
type userCodec struct{}

func (userCodec) Append(dst []byte, u user) ([]byte, error) {
	flag := byte(0)
	if u.Admin {
		flag = 1
	}
	return append(append(dst, flag), u.Name...), nil
}

func (userCodec) Decode(b []byte) (user, error) {
	if len(b) == 0 {
		return user{}, fmt.Errorf("a user has at least one byte")
	}
	return user{Admin: b[0] == 1, Name: string(b[1:])}, nil
}

// A codec written by hand is smaller and faster than JSON.
func ExampleCodec() {
	users, err := local.NewCache(local.Options{}, local.Codecs[string, user]{Value: userCodec{}})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close()

	if err := users.Set("ada", user{Name: "Ada", Admin: true}, 0); err != nil {
		log.Fatal(err)
	}
	u, ok, err := users.Get("ada")
	fmt.Println(u.Name, u.Admin, ok, err)
	// Output: Ada true true <nil>
}

// The figures tell how well the limit suits the use.
func ExampleBytes_Stats() {
	cache, err := local.New(local.Options{MaxMemory: 32 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	_ = cache.Set([]byte("a"), []byte("1"), 0)
	cache.Get(nil, []byte("a"))
	cache.Get(nil, []byte("b"))
	s := cache.Stats()
	fmt.Println(s.Len, s.Hits, s.Misses, s.HitRatio())
	// Output: 1 1 1 0.5
}
