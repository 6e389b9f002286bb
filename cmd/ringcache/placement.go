package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache/internal/ring"
)

func newPlacement() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "placement",
		Short: "Measure how evenly slots are placed and how many move",
		Long: `Place the slots on many sets of random node IDs and report how even the load is
and how many slots move when a node joins or leaves, beside the ring without a
bound and beside "hash modulo number of nodes". Equal options give equal figures.

  sd          standard deviation of the nodes' load over the mean, mean of the sets
  sd worst    the same in the worst set
  max/mean    load of the fullest node over the mean
  join moved  slots that move when a node joins, over the ideal share of that node
  survivors   part of it that moves between nodes that were there before
  leave moved slots that move when a node leaves, over the ideal share of that node
  share       share of all slots that move on a join
  ranges      length of a CLUSTER SLOTS reply`,
		Example: `  ringcache placement --nodes 3,5,10,20 --tokens 160
  ringcache placement --nodes 50 --tokens 512 --sets 20 -o json`,
		Args: cobra.NoArgs,
	}
	var o ring.SurveyOptions
	cmd.Flags().IntSliceVar(&o.Nodes, "nodes", []int{3, 5, 10, 20}, "cluster sizes")
	cmd.Flags().IntVar(&o.Tokens, "tokens", ring.DefaultTokens, "virtual nodes per node")
	cmd.Flags().IntVar(&o.Sets, "sets", 100, "sets of node IDs per cluster size")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the node IDs")
	cmd.Flags().StringSliceVar(&o.Placements, "placements", nil, "placements to compare (default modulo, ring-unbounded, ring)")
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for name, value := range map[string]int{"tokens": o.Tokens, "sets": o.Sets} {
			if value < 1 {
				return usage(fmt.Errorf("--%s %d: must be at least 1", name, value))
			}
		}
		if err := o.Validate(); err != nil {
			return err
		}
		bar := newProgress(cmd.ErrOrStderr(), "placing", "sets of nodes")
		o.Progress = func(done, total int) { bar.show(cmd.Context(), done, total) }
		rows, err := survey(cmd, o)
		bar.clear()
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), rows, func(w io.Writer) { placementTable(w, rows) })
	}
	return cmd
}

// survey runs the experiment on a goroutine of its own, so that a signal ends
// the command at once; the goroutine then ends with the process.
func survey(cmd *cobra.Command, o ring.SurveyOptions) ([]ring.SurveyRow, error) {
	done := make(chan []ring.SurveyRow, 1)
	go func() { done <- ring.Survey(o) }()
	select {
	case rows := <-done:
		return rows, nil
	case <-cmd.Context().Done():
		return nil, fmt.Errorf("interrupted")
	}
}

func placementTable(w io.Writer, rows []ring.SurveyRow) {
	fmt.Fprintln(w, "NODES\tPLACEMENT\tSD\tSD WORST\tMAX/MEAN\tJOIN MOVED\tSURVIVORS\tLEAVE MOVED\tSHARE\tRANGES")
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%s\t%.2f%%\t%.2f%%\t%.3f\t%.2f\t%.2f\t%.2f\t%.1f%%\t%.0f\n", r.Nodes, r.Placement, 100*r.SD, 100*r.SDWorst,
			r.MaxOverMean, r.MovedJoinOverIdeal, r.MovedBetweenSurvivors, r.MovedLeaveOverIdeal, 100*r.MovedJoinShare, r.Ranges)
	}
}
