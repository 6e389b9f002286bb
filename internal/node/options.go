package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// Bounds of waiting; each is the longest time that one request is held.
const (
	// serveWait is how long a request for a slot that this node is about to
	// serve is held before it is answered with TRYAGAIN.
	serveWait = time.Second
	// keptViews is how many earlier Views are remembered to find who still
	// serves a slot.
	keptViews = 8
	// maxExtraSeeds bounds the addresses learnt by CLUSTER MEET and from peers.
	maxExtraSeeds = 64
	// contactInterval is the least time between two attempts to reach members
	// that only a peer knows.
	contactInterval = time.Second
	// startWait is how long Start waits for the agreement of the others.
	startWait = 2 * time.Second
	// newsWait is how long news of members are gathered before they make a View:
	// when a cluster starts they come in bursts, and each View costs a placement.
	newsWait = 3 * time.Millisecond
	// restartHold is how long a restarted member keeps its place in the View
	// while it is on its way to become active again.
	restartHold = 2 * time.Second
	// startRetry is the pause between two rounds over the seeds.
	startRetry = 250 * time.Millisecond
)

// Defaults of Options.
const (
	DefaultWarmRate  = handoff.DefaultRate
	DefaultWarmBytes = handoff.DefaultBytes
)

// Members is what the node needs of membership; *membership.Membership is one.
type Members interface {
	Join(ctx context.Context) (int, error)
	Update(self topology.Member) error
	Heard(id topology.NodeID)
	Check(id topology.NodeID)
	Out(id, by topology.NodeID)
	Snapshot() membership.Snapshot
	Gossip() string
	Messages() (sent, received uint64) // of gossip
	Leave(ctx context.Context) error
	Close() error
}

// Front is the server in front of the node, for INFO and CONFIG.
type Front interface {
	Stats() FrontStats
	SetPassword(password string)
	SetMaxClients(n int)
	// SetNotable sets from which duration (below 0: never), and bytes of request
	// and reply, Stood is told of a command, and whether each is timed by itself
	// and charged to the account of its slot.
	SetNotable(slow time.Duration, request, reply int64, each bool)
	// Publish hands a message to the sessions that listen to a channel, or to a
	// shard channel, and counts them. LeaveShards ends the subscriptions to the
	// shard channels that are gone. Neither blocks.
	Publish(channel, message []byte, shard bool) int
	LeaveShards(gone func(channel string) bool)
	// HoldAfter sets from when on a batch of commands calls AwaitFresh before it is
	// executed; the zero time: never.
	HoldAfter(t time.Time)
	ResetStats()
}

// FrontStats are the figures of the server.
type FrontStats struct {
	Connected, Peers          int64  // sessions now
	Waiting                   int64  // for the end of CLIENT PAUSE, now
	Total, Rejected, Commands uint64 // Total is the ID of the latest session
	NetIn, NetOut             uint64 // bytes
	Reads, Writes             uint64
	RecentInput, RecentOutput int64  // largest of one session, in bytes
	DeniedAuth, DeniedCommand uint64 // refused logins, and commands by the rules of users
	DeniedKey, DeniedChannel  uint64
	OutputLimit               uint64 // sessions that were closed because they did not read
	BufferBytes, BufferLimit  int64  // of all session buffers together
	BufferRefusals            uint64

	// Channels, shard channels and patterns that sessions listen to, and how many
	// sessions do, now.
	Channels, ShardChannels, Patterns, Listening int

	// Rates over the last full second.
	CommandsPerSec, NetInPerSec, NetOutPerSec float64
}

// Options configure a node.
type Options struct {
	// ID is the node's ID. Zero: from DataDir, else derived from Cluster and
	// the advertised address, else random.
	ID      topology.NodeID
	DataDir string
	// WarmDir keeps the entries over a restart; "": DataDir, WarmOff: nowhere.
	WarmDir string
	Cluster string
	Secret  []byte

	// Host and Port are the advertised data address; Port 0: no listener.
	Host string
	Port uint16
	// Standalone: no membership, the node is alone.
	Standalone bool
	Weight     float64
	Steps      Steps
	Zone       string
	// Replicas is how many other nodes keep copies of what this one serves, 0 to
	// topology.MaxReplicas.
	Replicas  int
	Params    topology.Params
	Placement ring.Placement // nil: by Params

	Discovery   membership.Discovery
	Scripts     exec.Scripts // runs EVAL; nil: not served
	JoinTimeout time.Duration

	// Membership carries the timings and gossip addresses; the node fills in
	// the rest.
	Membership membership.Options
	// StartMembership replaces membership.Start (tests).
	StartMembership func(membership.Options) (Members, error)

	Engine engine.Options // Now and File are filled in
	// WarmRate and WarmBytes bound, per second and previous owner, the keys and bytes
	// that are taken over with gained slots unasked; 0: the defaults of handoff.
	WarmRate, WarmBytes int
	// MirrorReads is the share of reads, in per cent, that is mirrored to a node that
	// joins in steps; a joiner with a share above 0 gives the owners time for that.
	MirrorReads int

	// WholeProcess: the process is this node and nothing else, so what the Go
	// runtime holds counts against Engine.MaxBytes, and not only session buffers.
	WholeProcess bool

	// Diagnostics say what the node keeps of its own work.
	Diagnostics Diagnostics

	Version    string // redis_version
	Password   string // for CONFIG GET
	MaxClients int
	// TrackingKeys is how many keys are remembered for clients that track what
	// they read; 0: DefaultTrackingKeys, below 0: any number.
	TrackingKeys int

	// Dialer reaches peers; nil: TCP.
	Dialer link.Dialer
	// Now is the wall clock; nil: the real one, unmoved by clock steps.
	Now func() time.Time
	// OnShutdown is called once, on a goroutine of its own, when the node wants
	// its process or embedder to close it: SHUTDOWN, or a later incarnation of
	// its ID appeared.
	OnShutdown func(reason string)
	Logger     *slog.Logger
}
