package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/admin"
	"github.com/ringcache/ringcache/internal/config"
	"github.com/ringcache/ringcache/lua"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: fmt.Sprintf(`Run one node until SIGINT or SIGTERM. Every flag is also a key of the YAML file
and a RINGCACHE_ variable; a flag beats the variable, which beats the file. The
first signal drains: the other nodes take its slots over and fetch their content,
for drain-timeout at most, then requests at hand are answered, for %s at most;
without content, or without other nodes, that takes a moment. A second signal stops
at once. With --data-dir or --warm-dir a node without others keeps its entries for
the next start; in a cluster the others take them over, unless the command SHUTDOWN
SAVE says that it will be back.

%s`, ringcache.SessionTimeout, exitCodes),
		Example: `  ringcache serve
  ringcache serve --addr 127.0.0.1:7002 --seeds 127.0.0.1:7001
  RINGCACHE_CLUSTER_SECRET=... ringcache serve --config ring.yaml --addr 10.0.0.1:7001`,
		Args: cobra.NoArgs,
	}
	flags := addConfigFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.load()
		if err != nil {
			return err
		}
		c.Options.Logger = newLogger(cmd.ErrOrStderr(), c)
		return serve(cmd.Context(), cmd.OutOrStdout(), c)
	}
	return cmd
}

// serve runs one node until ctx ends or the node stops by itself.
func serve(ctx context.Context, out io.Writer, c *config.Config) error {
	o := c.Options
	o.WholeProcess = true
	limitRuntime(o, os.Getenv("GOMEMLIMIT"), debug.SetMemoryLimit)
	holdProcessors(&o)
	var ops *admin.Server
	if c.Admin != "" {
		var err error
		if ops, err = admin.Start(admin.Options{Addr: c.Admin, Pprof: c.AdminPprof, Logger: o.Logger}); err != nil {
			return startError(err)
		}
		defer ops.Close()
	}
	node, err := open(ctx, o)
	if err != nil || node == nil {
		return err
	}
	if ops != nil {
		ops.Attach(node)
		fmt.Fprintf(out, "ringcache: admin http://%s/ (metrics, healthz, readyz)\n", ops.Addr())
	}
	joined := "a cluster of its own until others join"
	if len(o.Seeds) > 0 {
		joined = "seeds " + strings.Join(o.Seeds, ",")
	}
	fmt.Fprintf(out, "ringcache: serving %s, node %s, cluster %q (%s), max-memory %s, policy %s\n",
		node.Addr(), node.ID(), o.ClusterName, joined, config.FormatSize(o.MaxMemory), o.Policy)
	reload := make(chan os.Signal, 1)
	if o.TLSCert != "" {
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
	}
	for {
		select {
		case <-reload:
			if err := node.ReloadTLS(); err != nil {
				o.Logger.Error("TLS files are not used", "err", err)
				continue
			}
			o.Logger.Info("TLS files were read again")
		case <-ctx.Done():
			return shutdown(node, o.DrainTimeout)
		case <-node.Done():
			fmt.Fprintln(out, "ringcache: stopped by SHUTDOWN, or because a later node took over its ID; the log says which")
			return node.Close()
		}
	}
}

// holdProcessors lets the loops keep their processors while they wait, and gives
// all other goroutines one more: this process is a node and nothing else. Where
// GOMAXPROCS is set by the environment, it stays.
func holdProcessors(o *ringcache.Options) {
	if runtime.GOOS != "linux" || o.IO == "std" || o.TLSCert != "" {
		return
	}
	procs := runtime.GOMAXPROCS(0)
	if o.Loops == 0 {
		o.Loops = min(procs, runtime.NumCPU(), ringcache.MaxLoops)
	}
	if os.Getenv("GOMAXPROCS") == "" && procs <= o.Loops {
		procs = o.Loops + 1
		runtime.GOMAXPROCS(procs)
	}
	o.HoldProcessors = procs > o.Loops
}

// runtimeBase is what the collector may let the Go runtime hold beside session
// buffers: more than a node needs, less than what is granted beside max-memory.
const runtimeBase = 28 << 20

// limitRuntime sets the limit of the Go runtime to what it may hold: the arena
// of the entries is not part of it, and has the rest. A limit in the environment
// is the user's choice and stays.
func limitRuntime(o ringcache.Options, environ string, set func(int64) int64) {
	if environ == "" {
		set(runtimeBase + o.Buffers())
	}
}

// open is ringcache.Open, with scripts, that a signal can end: nil, nil then. The goroutine
// ends with Open, or with the process.
func open(ctx context.Context, o ringcache.Options) (*ringcache.Node, error) {
	if o.Scripts == nil {
		o.Scripts = lua.New(o.Logger)
	}
	type result struct {
		node *ringcache.Node
		err  error
	}
	done := make(chan result, 1)
	go func() {
		node, err := ringcache.Open(o)
		done <- result{node, err}
	}()
	select {
	case r := <-done:
		return r.node, startError(r.err)
	case <-ctx.Done():
		return nil, nil
	}
}

// shutdown drains a node, which also closes it.
func shutdown(node *ringcache.Node, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain+ringcache.SessionTimeout)
	defer cancel()
	err := node.Drain(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not everything ended in time (slots within %s, sessions within %s): %w", drain, ringcache.SessionTimeout, err)
	}
	return err
}

// startError gives an error of Open its exit code.
func startError(err error) error {
	switch {
	case err == nil || errors.Is(err, ringcache.ErrConfig):
		return err
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, ringcache.ErrNoSeed), errors.Is(err, ringcache.ErrAuth), errors.Is(err, ringcache.ErrMismatch):
		return &codedError{err, exitStart}
	}
	return &codedError{fmt.Errorf("cannot start: %w", err), exitStart}
}

func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
