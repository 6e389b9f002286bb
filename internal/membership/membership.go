// Package membership knows which nodes are alive. memberlist detects failures
// and spreads news; a policy layer between its events and the Snapshot decides
// what to believe, so that a pause or a short outage removes nobody and a dead
// process is out within seconds (DESIGN.md gives rules and timings).
//
// It owns the gossip port, the metadata that a node publishes about itself and
// the health of its peers. It never decides about slots, never speaks the data
// protocol (the Prober does) and never changes a Member other than its own.
//
// Concurrency: one goroutine owns the policy, a pure state machine. Callbacks
// of memberlist run under its locks and only fill a bounded inbox. OnChange
// runs on a goroutine of its own, without any lock held. All exported methods
// are safe for concurrent use; Close waits for every goroutine started here.
package membership

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/topology"
)

// Discovery gives seeds: data addresses (host:port) of nodes that may be
// members. The own address may be among them. At most MaxSeeds are used.
type Discovery interface {
	Seeds(ctx context.Context) ([]string, error)
}

// Prober reaches data ports. Both methods must return when ctx is done and are
// called concurrently, Probe at most once at a time per incarnation.
type Prober interface {
	// Probe reaches the data port of m and verifies that the process there is
	// m.ID with incarnation m.Boot. nil means that it answered. An error that
	// wraps syscall.ECONNREFUSED, errs.ErrOtherNode or errs.ErrMismatch proves
	// that the process is not there; every other error counts as silence.
	Probe(ctx context.Context, m topology.Member) error
	// Contact asks the node at a seed for its gossip address (ip:port) and its
	// ID. Refusals wrap errs.ErrMismatch (other ring parameters, cluster or
	// protocol) or errs.ErrAuth (other secret).
	Contact(ctx context.Context, seed string) (gossip string, id topology.NodeID, err error)
}

// Options configure Start. Zero values mean the defaults given.
type Options struct {
	// Self is the own entry: ID, Boot, State, Weight, Zone, Host and Port. An
	// empty Host means the gossip IP. Gossip is filled in.
	Self topology.Member
	// Cluster is the name that every member shares, at most 255 bytes; it
	// labels every gossip packet.
	Cluster string
	// Secret encrypts gossip (AES-256 under a key derived by HKDF-SHA256).
	// Empty means plain text: loopback only, the caller sees to that.
	Secret []byte
	// Bind is the gossip address ip:port, for TCP and, without TCPOnly, UDP; port 0
	// picks one.
	Bind string
	// Advertise is the gossip address that peers are told: an IP or a host
	// name (resolved once), with or without a port. Empty: that of Bind.
	Advertise string
	// Source is the IP that streams to peers leave from; nil: the system's choice.
	// Packets over UDP leave from Bind.
	Source net.IP

	// TCPOnly sends gossip over TCP connections instead of UDP packets, where the
	// network has no UDP. All members must do the same.
	TCPOnly bool

	ProbeInterval time.Duration // between gossip probes; default 1s
	ProbeTimeout  time.Duration // of one gossip probe; default 500ms
	SuspicionMult int           // default 4
	HoldDown      time.Duration // how long a death is held; default 3s

	Discovery Discovery // nil: no seeds
	Prober    Prober    // required
	// OnChange gets the latest snapshot after changes (the state at Start is no
	// change: see Snapshot); several changes may come as one. It runs on a goroutine of membership's that does nothing
	// else, so it may block; Close waits for it.
	OnChange func(Snapshot)

	Transport memberlist.Transport // for tests; nil: TCP and UDP on Bind
	Now       func() time.Time     // the policy's clock; default time.Now
	Seed      uint64               // of jitter; 0: taken from Self.Boot
	Logger    *slog.Logger         // default: discards

	record func(now time.Time, ev event, actions []action) // for tests: every step of the policy
}

// Health says what the policy believes about a peer.
type Health uint8

// The health of a peer. Alive and Suspect peers are members; Dead peers are
// only listed, for DeadListed, and are members no longer.
const (
	Alive   Health = iota
	Suspect        // reported dead, or its data port did not answer; undecided
	Dead           // out
)

// String returns the name of the health in lower case.
func (h Health) String() string {
	switch h {
	case Alive:
		return "alive"
	case Suspect:
		return "suspect"
	default:
		return "dead"
	}
}

// Peer is one node of a Snapshot.
type Peer struct {
	topology.Member
	Health Health
	// RTT is the smoothed round trip of gossip probes, DialRTT that of own dials of
	// the data port: a connection, the proof of the secret and one look at the data.
	// 0: none yet.
	RTT, DialRTT time.Duration
	// Degraded: the peer says of itself that it serves badly. Failing: requests from
	// this node to it got no answer lately, although its port answers. Either stays a
	// member; whether it is dead is for the dials to decide.
	Degraded, Failing bool
}

// Snapshot is the membership at one moment. It is immutable: do not modify
// Members. Of several incarnations of one ID only the current one is listed.
// A peer that left on its own will is absent; one that died is listed as Dead
// for DeadListed.
type Snapshot struct {
	Members []Peer // sorted by ID, this node included, always Alive
	// Version counts snapshots of this process; greater is later.
	Version uint64
	// SelfSuspect says that so many peers seem dead at once that this node
	// rather doubts itself; nobody is declared dead for silence meanwhile.
	SelfSuspect bool
	// Superseded says that a later incarnation of this node's ID is alive
	// elsewhere (By): this node must say so and leave.
	Superseded bool
	By         topology.Member
}

// Limits and timings that are not options.
const (
	// MaxPeers bounds the nodes known at a time; further ones are refused.
	MaxPeers = topology.MaxMembers
	// MaxSeeds bounds the seeds used of one Discovery answer.
	MaxSeeds = 256
	// MaxMeta bounds the gossiped metadata of a node, in bytes.
	MaxMeta = 64
	// DeadListed is how long a dead peer stays in snapshots.
	DeadListed = 60 * time.Second
	// MaxDeadListed bounds the dead peers in a snapshot; the latest stay.
	MaxDeadListed = 64
)
