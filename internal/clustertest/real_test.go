package clustertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/resp"
)

// threeReal opens a cluster of three.
func threeReal(t *testing.T) []*RealNode {
	t.Helper()
	var nodes []*RealNode
	t.Cleanup(func() {
		for _, n := range nodes {
			if err := n.Close(); err != nil && !errors.Is(err, errs.ErrClosed) {
				t.Error(err)
			}
		}
	})
	for range 3 {
		var seeds []string
		if len(nodes) > 0 {
			seeds = []string{nodes[0].Addr}
		}
		n, err := OpenReal(nil, seeds...)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	await(t, "three nodes agree", func() bool { return Agreed(nodes...) })
	return nodes
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Await(ctx, what, ok); err != nil {
		t.Fatal(err)
	}
}

func TestRealCluster(t *testing.T) {
	nodes := threeReal(t)
	r, err := link.NewRouter(link.RouterOptions{Seeds: []string{nodes[1].Addr}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range 300 {
		key := []byte(fmt.Sprintf("key%d", i))
		if v, err := r.Do(t.Context(), []byte("SET"), key, key); err != nil || v.Text() != "OK" {
			t.Fatalf("SET: %q %v", v.Text(), err)
		}
	}
	for i := range 300 {
		key := fmt.Sprintf("key%d", i)
		// Embedded calls reach every owner from every node.
		if v, err := nodes[i%3].Node.Get(t.Context(), key); err != nil || string(v) != key {
			t.Fatalf("Get: %q %v", v, err)
		}
	}
	// A node dies; the others take over its slots, and nobody else's.
	if err := nodes[2].Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "two nodes agree", func() bool { return Agreed(nodes[:2]...) })
	for i := range 300 {
		key := []byte(fmt.Sprintf("key%d", i))
		if v, err := r.Do(t.Context(), []byte("SET"), key, key); err != nil || v.Text() != "OK" {
			t.Fatalf("SET after the crash: %q %v", v.Text(), err)
		}
	}
}

func TestRealDrain(t *testing.T) {
	nodes := threeReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := nodes[1].Node.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, "two nodes agree", func() bool { return Agreed(nodes[0], nodes[2]) })
}

func TestMismatchIsRefused(t *testing.T) {
	n, err := OpenReal(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for _, tc := range []struct {
		name   string
		change func(*node.Options)
		want   error
		texts  []string
	}{
		{"ring parameters", func(o *node.Options) { o.Params.Tokens = 200 }, errs.ErrMismatch, []string{"160 tokens", "200 tokens"}},
		{"cluster name", func(o *node.Options) { o.Cluster = "other" }, errs.ErrMismatch, []string{"test", "other"}},
		{"secret", func(o *node.Options) { o.Secret = []byte("x") }, errs.ErrAuth, []string{"secret"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			other, err := OpenReal(tc.change, n.Addr)
			if err == nil {
				other.Close()
				t.Fatal("it joined")
			}
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v", err)
			}
			for _, text := range tc.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not named in: %v", text, err)
				}
			}
		})
	}
}

func TestNoSeed(t *testing.T) {
	start := time.Now()
	_, err := OpenReal(func(o *node.Options) { o.JoinTimeout = 300 * time.Millisecond }, "127.0.0.1:1", "127.0.0.1:2")
	if !errors.Is(err, errs.ErrNoSeed) {
		t.Fatalf("%v", err)
	}
	for _, seed := range []string{"127.0.0.1:1", "127.0.0.1:2"} {
		if !strings.Contains(err.Error(), seed) {
			t.Errorf("seed %s is not named in: %v", seed, err)
		}
	}
	t.Logf("after %v: %v", time.Since(start), err)
}

// TestMeet joins two clusters of one by CLUSTER MEET.
func TestMeet(t *testing.T) {
	a, err := OpenReal(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := OpenReal(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c, err := link.Dial(t.Context(), a.Addr, link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	host, port, _ := strings.Cut(b.Addr, ":")
	v, err := c.Do(t.Context(), resp.AppendCommandStrings(nil, "CLUSTER", "MEET", host, port))
	if err != nil || v.Text() != "OK" {
		t.Fatalf("%q %v", v.Text(), err)
	}
	await(t, "both agree", func() bool { return Agreed(a, b) })
	for s := range uint16(16384) {
		if a.Node.Serving(s) == b.Node.Serving(s) {
			t.Fatalf("slot %d: both %v", s, a.Node.Serving(s))
		}
	}
}

// TestOpenAndCloseLeavesNothing opens and closes many clusters, a few at a time;
// goleak looks at what is left when the tests of this package are done.
func TestOpenAndCloseLeavesNothing(t *testing.T) {
	clusters := 50
	if testing.Short() {
		clusters = 5
	}
	var wg sync.WaitGroup
	running := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	for range clusters {
		running <- struct{}{}
		wg.Go(func() {
			defer func() { <-running }()
			if err := openAndClose(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func openAndClose() (err error) {
	var seeds []string
	for range 3 {
		n, openErr := OpenReal(nil, seeds...)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, n.Close()) }()
		seeds = []string{n.Addr}
	}
	return nil
}
