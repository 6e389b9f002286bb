package drill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// scenario is a script of faults.
type scenario struct {
	about   string
	faults  int      // default of Options.Faults
	nodes   int      // the fewest at the start
	faulty  bool     // needs the faulty network
	targets []string // beside TargetRing
	run     func(r *run, ctx context.Context) error
}

var everywhere = []string{TargetModulo, TargetKetama, TargetRedis}

var scenarios = map[string]scenario{
	"join":          {"nodes are added", 1, 1, false, everywhere, (*run).joins},
	"leave":         {"nodes leave in good order (SIGTERM)", 1, 2, false, everywhere, (*run).leaves},
	"kill":          {"nodes are killed (SIGKILL) and stay away", 1, 2, false, everywhere, (*run).kills},
	"pause":         {"nodes are frozen for 0.2 to 2 s (SIGSTOP, SIGCONT)", 10, 2, false, everywhere, (*run).pauses},
	"blackhole":     {"a node is cut off from nodes and clients until it is out, then comes back", 1, 3, true, nil, (*run).blackholes},
	"partition":     {"half of the nodes do not hear the other half, clients reach all; then it heals", 1, 2, true, nil, (*run).partitions},
	"flap":          {"a node is cut off for 0.5 to 2 s, again and again", 8, 2, true, nil, (*run).flaps},
	"rolling":       {"every node is stopped (SIGTERM) and started again, with 2 s between them", 1, 2, false, []string{TargetModulo, TargetKetama}, (*run).rolls},
	"mass-restart":  {"all nodes are killed and come back at other addresses under the same IDs", 1, 2, false, nil, (*run).restartsAll},
	"mixed":         {"joins, leaves, kills, restarts and pauses in random order", 20, 3, false, []string{TargetModulo, TargetKetama}, (*run).mixes},
	"mixed-network": {"the same, and nodes that are cut off", 20, 3, true, nil, (*run).mixes},
}

// Scenarios lists the names of all scenarios.
func Scenarios() []string { return slices.Sorted(maps.Keys(scenarios)) }

// About says what happens in a scenario.
func About(name string) string { return scenarios[name].about }

// Times of the scripts.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = 2 * time.Second
	rollingGap    = 2 * time.Second
	outLimit      = 30 * time.Second // until a node that is cut off must be out
	cutTime       = 15 * time.Second // of a partition
	blackTime     = 20 * time.Second // of a black hole, at least until the node is out
)

// each calls do for every fault, evenly spread over the time.
func (r *run) each(ctx context.Context, do func(ctx context.Context) error) error {
	start := time.Now()
	for i := range r.o.Faults {
		at := start.Add(r.o.Duration * time.Duration(i) / time.Duration(r.o.Faults))
		if err := child.Pause(ctx, time.Until(at)); err != nil {
			return err
		}
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) joins(ctx context.Context) error { return r.each(ctx, r.join) }

func (r *run) join(ctx context.Context) error {
	r.fault("a node joins")
	begun := time.Now()
	n, err := r.main.sys.join(ctx)
	if err != nil {
		return err
	}
	r.event("%s has joined", n.addr)
	return r.settle(ctx, "join", begun)
}

func (r *run) leaves(ctx context.Context) error { return r.each(ctx, r.leave) }

func (r *run) leave(ctx context.Context) error {
	n, err := r.pick(ctx)
	if err != nil {
		return err
	}
	r.fault("%s leaves", n.addr)
	begun := time.Now()
	if err := r.main.sys.leave(ctx, n); err != nil {
		return err
	}
	r.event("%s has left", n.addr)
	return r.settle(ctx, "leave", begun)
}

func (r *run) kills(ctx context.Context) error { return r.each(ctx, r.kill) }

// kill ends a node; until all agree again, old values have an excuse.
func (r *run) kill(ctx context.Context) error {
	n, err := r.pick(ctx)
	if err != nil {
		return err
	}
	r.fault("%s is killed", n.addr)
	end := r.unclean()
	begun := time.Now()
	r.main.sys.kill(n)
	stop := r.probe(ctx, n, begun)
	defer stop()
	err = r.settle(ctx, "kill", begun)
	end()
	return err
}

func (r *run) pauses(ctx context.Context) error { return r.each(ctx, r.pause) }

func (r *run) pause(ctx context.Context) error {
	n, err := r.pick(ctx)
	if err != nil {
		return err
	}
	d := shortestPause + time.Duration(r.rnd.Int64N(int64(longestPause-shortestPause)))
	r.fault("%s is frozen for %v", n.addr, d.Round(time.Millisecond))
	defer r.silent()()
	n.pause()
	defer n.resume()
	return child.Pause(ctx, d)
}

func (r *run) rolls(ctx context.Context) error {
	for _, n := range r.main.sys.nodes() {
		if err := r.roll(ctx, n); err != nil {
			return err
		}
		if err := child.Pause(ctx, rollingGap); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) roll(ctx context.Context, n *node) error {
	r.fault("%s is stopped", n.addr)
	begun := time.Now()
	if err := n.proc.Term(ctx, leaveLimit); err != nil {
		return err
	}
	r.main.sys.ended(n)
	if _, err := r.main.sys.restart(ctx, n, false); err != nil {
		return err
	}
	r.event("%s is back after %v", n.addr, time.Since(begun).Round(time.Millisecond))
	return r.settle(ctx, "restart", begun)
}

// restartsAll kills everything at once. What the nodes knew is gone with them; only
// their directories, with the IDs, are left. Applications learn the new addresses
// as they would from a DNS name.
func (r *run) restartsAll(ctx context.Context) error {
	sys, ok := r.main.sys.(*ringSystem)
	if !ok {
		return fmt.Errorf("only a ring-cache cluster restarts at other addresses")
	}
	nodes := sys.nodes()
	if err := r.lookAtOwners(ctx); err != nil {
		return err
	}
	r.fault("all %d nodes are killed", len(nodes))
	end := r.unclean()
	begun := time.Now()
	for _, n := range nodes {
		n.proc.Signal(syscall.SIGKILL)
	}
	for _, n := range nodes {
		sys.kill(n)
	}
	if err := sys.restartAll(ctx, nodes); err != nil {
		return err
	}
	r.event("all are back at other addresses")
	if err := r.main.connect(ctx); err != nil {
		return err
	}
	stop := r.probe(ctx, nil, begun)
	defer stop()
	err := r.settle(ctx, "mass restart", begun)
	end()
	return err
}
