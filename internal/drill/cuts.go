package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// ringSide is the system of the side with the faults, where the faulty network is.
func (r *run) ringSide() (*ringSystem, error) {
	sys, ok := r.main.sys.(*ringSystem)
	if !ok || sys.net == nil {
		return nil, errors.New("the scenario needs the faulty network of a ring-cache cluster")
	}
	return sys, nil
}

func (r *run) blackholes(ctx context.Context) error { return r.each(ctx, r.blackhole) }

// blackhole cuts a node off from everybody: nothing is refused, nothing answers.
func (r *run) blackhole(ctx context.Context) error {
	sys, err := r.ringSide()
	if err != nil {
		return err
	}
	n, err := r.pick(ctx)
	if err != nil {
		return err
	}
	r.fault("%s is cut off from everybody", n.addr)
	end := r.unclean()
	begun := time.Now()
	sys.net.isolate(n.front.index)
	defer sys.net.heal()
	stop := r.probe(ctx, n, begun)
	defer stop()
	if err := r.out(ctx, sys, n, begun); err != nil {
		return err
	}
	if err := child.Pause(ctx, time.Until(begun.Add(min(blackTime, r.o.Duration/2)))); err != nil {
		return err
	}
	sys.net.heal()
	healed := time.Now()
	r.event("the network is back")
	err = r.settle(ctx, "heal", healed)
	end()
	return err
}

// out waits until no other node shows n as an owner.
func (r *run) out(ctx context.Context, sys *ringSystem, n *node, begun time.Time) error {
	others := without(sys.nodes(), n)
	err := child.PollEach(ctx, askEvery, outLimit, func(ctx context.Context) error {
		shown, err := sys.shows(ctx, others, n.addr)
		if err == nil && shown {
			err = fmt.Errorf("%s is still an owner", n.addr)
		}
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(begun)
	r.event("%s is out after %v", n.addr, took.Round(10*time.Millisecond))
	r.took("out", took)
	return nil
}

func (r *run) partitions(ctx context.Context) error { return r.each(ctx, r.partition) }

// partition separates the first half of the nodes from the second; clients reach
// both, and both serve all slots once each has given the other up.
func (r *run) partition(ctx context.Context) error {
	sys, err := r.ringSide()
	if err != nil {
		return err
	}
	nodes := sys.nodes()
	half := len(nodes) / 2
	r.fault("%d nodes do not hear the other %d", half, len(nodes)-half)
	end := r.unclean()
	defer sys.net.heal()
	for _, a := range nodes[:half] {
		for _, b := range nodes[half:] {
			sys.net.cut(a.front.index, b.front.index)
		}
	}
	if err := child.Pause(ctx, min(cutTime, r.o.Duration/2)); err != nil {
		return err
	}
	sys.net.heal()
	healed := time.Now()
	r.event("the network is back")
	err = r.settle(ctx, "heal", healed)
	end()
	return err
}

func (r *run) flaps(ctx context.Context) error { return r.each(ctx, r.flap) }

// flap is an outage between nodes that is too short to give one up, so nothing is
// excused, but what copies answer meanwhile.
func (r *run) flap(ctx context.Context) error {
	sys, err := r.ringSide()
	if err != nil {
		return err
	}
	n := r.flapping
	if n == nil {
		if n, err = r.pick(ctx); err != nil {
			return err
		}
		r.flapping = n
	}
	d := 500*time.Millisecond + time.Duration(r.rnd.Int64N(int64(1500*time.Millisecond)))
	r.fault("%s is cut off for %v", n.addr, d.Round(time.Millisecond))
	defer r.silent()()
	sys.net.isolate(n.front.index)
	defer sys.net.heal()
	return child.Pause(ctx, d)
}

const (
	mixedFewest = 3 // nodes that mixed leaves
	mixedSpread = 3 // nodes that it adds at most
	mixedGap    = 500 * time.Millisecond
)

// mixes does one random thing after the other, evenly spread over the time.
func (r *run) mixes(ctx context.Context) error {
	start, most := time.Now(), min(MaxNodes, r.o.Nodes+mixedSpread)
	for i := 0; i < r.o.Faults; {
		done, err := r.mix(ctx, most)
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		i++
		due := time.Until(start.Add(r.o.Duration * time.Duration(i) / time.Duration(r.o.Faults)))
		if err := child.Pause(ctx, max(due, mixedGap)); err != nil {
			return err
		}
	}
	return nil
}

// mix draws a fault; false: the number of nodes does not allow it.
func (r *run) mix(ctx context.Context, most int) (bool, error) {
	now := len(r.main.sys.nodes())
	kinds := 6
	if r.faulty {
		kinds = 8
	}
	switch r.rnd.IntN(kinds) {
	case 0:
		if now >= most {
			return false, nil
		}
		return true, r.join(ctx)
	case 1:
		if now <= mixedFewest {
			return false, nil
		}
		return true, r.leave(ctx)
	case 2:
		if now <= mixedFewest {
			return false, nil
		}
		return true, r.kill(ctx)
	case 3:
		return true, r.replace(ctx)
	case 4, 5:
		return true, r.pause(ctx)
	case 6:
		r.flapping = nil
		return true, r.flap(ctx)
	}
	return true, r.blackhole(ctx)
}

// replace kills a node and starts it again at once, mostly before anybody noticed.
func (r *run) replace(ctx context.Context) error {
	n, err := r.pick(ctx)
	if err != nil {
		return err
	}
	r.fault("%s is killed and restarted at once", n.addr)
	end := r.unclean()
	begun := time.Now()
	r.main.sys.kill(n)
	if _, err := r.main.sys.restart(ctx, n, false); err != nil {
		return err
	}
	err = r.settle(ctx, "restart", begun)
	end()
	return err
}
