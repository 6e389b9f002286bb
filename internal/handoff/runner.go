package handoff

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// Bounds of the asking.
const (
	askTimeout     = time.Second            // one RELEASE call
	renewAfter     = time.Second            // age at which an agreement is asked for again; see Barrier.Renew
	repeatMin      = 20 * time.Millisecond  // first wait before an Ask is repeated; each further one is half as long again
	repeatJitter   = 30 * time.Millisecond  // added at random
	repeatMax      = 60 * time.Millisecond  // longest wait after an answer: so late is a slot opened after the last news
	failureMax     = 250 * time.Millisecond // longest wait after a call that failed
	remindInterval = 500 * time.Millisecond // how often lost slots are offered to their owner
)

// Answer is a member's reply to a RELEASE.
type Answer struct {
	Agreed, Ready bool
	Served, Kept  []Range
	Offers        []Offer
	Sealed        Sealed
	Left          *Testimony
	Why           string // why it did not agree
}

// Sender sends one Ask to its member and waits for the answer.
type Sender func(ctx context.Context, a Ask) (Answer, error)

// RunnerOptions configure a Runner.
type RunnerOptions struct {
	Self   topology.NodeID
	Slots  Slots
	Send   Sender
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger
}

// Runner owns a Barrier: it serialises its events, sends its Asks and repeats
// them until they are agreed to or void. It runs one goroutine per Ask (at most
// one for each member of the View) and one for reminders; all end at Close.
type Runner struct {
	o      RunnerOptions
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	b      *Barrier
	closed bool
	void   context.CancelFunc // ends the Asks of the current targets
	askCtx context.Context

	changed atomic.Pointer[chan struct{}] // closed and replaced, under mu, whenever bits or targets changed
}

// NewRunner starts a Runner for a node that serves nothing yet.
func NewRunner(o RunnerOptions) *Runner {
	r := &Runner{o: o, b: NewBarrier(o.Self, o.Slots)}
	changed := make(chan struct{})
	r.changed.Store(&changed)
	r.b.opening = r.wake
	if r.o.Logger == nil {
		r.o.Logger = slog.New(slog.DiscardHandler)
	}
	if r.o.Now != nil {
		r.b.now = r.o.Now
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.askCtx, r.void = context.WithCancel(r.ctx)
	r.wg.Go(r.remindLoop) // ends when r.ctx is done
	return r
}

// Adopt takes the targets of a new View: earlier questions are cancelled, new
// ones are sent. then runs under the writer lock, before anything else can
// change bits or targets; it must not block.
func (r *Runner) Adopt(t *Targets, then func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.b.cur == nil || r.b.cur.Hash != t.Hash {
		r.void()
		r.askCtx, r.void = context.WithCancel(r.ctx)
	}
	asks := r.b.Adopt(t)
	then()
	r.wake()
	r.start(asks)
}

// Release answers a RELEASE of a member. It never blocks on I/O.
func (r *Runner) Release(from topology.NodeID, ranges []Range, last bool) Verdict {
	return r.ReleaseTo(from, 0, ranges, last)
}

// ReleaseTo is Release for a member that has content of its process of that boot.
func (r *Runner) ReleaseTo(from topology.NodeID, boot uint64, ranges []Range, last bool) Verdict {
	return r.ReleaseFor(Request{From: from, Return: boot, Ranges: ranges, Last: last})
}

// ReleaseFor is Release for a member that may take the content of the slots, or
// has content of its process before.
func (r *Runner) ReleaseFor(q Request) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.b.ReleaseFor(q)
	if !r.closed {
		r.start(v.Asks)
	}
	if v.Agreed {
		r.wake()
	}
	return v
}

// Taken drops what is left of slots that a process need not take any more.
func (r *Runner) Taken(by Peer, ranges []Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.Taken(by, ranges)
	r.wake()
}

// DropCeded drops all content that is kept for other nodes.
func (r *Runner) DropCeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.DropCeded()
	r.wake()
}

// Ceded is the number of slots whose content is kept for other nodes.
func (r *Runner) Ceded() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Ceded()
}

// Inherit must be called before the first Adopt; see Barrier.Inherit.
func (r *Runner) Inherit(in Inheritance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.Inherit(in)
}

// Inherited is how many slots have content that waits for its proof, has kept it
// or has lost it.
func (r *Runner) Inherited() (waiting, kept, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Inherited()
}

// Disinherit drops the content that waits for a proof; gone says that it has been
// dropped already.
func (r *Runner) Disinherit(gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone {
		r.b.inherited = nil
	}
	r.b.Disinherit()
}

// Retire gives up every slot for good.
func (r *Runner) Retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.void()
	r.b.Retire()
	r.wake()
}

// Changed returns a channel that is closed at the next change of serving bits
// or targets. It never waits.
func (r *Runner) Changed() <-chan struct{} { return *r.changed.Load() }

// Progress returns how many slots wait to be opened here and how many are still
// served for another owner.
func (r *Runner) Progress() (gained, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Gained(), r.b.Lost()
}

// Close ends every goroutine. Serving bits stay as they are.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}

// wake runs under mu.
func (r *Runner) wake() {
	next := make(chan struct{})
	close(*r.changed.Swap(&next))
}

// start runs under mu; each goroutine ends when its Ask is agreed to or void.
func (r *Runner) start(asks []Ask) {
	for _, a := range asks {
		ctx := r.askCtx
		r.wg.Go(func() { r.askLoop(ctx, a) })
	}
}

func (r *Runner) askLoop(ctx context.Context, a Ask) {
	wait, last := repeatMin, ""
	for {
		call, done := context.WithTimeout(ctx, askTimeout)
		answer, err := r.o.Send(call, a)
		done()
		if a.ID == 0 || ctx.Err() != nil {
			return
		}
		longest := repeatMax
		if err != nil {
			answer, longest = Answer{Why: err.Error()}, failureMax
		}
		if answer.Why != last {
			last = answer.Why
			r.o.Logger.Debug("slots wait for a member", "member", a.To.String(), "ranges", len(a.Ranges), "why", last)
		}
		next, changed, ok := r.answered(a, answer)
		if ok && answer.Agreed {
			if !r.pause(ctx, renewAfter) {
				return
			}
			next, ok = r.renew(a)
		}
		if !ok {
			return
		}
		if next.Last && !a.Last || answer.Agreed {
			a = next
			continue // no reason to wait
		}
		// Members that wait for each other's news are many when a whole cluster
		// starts: at a fixed pace their questions alone would keep them busy.
		if next, ok = r.await(ctx, next, changed, wait+rand.N(repeatJitter)); !ok {
			return
		}
		a, wait = next, min(longest, wait*3/2)
	}
}

// answered notes an answer and returns the Ask as it has to be sent next; false
// if there is nothing left to ask.
func (r *Runner) answered(a Ask, answer Answer) (next Ask, changed <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.Agreed {
		r.b.Confirmed(a, answer.Kept)
		r.b.Told(a, answer.Left)
		r.b.Offered(a, answer.Offers)
		r.b.Sealed(a, answer.Sealed)
		_, kept, lost := r.b.Returned()
		if r.b.Agreed(a, answer.Served) {
			r.logReturned(kept, lost)
		}
		r.wake() // slots were opened, or another may send its last Ask now
		next, ok = r.b.Current(a)
		return next, nil, ok
	}
	before, _ := r.b.Current(a)
	r.b.Answered(a, answer.Ready)
	next, ok = r.b.Current(a)
	if next.Last != before.Last {
		r.wake()
	}
	return next, r.Changed(), ok
}

func (r *Runner) renew(a Ask) (Ask, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Renew(a)
}

// await waits before an Ask is repeated, and less if it has become the last one.
func (r *Runner) await(ctx context.Context, a Ask, changed <-chan struct{}, d time.Duration) (next Ask, ok bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		waiting := true
		select {
		case <-t.C:
			waiting = false
		case <-changed:
		case <-ctx.Done():
			return a, false
		}
		r.mu.Lock()
		next, ok = r.b.Current(a)
		changed = r.Changed()
		r.mu.Unlock()
		if !ok || !waiting || next.Last && !a.Last {
			return next, ok
		}
	}
}

func (r *Runner) remindLoop() {
	for r.pause(r.ctx, remindInterval) {
		r.mu.Lock()
		if !r.closed {
			r.start(r.b.Reminders())
			if r.b.Expire(r.b.now()) {
				r.wake()
			}
		}
		r.mu.Unlock()
	}
}

// pause waits and reports whether the context is still alive.
func (r *Runner) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
