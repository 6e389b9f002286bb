package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// A process that was stopped, swapped out or starved for seconds wakes up with a
// View of the past: others may have taken it for dead, own its slots and have newer
// values. Its own timers and gossip find out, but requests that wait in its sockets
// may be faster. So a batch of requests that begins more than gate.limit after the
// last contact to any peer waits until the node has looked around: it asks the
// members how long they have had it in their Views without a break. If that is
// longer than the silence, nobody can have opened its slots meanwhile, because
// whoever opens them needs its agreement. If it is shorter for one of them, the node
// gives everything up and asks for its slots anew.
//
// A node that nobody answers serves on, as each part of a split cluster does; the
// first contact after that closes the gate again.
const (
	gateTick  = 250 * time.Millisecond
	gateLeast = 2 * time.Second // least limit; membership dials every second
	// defaultHoldDown is membership's.
	defaultHoldDown = 3 * time.Second
	lookWait        = time.Second // a look around takes no longer
	lookMore        = 300 * time.Millisecond
	lookPeers       = 16                     // asked in one look
	freshEnough     = 100 * time.Millisecond // a contact so soon after another one says nothing new
	gateOpen        = math.MaxInt64
)

// gate says until when requests may be executed without a look around. Time is the
// node's clock, as the duration since its start.
type gate struct {
	clock *clock
	limit time.Duration
	tell  func(until time.Time) // the server in front; zero: no limit
	wake  chan struct{}         // capacity 1: look now

	until atomic.Int64 // gateOpen while there are no others
	seen  atomic.Int64 // the last contact

	mu      sync.Mutex
	armed   bool          // there are others
	alone   bool          // nobody answered the last look
	lastAt  time.Time     // the last contact, time in suspension included
	lostAt  time.Time     // lastAt when the latest look found the slots lost
	settled chan struct{} // closed and replaced when a look has ended

	looks, denied atomic.Uint64 // looks that requests may have waited for, and those that found the slots lost
}

func newGate(c *clock, holdDown time.Duration) *gate {
	if holdDown == 0 {
		holdDown = defaultHoldDown
	}
	g := &gate{clock: c, limit: max(holdDown, gateLeast), wake: make(chan struct{}, 1), settled: make(chan struct{}),
		tell: func(time.Time) {}}
	g.until.Store(gateOpen)
	return g
}

// attach makes a server hold its commands too.
func (g *gate) attach(tell func(until time.Time)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell = tell
	g.open(g.until.Load())
}

// passed tells whether requests may be executed now.
func (g *gate) passed() bool {
	until := g.until.Load()
	return until == gateOpen || int64(g.clock.elapsed()) <= until
}

// open lets requests pass until a time. g.mu is held.
func (g *gate) open(until int64) {
	g.until.Store(until)
	if until == gateOpen {
		g.tell(time.Time{})
		return
	}
	g.tell(g.clock.start.Add(time.Duration(until)))
}

// arm tells whether there are other members, whose word counts.
func (g *gate) arm(others bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case others == g.armed:
	case others:
		g.armed, g.alone = true, false
		g.mark()
	default:
		g.armed = false
		g.open(gateOpen)
	}
}

// mark notes a contact. g.mu is held.
func (g *gate) mark() {
	now := g.clock.elapsed()
	g.seen.Store(int64(now))
	g.lastAt = g.clock.time()
	g.open(int64(now + g.limit))
}

// contact says that a peer has answered. It opens no gate that is closed: the answer
// may have waited here while this process was away.
func (g *gate) contact() {
	if g.until.Load() != gateOpen && int64(g.clock.elapsed())-g.seen.Load() >= int64(freshEnough) {
		g.agreed()
	}
}

// agreed is contact by a member that has agreed to a RELEASE. It counts to the
// moment: a silence never begins before the members knew this process, which would
// look as if they had not known it for a while.
func (g *gate) agreed() {
	if g.until.Load() == gateOpen {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.armed:
	case g.alone || !g.passed():
		g.look()
	default:
		g.mark()
	}
}

func (g *gate) look() {
	select {
	case g.wake <- struct{}{}:
	default: // one is due already
	}
}

// tick runs every gateTick and tells whether it is time to look around: after a
// silence, and already at half of it, so that no request has to wait if only gossip
// and dials are slow. While this process runs and nobody answers, it serves on.
func (g *gate) tick() bool {
	g.clock.refresh()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch now := g.clock.elapsed(); {
	case !g.armed:
		return false
	case !g.passed():
		return true
	case g.clock.time().Sub(g.lastAt) > g.limit+time.Duration(int64(now)-g.seen.Load()):
		g.open(0) // the machine was suspended, which its monotonic clock does not show
		return true
	case g.alone:
		g.open(int64(now + g.limit))
		return false
	default:
		return now-time.Duration(g.seen.Load()) > g.limit/2
	}
}

// silence is how long ago the last contact was.
func (g *gate) silence() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clock.time().Sub(g.lastAt)
}

// settle ends a look.
func (g *gate) settle(answered bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.armed {
		if g.alone = !answered; answered {
			g.mark()
		} else {
			g.open(int64(g.clock.elapsed() + g.limit))
		}
	}
	close(g.settled)
	g.settled = make(chan struct{})
}

// wait returns when requests may be executed, after twice lookWait at the latest. If
// ctx ends before, they may not, and it says why.
func (g *gate) wait(ctx context.Context) error {
	if g.passed() {
		return nil
	}
	timer := time.NewTimer(2 * lookWait)
	defer timer.Stop()
	for {
		g.mu.Lock()
		settled, passed := g.settled, g.passed()
		g.mu.Unlock()
		if passed {
			return nil
		}
		g.look()
		select {
		case <-settled:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: this process has stood still, and no other member has said in time whether it still owns its slots; repeat the call: %w",
				errs.ErrUnavailable, ctx.Err())
		}
	}
}

// AwaitFresh returns at once unless this process may have been away for long; then
// it returns when the node has compared its View with a peer, or found none, after
// two seconds at the latest.
func (n *Node) AwaitFresh() { _ = n.gate.wait(n.ctx) }

// gateLoop looks around when it is time; it ends with n.ctx.
func (n *Node) gateLoop() {
	t := time.NewTicker(gateTick)
	defer t.Stop()
	for {
		due := false
		select {
		case <-n.ctx.Done():
			return
		case <-n.gate.wake:
			due = true
		case <-t.C:
			due = n.gate.tick()
		}
		if due {
			n.lookAround()
		}
	}
}

// lookAround asks the members how long this process has been one of theirs.
func (n *Node) lookAround() {
	g := n.gate
	closed := !g.passed()
	for range 3 { // a stop in the middle of it makes the answers worthless
		g.clock.refresh() // entries that are kept must not live longer for it
		began, silence := g.clock.elapsed(), g.silence()
		verdict := n.askAround(silence)
		if g.clock.elapsed()-began > 2*lookWait {
			continue
		}
		if closed {
			g.looks.Add(1)
			n.log.Info("looked around after a silence", "silence", silence.Round(time.Millisecond).String(), "answer", verdict.String())
		}
		if verdict == lookLost {
			g.denied.Add(1)
			silence += g.clock.elapsed() - began
			g.lost(silence)
			served := n.barrier.Doubt(silence)
			waiting, _, _ := n.barrier.Returned()
			n.log.Warn("this node was away and others have taken its slots over: they are asked for anew, and what this node held is dropped but for what the others can prove to be the latest",
				"silence", silence.Round(time.Millisecond).String(), "slots", served, "waiting_for_proof", waiting)
		}
		g.settle(verdict != lookNobody)
		return
	}
	g.settle(false)
}

type lookVerdict uint8

const (
	lookNobody lookVerdict = iota // nobody could say
	lookKept                      // it has been a member all the time
	lookLost                      // it has not
)

func (v lookVerdict) String() string {
	return [...]string{"nobody can tell", "still a member", "was not a member for a while"}[v]
}

// errUnsure is the answer of a member that waits at its own gate.
var errUnsure = errors.New("the member has been away itself")

// askAround asks up to lookPeers members at once. One that has had this node out of
// its View decides; else one that has not; else all of them, none of whom can have
// done anything meanwhile.
func (n *Node) askAround(silence time.Duration) lookVerdict {
	view := n.View()
	var others []topology.Member
	for _, m := range view.Members() {
		if m.ID != n.id {
			others = append(others, m)
		}
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	asked := others[:min(len(others), lookPeers)]
	var wg sync.WaitGroup
	defer wg.Wait() // after cancel
	ctx, cancel := context.WithTimeout(n.ctx, lookWait)
	defer cancel()
	type answer struct {
		tenure time.Duration
		err    error
	}
	answers := make(chan answer, len(asked))
	for _, m := range asked {
		wg.Go(func() { // ends with its call, which ends with ctx
			tenure, err := n.askTenure(ctx, m)
			answers <- answer{tenure, err}
		})
	}
	verdict, unsure := lookNobody, 0
	var more <-chan time.Time
	for range asked {
		select {
		case a := <-answers:
			switch {
			case a.err == nil && a.tenure < silence:
				return lookLost
			case a.err == nil:
				verdict = lookKept
			case errors.Is(a.err, errUnsure):
				unsure++
			}
			if more == nil && verdict == lookKept {
				timer := time.NewTimer(lookMore)
				defer timer.Stop()
				more = timer.C
			}
		case <-more: // the others are silent, and this is enough
			return verdict
		case <-ctx.Done():
			return verdict
		}
	}
	if unsure > 0 && unsure == len(others) {
		verdict = lookKept
	}
	return verdict
}

// askTenure asks one member. A link may have died in the silence: it is tried twice.
func (n *Node) askTenure(ctx context.Context, m topology.Member) (tenure time.Duration, err error) {
	req := resp.AppendCommand(nil, []byte("RC.TENURE"), strconv.AppendUint(nil, n.boot, 10))
	for range 2 {
		var v resp.Value
		if v, err = n.peers.Do(ctx, m.Addr(), req); err != nil {
			continue
		}
		switch {
		case v.Kind == resp.Error: // an earlier version
			return 0, errUnsure
		case v.Int < 0:
			return 0, errUnsure
		}
		return time.Duration(min(v.Int, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, nil
	}
	if ctx.Err() != nil {
		err = errs.ErrTimeout
	}
	return 0, err
}
