package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/topology"
)

// Start brings the node into its cluster and returns once it is a member that
// owns slots and serves them (or others have kept it waiting too long). Where the
// owners have content these are its first slots, and it takes over the others in
// the background, see Steps. The server in front must accept connections already:
// peers call back.
// On an error the node is not usable; close it.
func (n *Node) Start(ctx context.Context) error {
	err := n.begin(ctx)
	n.running.Store(err == nil)
	return err
}

func (n *Node) begin(ctx context.Context) error {
	if n.front != nil {
		n.wg.Go(n.checkLoop)  // ends with n.ctx
		n.wg.Go(n.memoryLoop) // ends with n.ctx
		n.wg.Go(n.shardLoop)  // ends with n.ctx
	}
	n.wg.Go(n.pinLoop)    // ends with n.ctx
	n.wg.Go(n.changeLoop) // ends with n.ctx
	if n.o.Standalone || n.o.Port == 0 {
		n.checkInheritance()
		err := n.setState(topology.Active)
		n.settleInheritance()
		return err
	}
	n.wg.Go(n.pressureLoop) // ends with n.ctx
	n.wg.Go(n.copyLoop)     // ends with n.ctx
	began := time.Now()
	o := n.o.Membership
	o.Self, o.Cluster, o.Secret = n.selfMember(), n.o.Cluster, n.o.Secret
	o.Discovery, o.Prober, o.OnChange = n.seeds, prober{n}, n.onSnapshot
	o.Now, o.Logger = n.clock.time, n.log
	start := n.o.StartMembership
	if start == nil {
		start = func(o membership.Options) (Members, error) { return membership.Start(o) }
	}
	mem, err := start(o)
	if err != nil {
		return err
	}
	n.selfMu.Lock()
	n.self.Gossip = mem.Gossip()
	n.selfMu.Unlock()
	n.mem.Store(&mem)
	if err := n.join(ctx); err != nil {
		return err
	}
	n.learnPins(ctx)
	n.checkInheritance()
	if err := n.enter(ctx); err != nil {
		return err
	}
	n.awaitShare(ctx)
	n.logInheritance()
	v := n.View()
	self, _ := v.Index(n.id)
	n.log.Info("member of the cluster", "cluster", n.o.Cluster, "members", v.Len(), "state", v.Member(self).State.String(), "slots", v.OwnedBy(self),
		"gossip", mem.Gossip(), "took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// join reaches a member by the seeds. A node without seeds, or one that is
// itself among them while nobody else answers, starts a cluster of its own.
func (n *Node) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.o.JoinTimeout)
	defer cancel()
	var last error
	for round := 0; ; round++ {
		seeds, err := n.seeds.Seeds(ctx)
		if err != nil {
			last = fmt.Errorf("discovery: %w", err)
		}
		others := slices.DeleteFunc(slices.Clone(seeds), n.isOwnAddress)
		if err == nil && len(others) == 0 {
			return nil
		}
		reached := 0
		if err == nil {
			var silent *membership.SeedsError
			// The round that the deadline cuts off says less than the one before.
			if reached, err = n.membership().Join(ctx); err != nil && (last == nil || ctx.Err() == nil) {
				last = err
			}
			// A name may stand for this node too, as a headless service does.
			if reached == 0 && (err == nil || errors.As(err, &silent) && silent.Own) {
				n.log.Info("no other seed answers; starting alone", "seeds", strings.Join(seeds, ","))
				return nil
			}
		}
		if reached > 0 {
			n.reached = true
			n.awaitPeers(ctx)
			return nil
		}
		if errors.Is(err, errs.ErrMismatch) || errors.Is(err, errs.ErrAuth) {
			return fmt.Errorf("cannot join cluster %q: %w", n.o.Cluster, err)
		}
		if err != nil && len(others) < len(seeds) {
			n.log.Info("no other seed answers; starting alone", "seeds", strings.Join(seeds, ","))
			return nil
		}
		select {
		case <-ctx.Done():
			return n.noSeed(seeds, last)
		case <-time.After(startRetry):
		}
	}
}

// awaitPeers waits until the members that were reached are in the View; they are
// on their way.
func (n *Node) awaitPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, serveWait)
	defer cancel()
	for {
		changed := n.barrier.Changed()
		if n.View().Len() > 1 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) noSeed(seeds []string, last error) error {
	advice := fmt.Sprintf("check that they run and are reachable, or list this node's own address %s among the seeds to let it start first",
		net.JoinHostPort(n.o.Host, fmt.Sprint(n.o.Port)))
	if !errors.Is(last, errs.ErrNoSeed) { // which names every seed
		last = errors.Join(fmt.Errorf("%w: %s", errs.ErrNoSeed, strings.Join(seeds, ", ")), last)
	}
	return fmt.Errorf("cannot join cluster %q within %v: %w; %s", n.o.Cluster, n.o.JoinTimeout, last, advice)
}

// isOwnAddress tells whether a seed names this node: its advertised address, or
// one of this machine's addresses with the same port.
func (n *Node) isOwnAddress(seed string) bool {
	host, port, err := net.SplitHostPort(seed)
	if err != nil || port != fmt.Sprint(n.o.Port) {
		return false
	}
	if strings.EqualFold(host, n.o.Host) {
		return true
	}
	own, seedIP := net.ParseIP(n.o.Host), net.ParseIP(host)
	if host == "localhost" {
		seedIP = net.IPv4(127, 0, 0, 1)
	}
	return own != nil && seedIP != nil && own.Equal(seedIP) || strings.EqualFold(n.o.Host, "localhost") && seedIP != nil && seedIP.IsLoopback()
}

// seedList adds addresses learnt at run time to the user's Discovery.
type seedList struct {
	base membership.Discovery

	mu    sync.Mutex
	extra []string // newest last, at most maxExtraSeeds; the oldest gives way
}

// Seeds implements membership.Discovery.
func (s *seedList) Seeds(ctx context.Context) (out []string, err error) {
	if s.base != nil {
		out, err = s.base.Seeds(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.extra) > 0 {
		err = nil
	}
	return append(slices.Clone(out), s.extra...), err
}

func (s *seedList) add(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.extra, addr) {
		return
	}
	if len(s.extra) == maxExtraSeeds {
		s.extra = slices.Delete(s.extra, 0, 1)
	}
	s.extra = append(s.extra, addr)
}

// contacts runs the attempts to reach nodes that membership does not know, one
// at a time.
type contacts struct {
	mu      sync.Mutex
	running bool
	last    time.Time
}

// meet adds an address to the seeds and joins by them, in the background.
func (n *Node) meet(addr string) {
	n.seeds.add(addr)
	n.contact.mu.Lock()
	busy := n.contact.running || n.membership() == nil || n.ctx.Err() != nil ||
		!n.contact.last.IsZero() && time.Since(n.contact.last) < contactInterval
	if !busy {
		n.contact.running, n.contact.last = true, time.Now()
		n.wg.Go(n.contactAll) // ends after one round over the seeds, or with n.ctx
	}
	n.contact.mu.Unlock()
}

func (n *Node) contactAll() {
	ctx, cancel := context.WithTimeout(n.ctx, n.o.JoinTimeout)
	defer cancel()
	if _, err := n.membership().Join(ctx); err != nil && n.ctx.Err() == nil {
		n.log.Debug("contacting seeds", "error", err)
	}
	n.contact.mu.Lock()
	n.contact.running = false
	n.contact.mu.Unlock()
}
