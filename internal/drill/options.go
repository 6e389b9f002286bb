package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of a drill: it is a load on one machine.
const (
	MaxNodes    = 16
	maxKeys     = 10_000_000
	maxRate     = 200_000
	maxWorkers  = 4096
	maxDuration = 6 * time.Hour
	maxFaults   = 10_000
	maxValue    = 256 << 10
)

// Targets that a drill knows.
const (
	TargetRing   = "ringcache"     // a cluster of `ringcache serve`
	TargetModulo = "modulo"        // separate nodes, hash modulo N in the client
	TargetKetama = "ketama"        // separate nodes, a ketama ring in the client
	TargetRedis  = "redis-cluster" // redis-server --cluster-enabled, moved by redis-cli --cluster
)

// Targets lists the names of all targets.
func Targets() []string { return []string{TargetRing, TargetModulo, TargetKetama, TargetRedis} }

// Options configures a drill. The zero value of a field is its default.
type Options struct {
	Scenario string // one of Scenarios; default "join"
	Target   string // one of Targets; default TargetRing
	Binary   string // the ringcache executable; required but for TargetRedis

	Nodes     int      // at the start; default 3
	Replicas  int      // copies of every slot beside the owner's
	MaxMemory string   // of each node; default "256mb"
	Args      []string // further arguments of `ringcache serve`
	// Lazy: keys move only when a request needs them, and the steps of a join take two
	// thirds of Duration.
	Lazy bool

	Keys    int           // distinct keys of the main load; default 100,000
	Theta   float64       // exponent of Zipf's law; default 0.99
	Rate    float64       // requests per second on each of the two sides; default 4,000
	Reads   float64       // share of reads in the main load; default 0.95
	Value   int           // bytes of a value; default 100
	TTL     time.Duration // of the main load's values; default 5 min
	Timeout time.Duration // total deadline of one call; default 50 ms
	Clients int           // SDK clients of each side; default 2
	Workers int           // concurrent callers of each side; default so many that each makes a call in twice Timeout

	Before      time.Duration // load before the first fault; default: two bins
	Duration    time.Duration // load from the first fault on; default 60 s
	Faults      int           // how many; default depends on the scenario
	BinRequests int           // requests of a bin; default 50,000
	Quick       bool          // short times and small bins, to see that everything works
	Seed        uint64

	// Open makes a client of the cluster; the SDK by default. Client names it.
	Open   func(ctx context.Context, seeds []string) (Driver, error)
	Client string

	// Progress is called now and then from one goroutine; Note on every event.
	Progress func(phase string, done, total int)
	Note     func(text string)
}

// Validate returns all faults of the options at once.
func (o Options) Validate() error { return o.setDefaults() }

func or[T comparable](v *T, value T) {
	if *v == *new(T) {
		*v = value
	}
}

func (o *Options) setDefaults() error {
	or(&o.Scenario, "join")
	or(&o.Target, TargetRing)
	or(&o.Nodes, 3)
	or(&o.MaxMemory, "256mb")
	or(&o.Theta, 0.99)
	or(&o.Reads, 0.95)
	or(&o.Value, 100)
	or(&o.TTL, 5*time.Minute)
	or(&o.Timeout, 50*time.Millisecond)
	or(&o.Clients, 2)
	or(&o.Seed, 1)
	if o.Quick {
		or(&o.Keys, 10_000)
		or(&o.Rate, 1000)
		or(&o.BinRequests, 2000)
		or(&o.Before, 4*time.Second)
		or(&o.Duration, 12*time.Second)
	}
	or(&o.Keys, 100_000)
	or(&o.Rate, 4000)
	or(&o.BinRequests, 50_000)
	or(&o.Duration, 60*time.Second)
	or(&o.Client, "sdk")
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if err := o.faults(); err != nil {
		return err
	}
	or(&o.Workers, min(maxWorkers, max(8, int(o.Rate*2*o.Timeout.Seconds()))))
	or(&o.Before, 2*o.bin())
	or(&o.Faults, scenarios[o.Scenario].faults)
	if o.Scenario == "leave" || o.Scenario == "kill" {
		if o.Faults >= o.Nodes {
			return fmt.Errorf("scenario %s: %d of %d nodes would go; one must stay", o.Scenario, o.Faults, o.Nodes)
		}
	}
	if o.Scenario == "join" && o.Nodes+o.Faults > MaxNodes {
		return fmt.Errorf("scenario join: %d nodes and %d more are above the limit of %d", o.Nodes, o.Faults, MaxNodes)
	}
	if o.Open == nil {
		timeout := o.Timeout
		o.Open = func(ctx context.Context, seeds []string) (Driver, error) { return OpenSDK(ctx, seeds, timeout) }
	}
	return nil
}

// bin is how long a bin takes.
func (o *Options) bin() time.Duration {
	return time.Duration(float64(o.BinRequests) / o.Rate * float64(time.Second))
}

// faults says what is wrong with single options.
func (o *Options) faults() error {
	var faults []error
	check := func(ok bool, format string, a ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, a...))
		}
	}
	s, known := scenarios[o.Scenario]
	check(known, "scenario %q: choose one of %s", o.Scenario, strings.Join(Scenarios(), ", "))
	check(slices.Contains(Targets(), o.Target), "target %q: choose one of %s", o.Target, strings.Join(Targets(), ", "))
	if known && o.Target != TargetRing {
		check(slices.Contains(s.targets, o.Target), "scenario %s does not run on target %s", o.Scenario, o.Target)
		check(o.Replicas == 0 || o.Target == TargetRedis, "target %s keeps no replicas", o.Target)
	}
	check(o.Nodes >= 1 && o.Nodes <= MaxNodes, "%d nodes: choose 1 to %d", o.Nodes, MaxNodes)
	if known {
		check(o.Nodes >= s.nodes, "scenario %s needs at least %d nodes", o.Scenario, s.nodes)
	}
	check(o.Replicas >= 0 && o.Replicas <= 2, "%d replicas: choose 0 to 2", o.Replicas)
	check(o.Keys >= 2 && o.Keys <= maxKeys, "%d keys: choose 2 to %d", o.Keys, maxKeys)
	check(o.Theta > 0 && o.Theta < 1, "Zipf exponent %g: must be above 0 and below 1", o.Theta)
	check(o.Rate >= 10 && o.Rate <= maxRate, "rate %g: choose 10 to %d requests/s", o.Rate, maxRate)
	check(o.Reads >= 0 && o.Reads <= 1, "share of reads %g: must be 0 to 1", o.Reads)
	check(o.Value >= 32 && o.Value <= maxValue, "value of %d bytes: choose 32 to %d", o.Value, maxValue)
	check(o.TTL >= time.Second, "TTL %v: give at least 1 s", o.TTL)
	check(o.Timeout >= time.Millisecond && o.Timeout <= time.Minute, "timeout %v: choose 1 ms to 1 min", o.Timeout)
	check(o.Clients >= 1 && o.Clients <= 64, "%d clients: choose 1 to 64", o.Clients)
	check(o.Workers >= 0 && o.Workers <= maxWorkers, "%d workers: at most %d", o.Workers, maxWorkers)
	check(o.Duration > 0 && o.Duration <= maxDuration && o.Before >= 0, "duration %v: choose up to %v", o.Duration, maxDuration)
	check(o.Faults >= 0 && o.Faults <= maxFaults, "%d faults: at most %d", o.Faults, maxFaults)
	check(o.BinRequests >= 100, "bins of %d requests: give at least 100", o.BinRequests)
	check(o.Binary != "" || o.Target == TargetRedis, "the ringcache executable is not named")
	return errors.Join(faults...)
}
