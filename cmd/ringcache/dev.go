package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/config"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// Limits of a development cluster.
const (
	maxDevNodes   = 10               // each start changes the view of every node: more take too long in one process
	gossipOffset  = 10000            // gossip port of a node: data port + 10000
	devReady      = 15 * time.Second // after that the start has failed
	devPoll       = 5 * time.Millisecond
	maxDevPort    = 65535 - gossipOffset
	devSamples    = 10  // keys tried per node before the cluster counts as ready
	devPortSearch = 200 // base ports tried for a proposal
)

type devOptions struct {
	nodes, port int
	maxMemory   string
	demo        bool
}

func newDev() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine, for development",
		Long: `Run a cluster in one process on 127.0.0.1: real nodes with real ports, which any
Redis Cluster client can use. Nothing is kept: entries are gone when it stops.
Node i listens on port + i - 1, and for gossip 10000 above. RINGCACHE_ variables
and configuration files do not count.`,
		Example: `  ringcache dev
  ringcache dev --demo
  ringcache dev --nodes 5 --port 7101`,
		Args: cobra.NoArgs,
	}
	var o devOptions
	cmd.Flags().IntVar(&o.nodes, "nodes", 3, fmt.Sprintf("number of nodes (1 to %d)", maxDevNodes))
	cmd.Flags().IntVar(&o.port, "port", 7001, "data port of the first node")
	cmd.Flags().StringVar(&o.maxMemory, "max-memory", "128mb", "memory for entries, of each node")
	cmd.Flags().BoolVar(&o.demo, "demo", false, "send traffic (Zipf) and show its hit ratio and latency")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return dev(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
	}
	return cmd
}

// dev starts the cluster, says how to use it and waits for a signal.
func dev(ctx context.Context, out, errOut io.Writer, o devOptions) error {
	started := time.Now()
	memory, err := o.validate()
	if err != nil {
		return err
	}
	if err := portsFree(o.port, o.nodes); err != nil {
		return &codedError{err, exitStart}
	}
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c, err := startDev(ctx, o, memory, log)
	if err == nil && ctx.Err() == nil {
		if err = c.waitReady(ctx); err == nil && ctx.Err() == nil {
			c.greet(out, time.Since(started))
			if o.demo {
				err = demo(ctx, out, c.addrs)
			} else {
				c.wait(ctx, out)
			}
		}
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // interrupted while starting
	}
	return errors.Join(err, c.close())
}

func (o devOptions) validate() (memory int64, err error) {
	var faults []string
	if o.nodes < 1 || o.nodes > maxDevNodes {
		faults = append(faults, fmt.Sprintf("--nodes %d: choose 1 to %d", o.nodes, maxDevNodes))
	}
	if o.port < 1 || o.port+o.nodes-1 > maxDevPort {
		faults = append(faults, fmt.Sprintf("--port %d: choose 1 to %d; gossip needs port + %d", o.port, maxDevPort-o.nodes+1, gossipOffset))
	}
	memory, err = config.ParseSize(o.maxMemory)
	switch {
	case err != nil:
		faults = append(faults, "--max-memory: "+err.Error())
	case memory < 1<<20:
		faults = append(faults, "--max-memory "+o.maxMemory+": give at least 1mb")
	}
	if len(faults) > 0 {
		return 0, usage(errors.New(strings.Join(faults, "\n  ")))
	}
	return memory, nil
}

// portsFree says which ports of the cluster are taken, and proposes others.
func portsFree(port, nodes int) error {
	taken := takenPorts(port, nodes)
	if len(taken) == 0 {
		return nil
	}
	advice := "choose another --port"
	for p := port + 100; p < port+100*devPortSearch && p+nodes-1 <= maxDevPort; p += 100 {
		if len(takenPorts(p, nodes)) == 0 {
			advice = fmt.Sprintf("try --port %d", p)
			break
		}
	}
	return fmt.Errorf("already in use on 127.0.0.1: %s; %s, or stop what uses them (`ss -ltnup` shows it)", strings.Join(taken, ", "), advice)
}

// takenPorts names the data and gossip ports that cannot be listened on.
func takenPorts(port, nodes int) []string {
	var taken []string
	for i := range nodes {
		for _, p := range []int{port + i, port + i + gossipOffset} {
			ln, err := net.Listen("tcp", devAddr(p))
			if err != nil {
				taken = append(taken, "port "+strconv.Itoa(p))
				continue
			}
			_ = ln.Close()
		}
		udp, err := net.ListenPacket("udp", devAddr(port+i+gossipOffset))
		if err != nil {
			taken = append(taken, fmt.Sprintf("port %d (UDP)", port+i+gossipOffset))
			continue
		}
		_ = udp.Close()
	}
	return taken
}

func devAddr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// devNodes is the running cluster. Whatever drives traffic against it needs no
// more than addrs.
type devNodes struct {
	nodes []*ringcache.Node
	addrs []string
}

// startDev opens the first node alone and then the others through it, all at
// the same time. Nodes that started are returned with the error, to be closed.
func startDev(ctx context.Context, o devOptions, memory int64, log *slog.Logger) (*devNodes, error) {
	c := &devNodes{}
	options := func(i int) ringcache.Options {
		return ringcache.Options{Addr: devAddr(o.port + i), ClusterName: devCluster(o.port), MaxMemory: memory, Logger: log}
	}
	first, err := open(ctx, options(0))
	if err != nil || first == nil {
		return c, err
	}
	c.nodes, c.addrs = append(c.nodes, first), append(c.addrs, first.Addr())
	nodes, errs := make([]*ringcache.Node, o.nodes), make([]error, o.nodes)
	var wg sync.WaitGroup
	for i := 1; i < o.nodes; i++ {
		wg.Go(func() { // ends with Open or ctx
			opts := options(i)
			opts.Seeds = []string{first.Addr()}
			nodes[i], errs[i] = open(ctx, opts)
		})
	}
	wg.Wait()
	for _, n := range nodes {
		if n != nil {
			c.nodes, c.addrs = append(c.nodes, n), append(c.addrs, n.Addr())
		}
	}
	return c, errors.Join(errs...)
}

// waitReady returns once every node, asked over its port, has the same View with
// all nodes as owners, and each of a sample of keys is served by its owner while
// every other node redirects: no slot is changing its owner any more.
func (c *devNodes) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, devReady, fmt.Errorf("the cluster was not ready within %s", devReady))
	defer cancel()
	router, err := link.NewRouter(link.RouterOptions{Seeds: c.addrs, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer router.Close()
	tick := time.NewTicker(devPoll)
	defer tick.Stop()
	for {
		err := c.ready(ctx, router)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &codedError{fmt.Errorf("%w: %w", context.Cause(ctx), err), exitStart}
		}
	}
}

func (c *devNodes) ready(ctx context.Context, router *link.Router) error {
	all := fmt.Sprintf("cluster_size:%d\r\n", len(c.nodes))
	view := ""
	for _, addr := range c.addrs {
		info, err := router.DoNode(ctx, addr, resp.AppendCommandStrings(nil, "CLUSTER", "INFO"))
		if err == nil {
			err = info.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
		text := info.Text()
		_, hash, _ := strings.Cut(text, "ringcache_view:")
		hash, _, _ = strings.Cut(hash, "\r\n")
		if !strings.Contains(text, all) || hash == "" || view != "" && view != hash {
			return fmt.Errorf("%s does not see all nodes yet", addr)
		}
		view = hash
	}
	if err := router.Refresh(ctx); err != nil {
		return err
	}
	for i := range devSamples * len(c.nodes) {
		key := "ready:" + strconv.Itoa(i)
		for _, addr := range c.addrs {
			v, err := router.DoNode(ctx, addr, resp.AppendCommandStrings(nil, "EXISTS", key))
			if err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
			owner := addr == router.Table().Addr(ring.SlotString(key))
			if served := v.Err() == nil; served != owner || !owner && !strings.HasPrefix(v.Text(), "MOVED ") {
				return fmt.Errorf("%s: slot %d is changing its owner", addr, ring.SlotString(key))
			}
		}
	}
	return nil
}

// devCluster names the cluster of a development run: two runs on one machine
// must not merge.
func devCluster(port int) string { return "dev-" + strconv.Itoa(port) }

// greet says that the cluster is ready and how to use it.
func (c *devNodes) greet(w io.Writer, took time.Duration) {
	_, port, _ := net.SplitHostPort(c.addrs[0])
	last := c.addrs[len(c.addrs)-1]
	_, lastPort, _ := net.SplitHostPort(last)
	n, _ := strconv.Atoi(lastPort)
	firstPort, _ := strconv.Atoi(port)
	noun := "nodes"
	if len(c.nodes) == 1 {
		noun = "node"
	}
	fmt.Fprintf(w, `%d %s ready in %.2f s: %s

  redis-cli   redis-cli -c -p %s set greeting hello
              redis-cli -c -p %s get greeting
  Go          client.Open(ctx, client.Options{Seeds: []string{"%s"}})
  one more    %s serve --addr %s --seeds %s --cluster-name %s --max-memory 128mb
  look        %s cluster nodes --addr %s
  stop        Ctrl-C (entries are gone then)
`, len(c.nodes), noun, took.Seconds(), strings.Join(c.addrs, " "), port, lastPort, c.addrs[0], program(), devAddr(n+1), c.addrs[0], devCluster(firstPort),
		program(), c.addrs[0])
}

// program is how this program was called, for lines to copy.
func program() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/ringcache"
	}
	return os.Args[0]
}

// wait blocks until ctx ends or the last node was stopped (SHUTDOWN), and says
// which nodes are gone meanwhile.
func (c *devNodes) wait(ctx context.Context, out io.Writer) {
	stopped := make(chan string, len(c.nodes))
	for i, n := range c.nodes {
		go func() { // ends with the node
			<-n.Done()
			stopped <- c.addrs[i]
		}()
	}
	for left := len(c.nodes); left > 0; {
		select {
		case <-ctx.Done():
			return
		case addr := <-stopped:
			left--
			fmt.Fprintf(out, "node %s has stopped, %d left\n", addr, left)
		}
	}
}

// close stops all nodes at the same time; nothing is handed over.
func (c *devNodes) close() error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = n.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
