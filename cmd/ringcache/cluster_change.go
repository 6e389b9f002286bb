package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/resp"
)

const detachNote = "detached; the change goes on in the cluster (`ringcache migrate watch` and `ringcache cluster events -f` show it)"

// change is a command about one node that is followed until it is done. gone says
// that the node leaves by it.
func change(cmd *cobra.Command, words func(id string, args []string) []string, gone bool, done func(n *operate.Node) string) *cobra.Command {
	o := addOperator(cmd)
	detach := false
	cmd.Flags().BoolVar(&detach, "detach", false, "return at once, do not follow the change")
	cmd.Long += " The change is followed until it is done;\nCtrl-C only detaches: it goes on in the cluster."
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return o.run(func(c *operate.Client) error {
			n, err := findNode(cmd, c, args[0])
			if err != nil {
				return err
			}
			if _, err := c.Order(cmd.Context(), words(n.ID, args)...); err != nil {
				return plain(err)
			}
			if detach {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "begun; "+detachNote)
				return err
			}
			back, err := followChange(cmd, c, n, gone)
			if err != nil {
				if cmd.Context().Err() != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), detachNote)
					return nil
				}
				return plain(err)
			}
			text := done(n)
			if back {
				text += ", and is back as a new process: to keep it away, stop whatever starts it again"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		})
	}
	return cmd
}

// findNode finds the node that is meant, by the rules of RING.
func findNode(cmd *cobra.Command, c *operate.Client, name string) (*operate.Node, error) {
	nodes, err := c.Nodes(cmd.Context())
	if err != nil {
		return nil, plain(err)
	}
	var found []*operate.Node
	for i := range nodes {
		n := &nodes[i]
		if n.Addr == name {
			return n, nil
		}
		if name != "" && strings.HasPrefix(n.ID, strings.ToLower(name)) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no member is called %q; `ringcache cluster nodes` lists them", name)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%q is the beginning of %d node IDs: give more of it", name, len(found))
}

// settleTime is how long nothing must run for a change to count as done: after an
// order it takes a moment until the members know.
const settleTime = time.Second

// lastPatience is watchPatience for the end of a cluster's last member.
const lastPatience = 2 * time.Second

// followChange shows a bar until the change is done: the node is gone, or nothing
// runs any more in the cluster. back says that it is gone and was started again.
func followChange(cmd *cobra.Command, c *operate.Client, of *operate.Node, gone bool) (back bool, err error) {
	bars := newBars(cmd.ErrOrStderr())
	defer bars.clear()
	quiet, patience := time.Now(), watchPatience
	alone := gone && isAlone(cmd, c)
	if alone {
		patience = lastPatience
	}
	err = c.Watch(cmd.Context(), watchPeriod, patience, func(nodes []operate.Node, changes []operate.Change) bool {
		var at *operate.Node
		busy := len(changes) > 0
		for i := range nodes {
			n := &nodes[i]
			if n.ID == of.ID {
				at = n
			}
			busy = busy || n.State != "active" || n.Figures.Opening+n.Figures.Releasing > 0
		}
		lines := changeLines(changes)
		if at != nil && gone {
			given := max(of.Slots-at.Slots, 0)
			lines = append([]string{barLine("leaving "+of.Addr, ratioOf(given, of.Slots), fmt.Sprintf("%d of %d slots", given, of.Slots))}, lines...)
		}
		bars.show(lines)
		if gone {
			back = at != nil && at.Answers && at.Figures.UptimeMS < of.Figures.UptimeMS
			return at == nil || back
		}
		if busy {
			quiet = time.Now()
		}
		return time.Since(quiet) >= settleTime
	})
	var said resp.ReplyError
	if alone && err != nil && cmd.Context().Err() == nil && !errors.As(err, &said) {
		err = nil // nobody is left to say so
	}
	return back, err
}

// isAlone tells whether the cluster has one member.
func isAlone(cmd *cobra.Command, c *operate.Client) bool {
	nodes, err := c.Nodes(cmd.Context())
	return err != nil || len(nodes) == 1
}

func ratioOf(done, total int) float64 {
	if total <= 0 {
		return 1
	}
	return float64(done) / float64(total)
}

func newClusterWeight() *cobra.Command {
	return change(&cobra.Command{
		Use: "weight NODE W", Short: "Give a node another share of the slots", Args: cobra.ExactArgs(2), Example: "  ringcache cluster weight 127.0.0.1:7003 0.5",
		Long: `Give a node another share of the slots: its weight, 0 to 100, over the sum of all.
With 0 it owns nothing but what is pinned to it, and goes on running. A node with a data
directory keeps the weight over a restart, until its configuration says another one than
now; one without has its configured weight again then. The configured weight ends this.`,
	}, func(id string, args []string) []string { return []string{"WEIGHT", id, args[1]} }, false,
		func(n *operate.Node) string { return n.Addr + " has its new weight, and nothing moves any more" })
}

func newClusterDrain() *cobra.Command {
	return change(&cobra.Command{
		Use: "drain NODE", Short: "Let a node hand everything over and end", Args: cobra.ExactArgs(1), Example: "  ringcache cluster drain 127.0.0.1:7003",
		Long: `Let a node hand all its slots over, leave the cluster and end, as SIGTERM does. A
supervisor that starts it again brings it back: stop it there.`,
	}, func(id string, _ []string) []string { return []string{"DRAIN", id} }, true,
		func(n *operate.Node) string { return n.Addr + " has left the cluster" })
}

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Watch, pause and pace the changes that run", Args: subcommandArgs, RunE: help,
		Long: `Watch the changes that run, slots and keys on their way; pause the transfer of keys,
or set its pace. See docs/operations.md.`,
	}
	cmd.AddCommand(newMigrateWatch(), order(&cobra.Command{
		Use: "pause", Short: "Pause the transfer of keys", Args: cobra.NoArgs, Example: "  ringcache migrate pause",
		Long: `Pause the transfer of keys on all members. A request for a key that has not come yet
fetches it; what has not come after ten minutes is dropped. Joins and changes of weight
take no further step meanwhile. It lasts until it is resumed, or the node restarts.`,
	}, func([]string) []string { return []string{"MIGRATE", "PAUSE"} }, func([]string, string) string { return "paused on all members" }), order(&cobra.Command{
		Use: "resume", Short: "Resume the transfer of keys", Args: cobra.NoArgs, Example: "  ringcache migrate resume",
		Long: `Resume the transfer of keys on all members.`,
	}, func([]string) []string { return []string{"MIGRATE", "RESUME"} }, func([]string, string) string { return "resumed on all members" }), newMigrateRate())
	return cmd
}

func newMigrateRate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rate KEYS [BYTES]", Short: "Set the pace of transfers", Args: cobra.RangeArgs(1, 2), Example: "  ringcache migrate rate 20000\n  ringcache migrate rate 5000 16mb",
		Long: `Set how many keys per second, and bytes (16mb), each node takes over from each source
on all members. It lasts until a node restarts; warm-rate and warm-bytes are the
keys of its configuration.`,
	}
	o := addOperator(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		words := []string{"MIGRATE", "RATE", args[0]}
		if len(args) > 1 {
			n, err := parseBytes(args[1])
			if err != nil {
				return usage(fmt.Errorf("bytes %q: %w", args[1], err))
			}
			words = append(words, fmt.Sprint(n))
		}
		return o.run(func(c *operate.Client) error {
			if _, err := c.Order(cmd.Context(), words...); err != nil {
				return plain(err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "set on all members")
			return err
		})
	}
	return cmd
}

func newMigrateWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Show the changes that run, with their progress", Args: cobra.NoArgs, Example: "  ringcache migrate watch --addr 127.0.0.1:7001",
		Long: `Show the changes that run in the cluster until none does, or with --follow until
Ctrl-C: bars on a terminal, else a line whenever a change has got on by a tenth.`,
	}
	o := addOperator(cmd)
	output := addOutput(cmd)
	follow := false
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on when nothing runs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.run(func(c *operate.Client) error {
			w := watcher{bars: newBars(cmd.ErrOrStderr()), out: cmd.OutOrStdout(), asJSON: output.format == "json", tenths: map[string]int{}}
			var fault error
			err := c.Watch(cmd.Context(), watchPeriod, watchPatience, func(_ []operate.Node, changes []operate.Change) bool {
				fault = w.look(changes)
				return fault != nil || len(changes) == 0 && !follow
			})
			w.bars.clear()
			switch {
			case cmd.Context().Err() != nil:
				if w.running > 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), detachNote)
				}
				return nil
			case err == nil && fault == nil && !w.asJSON:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "no change runs")
			}
			if err == nil {
				return fault
			}
			return plain(err)
		})
	}
	return cmd
}
