package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache/internal/operate"
)

const (
	// watchPeriod is how often a command looks at what runs.
	watchPeriod = 250 * time.Millisecond
	// watchPatience is how long nobody may answer meanwhile.
	watchPatience = 15 * time.Second
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look at a running cluster, plan changes and make them",
		Long: `Look at a running cluster, plan changes and make them. Each command asks one
member (--addr) by the command RING, which needs the rights of an administrator; if
that member is gone, another one. NODE is a node ID, the beginning of one that no
other has, or host:port. See docs/operations.md.`,
		Args: subcommandArgs,
		RunE: help,
	}
	cmd.AddCommand(newClusterStatus(), newClusterNodes(), newClusterSlots(), newClusterPlan(), newClusterWeight(), newClusterDrain(),
		newClusterPin(), newClusterUnpin(), newClusterPins(), newClusterGroup(), newClusterUngroup(), newClusterEvents(), newClusterWait())
	return cmd
}

// query is a command that asks for something and prints it.
func query[T any](cmd *cobra.Command, ask func(ctx context.Context, c *operate.Client, args []string) (T, error), table func(w io.Writer, v T)) *cobra.Command {
	o := addOperator(cmd)
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return o.run(func(c *operate.Client) error {
			v, err := ask(cmd.Context(), c, args)
			if err != nil {
				return plain(err)
			}
			return output.print(cmd.OutOrStdout(), v, func(w io.Writer) { table(w, v) })
		})
	}
	return cmd
}

// plain takes the code off an error that a node has answered, and says in words that
// the user has interrupted the command.
func plain(err error) error {
	if strings.HasPrefix(err.Error(), "ERR unknown command") {
		return errors.New("the server does not know the command RING: it is no ring-cache node, or an older one")
	}
	if text, ok := strings.CutPrefix(err.Error(), "ERR "); ok {
		return errors.New(text)
	}
	if text, ok := strings.CutPrefix(err.Error(), context.Canceled.Error()); ok && errors.Is(err, context.Canceled) {
		return errors.New("interrupted" + text)
	}
	return err
}

func newClusterStatus() *cobra.Command {
	return query(&cobra.Command{
		Use: "status", Short: "Show the cluster as a whole", Args: cobra.NoArgs, Example: "  ringcache cluster status --addr 127.0.0.1:7001",
		Long: `Show the cluster as a whole. The state is ok, changing while slots or keys are on
their way, or degraded; what is wrong is said below.`,
	}, func(ctx context.Context, c *operate.Client, _ []string) (operate.Status, error) { return c.Status(ctx) }, statusTable)
}

func newClusterNodes() *cobra.Command {
	return query(&cobra.Command{
		Use: "nodes", Short: "List the members with their load", Args: cobra.NoArgs, Example: "  ringcache cluster nodes -o json",
		Long: `List the members. SHARE is the number of slots over the fair share by weight. Keys,
memory and rates are what each member says of itself, rates over ten seconds.`,
	}, func(ctx context.Context, c *operate.Client, _ []string) ([]operate.Node, error) { return c.Nodes(ctx) }, nodesTable)
}

func newClusterSlots() *cobra.Command {
	return query(&cobra.Command{
		Use: "slots [FIRST [LAST]]", Short: "List slots with owner, keys and bytes", Args: cobra.MaximumNArgs(2),
		Example: "  ringcache cluster slots\n  ringcache cluster slots 0 99",
		Long:    `List runs of slots with one owner, all of them or those from FIRST to LAST.`,
	}, func(ctx context.Context, c *operate.Client, args []string) ([]operate.SlotRange, error) {
		bounds := []int{0, 16383}
		for i, a := range args {
			n, err := strconv.Atoi(a)
			if err != nil {
				return nil, usage(fmt.Errorf("slot %q: must be a number from 0 to 16383", a))
			}
			bounds[i] = n
		}
		if len(args) == 1 {
			bounds[1] = bounds[0]
		}
		return c.Slots(ctx, bounds[0], bounds[1])
	}, slotsTable)
}

func newClusterPlan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what a change would move, before anything does",
		Long: `Say what a change would move: slots, keys and bytes from live figures of their
owners, how long that takes at the rates in force, and what the origin would feel.`,
		Args: subcommandArgs,
		RunE: help,
	}
	var count int
	var weight float64
	add := query(&cobra.Command{
		Use: "add [ADDR]...", Short: "Plan nodes that join", Args: cobra.ArbitraryArgs,
		Example: "  ringcache cluster plan add --count 2\n  ringcache cluster plan add 10.0.0.4:7001",
		Long: `Plan nodes that join. With the addresses that they will advertise the plan is exact,
unless they have a data directory and so an ID of their own; without, it is one for
nodes with other IDs, which take other slots, about as many.`,
	}, func(ctx context.Context, c *operate.Client, args []string) (operate.Plan, error) {
		if err := checkAddrs(args); err != nil {
			return operate.Plan{}, usage(err)
		}
		if count < 1 {
			return operate.Plan{}, usage(fmt.Errorf("--count %d: must be at least 1", count))
		}
		words := []string{"ADD", "COUNT", strconv.Itoa(max(count, len(args))), "WEIGHT", strconv.FormatFloat(weight, 'g', -1, 64)}
		for _, a := range args {
			words = append(words, "ADDR", a)
		}
		return c.Plan(ctx, words...)
	}, planTable)
	add.Flags().IntVar(&count, "count", 1, "nodes that join, if more than addresses are given")
	add.Flags().Float64Var(&weight, "weight", 1, "weight of each")
	cmd.AddCommand(add, query(&cobra.Command{
		Use: "remove NODE...", Short: "Plan nodes that leave", Args: cobra.MinimumNArgs(1), Example: "  ringcache cluster plan remove 127.0.0.1:7003",
		Long: `Plan nodes that leave. "worst" is what the origin gets where they die instead.`,
	}, func(ctx context.Context, c *operate.Client, args []string) (operate.Plan, error) {
		return c.Plan(ctx, append([]string{"REMOVE"}, args...)...)
	}, planTable), query(&cobra.Command{
		Use: "weight NODE W [NODE W]...", Short: "Plan other weights", Args: cobra.MinimumNArgs(2), Example: "  ringcache cluster plan weight 127.0.0.1:7003 0.5",
		Long: `Plan other weights of nodes, each 0 to 100.`,
	}, func(ctx context.Context, c *operate.Client, args []string) (operate.Plan, error) {
		return c.Plan(ctx, append([]string{"WEIGHT"}, args...)...)
	}, planTable))
	return cmd
}

// order is a command that changes something and says what.
func order(cmd *cobra.Command, words func(args []string) []string, done func(args []string, reply string) string) *cobra.Command {
	o := addOperator(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return o.run(func(c *operate.Client) error {
			reply, err := c.Order(cmd.Context(), words(args)...)
			if err != nil {
				return plain(err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), done(args, reply))
			return err
		})
	}
	return cmd
}

func newClusterPin() *cobra.Command {
	return order(&cobra.Command{
		Use: "pin SLOT[-SLOT] NODE", Short: "Let slots belong to a node", Args: cobra.ExactArgs(2), Example: "  ringcache cluster pin 5798 127.0.0.1:7001\n  ringcache cluster pin 0-99 4f1c",
		Long: `Let slots belong to a node, whatever the ring says, until they are unpinned. While
that node is away the ring places them. "CLUSTER KEYSLOT key" tells the slot of a key.`,
	}, func(args []string) []string { return append([]string{"PIN"}, args...) },
		func(args []string, _ string) string { return "slots " + args[0] + " are pinned to " + args[1] })
}

func newClusterUnpin() *cobra.Command {
	return order(&cobra.Command{
		Use: "unpin SLOT[-SLOT]", Short: "Take pins away", Args: cobra.ExactArgs(1), Example: "  ringcache cluster unpin 0-16383",
		Long: `Take the pins of slots away: the ring places them again.`,
	}, func(args []string) []string { return []string{"UNPIN", args[0]} },
		func(_ []string, reply string) string { return reply + " slots were unpinned" })
}

func newClusterPins() *cobra.Command {
	return query(&cobra.Command{
		Use: "pins", Short: "List the pins", Args: cobra.NoArgs, Example: "  ringcache cluster pins",
		Long: `List the pins, those of groups too, with the node that owns each slot now.`,
	}, func(ctx context.Context, c *operate.Client, _ []string) ([]operate.Pin, error) { return c.Pins(ctx) }, pinsTable)
}

func newClusterGroup() *cobra.Command {
	return order(&cobra.Command{
		Use: "group NAME NODE[,NODE]... TAG...", Short: "Keep the keys of some hash tags on some nodes", Args: cobra.MinimumNArgs(3),
		Example: "  ringcache cluster group eu 10.0.0.1:7001,10.0.0.2:7001 tenant:{1..40}    # the shell writes the 40 tags",
		Long: `Keep the keys of some hash tags on some nodes: the slot of each tag is pinned to one
of the nodes, to another one of them while that is away, and to the ring while all
are. TAG is what keys have in braces ("{tenant:7}:cart" has "tenant:7"), or a whole key.
A slot has keys of other tags too, which go along. The tags must be named: the slots of
all tags that begin alike are all slots. A group of the same name is replaced.`,
	}, func(args []string) []string { return append([]string{"GROUP"}, args...) },
		func(args []string, reply string) string {
			return fmt.Sprintf("group %s: %d tags lie in %s slots, which are pinned", args[0], len(args)-2, reply)
		})
}

func newClusterUngroup() *cobra.Command {
	return order(&cobra.Command{
		Use: "ungroup NAME", Short: "Take the pins of a group away", Args: cobra.ExactArgs(1), Example: "  ringcache cluster ungroup eu",
		Long: `Take the pins of a group away: the ring places its slots again.`,
	}, func(args []string) []string { return []string{"UNGROUP", args[0]} },
		func(_ []string, reply string) string { return reply + " slots were unpinned" })
}

func newClusterEvents() *cobra.Command {
	cmd := &cobra.Command{
		Use: "events", Short: "Show what a member has noticed", Args: cobra.NoArgs, Example: "  ringcache cluster events -f",
		Long: `Show the latest events of the member that is asked: members that came, went or were
suspected, changes of owners, pins and weights. It keeps 1024 of them.`,
	}
	o := addOperator(cmd)
	output := addOutput(cmd)
	count, follow := 32, false
	cmd.Flags().IntVar(&count, "count", count, "how many")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on showing, one a line, until Ctrl-C")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if count < 0 {
			return usage(fmt.Errorf("--count %d: must be at least 0", count))
		}
		return o.run(func(c *operate.Client) error {
			if follow {
				return followEvents(cmd, c, count, output.format == "json")
			}
			events, err := c.Events(cmd.Context(), count)
			if err != nil {
				return plain(err)
			}
			return output.print(cmd.OutOrStdout(), events, func(w io.Writer) { eventsTable(w, events) })
		})
	}
	return cmd
}

// followEvents prints events as they come. Another member, when the first is gone,
// has a list of its own, which is shown from its end on.
func followEvents(cmd *cobra.Command, c *operate.Client, count int, asJSON bool) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	events, err := c.Events(ctx, max(count, 1))
	asked, last, shown := c.Addr(), int64(0), max(1-count, 0)
	t := time.NewTicker(watchPeriod)
	defer t.Stop()
	heard := time.Now()
	for {
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			heard = time.Now()
		} else if time.Since(heard) > watchPatience {
			return plain(err)
		}
		if addr := c.Addr(); err == nil && addr != asked {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s does not answer any more; the events of %s follow\n", asked, addr)
			asked, shown, last = addr, 1, 0
			if events, err = c.Events(ctx, 1); err != nil {
				continue
			}
		}
		for i := range events {
			last = events[i].ID
			if i >= shown {
				if err := printEvent(out, &events[i], asJSON); err != nil {
					return err
				}
			}
		}
		shown = 0
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		events, err = c.EventsSince(ctx, last)
	}
}

func printEvent(w io.Writer, e *operate.Event, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(e)
	}
	_, err := fmt.Fprintln(w, eventLine(e, " "))
	return err
}

func newClusterWait() *cobra.Command {
	cmd := &cobra.Command{
		Use: "wait", Short: "Wait until the cluster is as it should be", Args: cobra.NoArgs,
		Example: "  ringcache cluster wait --healthy --nodes 3 --timeout 1m && deploy",
		Long: `Wait until the cluster is as it should be, for scripts. --healthy, which is meant
without any condition, is the state ok of "cluster status": all members answer and are
alive, all have one View, every slot is served by its owner, nothing moves. The exit code
is 0 then, 1 if the time is over; the reason stands on the standard error.`,
	}
	o := addOperator(cmd)
	output := addOutput(cmd)
	healthy, nodes, timeout := false, 0, time.Minute
	cmd.Flags().BoolVar(&healthy, "healthy", false, "until the state is ok")
	cmd.Flags().IntVar(&nodes, "nodes", 0, "until so many members own slots, or more")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "for so long at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if nodes < 0 || timeout <= 0 {
			return usage(fmt.Errorf("--nodes %d and --timeout %s: must be above 0", nodes, timeout))
		}
		ready := func(s *operate.Status) string {
			switch {
			case s.Owners < nodes:
				return fmt.Sprintf("%d of %d nodes own slots", s.Owners, nodes)
			case s.State != operate.StateOK && (healthy || nodes == 0):
				return s.State + ": " + strings.Join(s.Problems, "; ")
			}
			return ""
		}
		return o.run(func(c *operate.Client) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			line := newProgress(cmd.ErrOrStderr(), "", "")
			s, err := c.Wait(ctx, watchPeriod, ready, line.say)
			line.clear()
			switch {
			case err == nil:
				return output.print(cmd.OutOrStdout(), s, func(w io.Writer) {
					fmt.Fprintf(w, "%s\t%d nodes\t%d slots served\n", s.State, s.Members, s.SlotsServed)
				})
			case cmd.Context().Err() != nil:
				return errors.New("interrupted")
			case errors.Is(err, context.DeadlineExceeded):
				return fmt.Errorf("not so within %s: %s", timeout, strings.TrimPrefix(err.Error(), context.DeadlineExceeded.Error()+": "))
			}
			return plain(err)
		})
	}
	return cmd
}
