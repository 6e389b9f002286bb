package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	contactTimeout  = 3 * time.Second
	maxContacts     = 8                      // at a time
	secondLookAfter = 300 * time.Millisecond // between the two exchanges of a rejoin
)

// seedResult is what came of one seed.
type seedResult struct {
	seed, gossip string
	id           topology.NodeID
	own          bool // it is this node
	err          error
}

func (r *seedResult) refused() bool {
	return errors.Is(r.err, errs.ErrMismatch) || errors.Is(r.err, errs.ErrAuth)
}

// Join contacts the seeds and exchanges state with those that answer. It
// returns how many were reached.
//
// With none reached: no seeds, or only this node among them, gives 0 and no
// error; a refusal gives an error that wraps errs.ErrMismatch or errs.ErrAuth;
// else the error wraps errs.ErrNoSeed and names every seed with its own error.
// Whether to go on alone is the caller's choice: the rejoin loop keeps trying.
func (m *Membership) Join(ctx context.Context) (int, error) {
	if m.o.Discovery == nil {
		return 0, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)() // Close ends it
	seeds, err := m.o.Discovery.Seeds(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: discovery: %w", errs.ErrNoSeed, err)
	}
	results := m.contact(ctx, seeds[:min(len(seeds), MaxSeeds)])
	m.exchange(ctx, results)
	reached, err := judgeSeeds(results)
	if err == nil {
		m.warnRefusals(results)
	}
	return reached, err
}

// warnRefusals logs refusals that no error tells of.
func (m *Membership) warnRefusals(results []seedResult) {
	for _, r := range results {
		if r.refused() {
			m.log.Warn("seed refuses this node", "seed", r.seed, "error", r.err)
		}
	}
}

// SeedsError says that no seed was reached; it wraps errs.ErrNoSeed.
type SeedsError struct {
	// Own says that this node itself answered at one of the seeds, whatever name it
	// has there.
	Own  bool
	text string
}

func (e *SeedsError) Error() string { return errs.ErrNoSeed.Error() + ": " + e.text }
func (e *SeedsError) Unwrap() error { return errs.ErrNoSeed }

// judgeSeeds turns results into what Join returns.
func judgeSeeds(results []seedResult) (reached int, err error) {
	var refused, silent []string
	var cause error
	own := false
	for _, r := range results {
		switch {
		case r.own:
			own = true
		case r.err == nil:
			reached++
		case r.refused():
			refused = append(refused, r.seed)
			cause = errors.Join(cause, r.err)
		default:
			silent = append(silent, fmt.Sprintf("%s: %v", r.seed, r.err))
		}
	}
	switch {
	case reached > 0:
		return reached, nil
	case cause != nil:
		return 0, fmt.Errorf("refused by %s: %w", strings.Join(refused, ", "), cause)
	case len(silent) > 0:
		return 0, &SeedsError{own, strings.Join(silent, "; ")}
	}
	return 0, nil
}

// contact resolves seeds to gossip addresses, maxContacts at a time.
func (m *Membership) contact(ctx context.Context, seeds []string) []seedResult {
	results := make([]seedResult, len(seeds))
	slots := make(chan struct{}, maxContacts)
	var wg sync.WaitGroup
	for i, seed := range seeds {
		results[i].seed = seed
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			results[i].err = ctx.Err()
			continue
		}
		// Ends with Contact, within contactTimeout; waited for below.
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, contactTimeout)
			defer cancel()
			r := &results[i]
			r.gossip, r.id, r.err = m.o.Prober.Contact(ctx, seed)
			// Another process with this ID is no reason to skip it: the later
			// of the two has to be found out.
			// This node itself may not know its gossip address yet.
			r.own = r.err == nil && r.id == m.o.Self.ID && (r.gossip == m.gossip || r.gossip == "")
		})
	}
	wg.Wait()
	return results
}

// exchange swaps state with every seed contacted, off the caller's goroutine:
// memberlist takes no context, but bounds each exchange by streamTimeout.
func (m *Membership) exchange(ctx context.Context, results []seedResult) {
	type outcome struct {
		i   int
		err error
	}
	done := make(chan outcome, len(results))
	pending := map[int]bool{}
	var mu sync.Mutex
	next := make([]int, 0, len(results))
	for i, r := range results {
		if r.err == nil && !r.own {
			next, pending[i] = append(next, i), true
		}
	}
	for range min(maxContacts, len(next)) {
		m.start(func() { // ends when no seed is left, or at Close
			for {
				mu.Lock()
				if len(next) == 0 || ctx.Err() != nil || m.ctx.Err() != nil {
					mu.Unlock()
					return
				}
				i := next[0]
				next = next[1:]
				mu.Unlock()
				_, err := m.list.Join([]string{results[i].gossip})
				done <- outcome{i, err}
			}
		})
	}
	for len(pending) > 0 {
		var err error
		select {
		case o := <-done:
			delete(pending, o.i)
			if o.err != nil {
				results[o.i].err = fmt.Errorf("gossip at %s: %w", results[o.i].gossip, o.err)
			}
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-m.ctx.Done():
			err = errs.ErrClosed
		}
		for i := range pending {
			results[i].err = err
		}
		return
	}
}

// rejoin exchanges state with one address twice. In the first exchange both
// sides learn that the other holds them dead and contradict; only the second
// carries what they say now.
func (m *Membership) rejoin(gossip string) {
	if _, err := m.list.Join([]string{gossip}); err != nil {
		m.log.Debug("rejoin failed", "gossip", gossip, "error", err)
		return
	}
	timer := time.NewTimer(secondLookAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		if _, err := m.list.Join([]string{gossip}); err != nil {
			m.log.Debug("rejoin failed", "gossip", gossip, "error", err)
		}
	case <-m.ctx.Done():
	}
}

// Exchange swaps state with the member at a gossip address, both ways and in the
// background: for who sees that one of the two has missed news, which the periodic
// exchange would bring seconds later. While maxRejoins are under way it does nothing.
func (m *Membership) Exchange(gossip string) {
	select {
	case m.rejoins <- struct{}{}:
	default:
		return
	}
	done := func() { <-m.rejoins }
	if !m.start(func() { // ends within streamTimeout, or at Close
		defer done()
		if _, err := m.list.Join([]string{gossip}); err != nil {
			m.log.Debug("exchange failed", "gossip", gossip, "error", err)
		}
	}) {
		done()
	}
}

// rejoinSeeds joins the seeds that are not members already.
func (m *Membership) rejoinSeeds() {
	ctx, cancel := context.WithTimeout(m.ctx, rejoinEvery)
	defer cancel()
	seeds, err := m.o.Discovery.Seeds(ctx)
	if err != nil {
		m.log.Debug("discovery failed", "error", err)
		return
	}
	members := map[topology.NodeID]string{}
	known := map[string]bool{}
	for _, p := range m.Snapshot().Members {
		if p.Health == Alive {
			members[p.ID], known[p.Addr()] = p.Gossip, true
		}
	}
	unknown := seeds[:0:0]
	for _, s := range seeds[:min(len(seeds), MaxSeeds)] {
		if !known[s] {
			unknown = append(unknown, s)
		}
	}
	results := m.contact(ctx, unknown)
	m.warnRefusals(results)
	for _, r := range results {
		if r.err == nil && !r.own && members[r.id] != r.gossip && ctx.Err() == nil {
			m.rejoin(r.gossip)
		}
	}
}
