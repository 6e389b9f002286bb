package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// Defaults and limits of a Router.
const (
	DefaultTimeout      = 50 * time.Millisecond
	DefaultRefreshEvery = 30 * time.Second

	// MaxRedirects bounds the MOVED and ASK replies that one call follows. They
	// are not the call's one retry: the server refused the command unexecuted
	// and said where it belongs, so following costs no second execution, and
	// right after a change of owners every call needs it. They share the
	// call's deadline.
	MaxRedirects = 3

	minRefreshGap = 100 * time.Millisecond // between the starts of two refreshes
	maxRefreshGap = 2 * time.Second        // while refreshes fail
	retryPause    = 5 * time.Millisecond   // before asking a server that was not ready

	// A server that answers TRYAGAIN is asked again after the first pause, then after
	// one twice as long each time, up to the second.
	firstTryAgain = time.Millisecond
	mostTryAgain  = 16 * time.Millisecond
)

// RouterOptions of a Router. Zero values are the defaults.
type RouterOptions struct {
	// Link holds the options of every link.
	Link Options
	// Peers, if set, lends its links; Link is not used then.
	Peers *Peers
	// Seeds are addresses to learn the table from. At least one is needed
	// unless Manual is set.
	Seeds []string
	// Manual means that the owner installs tables (Install); the router never
	// asks for one, but still adopts what MOVED says.
	Manual bool
	// Timeout is the total deadline of one call: waiting for a dial, writing,
	// reading, redirects and the retry. The deadline of the caller's context
	// counts if it is earlier.
	Timeout time.Duration
	// NoRetry switches the one retry off. Redirects are still followed.
	NoRetry bool
	// OwnersOnly means that no read goes to a copy.
	OwnersOnly bool
	// RefreshEvery is the period of background refreshes; negative is never.
	RefreshEvery time.Duration
}

// Router sends each request to the owner of its slot and follows what the
// servers answer: MOVED (adopted at once, one refresh of the whole table in the
// background), ASK, a refused connection (refresh at once), a server that is
// not ready. At most one retry per call, and not more than a tenth of all
// calls; after a timeout or a broken connection only reads are repeated.
type Router struct {
	o     RouterOptions
	pool  *pool
	own   bool // the pool is closed with the router
	seeds []*endpoint
	table atomic.Pointer[Table]
	ops   sync.Pool // of *scratch
	next  atomic.Uint32
	bank  budget
	stats routerCounters

	ctx  context.Context // ends with the router
	stop context.CancelFunc
	wg   sync.WaitGroup
	kick chan struct{} // capacity 1: a refresh is wanted

	mu      sync.Mutex // orders the writers of table
	refresh refreshState
}

type routerCounters struct {
	calls, moved, asked, tryAgains, retries, copies, timeouts, refused, shed, refreshes, refreshErrors atomic.Uint64
}

// Request is one command for the owner of one slot.
type Request struct {
	// Slot is that of the keys, or negative for a command without keys, which
	// any node may answer.
	Slot int
	// Read says that executing the command twice, or late, does no harm.
	Read bool
	// Bytes is the encoded command. It is not kept after the call.
	Bytes []byte
}

// Result is the outcome of one request.
type Result struct {
	// Value is the reply, owned by the caller. Error replies that are no
	// matter of routing are Values of kind Error.
	Value resp.Value
	// Addr is the node that answered or failed last.
	Addr string
	// Err says why there is no reply: an *Error.
	Err error
}

// Validate returns all faults of the options at once, each wrapping ErrConfig.
func (o RouterOptions) Validate() error {
	var faults []error
	bad := func(format string, a ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{errs.ErrConfig}, a...)...))
	}
	if err := o.Link.validate(); err != nil {
		faults = append(faults, err)
	}
	if o.Timeout < 0 {
		bad("timeout %v is negative", o.Timeout)
	}
	if len(o.Seeds) == 0 && !o.Manual {
		bad("no seeds; name at least one node as host:port")
	}
	for _, s := range o.Seeds {
		if err := checkAddr(s); err != nil {
			bad("seed %q: %v", s, err)
		}
	}
	return errors.Join(faults...)
}

// NewRouter makes a router and starts its refresh goroutine. It contacts
// nobody: call Refresh, or let the first call wait for the first table. It
// fails only on invalid options, with all faults at once.
func NewRouter(o RouterOptions) (*Router, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.RefreshEvery == 0 {
		o.RefreshEvery = DefaultRefreshEvery
	}
	o.Link.TryAgain = !o.NoRetry
	r := &Router{o: o, kick: make(chan struct{}, 1)}
	if o.Peers != nil {
		r.pool = o.Peers.pool
	} else {
		r.pool, r.own = newPool(o.Link), true
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.table.Store(&Table{})
	r.refresh.next = newPromise()
	r.bank.fill()
	for _, s := range o.Seeds {
		e, err := r.pool.endpoint(s)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.seeds = append(r.seeds, e)
	}
	if !o.Manual {
		r.wg.Go(r.refreshLoop) // ends with Close
	}
	return r, nil
}

// Close fails what is pending and waits for every goroutine. Links lent by
// RouterOptions.Peers stay.
func (r *Router) Close() error {
	r.stop()
	r.wg.Wait()
	if r.own {
		r.pool.close()
	}
	return nil
}

// Table returns the present table.
func (r *Router) Table() *Table { return r.table.Load() }

// Nodes returns the addresses of all owners in the present table, sorted.
func (r *Router) Nodes() []string { return r.table.Load().Nodes() }

// Timeout returns the total deadline of one call.
func (r *Router) Timeout() time.Duration { return r.o.Timeout }

// Install publishes a table. Slots outside the runs have no owner. It is for
// routers whose owner knows the truth itself (Manual).
func (r *Router) Install(runs []Owned) error {
	for _, o := range runs {
		if o.Last < o.First {
			return fmt.Errorf("%w: slot range %d-%d", errs.ErrConfig, o.First, o.Last)
		}
	}
	t, err := newTable(runs, false, r.pool.endpoint)
	if err != nil {
		return err
	}
	r.mu.Lock()
	old := r.table.Load()
	r.table.Store(t)
	r.mu.Unlock()
	r.dropLinks(old, t)
	return nil
}

// RouterStats counts since the router was made.
type RouterStats struct {
	Calls         uint64 // requests, batches counted by their parts
	Moved         uint64 // MOVED replies followed
	Asked         uint64 // ASK replies followed
	TryAgains     uint64 // TRYAGAIN replies, after each of which the request was repeated
	Retries       uint64 // retries spent
	Copies        uint64 // reads that went to a copy because the owner did not answer
	Timeouts      uint64 // requests whose deadline passed
	Refused       uint64 // attempts that met a refused connection
	Shed          uint64 // requests refused by a local limit
	Refreshes     uint64 // table refreshes that succeeded
	RefreshErrors uint64 // table refreshes that failed
	Dials         uint64 // connections attempted
	DialErrors    uint64 // connections that failed
	Links         int    // connections that live
}

// Stats returns the counters. They are read one by one, not as one snapshot.
func (r *Router) Stats() RouterStats {
	r.pool.mu.Lock()
	links := len(r.pool.conns)
	r.pool.mu.Unlock()
	return RouterStats{
		Calls: r.stats.calls.Load(), Moved: r.stats.moved.Load(), Asked: r.stats.asked.Load(), TryAgains: r.stats.tryAgains.Load(),
		Retries: r.stats.retries.Load(), Copies: r.stats.copies.Load(), Timeouts: r.stats.timeouts.Load(), Refused: r.stats.refused.Load(),
		Shed: r.stats.shed.Load(), Refreshes: r.stats.refreshes.Load(), RefreshErrors: r.stats.refreshErrors.Load(),
		Dials: r.pool.count.dials.Load(), DialErrors: r.pool.count.dialErrors.Load(), Links: links,
	}
}

// Do sends a command to the owner of its first key, or to any node if it has
// none. A command that the table of commands lacks is taken for a write whose
// first argument is a key. Keys of several slots in one command are the
// server's to refuse. Commands that would change the shared connection are
// refused here. The reply is owned by the caller; an error reply that is no
// matter of routing is a Value of kind Error.
func (r *Router) Do(ctx context.Context, args ...[]byte) (resp.Value, error) {
	res := r.CallArgs(ctx, args)
	return res.Value, res.Err
}

// DoSlot sends an encoded command to the owner of slot (see Request).
func (r *Router) DoSlot(ctx context.Context, slot uint16, read bool, req []byte) (resp.Value, error) {
	res := r.Call(ctx, Request{Slot: int(slot), Read: read, Bytes: req})
	return res.Value, res.Err
}

// DoNode sends an encoded command to one address, whatever it owns. Redirects
// are returned as they come and nothing is retried.
func (r *Router) DoNode(ctx context.Context, addr string, req []byte) (resp.Value, error) {
	e, err := r.pool.endpoint(addr)
	if err != nil {
		return resp.Value{}, err
	}
	o := r.newOp(ctx, Request{Slot: -1})
	o.at = e
	res := r.attempt(ctx, &o, req)
	return res.Value, res.Err
}
