package membership

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	updateTimeout = time.Millisecond // the broadcast goes on after it
	leaveTimeout  = 5 * time.Second  // without a deadline in the context
	// How long Leave tells its entry, and memberlist's leave behind it: in 20 turns
	// of gossip everybody hears of it, see docs/scale.md.
	entryTold  = 20 * gossipEvery
	leaveTold  = 10 * gossipEvery
	maxRejoins = 4 // push/pulls and seed rounds at a time
)

// Membership is a running member of a cluster. Its goroutines, all ended and
// waited for by Close: run (the policy), notify (OnChange), announce (own
// metadata), and transient ones for dials, rejoins, hints and Leave.
type Membership struct {
	o      Options
	log    *slog.Logger
	list   *memberlist.Memberlist
	t      *transport
	d      *delegate
	in     *inbox
	gossip string // own ip:port
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	policy *policy // owned by run
	// unpublished: a snapshot is due; untold: OnChange is to get it. Owned by run.
	unpublished, untold bool
	snapshot            atomic.Pointer[Snapshot]
	// flags has one flag per peer for Heard; replaced by run as a whole.
	flags    atomic.Pointer[map[topology.NodeID]*atomic.Bool]
	changed  chan struct{} // capacity 1: OnChange is due
	announce chan struct{} // capacity 1: metadata are to be announced
	rejoins  chan struct{} // semaphore, maxRejoins
	hints    chan struct{} // semaphore, maxDials

	mu       sync.Mutex
	self     topology.Member
	degraded bool
	leaving  bool
	left     chan struct{} // closed when Leave has ended; nil: none began
	closed   bool
}

// Start opens the gossip port and begins to detect; it contacts nobody (see
// Join), but the rejoin loop tries the seeds from then on. Peers dial the data
// port of Self as soon as they know it: open it before Join and keep it open
// until Leave has returned. Errors of options
// wrap errs.ErrConfig and name all faults; the host and the zone of Self must
// together fit into the metadata (44 bytes, 36 with a weight other than 1; a
// host equal to the gossip IP takes none).
func Start(o Options) (*Membership, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ip, port := "", 0
	if o.Transport == nil {
		host, p, _ := net.SplitHostPort(o.Bind) // checked by withDefaults
		ip = host
		port, _ = net.LookupPort("udp", p)
	}
	logger := newLogger(o.Logger)
	t, err := newTransport(o.Transport, ip, port, o.TCPOnly, logger)
	if err != nil {
		return nil, err
	}
	t.leaveFrom(o.Source)
	m, err := create(o, t, logger)
	if err != nil {
		_ = t.Shutdown()
		return nil, err
	}
	m.wg.Go(m.run)
	m.wg.Go(m.notify)
	m.wg.Go(m.announcer)
	return m, nil
}

// create makes everything but the goroutines.
func create(o Options, t *transport, logger *log.Logger) (*Membership, error) {
	advIP, advPort, err := o.advertise(t.port())
	if err != nil {
		return nil, err
	}
	ip, port, err := t.FinalAdvertiseAddr(advIP, advPort)
	if err != nil {
		return nil, fmt.Errorf("%w: gossip address to advertise: %w", errs.ErrConfig, err)
	}
	m := &Membership{
		o: o, log: o.Logger, t: t, in: newInbox(),
		gossip:   (&memberlist.Node{Addr: ip, Port: uint16(port)}).Address(),
		changed:  make(chan struct{}, 1),
		announce: make(chan struct{}, 1),
		rejoins:  make(chan struct{}, maxRejoins),
		hints:    make(chan struct{}, maxDials),
	}
	m.d = &delegate{self: nodeName(o.Self.ID, o.Self.Boot), in: m.in}
	if err := m.setSelf(o.Self); err != nil {
		return nil, err
	}
	c, err := o.config(m.d, t, advIP, advPort, logger)
	if err != nil {
		return nil, err
	}
	if m.list, err = memberlist.Create(c); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	now := o.Now()
	m.policy = newPolicy(m.self, o.HoldDown, o.Discovery != nil, o.Seed, now)
	s := m.policy.snapshot(now)
	m.snapshot.Store(&s)
	m.flags.Store(&map[topology.NodeID]*atomic.Bool{})
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// setSelf completes, checks and stores the own entry.
func (m *Membership) setSelf(self topology.Member) error {
	ip, _, err := net.SplitHostPort(m.gossip)
	if err != nil {
		return err
	}
	self.Gossip = m.gossip
	if self.Host == "" {
		self.Host = ip
	}
	if err := checkMeta(&self, ip); err != nil {
		return err
	}
	meta := appendMeta(make([]byte, 0, MaxMeta), &self, ip)
	if m.degraded {
		meta[1] |= flagDegraded
	}
	m.d.meta.Store(&meta)
	m.self = self
	return nil
}

// Messages counts the packets and streams of gossip that were sent and received.
func (m *Membership) Messages() (sent, received uint64) {
	return m.t.sent.Load(), m.t.received.Load()
}

// Gossip returns the gossip address that peers are told, ip:port.
func (m *Membership) Gossip() string { return m.gossip }

// Snapshot returns the latest snapshot.
func (m *Membership) Snapshot() Snapshot { return *m.snapshot.Load() }

// Heard says that a data reply came from id: evidence against it is dropped.
// It costs a map read and is meant for every batch of replies; it allocates
// nothing.
func (m *Membership) Heard(id topology.NodeID) {
	if f := (*m.flags.Load())[id]; f != nil && !f.Load() {
		f.Store(true)
	}
}

// Check has id dialled at once, for instance because its link broke or because
// it delays a barrier. Unknown IDs are ignored.
func (m *Membership) Check(id topology.NodeID) { m.in.putCheck(id) }

// Out says that a member, by, does not count id any more. Then id is dialled at once, and
// one refusal of its port is proof, where it takes three otherwise. Unknown IDs are
// ignored.
func (m *Membership) Out(id, by topology.NodeID) { m.in.putOut(id, by) }

// Update replaces the own entry and announces it. ID and Boot must not change,
// the sequence is the caller's, Gossip is filled in. It does not block; the
// news spread within about a second.
func (m *Membership) Update(self topology.Member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed || m.leaving:
		return fmt.Errorf("membership: %w", errs.ErrClosed)
	case self.ID != m.self.ID || self.Boot != m.self.Boot:
		return fmt.Errorf("%w: a node cannot change its ID or incarnation", errs.ErrConfig)
	}
	if err := m.setSelf(self); err != nil {
		return err
	}
	m.in.putSelf(m.self)
	signal(m.announce)
	return nil
}

// SetDegraded tells the others that this node serves badly, or well again. Like
// Update it does not block.
func (m *Membership) SetDegraded(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.leaving || m.degraded == on {
		return
	}
	m.degraded = on
	if err := m.setSelf(m.self); err != nil { // it was taken before, with the same size
		m.log.Error("own entry", "error", err)
	}
	m.in.putDegraded(on)
	signal(m.announce)
}

// Failed says that a request to id got no answer although it was sent: once more
// evidence than a heartbeat has. Several of them make the peer Failing, and have it
// dialled every second. Unknown IDs are ignored.
func (m *Membership) Failed(id topology.NodeID) { m.in.putTrouble(id) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one is pending already
	}
}

// announcer gossips changed metadata; it ends at Close.
func (m *Membership) announcer() {
	for {
		select {
		case <-m.announce:
			// A timeout is no loss: the broadcast stays queued. Waiting for it
			// would only hold up the next change, and Close.
			if err := m.list.UpdateNode(updateTimeout); err != nil {
				m.log.Debug("own entry is still being announced", "error", err)
			}
		case <-m.ctx.Done():
			return
		}
	}
}

// notify calls OnChange with the latest snapshot; it ends at Close.
func (m *Membership) notify() {
	for {
		select {
		case <-m.changed:
			if m.o.OnChange != nil {
				m.o.OnChange(m.Snapshot())
			}
		case <-m.ctx.Done():
			return
		}
	}
}

// Leave tells the cluster that this node goes on its own will, within ctx, for 3 s
// at most. Peers drop it at once. The gossip port stays open until Close. A second
// call waits for the first. An error says that the time was too short to tell it.
func (m *Membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return fmt.Errorf("membership: %w", errs.ErrClosed)
	}
	if m.left != nil {
		left := m.left
		m.mu.Unlock()
		return wait(ctx, left)
	}
	m.leaving, m.left = true, make(chan struct{})
	self := m.self
	if self.State != topology.Left {
		self.State = topology.Left
		self.Sequence++
	}
	err := m.setSelf(self)
	m.in.putSelf(m.self)
	m.mu.Unlock()

	budget := leaveTimeout
	if at, ok := ctx.Deadline(); ok {
		budget = max(time.Millisecond, time.Until(at))
	}
	done := make(chan error, 1)
	m.wg.Go(func() {
		defer close(m.left)
		// The entry goes first: it carries the reason, which memberlist's own
		// leave does not show to its callbacks.
		e := told(budget/2, entryTold, m.list.UpdateNode)
		done <- errors.Join(e, told(budget/2, leaveTold, m.list.Leave))
	})
	select {
	case e := <-done:
		return errors.Join(err, e)
	case <-ctx.Done():
		return fmt.Errorf("leave: %w", ctx.Err())
	}
}

// told waits until memberlist has told its news as often as it means to, or for as long
// as is enough. In a large cluster that is soon after a node has joined, which passes on
// all that it has heard: new news go first, but their last repetition waits for all others.
func told(budget, enough time.Duration, tell func(timeout time.Duration) error) error {
	err := tell(max(1, min(budget, enough)))
	if budget >= enough {
		return nil // the only error is that it goes on telling
	}
	return err
}

// start runs f on a goroutine that Close waits for, unless Close has begun.
func (m *Membership) start(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.wg.Go(f)
	return true
}

func wait(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close stops without a word to the cluster (see Leave) and waits for every
// goroutine of this package, a running Leave and OnChange included. Inside
// memberlist a probe in flight and its timers may live up to three probe
// intervals longer; they reach nothing of ours. A second call does nothing.
func (m *Membership) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	left := m.left
	m.mu.Unlock()
	if left != nil {
		<-left // memberlist must not be shut down while it leaves
	}
	m.cancel()
	err := m.list.Shutdown()
	m.wg.Wait()
	return err
}

// classify says what an error of Probe proves.
func classify(err error) dialResult {
	switch {
	case err == nil:
		return dialOK
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, errs.ErrOtherNode), errors.Is(err, errs.ErrMismatch):
		return dialRefused
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS),
		errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, errs.ErrClosed), errors.Is(err, context.Canceled):
		return dialNone // our own trouble
	default:
		return dialSilent
	}
}
