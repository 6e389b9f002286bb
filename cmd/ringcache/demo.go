package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ringcache/ringcache/client"
	"github.com/ringcache/ringcache/internal/workload"
)

// demo sends Zipf traffic through the SDK until ctx ends and keeps one line on
// a terminal, or a line every five seconds elsewhere.
func demo(ctx context.Context, w io.Writer, seeds []string) error {
	c, err := client.Open(ctx, client.Options{Seeds: seeds, Name: "demo"})
	if err != nil {
		return fmt.Errorf("demo traffic: %w", err)
	}
	defer c.Close()
	o := workload.DemoOptions{Cache: workload.NewSDKCache(c), Seed: uint64(time.Now().UnixNano())}
	terminal := isTerminal(w)
	if !terminal {
		o.Every = 5 * time.Second
	}
	fmt.Fprintf(w, "  demo        cache-aside reads of 100,000 keys, Zipf 0.99, 5,000 requests/s\n\n")
	o.Report = func(s workload.DemoStats) {
		if terminal {
			fmt.Fprintf(w, "\r\x1b[K%s  nodes %d", s, len(c.Nodes()))
			return
		}
		fmt.Fprintf(w, "%s  nodes %d\n", s, len(c.Nodes()))
	}
	err = workload.Demo(ctx, o)
	if terminal {
		fmt.Fprintln(w)
	}
	return err
}
