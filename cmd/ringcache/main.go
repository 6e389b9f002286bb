// Command ringcache starts nodes and tools of ring-cache. It is thin: it turns
// the command line into Options of the rooms, prints what they report and
// chooses the exit code. It never holds logic that a test would want to call
// without a process.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/config"
)

// Exit codes; a second signal exits with 128 + its number.
const (
	exitOK     = 0
	exitFailed = 1 // failed while running
	exitUsage  = 2 // wrong command line or configuration
	exitStart  = 3 // could not start: port taken, no seed, refused by the cluster
)

const exitCodes = `Exit codes: 0 stopped cleanly, 1 failed while running, 2 wrong command line or
configuration, 3 could not start (port taken, no seed answered, refused by the
cluster), 128 + signal on a second signal.`

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signals()
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(os.Stderr, "ringcache: "+err.Error())
	var coded *codedError
	switch {
	case errors.Is(err, ringcache.ErrConfig):
		return exitUsage
	case errors.As(err, &coded):
		return coded.code
	}
	return exitFailed
}

// codedError is an error that chooses the exit code.
type codedError struct {
	error
	code int
}

func (e *codedError) Unwrap() error { return e.error }

func usage(err error) error { return &codedError{err, exitUsage} }

// signals returns a context that ends with the first SIGINT or SIGTERM. The
// second one ends the process at once.
func signals() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	go twoSignals(ch, cancel, os.Exit) // ends with the process
	return ctx, cancel
}

func twoSignals(ch <-chan os.Signal, first func(), second func(code int)) {
	<-ch
	first()
	sig := <-ch
	code := exitFailed
	if s, ok := sig.(syscall.Signal); ok {
		code = 128 + int(s)
	}
	fmt.Fprintf(os.Stderr, "ringcache: %s again, stopping at once\n", sig)
	second(code)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ringcache",
		Short: "A distributed in-memory cache that speaks the Redis Cluster protocol",
		Long: `ring-cache is a distributed in-memory cache. Nodes speak the Redis Cluster
protocol, so every Redis Cluster client is a client of it.`,
		Example: `  ringcache dev                                      three nodes on this machine
  ringcache serve --addr 127.0.0.1:7001              one node
  ringcache serve --config ring.yaml                 one node, configured by a file
  ringcache cluster status --addr 127.0.0.1:7001     how a running cluster is
  ringcache placement --nodes 3,5,10,20              how evenly slots are placed`,
		Args:              subcommandArgs,
		RunE:              help,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w; %s", err, flagHint(cmd, err)))
	})
	for _, cmd := range commands() {
		checkArgs(cmd)
		root.AddCommand(cmd)
	}
	return root
}

// checkArgs is usageArgs for a command and all below it.
func checkArgs(cmd *cobra.Command) {
	cmd.Args = usageArgs(cmd.Args)
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// commands is the list of subcommands; each has its own file.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newServe(),
		newDev(),
		newPlacement(),
		newReplay(),
		newBench(),
		newDrill(),
		newCluster(),
		newMigrate(),
		newConfig(),
		newVersion(),
	}
}

// usageArgs gives faults of positional arguments the exit code of usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		check = cobra.NoArgs
	}
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var coded *codedError
		if err != nil && !errors.As(err, &coded) {
			return usage(fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath()))
		}
		return err
	}
}

// help is what a command does that only groups others.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// subcommandArgs refuses an unknown subcommand of a group.
func subcommandArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := fmt.Sprintf("`%s --help` lists all commands", cmd.CommandPath())
	if s := config.Suggest(args[0], names); s != "" {
		hint = fmt.Sprintf("did you mean `%s %s`?", cmd.CommandPath(), s)
	}
	return usage(fmt.Errorf("unknown command %q; %s", args[0], hint))
}

// flagHint says what to do about a fault of a flag.
func flagHint(cmd *cobra.Command, err error) string {
	if unknown, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if s := config.Suggest(unknown, names); s != "" {
			return "did you mean --" + s + "?"
		}
	}
	return fmt.Sprintf("`%s --help` lists all flags", cmd.CommandPath())
}
