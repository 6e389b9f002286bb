package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringcache/ringcache/client"
)

func Example() {
	ctx := context.Background()
	c, err := client.Open(ctx, client.Options{Seeds: []string{"127.0.0.1:7001", "127.0.0.1:7002"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	if err := c.Set(ctx, "user:42", []byte("Ada"), 5*time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	switch v, err := c.Get(ctx, "user:42"); {
	case err == nil:
		fmt.Printf("%s\n", v)
	case errors.Is(err, client.ErrNotFound):
		fmt.Println("the cache does not have it: ask the database, then Set")
	case errors.Is(err, client.ErrUnavailable):
		fmt.Println("the cache does not answer: ask the database, if it can bear it")
	}
}

// A miss and a failure are different things. This one is a miss.
func ExampleClient_Get() {
	c, done := demo()
	defer done()
	_, err := c.Get(context.Background(), "nobody")
	fmt.Println(errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrUnavailable))
	// Output: true false
}

// Touch gives a key a new time to live and leaves its value alone.
func ExampleClient_Touch() {
	c, done := demo()
	defer done()
	ctx := context.Background()
	if err := c.Set(ctx, "session:1", []byte("open"), time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	found, err := c.Touch(ctx, "session:1", time.Hour)
	fmt.Println(found, err)
	// Output: true <nil>
}

// Values that came are returned even if some nodes did not answer.
func ExampleClient_GetMany() {
	c, done := demo()
	defer done()
	ctx := context.Background()
	if err := c.SetMany(ctx, map[string][]byte{"a": []byte("1"), "b": []byte("2")}, time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	values, err := c.GetMany(ctx, []string{"a", "b", "c"})
	var partial *client.BatchError
	if errors.As(err, &partial) {
		for key, err := range partial.Failed {
			fmt.Println(key, err)
		}
	}
	fmt.Printf("%s %s, %d found\n", values["a"], values["b"], len(values))
	// Output: 1 2, 2 found
}

func ExampleClient_Do() {
	c, done := demo()
	defer done()
	v, err := c.Do(context.Background(), "INCRBY", "visits", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := v.Int()
	fmt.Println(n, err)
	// Output: 3 <nil>
}
