package node

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// Node is one node. Open makes it, Start brings it into its cluster, Close ends
// it.
type Node struct {
	o        Options
	id       topology.NodeID
	boot     uint64
	log      *slog.Logger
	clock    *clock
	eng      *engine.Engine
	place    ring.Placement
	barrier  *handoff.Runner
	gate     *gate
	transfer *handoff.Transfer
	takes    takes
	auth     *link.PeerAuth
	peers    *link.Peers
	router   *link.Router // nil for a node without a listener
	seeds    *seedList
	mem      atomic.Pointer[Members] // nil for a node that is alone; set once by Start
	front    Front                   // nil without a server
	started  time.Time

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // viewLoop, tickLoop, pinLoop, changeLoop, gateLoop, contacts, OnShutdown, ends of watches

	pub        atomic.Pointer[published]
	latest     atomic.Pointer[membership.Snapshot]
	news       chan struct{} // capacity 1: there is a newer snapshot than viewLoop has seen
	superseded atomic.Bool
	draining   atomic.Bool
	hurry      atomic.Bool // see Hurry
	handedOver atomic.Bool // Drain had others to hand the slots over to
	lastServed []bool      // by slot: what lastCopies has ended; of Close alone

	refusals    atomic.Int64 // of peers, since the last line about one in the log
	lastRefusal atomic.Int64 // when that was, in ms

	witnesses []handoff.Peer // of the entries that were found; set by Open
	reached   bool           // Start has reached another member; set before it is active
	active    atomic.Bool    // was active once, so that its engine may have changed
	met       atomic.Bool    // has had others in its View
	running   atomic.Bool    // Start has ended well
	stay      atomic.Bool    // see Stay
	forget    atomic.Bool    // see ForgetEntries

	stopping sync.Once // OnShutdown
	closing  sync.Once
	closeErr error

	viewMu sync.Mutex                   // one View at a time is built and adopted
	held   map[topology.NodeID]heldTill // members whose place is kept; guarded by viewMu
	selfMu sync.Mutex                   // guards self
	self   topology.Member

	ramp       ramp
	contents   contents
	nudges     nudges
	calls      sync.Pool // of *exec.Call
	contact    contacts
	differs    difference
	agreements agreements
	settings   settings
	watched    atomic.Int64 // bytes of the keys that sessions watch
	// For INFO: the sessions that watch keys, and those keys.
	watchers, watchedKeys atomic.Int64
	long                  atomic.Int32 // scripts and transactions that hold a slot, or are about to
	counts                counters
	accounts              accounts
	waiting               atomic.Int64 // clients in WAIT
	diag                  diagnostics
	casts                 casts
	check                 selfCheck              // owned by checkLoop
	degraded              atomic.Pointer[string] // why this node is; nil: it is not
	pings                 pings
	copies                copies
	mirror                mirrors
	publish               func(channel, message []byte, shard bool) int // deliver, made once
	track                 *tracking
	pressure              pressure
	pins                  pinBoard
	weight                ownWeight
	events                eventLog
	changes               changes
}

// Open makes a node that serves nothing yet: it answers peers, and clients
// about the cluster, so that a server may be put in front of it before Start.
func Open(o Options) (*Node, error) {
	o.Params = o.Params.WithDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Steps = o.Steps.WithDefaults()
	if err := errors.Join(o.Steps.Validate(), validMirror(o.MirrorReads)); err != nil {
		return nil, err
	}
	n := &Node{o: o, clock: newClock(o.Now), news: make(chan struct{}, 1), place: o.Placement}
	n.contents = n
	n.started = n.clock.time()
	n.gate = newGate(n.clock, o.Membership.HoldDown)
	n.boot = newBoot(n.started)
	var err error
	if n.id, err = identify(&n.o); err != nil {
		return nil, err
	}
	n.log = o.Logger.With("node", n.id.String()[:8])
	if o.DataDir != "" {
		err = n.pins.open(filepath.Join(o.DataDir, pinFile))
	} else {
		err = n.pins.open("")
	}
	if err != nil {
		n.log.Warn("the pins of the process before are not usable; those of other members come by themselves", "error", err)
	}
	if n.place == nil {
		if n.place, err = n.o.Params.NewPlacement(); err != nil {
			return nil, err
		}
	}
	n.o.Engine.Now = n.clock.millis
	if n.o.Engine.File, err = warmFile(&n.o, n.id); err != nil {
		return nil, err
	}
	began := time.Now()
	if n.eng, err = engine.New(n.o.Engine); err != nil {
		return nil, err
	}
	took := time.Since(began)
	n.track = newTracking(n.eng, o.TrackingKeys)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.seeds = &seedList{base: o.Discovery}
	n.calls.New = func() any { return new(exec.Call) }
	n.self = topology.Member{ID: n.id, Boot: n.boot, Sequence: 1, State: topology.Joining,
		Weight: n.openWeight(), Zone: o.Zone, Host: o.Host, Port: o.Port}
	n.settings.password, n.settings.maxClients = o.Password, o.MaxClients
	n.diag.open(o.Diagnostics)
	n.accounts.set(o.Diagnostics.SlotStats)
	n.publish = n.deliver
	n.takes.n = n
	n.transfer = handoff.NewTransfer(handoff.TransferOptions{Engine: n.eng, Caller: &n.takes, Rate: o.WarmRate, Bytes: o.WarmBytes, Logger: n.log})
	n.barrier = handoff.NewRunner(handoff.RunnerOptions{Self: n.id, Slots: countedSlots{n.transfer, &n.accounts}, Send: n.sendRelease, Logger: n.log})
	n.mirror.share.Store(int32(o.MirrorReads))
	n.openCopies()
	n.inherit(took)
	if err = n.openLinks(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.rebuild()
	if n.pub.Load() == nil {
		_, err := topology.NewView(n.o.Params, n.place, []topology.Member{n.self}, nil)
		return nil, errors.Join(err, n.Close())
	}
	n.wg.Go(n.viewLoop) // ends with n.ctx
	n.wg.Go(n.tickLoop) // ends with n.ctx
	n.wg.Go(n.gateLoop) // ends with n.ctx
	return n, nil
}

// Attach tells the node about the server in front of it. It must be called
// before that server executes commands.
func (n *Node) Attach(f Front) {
	n.front = f
	n.gate.attach(f.HoldAfter)
	n.tellFront()
}

// ID is the node's ID.
func (n *Node) ID() topology.NodeID { return n.id }

// View is the current View.
func (n *Node) View() *topology.View { return n.pub.Load().view }

// Serving tells whether this node serves the slot at the moment.
func (n *Node) Serving(slot uint16) bool { return n.eng.Serving(slot) }

// Engine is the store of the node.
func (n *Node) Engine() *engine.Engine { return n.eng }

// membership is nil before Start and for a node that is alone.
func (n *Node) membership() Members {
	if m := n.mem.Load(); m != nil {
		return *m
	}
	return nil
}

// tickLoop keeps the clock right over suspensions, and links to members only. It
// ends with n.ctx.
func (n *Node) tickLoop() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			n.clock.refresh()
			n.dropLinks()
		case <-n.ctx.Done():
			return
		}
	}
}

// shutdown asks whoever runs the node to close it.
func (n *Node) shutdown(reason string) {
	n.stopping.Do(func() {
		if n.o.OnShutdown != nil {
			// Ends when the callback returns; it is the caller's, and Close
			// may be called from it, so that Close does not wait for it.
			go n.o.OnShutdown(reason)
		}
	})
}

// Close ends the node without handing anything over, and waits for its
// goroutines. With a file for them, the entries stay there for the next process
// of this node. It may be called more than once.
func (n *Node) Close() error {
	n.closing.Do(func() {
		if n.stay.Load() {
			n.lastCopies()
		}
		n.casts.close()
		n.ramp.start.Lock() // so that nothing begins behind the end of n.ctx
		n.cancel()
		n.ramp.start.Unlock()
		n.copies.close()
		var all []error
		if n.membership() != nil {
			all = append(all, n.membership().Close())
		}
		n.wg.Wait()
		n.barrier.Close()
		n.transfer.Close()
		n.barrier.DropCeded() // it is no entry of this node any more, and must not be kept in its file
		if n.router != nil {
			all = append(all, n.router.Close())
		}
		for _, p := range n.linkSets() {
			if p != nil {
				all = append(all, p.Close())
			}
		}
		n.closeErr = errors.Join(append(all, n.closeEngine())...)
	})
	return n.closeErr
}
