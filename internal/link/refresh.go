package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

const (
	softRefreshGap = time.Second            // between refreshes that slow replies ask for
	refreshTimeout = 2 * time.Second        // of one refresh, all nodes together
	refreshStagger = 100 * time.Millisecond // before the next node is asked as well
	maxRefreshAsk  = 16                     // nodes asked in one refresh
)

// refreshState is shared by the refresh goroutine and those who want a refresh.
type refreshState struct {
	mu      sync.Mutex
	last    time.Time // start of the last one
	fails   int       // in a row
	hint    string    // the node to ask first: a redirect just named it
	running *promise  // nil between refreshes
	next    *promise  // kept by the refresh that starts next
}

// promise is the outcome of one refresh; err is set before done is closed.
type promise struct {
	done chan struct{}
	err  error
}

func newPromise() *promise { return &promise{done: make(chan struct{})} }

// gap is the least time between the starts of two refreshes. The caller holds mu.
func (s *refreshState) gap() time.Duration {
	return min(minRefreshGap<<min(s.fails, 8), maxRefreshGap)
}

// refreshSoon asks for one refresh in the background; many who ask share it. It
// returns what is closed when the refresh that runs or starts now is done, nil
// if the last one is too recent (a wanted one then follows on its own). A soft
// wish is dropped if the last refresh is not old.
func (r *Router) refreshSoon(hint string, soft bool) <-chan struct{} {
	if r.o.Manual {
		return nil
	}
	s := &r.refresh
	s.mu.Lock()
	if s.running != nil {
		defer s.mu.Unlock()
		return s.running.done
	}
	age := time.Since(s.last)
	if soft && age < softRefreshGap {
		s.mu.Unlock()
		return nil
	}
	if hint != "" {
		s.hint = hint
	}
	var done <-chan struct{}
	if age >= s.gap() {
		done = s.next.done
	}
	s.mu.Unlock()
	r.wakeRefresh()
	return done
}

func (r *Router) wakeRefresh() {
	select {
	case r.kick <- struct{}{}:
	default: // wanted already
	}
}

// Refresh learns the table from the nodes and seeds and waits for it. Errors
// wrap ErrNoSeed (nobody answered; causes such as ErrAuth are wrapped too),
// ErrClosed or the error of ctx. It joins a refresh that runs already.
func (r *Router) Refresh(ctx context.Context) error {
	if r.o.Manual {
		return nil
	}
	s := &r.refresh
	s.mu.Lock()
	p := s.running
	if p == nil {
		p = s.next
	}
	s.mu.Unlock()
	r.wakeRefresh()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("learn the slot table: %w", endError(ctx, "", false))
	case <-r.ctx.Done():
		return errs.ErrClosed
	}
}

// refreshLoop runs one refresh at a time until the router closes.
func (r *Router) refreshLoop() {
	period := r.o.RefreshEvery
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	for {
		if period > 0 {
			tick.Reset(period - period/10 + rand.N(period/5+1))
		}
		select {
		case <-r.ctx.Done():
			return
		case <-r.kick:
		case <-tick.C:
			if period <= 0 {
				continue
			}
		}
		if !r.refreshTurn() {
			return
		}
	}
}

// refreshTurn waits until a refresh is due and runs it; false: closed.
func (r *Router) refreshTurn() bool {
	s := &r.refresh
	s.mu.Lock()
	wait := s.gap() - time.Since(s.last)
	s.mu.Unlock()
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.ctx.Done():
			return false
		}
	}
	s.mu.Lock()
	p, hint := s.next, s.hint
	s.running, s.next, s.hint = p, newPromise(), ""
	s.last = time.Now()
	s.mu.Unlock()
	select {
	case <-r.kick: // wishes up to here are served by this refresh
	default:
	}
	p.err = r.refreshOnce(hint)
	s.mu.Lock()
	s.running = nil
	if p.err == nil {
		s.fails = 0
		r.stats.refreshes.Add(1)
	} else {
		s.fails++
		r.stats.refreshErrors.Add(1)
	}
	s.mu.Unlock()
	close(p.done)
	return true
}

// candidates lists whom to ask: the node that a redirect named, nodes with a
// connection in random order, the other nodes, the seeds.
func (r *Router) candidates(hint string) []*endpoint {
	var list []*endpoint
	if hint != "" {
		if e, err := r.pool.endpoint(hint); err == nil {
			list = append(list, e)
		}
	}
	nodes := slices.Clone(r.table.Load().nodes)
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	slices.SortStableFunc(nodes, func(a, b *endpoint) int {
		switch ca, cb := a.connected(), b.connected(); {
		case ca == cb:
			return 0
		case ca:
			return -1
		}
		return 1
	})
	if keep := maxRefreshAsk - len(r.seeds); len(nodes) > max(keep, 1) {
		nodes = nodes[:max(keep, 1)]
	}
	seen := map[*endpoint]bool{}
	var out []*endpoint
	for _, e := range slices.Concat(list, nodes, r.seeds) {
		if !seen[e] && len(out) < maxRefreshAsk {
			seen[e] = true
			out = append(out, e)
		}
	}
	return out
}

// answer is what one node said.
type answer struct {
	table *Table
	err   error
}

// refreshOnce asks one node after the other, the next one as soon as one fails
// or stays silent for a moment, and publishes the first table that comes.
func (r *Router) refreshOnce(hint string) error {
	ctx, cancel := context.WithTimeout(r.ctx, refreshTimeout)
	var wg sync.WaitGroup
	defer wg.Wait() // the askers end when ctx does
	defer cancel()
	old := r.table.Load()
	list := r.candidates(hint)
	answers := make(chan answer, len(list))
	stagger := time.NewTimer(refreshStagger)
	defer stagger.Stop()
	var faults []error
	for next, open := 0, 0; ; {
		if next < len(list) {
			e := list[next]
			wg.Go(func() { t, err := r.askTable(ctx, e); answers <- answer{t, err} })
			next, open = next+1, open+1
			stagger.Reset(refreshStagger)
		}
		select {
		case a := <-answers:
			if a.err == nil {
				r.publish(old, a.table)
				return nil
			}
			open--
			if len(faults) < 3 {
				faults = append(faults, a.err)
			}
			if open == 0 && next == len(list) {
				return fmt.Errorf("%w: %w", errs.ErrNoSeed, errors.Join(faults...))
			}
		case <-stagger.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errs.ErrNoSeed, errors.Join(append(faults, endError(ctx, "", true))...))
		}
	}
}

// publish replaces the table and gives up the links of nodes that left it.
func (r *Router) publish(old, fresh *Table) {
	r.mu.Lock()
	now := r.table.Load()
	fresh = fresh.carry(old, now)
	r.table.Store(fresh)
	r.mu.Unlock()
	r.dropLinks(now, fresh)
}

// dropLinks gives up the links of nodes that are in before and not in after.
// Borrowed links are their owner's to forget.
func (r *Router) dropLinks(before, after *Table) {
	if !r.own {
		return
	}
	for _, e := range slices.Concat(before.nodes, before.holders) {
		if !slices.Contains(after.nodes, e) && !slices.Contains(after.holders, e) && !slices.Contains(r.seeds, e) {
			r.pool.giveUp(e)
		}
	}
	r.dropStrays(after)
}

// strayLinks is how many links a router keeps to nodes that are neither in its table nor
// seeds: of redirects and tables that it did not take, and of calls of single nodes.
const strayLinks = 64

// dropStrays gives such links up once they are more: the pool has room for so many
// addresses, and nodes come and go.
func (r *Router) dropStrays(t *Table) {
	all := r.pool.endpoints()
	if len(all) <= len(t.nodes)+len(t.holders)+len(r.seeds)+strayLinks {
		return
	}
	for _, e := range all {
		if !slices.Contains(t.nodes, e) && !slices.Contains(t.holders, e) && !slices.Contains(r.seeds, e) {
			r.pool.giveUp(e)
		}
	}
}

// askTable asks one node for the table.
func (r *Router) askTable(ctx context.Context, e *endpoint) (*Table, error) {
	until, _ := ctx.Deadline()
	c, err := e.get(ctx, until)
	if err != nil {
		return nil, err
	}
	v, err := c.tableReply(ctx, until)
	if err != nil {
		return nil, err
	}
	if v.Kind == resp.Error {
		text := string(v.Str)
		if !noCluster(text) {
			return nil, fmt.Errorf("%s: CLUSTER SLOTS: %w", e.addr, resp.ReplyError(text))
		}
		return newTable([]Owned{{First: 0, Last: ring.Slots - 1, Addr: e.addr}}, true, r.pool.endpoint)
	}
	runs, err := parseSlots(v, e.addr)
	if err == nil && len(runs) == 0 {
		err = errors.New("the node knows no owner of any slot")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.addr, err)
	}
	return newTable(runs, false, r.pool.endpoint)
}

// noCluster tells that the server is a single one: cluster support is disabled,
// CLUSTER is unknown, or the user may not run it.
func noCluster(text string) bool {
	return strings.Contains(text, "cluster support disabled") || strings.HasPrefix(text, "NOPERM") ||
		strings.HasPrefix(strings.ToLower(text), "err unknown command")
}

// checkAddr validates "host:port".
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("it must be host:port")
	}
	if host == "" {
		return errors.New("the host is missing")
	}
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return fmt.Errorf("port %q is not 1 to 65535", port)
	}
	return nil
}
