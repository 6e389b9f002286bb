package node

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// Drain hands every slot over to the other members, step by step where there is
// content, waits until they have fetched it, and leaves the cluster. It returns
// then, or when ctx or Steps.DrainTimeout is over; requests are answered all the
// while. Of a ctx with a deadline a quarter, but no more than five seconds, is left
// for what the caller has to end afterwards. Call Close then.
func (n *Node) Drain(ctx context.Context) error {
	if n.membership() == nil || n.superseded.Load() || n.stay.Load() || n.draining.Swap(true) {
		return nil
	}
	n.stopRamp()
	if n.View().Len() == 1 {
		// Nobody takes anything over: the entries may stay for the next start.
		return n.membership().Leave(ctx)
	}
	n.copies.endWaits()
	n.log.Info("leaving: the other members take the slots over")
	n.handedOver.Store(true)
	n.setRamp(func(r *Ramp) { *r = Ramp{What: "drain", Started: n.clock.time()} })
	defer n.setRamp(func(r *Ramp) { *r = Ramp{} })
	end := time.Now().Add(n.o.Steps.DrainTimeout)
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if own := time.Now().Add(left - min(left/4, drainReserve)); own.Before(end) {
			end = own
		}
	}
	n.giveUp(ctx, end)
	if err := n.setState(topology.Draining); err != nil {
		n.log.Warn("cannot announce the leave", "error", err)
	}
	last, cancel := context.WithTimeout(ctx, max(time.Until(end), drainReserve))
	defer cancel()
	err := n.awaitRelease(last)
	if err == nil {
		n.awaitFetched(ctx, end)
	}
	// Whoever has not asked for its slots by now finds nobody to ask.
	n.barrier.Retire()
	if err = errors.Join(err, n.membership().Leave(ctx)); err == nil {
		n.log.Info("left the cluster")
	}
	return err
}

// Hurry makes Drain hand the slots over at once, without waiting for the content.
func (n *Node) Hurry() { n.hurry.Store(true) }

// giveUp takes the steps of a drain but the last one, which is not to be waited
// for: it returns at once where nobody would miss anything.
func (n *Node) giveUp(ctx context.Context, end time.Time) {
	steps := n.o.Steps.Join
	self := n.selfMember()
	slow := patience{limit: n.o.Steps.JoinTime}
	for p := self.Presence(); p > 0 && n.worthSteps(); {
		if ahead(n.View().Members(), n.id, func(*topology.Member) bool { return false }) != nil {
			n.announceDrain(p) // who leaves comes before who joins
		}
		// Whoever waits for another one still has to hand everything over itself.
		half := time.Now().Add(time.Until(end) / 2)
		if !n.awaitTurn(ctx, &slow, half) || !time.Now().Before(end) || !n.worthSteps() {
			return
		}
		if p = stepDown(p, steps); p == 0 {
			return
		}
		n.announceDrain(p)
		left := math.Ceil(p*float64(steps)) + 1 // this step's time and that of each to come
		share := time.Now().Add(time.Until(end) / time.Duration(left))
		step, cancel := context.WithDeadline(ctx, share)
		err := n.awaitRelease(step)
		cancel()
		if err == nil {
			n.awaitFetched(ctx, share)
		}
	}
}

func (n *Node) announceDrain(p float64) {
	err := n.announce(func(m *topology.Member) {
		if m.Weighing() {
			// The lower one, so that this node only gives slots up from now on.
			m.Weight = min(m.Weight, m.OldWeight)
		}
		m.State, m.Progress, m.OldWeight = topology.Draining, p, 0
	})
	if err != nil {
		n.log.Warn("cannot announce a step of the leave", "error", err)
	}
}

// worthSteps tells whether this node has content that somebody can take.
func (n *Node) worthSteps() bool {
	staying, _ := others(n.View(), n.id)
	return staying > 0 && n.o.Steps.Join > 1 && !n.hurry.Load() && !n.superseded.Load() && n.eng.Stats().ServedKeys > 0
}

// awaitRelease waits until no slot is served for another owner any more.
func (n *Node) awaitRelease(ctx context.Context) error {
	for {
		changed := n.barrier.Changed()
		if _, lost := n.barrier.Progress(); lost == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitFetched waits until the new owners have fetched the content of the slots
// that this node gave up, or until a time; not for owners that leave as well.
func (n *Node) awaitFetched(ctx context.Context, until time.Time) {
	t := time.NewTicker(rampTick)
	defer t.Stop()
	for {
		changed := n.barrier.Changed()
		if n.contents.CededSlots() == 0 || !time.Now().Before(until) {
			return
		}
		if staying, _ := others(n.View(), n.id); staying == 0 || n.hurry.Load() {
			return
		}
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
