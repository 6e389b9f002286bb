package ring

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ringcache/ringcache/internal/errs"
)

// Limits of the survey.
const (
	MaxSurveyNodes = 1000
	MaxSurveySets  = 100_000
)

// SurveyOptions describe the placement experiment: random node IDs from a fixed
// seed, one node joining, one node leaving, averaged over many sets of IDs. The
// zero value is the default.
type SurveyOptions struct {
	Nodes      []int    // node counts, 1 to MaxSurveyNodes; empty means 3, 5, 10, 20
	Tokens     int      // as Params.Tokens
	Bound      float64  // as Params.Bound
	Placements []string // empty means modulo, ring-unbounded, ring
	Sets       int      // sets of IDs per node count, up to MaxSurveySets; 0 means 100
	Seed       uint64   // of the node IDs; 0 means 1
	// Progress, if set, is called after every set of node IDs, on the
	// caller's goroutine, with the sets done so far and those to do in all.
	Progress func(done, total int)
}

// SurveyRow holds one placement at one node count, all nodes of weight 1. Every
// figure but SDWorst is the average over the sets.
type SurveyRow struct {
	Nodes     int    `json:"nodes"`
	Placement string `json:"placement"`
	// SD is the standard deviation of the nodes' load/mean load; SDWorst is
	// that of the worst set.
	SD      float64 `json:"sd"`
	SDWorst float64 `json:"sd_worst"`
	// MaxOverMean is the load of the fullest node over the mean load.
	MaxOverMean float64 `json:"max_over_mean"`
	// MovedJoinOverIdeal is the number of slots that change owner when one
	// node joins, over the joiner's fair share Slots/(Nodes+1).
	MovedJoinOverIdeal float64 `json:"moved_join_over_ideal"`
	// MovedLeaveOverIdeal is the same for one node that leaves, over its fair
	// share Slots/Nodes.
	MovedLeaveOverIdeal float64 `json:"moved_leave_over_ideal"`
	// MovedBetweenSurvivors is the part of MovedJoinOverIdeal that goes from
	// one old node to another: those slots over Slots/(Nodes+1).
	MovedBetweenSurvivors float64 `json:"moved_between_survivors"`
	// MovedJoinShare is the share of all slots that move on the join.
	MovedJoinShare float64 `json:"moved_join_share"`
	// Ranges is the number of runs of slots with one owner, which is about
	// the length of a CLUSTER SLOTS reply.
	Ranges float64 `json:"ranges"`
}

func (o SurveyOptions) withDefaults() SurveyOptions {
	if len(o.Nodes) == 0 {
		o.Nodes = []int{3, 5, 10, 20}
	}
	if len(o.Placements) == 0 {
		o.Placements = []string{NameModulo, NameUnbounded, NameRing}
	}
	if o.Sets == 0 {
		o.Sets = 100
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	return o
}

// Validate returns all faults of the options, wrapped in errs.ErrConfig.
func (o SurveyOptions) Validate() error {
	o = o.withDefaults()
	var faults []error
	for _, n := range o.Nodes {
		if n < 1 || n > MaxSurveyNodes {
			faults = append(faults, fmt.Errorf("%d nodes, must be 1 to %d", n, MaxSurveyNodes))
		}
	}
	if o.Sets < 1 || o.Sets > MaxSurveySets {
		faults = append(faults, fmt.Errorf("%d sets, must be 1 to %d", o.Sets, MaxSurveySets))
	}
	if fault := (Params{Tokens: o.Tokens, Bound: o.Bound}).Validate(); fault != nil {
		faults = append(faults, fault)
	}
	for _, name := range o.Placements {
		if !slices.Contains(Names(), name) {
			faults = append(faults, unknownPlacement(name))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", errs.ErrConfig, errors.Join(faults...))
}

// Survey runs the experiment: one row per node count and placement, in the
// order of the options. Equal options give equal rows. All placements see the
// same node IDs. It returns nil for options that Validate refuses.
func Survey(o SurveyOptions) []SurveyRow {
	if o.Validate() != nil {
		return nil
	}
	o = o.withDefaults()
	rows := make([]SurveyRow, 0, len(o.Nodes)*len(o.Placements))
	for i, n := range o.Nodes {
		sums := make([]SurveyRow, len(o.Placements))
		random := rand.New(rand.NewPCG(o.Seed, uint64(n)))
		for set := range o.Sets {
			sample := newSample(random, n)
			for k, name := range o.Placements {
				p, err := New(name, Params{Tokens: o.Tokens, Bound: o.Bound})
				if err != nil {
					return nil
				}
				sample.measure(p, &sums[k])
			}
			if o.Progress != nil {
				o.Progress(i*o.Sets+set+1, len(o.Nodes)*o.Sets)
			}
		}
		for k, name := range o.Placements {
			sums[k].Nodes, sums[k].Placement = n, name
			sums[k].average(o.Sets)
		}
		rows = append(rows, sums...)
	}
	return rows
}

// sample is one set of nodes of the survey.
type sample struct {
	nodes   []Node // the cluster
	joined  []Node // with one node more
	left    []Node // with one node less
	joiner  string
	scratch [3]Table
}

func newSample(random *rand.Rand, n int) *sample {
	joined := make([]Node, n+1)
	for i := range joined {
		joined[i] = Node{ID: randomID(random), Weight: 1}
	}
	slices.SortFunc(joined, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	k := random.IntN(n + 1)
	s := &sample{joined: joined, joiner: joined[k].ID}
	s.nodes = slices.Delete(slices.Clone(joined), k, k+1)
	k = random.IntN(n)
	s.left = slices.Delete(slices.Clone(s.nodes), k, k+1)
	return s
}

func randomID(random *rand.Rand) string {
	return fmt.Sprintf("%016x%016x%08x", random.Uint64(), random.Uint64(), random.Uint32())
}

// measure adds the figures of one placement to sum.
func (s *sample) measure(p Placement, sum *SurveyRow) {
	now, joined, left := &s.scratch[0], &s.scratch[1], &s.scratch[2]
	p.Place(s.nodes, now)
	p.Place(s.joined, joined)
	p.Place(s.left, left)
	f := Balance(s.nodes, now)
	sum.SD += f.SD
	sum.SDWorst = max(sum.SDWorst, f.SD)
	sum.MaxOverMean += f.MaxOverMean
	sum.Ranges += float64(f.Ranges)

	var moved, survivors int
	for _, r := range Affected(s.nodes, now, s.joined, joined) {
		n := int(r.Last) - int(r.First) + 1
		moved += n
		if s.joined[r.To].ID != s.joiner {
			survivors += n
		}
	}
	ideal := Slots / float64(len(s.joined))
	sum.MovedJoinOverIdeal += float64(moved) / ideal
	sum.MovedBetweenSurvivors += float64(survivors) / ideal
	sum.MovedJoinShare += float64(moved) / Slots

	moved = 0
	for _, r := range Affected(s.nodes, now, s.left, left) {
		moved += int(r.Last) - int(r.First) + 1
	}
	sum.MovedLeaveOverIdeal += float64(moved) / (Slots / float64(len(s.nodes)))
}

func (r *SurveyRow) average(sets int) {
	n := float64(sets)
	r.SD /= n
	r.MaxOverMean /= n
	r.MovedJoinOverIdeal /= n
	r.MovedLeaveOverIdeal /= n
	r.MovedBetweenSurvivors /= n
	r.MovedJoinShare /= n
	r.Ranges /= n
}
