package workload

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Cache is what a replay needs of a cache: a read that tells an absent key
// (found false, err nil) from a failure, and a write.
type Cache interface {
	Get(ctx context.Context, key string) (value []byte, found bool, err error)
	Set(ctx context.Context, key string, value []byte) error
}

// Fleet changes the set of nodes behind a Cache. Join and Kill return when the
// change has settled: every key has a serving owner again and the Cache knows it.
type Fleet interface {
	// Join adds one node.
	Join(ctx context.Context) error
	// Kill ends one node's process without a farewell.
	Kill(ctx context.Context) error
	// Loads returns, per live node, its name, the reads that it has answered
	// since it started, and the share of the keys that it should hold.
	Loads(ctx context.Context) ([]NodeLoad, error)
}

// NodeLoad is one node's read count and its ideal share (the shares add up to 1).
type NodeLoad struct {
	Node  string
	Reads uint64
	Ideal float64
}

// ReplayOptions configures Replay.
type ReplayOptions struct {
	Open      func() (Source, error) // the trace
	Requests  int64                  // how many of its requests to replay; required
	Cache     Cache
	Fleet     Fleet   // may be nil when JoinAt and KillAt are 0
	JoinAt    float64 // fraction of the trace at which a node joins; 0 = never
	KillAt    float64 // fraction of the trace at which a node is killed; 0 = never
	Workers   int     // concurrent callers; requests of one key keep their order; default 8
	ValueSize int     // bytes of a value where the trace gives no size; default 64
	MaxValue  int     // sizes above are cut to this; default 256 KiB
	Rate      float64 // requests per second; 0 = as fast as the cache answers
	Bin       int64   // requests per bin for WorstBin; default 1000
	Progress  func(done, total int64, phase string, hitRatio float64)
}

// Phase is what a replay measured between two changes of the fleet. An error
// of the cache counts as a miss: the application has to ask the origin.
type Phase struct {
	Name        string        `json:"phase"`
	Requests    int64         `json:"requests"`
	Hits        int64         `json:"hits"`
	OriginLoads int64         `json:"origin_loads"`
	Errors      int64         `json:"errors"`
	HitRatio    float64       `json:"hit_ratio"`
	FirstBin    float64       `json:"first_bin_hit_ratio"` // of the first bin after the change
	WorstBin    float64       `json:"worst_bin_hit_ratio"`
	Settle      time.Duration `json:"settle_ns"` // how long the change before this phase took
	P50         time.Duration `json:"p50_ns"`
	P99         time.Duration `json:"p99_ns"`
	Nodes       []NodeShare   `json:"nodes,omitempty"`
}

// NodeShare is one node's part of a phase's reads beside its ideal part.
type NodeShare struct {
	Node  string  `json:"node"`
	Share float64 `json:"share"`
	Ideal float64 `json:"ideal"`
}

const maxBins = 1_000_000 // more bins than this mean a bin size that is too small

func (o *ReplayOptions) setDefaults() error {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.Workers, 8)
	def(&o.ValueSize, 64)
	def(&o.MaxValue, 256<<10)
	if o.Bin <= 0 {
		o.Bin = 1000
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64, string, float64) {}
	}
	var faults []error
	if o.Requests <= 0 {
		faults = append(faults, errors.New("replay: no requests to replay"))
	}
	if o.Requests/o.Bin > maxBins {
		faults = append(faults, fmt.Errorf("replay: %d requests in bins of %d give more than %d bins", o.Requests, o.Bin, maxBins))
	}
	for _, at := range []struct {
		name string
		f    float64
	}{{"join-at", o.JoinAt}, {"kill-at", o.KillAt}} {
		name, f := at.name, at.f
		if f < 0 || f >= 1 {
			faults = append(faults, fmt.Errorf("replay: %s is %g, want a fraction of the trace from 0 (never) to below 1", name, f))
		} else if f > 0 && o.Fleet == nil {
			faults = append(faults, fmt.Errorf("replay: %s needs nodes that the replay starts itself", name))
		}
	}
	if o.JoinAt > 0 && o.JoinAt == o.KillAt {
		faults = append(faults, fmt.Errorf("replay: join-at and kill-at are both %g; they need different moments", o.JoinAt))
	}
	return errors.Join(faults...)
}

// plan cuts the trace into phases.
func (o *ReplayOptions) plan() []*phaseRun {
	cut := func(f float64) int64 { return int64(f * float64(o.Requests)) }
	plan := []*phaseRun{{name: "start"}}
	add := func(name string, at float64) {
		if at > 0 {
			plan = append(plan, &phaseRun{name: name, start: cut(at)})
		}
	}
	if o.KillAt > 0 && o.KillAt < o.JoinAt {
		add("after kill", o.KillAt)
		add("after join", o.JoinAt)
	} else {
		add("after join", o.JoinAt)
		add("after kill", o.KillAt)
	}
	for i, p := range plan {
		p.end = o.Requests
		if i+1 < len(plan) {
			p.end = plan[i+1].start
		}
		p.bins = make([]binCell, (p.end-p.start)/o.Bin+1)
	}
	return plan
}
