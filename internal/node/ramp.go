package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

// Defaults and bounds of a change in steps.
const (
	DefaultJoinSteps    = 8
	MaxJoinSteps        = 64
	DefaultMissBudget   = 0.05
	DefaultJoinTime     = 10 * time.Minute
	DefaultDrainTimeout = time.Minute

	// rampTick is how often a node looks whether it may take its next step, when
	// nothing else tells it.
	rampTick = 50 * time.Millisecond
	// stepPause is how long a node looks at its requests after a step before it
	// takes the next one, as long as content is still on its way to it: their
	// figures are those of the last full second.
	stepPause = 2 * time.Second
	// turnWait is how long a joiner waits before it looks whether it is its turn:
	// others that have started at the same moment have said so by then.
	turnWait = 300 * time.Millisecond
	// drainReserve is what Drain leaves of its context for the sessions.
	drainReserve = 5 * time.Second
	// standingWait bounds the question of a joiner to the owners.
	standingWait = time.Second
)

// rampJoin is what Ramp calls a join.
const rampJoin = "join"

// Steps say how a node takes its slots over and gives them up. The zero value is
// the default.
type Steps struct {
	// Join is how many steps a join, a drain or a change of weight has; 0:
	// DefaultJoinSteps, 1: all slots at once.
	Join int
	// MissBudget is the part of this node's requests, 0 to 1, that may have to
	// fetch their key from the owner before, for the next step to be taken while
	// content is on its way; 0: DefaultMissBudget, 1: as many as there are.
	MissBudget float64
	// JoinTime bounds a join or a change of weight from the first step to the
	// last, and how long another member that does not get on is waited for; 0:
	// DefaultJoinTime.
	JoinTime time.Duration
	// DrainTimeout bounds how long Drain hands slots and content over; 0:
	// DefaultDrainTimeout.
	DrainTimeout time.Duration
}

// WithDefaults returns s with its zero fields set.
func (s Steps) WithDefaults() Steps {
	if s.Join == 0 {
		s.Join = DefaultJoinSteps
	}
	if s.MissBudget == 0 {
		s.MissBudget = DefaultMissBudget
	}
	if s.JoinTime == 0 {
		s.JoinTime = DefaultJoinTime
	}
	if s.DrainTimeout == 0 {
		s.DrainTimeout = DefaultDrainTimeout
	}
	return s
}

// Validate returns all faults of s, with its defaults filled in.
func (s Steps) Validate() error {
	s = s.WithDefaults()
	var faults []error
	if s.Join < 1 || s.Join > MaxJoinSteps {
		faults = append(faults, fmt.Errorf("%w: steps of a join: %d, must be 1 to %d", errs.ErrConfig, s.Join, MaxJoinSteps))
	}
	if !(s.MissBudget > 0 && s.MissBudget <= 1) {
		faults = append(faults, fmt.Errorf("%w: miss budget %v, must be above 0 and at most 1", errs.ErrConfig, s.MissBudget))
	}
	if s.JoinTime < 0 || s.DrainTimeout < 0 {
		faults = append(faults, fmt.Errorf("%w: time of a join (%v) or drain timeout (%v) is negative", errs.ErrConfig, s.JoinTime, s.DrainTimeout))
	}
	return errors.Join(faults...)
}

// Ramp is the change in steps of this node that is under way.
type Ramp struct {
	What     string // "join", "drain" or "weight"; "" for none
	Progress float64
	// WaitingFor is the member that takes its steps before; zero: nobody.
	WaitingFor topology.NodeID
	Started    time.Time
}

// ramp is the state of Ramp and the goroutine behind it.
type ramp struct {
	start  sync.Mutex // held while one change takes the place of another
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine of cancel has ended

	mu  sync.Mutex
	now Ramp // guarded by mu
}

// contents is what a change needs to know of the content behind the slots; a Node
// is one.
type contents interface {
	// WindowsOpen is how many slots of this node have content that is still at
	// their owner before; CededSlots how many slots that this node gave up have
	// content here that their new owner has not fetched.
	WindowsOpen() int
	CededSlots() int
	// missPressure is which part of this node's requests, lately, had to fetch
	// their key from the owner before.
	missPressure() float64
}

// Ramp tells which change in steps of this node is under way.
func (n *Node) Ramp() Ramp {
	n.ramp.mu.Lock()
	r := n.ramp.now
	n.ramp.mu.Unlock()
	if r.What != "" {
		r.Progress = n.selfMember().Progress
	}
	return r
}

func (n *Node) setRamp(change func(*Ramp)) {
	n.ramp.mu.Lock()
	change(&n.ramp.now)
	n.ramp.mu.Unlock()
}

// startRamp runs a change in the background, in the place of one that is under
// way. It ends by itself, with n.ctx, or by stopRamp.
func (n *Node) startRamp(what string, run func(ctx context.Context)) {
	n.ramp.start.Lock()
	defer n.ramp.start.Unlock()
	n.endRamp()
	if n.ctx.Err() != nil || n.draining.Load() {
		return
	}
	ctx, cancel := context.WithCancel(n.ctx)
	done := make(chan struct{})
	n.ramp.cancel, n.ramp.done = cancel, done
	n.setRamp(func(r *Ramp) { *r = Ramp{What: what, Started: n.clock.time()} })
	n.wg.Go(func() {
		defer close(done)
		defer cancel()
		run(ctx)
		n.setRamp(func(r *Ramp) { *r = Ramp{} })
	})
}

// stopRamp ends the change that is under way where it stands, and waits for it.
func (n *Node) stopRamp() {
	n.ramp.start.Lock()
	defer n.ramp.start.Unlock()
	n.endRamp()
}

// endRamp runs under ramp.start.
func (n *Node) endRamp() {
	if n.ramp.cancel != nil {
		n.ramp.cancel()
		<-n.ramp.done
		n.ramp.cancel = nil
	}
}

// enter makes a node that has joined an owner: at once where nothing is lost by
// that, else in steps that go on in the background.
func (n *Node) enter(ctx context.Context) error {
	from := n.standing(ctx)
	if from == 1 || n.o.Steps.Join == 1 || n.selfMember().Weight == 0 && !n.pinnedHere() {
		err := n.setState(topology.Active)
		n.settleInheritance()
		return err
	}
	err := n.announce(func(m *topology.Member) { m.State, m.Progress = topology.Warming, from })
	n.settleInheritance()
	if err == nil {
		n.startRamp(rampJoin, n.joinInSteps)
	}
	return err
}

// joinInSteps takes this node from Warming to Active.
func (n *Node) joinInSteps(ctx context.Context) {
	steps := n.o.Steps
	if n.selfMember().Progress == 0 {
		t := time.NewTimer(turnWait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
	// What goes wrong is in the log; the node keeps the part that it has.
	_ = n.inSteps(ctx, func(m *topology.Member) (last bool) {
		m.Progress = stepUp(m.Progress, steps.Join)
		if _, present := others(n.View(), n.id); present == 0 {
			m.Progress = 1 // there is nobody to share with
		}
		if m.Progress < 1 {
			return false
		}
		m.State, m.Progress = topology.Active, 0
		return true
	})
}

// inSteps takes the steps of a change one by one, each when it is this node's
// turn and the step before has settled. It returns nil when the change is over,
// complete or ended from outside, or the error of a step that could not be announced:
// then the node is as it was before that step.
func (n *Node) inSteps(ctx context.Context, step func(*topology.Member) (last bool)) error {
	var end time.Time
	slow := patience{limit: n.o.Steps.JoinTime}
	what, began := n.Ramp().What, time.Now()
	for {
		waited := time.Now()
		if !n.awaitTurn(ctx, &slow, time.Time{}) {
			return nil
		}
		if end.IsZero() {
			end = time.Now().Add(n.o.Steps.JoinTime)
		} else {
			end = end.Add(time.Since(waited)) // others had their turn
		}
		if what == rampJoin && time.Now().Before(end) && !n.mirrorPause(ctx) {
			return nil
		}
		before, last := n.selfMember(), false
		if err := n.announce(func(m *topology.Member) { last = step(m) }); err != nil {
			n.log.Error("cannot announce a step of a change of this node; it stays as it was", "change", what, "error", err)
			// The entry before was announced once.
			_ = n.announce(func(m *topology.Member) {
				m.State, m.Progress, m.Weight, m.OldWeight = before.State, before.Progress, before.Weight, before.OldWeight
			})
			return err
		}
		self := n.selfMember()
		left := max(1, (1-self.Progress)*float64(n.o.Steps.Join))
		until := time.Now().Add(time.Until(end) / time.Duration(left))
		if !n.awaitStep(ctx, until, last) {
			return nil
		}
		if last {
			v := n.View()
			i, _ := v.Index(n.id)
			n.log.Info("the change is complete: this node serves all slots that are its own", "change", what,
				"slots", v.OwnedBy(i), "weight", self.Weight, "took", time.Since(began).Round(time.Millisecond).String())
			return nil
		}
	}
}

// awaitTurn waits until no other member takes its steps before this node, or
// until a time that is not zero. False: the change is over.
func (n *Node) awaitTurn(ctx context.Context, slow *patience, until time.Time) bool {
	defer n.setRamp(func(r *Ramp) { r.WaitingFor = topology.NodeID{} })
	t := time.NewTicker(rampTick)
	defer t.Stop()
	told := false
	for ctx.Err() == nil && !n.superseded.Load() {
		changed := n.barrier.Changed()
		v, now := n.View(), time.Now()
		first := ahead(v.Members(), n.id, func(m *topology.Member) bool { return slow.passed(m, now) })
		staying, present := others(v, n.id)
		self := n.selfMember()
		leaving := n.draining.Load()
		switch {
		case !until.IsZero() && !now.Before(until), leaving && staying == 0:
			return true
		case leaving && present == 0:
			// Those that stay are about to own slots: there is nobody else.
		case first == nil, present == 0 && self.State == topology.Warming:
			return true
		}
		if first != nil {
			n.setRamp(func(r *Ramp) { r.WaitingFor = first.ID })
		}
		if first != nil && !told {
			told = true
			n.log.Info("this node waits for its turn to change: one member does at a time", "other", first.Addr(), "state", first.State.String())
		}
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return false
}

// awaitStep waits until the slots of a step have changed hands and the content
// behind them has come, or at least asks for no more requests than the budget has,
// but not beyond until. After the last step only the slots count. False: the change
// is over.
func (n *Node) awaitStep(ctx context.Context, until time.Time, last bool) bool {
	t := time.NewTicker(rampTick)
	defer t.Stop()
	var opened time.Time
	for ctx.Err() == nil && !n.superseded.Load() {
		changed := n.barrier.Changed()
		now := time.Now()
		gained, lost := n.barrier.Progress()
		switch {
		case !now.Before(until):
			return true
		case gained > 0 || lost > 0:
			opened = time.Time{}
		case last || n.contents.WindowsOpen() == 0 && n.contents.CededSlots() == 0:
			return true
		case n.transfer.Paused(): // by an operator: a further step would add to what waits
			opened = time.Time{}
		case opened.IsZero():
			opened = now
		case now.Sub(opened) >= stepPause && n.contents.missPressure() <= n.o.Steps.MissBudget:
			return true
		}
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return false
}

// awaitShare waits, for a bounded time, until this node owns slots and serves
// them: a member that does not answer, or others that change before it, must not
// keep it from starting.
func (n *Node) awaitShare(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		changed := n.barrier.Changed()
		gained, _ := n.barrier.Progress()
		self := n.selfMember()
		if self.Presence() > 0 && gained == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			n.log.Info("started, but without all of its slots yet", "waiting", gained, "progress", self.Presence())
			return
		}
	}
}
