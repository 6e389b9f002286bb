package clustertest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/server"
	"github.com/ringcache/ringcache/internal/topology"
)

// probesEnd is how long memberlist takes at most to end a probe that is under way
// when it is closed.
const probesEnd = 4 * time.Second

// Sim is a cluster on a MemNet with Rumours. Use it inside synctest.Test.
type Sim struct {
	tb      testing.TB
	Net     *MemNet
	Rumours *Rumours
	Nodes   []*SimNode // in the order of Add; dead ones stay

	// Gossip makes the membership of the nodes that are opened from then on a real
	// one; nil: Rumours.
	Gossip *GossipNet

	// Clock gives a node and its server a clock of their own, which may jump as that
	// of a process that was stopped does; nil: the bubble's.
	Clock func(name string) func() time.Time
	// Change may alter the options of every node that is opened from now on.
	Change func(*node.Options)
}

// SimNode is one node of a Sim.
type SimNode struct {
	Name string
	Addr string
	Node *node.Node
	srv  *server.Server
	dead bool
}

// NewSim makes an empty cluster; it is closed when the test ends.
func NewSim(tb testing.TB) *Sim {
	s := &Sim{tb: tb, Net: NewMemNet(), Rumours: NewRumours()}
	return s
}

// handler gives a server's commands to a node.
type handler struct{ n *node.Node }

func (h handler) Exec(s *server.Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	h.n.Exec(session{s}, cmd, args, w)
}

func (h handler) TryExec(s *server.Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	return h.n.TryExec(session{s}, cmd, args, w)
}
func (h handler) AwaitFresh(*server.Session) { h.n.AwaitFresh() }

func (h handler) Closed(s *server.Session) { h.n.Closed(session{s}) }

func (h handler) Admit(s *server.Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	return h.n.Admit(session{s}, cmd, args, w)
}

func (h handler) Transact(s *server.Session, t *server.Transaction, w *resp.Writer) {
	h.n.Transact(session{s}, t, w)
}

func (h handler) TryTransact(s *server.Session, t *server.Transaction, w *resp.Writer) bool {
	return h.n.TryTransact(session{s}, t, w)
}

func (h handler) Forget(s *server.Session) { h.n.Forget(session{s}) }

type session struct{ *server.Session }

func (s session) Attachment() any     { return s.Session.Attachment }
func (s session) SetAttachment(v any) { s.Session.Attachment = v }

// fixed is a Discovery of fixed addresses.
type fixed []string

func (f fixed) Seeds(context.Context) ([]string, error) { return f, nil }

// Open makes a node that listens but has not joined: name becomes its ID and
// its address. change may alter its options.
func (s *Sim) Open(name string, change func(*node.Options), seeds ...string) *SimNode {
	s.tb.Helper()
	var id topology.NodeID
	copy(id[:], name)
	sn := &SimNode{Name: name, Addr: net.JoinHostPort(name, "7001")}
	o := node.Options{ID: id, Cluster: "test", Host: name, Port: 7001, Weight: 1, JoinTimeout: 2 * time.Second,
		Discovery: fixed(seeds), StartMembership: s.Rumours.Start, Dialer: s.Net.Dialer(name), Now: time.Now,
		Engine: engine.Options{MaxBytes: 64 << 20, NoBackground: true}, Logger: slog.New(slog.DiscardHandler)}
	if s.Gossip != nil {
		o.StartMembership, o.JoinTimeout = s.Gossip.Start(name), 10*time.Second
	}
	var now func() time.Time
	if s.Clock != nil {
		now = s.Clock(name)
		o.Now = now
	}
	for _, change := range []func(*node.Options){s.Change, change} {
		if change != nil {
			change(&o)
		}
	}
	var err error
	if sn.Node, err = node.Open(o); err != nil {
		s.tb.Fatal(err)
	}
	sn.srv, err = server.New(server.Options{Listener: s.Net.Listen(name, sn.Addr), Handler: handler{sn.Node}, Logger: o.Logger, Now: now, MaxValue: o.Engine.MaxValue})
	if err != nil {
		s.tb.Fatal(err)
	}
	if now != nil {
		sn.Node.Attach(front{sn.srv})
	}
	if err := sn.srv.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.Nodes = append(s.Nodes, sn)
	return sn
}

// Add opens a node and starts it; the seeds are names of nodes.
func (s *Sim) Add(name string, seeds ...string) *SimNode {
	s.tb.Helper()
	for i := range seeds {
		seeds[i] = net.JoinHostPort(seeds[i], "7001")
	}
	sn := s.Open(name, nil, seeds...)
	if err := sn.Node.Start(context.Background()); err != nil {
		s.tb.Fatal(err)
	}
	return sn
}

// ID is the ID of a node by name.
func (s *Sim) ID(name string) (id topology.NodeID) {
	copy(id[:], name)
	return id
}

// Get finds a node by name, its latest process.
func (s *Sim) Get(name string) *SimNode {
	for _, n := range slices.Backward(s.Nodes) {
		if n.Name == name {
			return n
		}
	}
	s.tb.Fatalf("there is no node %s", name)
	return nil
}

// Kill ends a node without a word; nobody is told.
func (s *Sim) Kill(name string) {
	n := s.Get(name)
	n.dead = true
	if s.Gossip != nil {
		s.Gossip.Kill(name)
	}
	s.Net.Kill(name)
	s.close(n)
}

func (s *Sim) close(n *SimNode) {
	// A closed server or node has nothing to tell a test that ends it.
	_ = n.srv.Close()
	_ = n.Node.Close()
}

// Close ends every node, and waits until nothing of them is left.
func (s *Sim) Close() {
	for _, n := range s.Nodes {
		if !n.dead {
			n.dead = true
			s.close(n)
		}
	}
	if s.Gossip != nil {
		<-time.After(probesEnd)
	}
}

// Servers lists who serves a slot.
func (s *Sim) Servers(slot uint16) (names []string) {
	for _, n := range s.Nodes {
		if !n.dead && n.Node.Serving(slot) {
			names = append(names, n.Name)
		}
	}
	return names
}

// Settled waits until every live node has one and the same View and every
// given slot is served by its owner alone; it fails after a virtual minute.
func (s *Sim) Settled(slots ...uint16) {
	s.tb.Helper()
	why := ""
	for range 6000 {
		if why = s.unsettled(slots); why == "" {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	s.tb.Fatal("the cluster does not settle: " + why)
}

func (s *Sim) unsettled(slots []uint16) string {
	var view *topology.View
	for _, n := range s.Nodes {
		if n.dead {
			continue
		}
		v := n.Node.View()
		if view != nil && v.Hash() != view.Hash() {
			return fmt.Sprintf("%s has view %s, another has %s", n.Name, members(v), members(view))
		}
		view = v
	}
	for _, slot := range slots {
		owner := view.OwnerMember(slot)
		if by := s.Servers(slot); owner == nil || len(by) != 1 || by[0] != owner.Host {
			return fmt.Sprintf("slot %d is served by %v", slot, by)
		}
	}
	return ""
}

// members describes a View by who is in it.
func members(v *topology.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%016x", v.Hash())
	for _, m := range v.Members() {
		fmt.Fprintf(&b, " %s:%s/%d", m.Host, m.State, m.Sequence)
	}
	return b.String()
}

// Do sends one command to a node in the name of a client and returns the reply
// as it comes, redirects included.
func (s *Sim) Do(at string, args ...string) resp.Value {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := link.Dial(ctx, net.JoinHostPort(at, "7001"), link.Options{Dialer: s.Net.Dialer("client")})
	if err != nil {
		s.tb.Fatal(err)
	}
	defer c.Close()
	v, err := c.Do(ctx, resp.AppendCommandStrings(nil, args...))
	if err != nil {
		s.tb.Fatal(err)
	}
	return v
}

// Follow is Do that follows redirects, at most so many; it returns the path.
func (s *Sim) Follow(most int, at string, args ...string) (resp.Value, []string) {
	s.tb.Helper()
	path := []string{at}
	for range most + 1 {
		v := s.Do(at, args...)
		if v.Kind != resp.Error || !strings.HasPrefix(v.Text(), "MOVED ") {
			return v, path
		}
		at = strings.TrimSuffix(v.Text()[strings.LastIndexByte(v.Text(), ' ')+1:], ":7001")
		path = append(path, at)
	}
	s.tb.Fatalf("redirects do not end: %v", path)
	return resp.Value{}, nil
}

// keyOf finds a key of a slot.
func keyOf(slot uint16) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("k%d", i); ring.SlotString(k) == slot {
			return k
		}
	}
}
