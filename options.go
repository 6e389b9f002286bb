package ringcache

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/server"
	"github.com/ringcache/ringcache/internal/topology"
)

// Discovery gives seeds: data addresses (host:port) of nodes that may be
// members of the cluster, the own one included or not.
type Discovery = membership.Discovery

// Scripts runs Lua for EVAL; lua.New of the package
// github.com/ringcache/ringcache/lua makes one.
type Scripts = exec.Scripts

// Defaults and limits of Options.
const (
	DefaultMaxMemory   = 256 << 20        // bytes
	DefaultMaxValue    = 256 << 10        // bytes
	DefaultMaxClients  = 10000            // sessions
	DefaultOutputLimit = 64 << 20         // bytes per session
	DefaultJoinTimeout = 10 * time.Second // Open waits so long for a seed
	DefaultClusterName = "ringcache"
	DefaultTracking    = node.DefaultTrackingKeys // keys
	DefaultWarmRate    = node.DefaultWarmRate     // keys per second
	DefaultWarmBytes   = node.DefaultWarmBytes    // bytes per second
	MaxClusterName     = 128                      // bytes
	MaxLoops           = server.MaxLoops
	MaxReplicas        = topology.MaxReplicas
	MaxMemoryLimit     = engine.MaxBytesLimit // of MaxMemory, in bytes: 1 TiB

	DefaultJoinSteps    = node.DefaultJoinSteps
	DefaultMissBudget   = node.DefaultMissBudget
	DefaultJoinTime     = node.DefaultJoinTime
	DefaultDrainTimeout = node.DefaultDrainTimeout
	MaxJoinSteps        = node.MaxJoinSteps

	// MinClusterSecret is the shortest cluster secret in bytes: gossip shows what
	// a shorter one can be guessed from.
	MinClusterSecret = 16

	gossipOffset   = 10000
	maxPort        = 65535
	minBufferLimit = 64 << 20 // of the default only
)

// Options configure a node. The zero value is a node alone in its process,
// without a listener and with the defaults below. Options are copied; nothing
// changes them.
type Options struct {
	// Addr is the data address host:port to listen on (RESP for clients and
	// peers). Port 0 picks a free one. Empty: no listener, the node is reached
	// through the methods of Node only and stays alone.
	Addr string
	// Advertise is the host name or IP, with or without a port, by which
	// clients and peers reach this node. Default: the address of the listener;
	// if that is unspecified (0.0.0.0), the first address of an interface.
	Advertise string
	// GossipAddr is the ip:port for gossip, TCP and UDP. Default: the host of
	// Addr, data port + 10000, or any free port if Addr asked for port 0. A sum
	// above 65535 is an error.
	GossipAddr string
	// SourceAddr is the IP that connections to other nodes leave from, as
	// bind-source-addr of Redis: on a machine with several of them, where routes or
	// firewalls ask for a certain one. It must be an address of this machine, and of
	// the same family (IPv4 or IPv6) as those of the peers. Gossip's packets over UDP
	// leave from GossipAddr. Default: the system's choice.
	SourceAddr string
	// Seeds are data addresses of members. Without seeds, and without a
	// Discovery that gives some, the node starts a cluster of its own, which
	// others may join.
	Seeds []string
	// Discovery gives further seeds, asked again whenever one is needed. The package
	// discovery has some, over files, DNS, etcd and Consul. If it is a Registrar too,
	// this node is listed by it.
	Discovery Discovery
	// Scripts serves EVAL and its relatives. Default: they are refused, so that
	// a program that needs no scripts links no interpreter.
	Scripts Scripts
	// JoinTimeout bounds how long Open tries to reach a seed; default 10 s. A
	// node that is itself among its seeds starts alone when no other answers.
	JoinTimeout time.Duration
	// GossipTCP sends gossip over TCP connections alone, for networks without UDP.
	// It must be equal in a cluster.
	GossipTCP bool
	// Standalone switches gossip off: the node listens but never has peers.
	Standalone bool

	// ClusterName is shared by all members; default "ringcache".
	ClusterName string
	// ClusterSecret is shared by all members; keys for gossip and for the
	// proofs between peers are derived from it, so it has at least
	// MinClusterSecret bytes. Required when a member listens beyond loopback.
	ClusterSecret string
	// DataDir keeps the node ID over restarts, and, unless WarmDir says
	// otherwise, the entries. Without it the ID is derived from cluster name and
	// advertised address.
	DataDir string
	// WarmDir is the directory that keeps the entries over a restart in good
	// order; default DataDir, "off" keeps none. In a file system that lives in
	// memory, such as /dev/shm, the file is the cache's memory itself: it takes
	// MaxMemory there from the start, and the next process has it at once.
	// Elsewhere the entries are written at the end and read at the start, up to
	// MaxMemory bytes. After a crash a node starts empty. In a cluster a node
	// keeps what all its peers of before prove that nobody else has owned
	// meanwhile. One process at a time uses a file; a second fails with
	// ErrConfig.
	WarmDir string
	// Weight is the node's share of slots relative to others: 1 by default,
	// at most 100. A negative weight means 0: the node owns nothing. A weight that
	// was set at run time and is kept in DataDir takes its place until it is another
	// one than it was then.
	Weight float64
	// JoinSteps is in how many steps the node takes its slots over when it joins a
	// cluster with content, and gives them up in Drain: 8 by default, at most 64,
	// 1 for all at once. One node of a cluster changes at a time.
	JoinSteps int
	// MissBudget is which part of the node's requests, above 0 and up to 1, may
	// have to fetch their key from the owner before, for the next step to be taken
	// while content is on its way; default 0.05.
	MissBudget float64
	// JoinTime bounds the join from its first step on, default 10 min: then the
	// node takes all its slots. A node that does not get on with its own join for
	// so long is not waited for any more.
	JoinTime time.Duration
	// DrainTimeout bounds how long Drain hands slots and content over; default 1
	// min. Without content it takes a fraction of a second.
	DrainTimeout time.Duration
	// Zone names where the node runs, at most 32 bytes.
	Zone string
	// Replicas is how many other nodes keep copies of what this one serves, 0
	// (default) to MaxReplicas; it should be equal in a cluster. Copies follow the
	// changes within milliseconds, without anybody waiting for them: when a node
	// dies, who takes its slots over has them, but for the last changes. They
	// count against the MaxMemory of the node that keeps them, and leave before
	// anything else there. A second copy is kept in another zone if there is one.
	Replicas int

	// Placement is "ring" (default), "ring-unbounded", "modulo" or
	// "contiguous"; Tokens per unit of weight (default 160, at most 4096) and
	// Bound on the load relative to the mean (default 1.05, at least 1, +Inf for
	// none). All three must be equal in a cluster.
	Placement string
	Tokens    int
	Bound     float64
	// PlaceSlots decides the owner of every slot in the place of these placements;
	// Tokens and Bound mean nothing to it then. All nodes of a cluster must have the
	// same one: they compare its name, which is no built-in one and at most 32
	// characters long, and refuse each other where it differs. It must be a pure
	// function, must not panic, and is called for every change of members, for
	// hypothetical members too. Pins apply on top of it.
	PlaceSlots SlotPlacement

	// MaxMemory bounds keys, values, their overhead and the buffers of sessions,
	// in bytes; default 256 MiB, at most MaxMemoryLimit. When it is full the policy evicts. Up to 16 MiB
	// of buffers are granted beside it; what they take above that is taken from
	// the entries within 100 ms, up to half of MaxMemory.
	MaxMemory int64
	// WholeProcess says that the process is this node and nothing else: then all
	// that the Go runtime holds above 28 MiB counts like buffers, and the process
	// stays within MaxMemory and 48 MiB. The collector is not told of any limit:
	// set GOMEMLIMIT or call debug.SetMemoryLimit.
	WholeProcess bool
	// MaxValue bounds one value, in bytes; default 256 KiB.
	MaxValue int
	// Policy is the eviction policy: "s3fifo" (default), "lru",
	// "noeviction" or another of Policies(); "custom" (the default where it is
	// given) is Eviction.
	Policy string
	// Classes of keys by prefix, for the policy "priority". At most MaxClasses,
	// that of the keys of no other class included.
	Classes []Class
	// Eviction is an eviction policy of the program, in place of Classes. Its
	// methods are called under locks of the cache.
	Eviction EvictionPolicy

	// Password of the user "default", who is meant where clients give a password
	// alone by AUTH or HELLO; empty: none.
	Password string
	// Users are further users, each a line of ACL rules: "alice on >secret ~app:*
	// +@read". ACLFile is a file that has such lines, with the word "user" in
	// front, instead: ACL LOAD and ACL SAVE read and write it, and a user "default"
	// there replaces Password. It must exist. All nodes of a cluster need the same.
	Users   []string
	ACLFile string
	// MaxClients bounds accepted sessions; default 10000. One more is told so
	// and closed.
	MaxClients int
	// MaxClientsPerAddress bounds the sessions of clients from one address, the
	// loopback interface excepted; default 0, none.
	MaxClientsPerAddress int
	// OutputLimit bounds the unsent replies of one session, in bytes; default
	// 64 MiB. A session above it is closed.
	OutputLimit int
	// BufferLimit bounds what all sessions hold together, in bytes, beyond 16
	// KiB for each: unfinished commands and unsent replies. Default: a quarter of MaxMemory, but at least 64 MiB and twice
	// MaxValue. The session that needs more pays: commands and replies are
	// dropped and answered with RCBUSY, and a session that does not read its
	// replies is closed. Peers count, but are never refused.
	BufferLimit int64

	// TrackingKeys bounds the keys that are remembered for clients with CLIENT
	// TRACKING; default 1,000,000. Beyond it, or 128 MiB, a client is told to
	// forget some key that it has read.
	TrackingKeys int

	// WarmRate and WarmBytes bound what the node takes over unasked, per second and
	// previous owner, with slots that it gains: default 5000 keys and 64 MiB. What
	// requests need comes at once, whatever these say.
	WarmRate, WarmBytes int
	// MirrorReads is the share of reads, 0 (default) to 100 per cent, that is mirrored
	// to a node which joins in steps: of the slots that its next steps bring it, the
	// keys that are read and their changes are sent there before, within WarmRate and
	// WarmBytes. A joining node with a share above 0 waits two seconds before each
	// step. It should be equal in a cluster.
	MirrorReads int

	// IO is how connections are served: "epoll" by loops over epoll (Linux),
	// "uring" by the same with transfers in batches by io_uring (Linux 5.19 or
	// later, where it is allowed), "std" by a goroutine for each connection; "auto"
	// (default) takes uring, epoll or std, the first that is possible. TLS needs
	// "std". What is asked for and not possible fails.
	IO string
	// Loops is how many loops serve the connections with epoll and uring, at
	// most 256. Default: one for each processor that the process may use.
	Loops int
	// HoldProcessors lets each loop keep its processor while it waits for
	// connections: less work per request when few are ready at once. It is for
	// a process that does little else and has set GOMAXPROCS above Loops.
	HoldProcessors bool

	// TLSCert and TLSKey are PEM files with the node's certificate and key:
	// clients and peers then speak TLS on the data port, every node of the
	// cluster alike. TLSCA is a file with authorities: clients and peers must
	// show a certificate from one of them. Changed files are noticed within
	// 10 s, or at once by ReloadTLS. Gossip is not TLS: ClusterSecret encrypts it.
	TLSCert, TLSKey, TLSCA string

	// Failure detection: interval of gossip probes (1 s; 100 ms to 1 min), their
	// timeout (500 ms; 10 ms to the interval), suspicion multiplier (4; 1 to 20)
	// and how long a death is held back (3 s; at most 1 min).
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	SuspicionMult int
	HoldDown      time.Duration

	// Diagnostics say what SLOWLOG, COMMANDLOG, LATENCY, CLUSTER SLOT-STATS and DEBUG
	// do.
	Diagnostics Diagnostics

	// Version is what HELLO and INFO call redis_version; default "7.4.0".
	Version string
	// Logger receives the log; default: none.
	Logger *slog.Logger
}

// Diagnostics say what a node keeps of its own work.
type Diagnostics = node.Diagnostics

// Eviction by classes, and by a policy of the program.
type (
	// Class is a group of keys by prefix, with a rank and a quota.
	Class = engine.Class
	// EvictionPolicy decides what leaves when memory is needed.
	EvictionPolicy = engine.Custom
	// EvictionWrite is an entry on its way in, as an EvictionPolicy sees it.
	EvictionWrite = engine.Write
	// EvictionSegment is a run of entries of one class.
	EvictionSegment = engine.Segment
	// EvictionRecord is an entry of a segment that is being emptied.
	EvictionRecord = engine.Record
	// Verdict is what becomes of such an entry.
	Verdict = engine.Verdict
)

// What an EvictionPolicy may say, and the limit of its classes.
const (
	Drop       = engine.Drop
	Keep       = engine.Keep
	Demote     = engine.Demote
	MaxClasses = engine.MaxClasses
)

// Placement by the program.
type (
	// SlotPlacement decides the owner of every slot, see Options.PlaceSlots. Place
	// gets the nodes that may own slots, sorted by ID, and gives each slot an index
	// among them; it sets every slot of the table.
	SlotPlacement = ring.Placement
	// SlotNode is a node that slots may be given to.
	SlotNode = ring.Node
	// SlotTable is the owner of every slot.
	SlotTable = ring.Table
)

// Slots is the number of slots, NoOwner stands in a SlotTable for a slot of nobody.
const (
	Slots   = ring.Slots
	NoOwner = ring.NoOwner
)

// DebugCommands lists the values that Diagnostics.DebugCommand takes.
func DebugCommands() []string { return []string{"no", "local", "yes"} }

// IOs lists the values that Options.IO takes.
func IOs() []string { return server.IOs() }

// Policies lists the eviction policies that Options.Policy takes.
func Policies() []string { return engine.Policies() }

// withDefaults returns o with every zero field set.
func (o Options) withDefaults() Options {
	setString(&o.ClusterName, DefaultClusterName)
	setString(&o.Version, "7.4.0")
	setString(&o.IO, server.IOAuto)
	set(&o.MaxMemory, DefaultMaxMemory)
	set(&o.MaxValue, DefaultMaxValue)
	set(&o.MaxClients, DefaultMaxClients)
	set(&o.OutputLimit, DefaultOutputLimit)
	set(&o.TrackingKeys, DefaultTracking)
	set(&o.WarmRate, DefaultWarmRate)
	set(&o.WarmBytes, DefaultWarmBytes)
	o.BufferLimit = o.Buffers()
	set(&o.JoinTimeout, DefaultJoinTimeout)
	st := o.steps().WithDefaults()
	o.JoinSteps, o.MissBudget, o.JoinTime, o.DrainTimeout = st.Join, st.MissBudget, st.JoinTime, st.DrainTimeout
	set(&o.Weight, 1)
	o.Weight = max(o.Weight, 0)
	if o.PlaceSlots != nil && o.Placement == "" {
		o.Placement = o.PlaceSlots.Name()
	}
	p := o.params().WithDefaults()
	o.Placement, o.Tokens, o.Bound = p.Placement, p.Tokens, p.Bound
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Buffers is the effective BufferLimit.
func (o Options) Buffers() int64 {
	set(&o.MaxMemory, DefaultMaxMemory)
	set(&o.MaxValue, DefaultMaxValue)
	set(&o.BufferLimit, max(minBufferLimit, o.MaxMemory/4, 2*int64(o.MaxValue)))
	return o.BufferLimit
}

func (o Options) steps() node.Steps {
	return node.Steps{Join: o.JoinSteps, MissBudget: o.MissBudget, JoinTime: o.JoinTime, DrainTimeout: o.DrainTimeout}
}

func (o Options) params() topology.Params {
	return topology.Params{Placement: o.Placement, Tokens: o.Tokens, Bound: o.Bound}
}

func set[T int | int64 | float64 | time.Duration](p *T, def T) {
	if *p == 0 {
		*p = def
	}
}

func setString(p *string, def string) {
	if *p == "" {
		*p = def
	}
}

// validate returns every fault of o (with defaults) at once.
func (o Options) validate() error {
	var faults []error
	add := func(format string, a ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, a...)...))
	}
	if o.Addr == "" && (len(o.Seeds) > 0 || o.Discovery != nil) {
		add("seeds are given, but no address to listen on: a member of a cluster needs one (Addr)")
	}
	if o.Standalone && (len(o.Seeds) > 0 || o.Discovery != nil) {
		add("a standalone node has no seeds")
	}
	for _, s := range o.Seeds {
		if _, _, err := net.SplitHostPort(s); err != nil {
			add("seed %q is not host:port", s)
		}
	}
	if n := len(o.ClusterSecret); n > 0 && n < MinClusterSecret {
		add("the cluster secret has %d bytes, at least %d are needed: whoever records gossip could guess a shorter one; take a random one, such as openssl rand -hex 32 prints",
			n, MinClusterSecret)
	}
	if o.SourceAddr != "" && net.ParseIP(o.SourceAddr) == nil {
		add("source address %q is not an IP", o.SourceAddr)
	}
	if o.Addr != "" {
		faults = append(faults, o.validateAddr()...)
	}
	if len(o.ClusterName) > MaxClusterName || strings.ContainsAny(o.ClusterName, "\r\n\x00") {
		add("the cluster name has %d bytes, limit %d, and must be one line", len(o.ClusterName), MaxClusterName)
	}
	faults = append(faults, o.validatePlacement()) // nil is left out by Join
	if err := o.steps().Validate(); err != nil {
		faults = append(faults, err)
	}
	if !(o.Weight <= topology.MaxWeight) { // NaN too
		add("weight is %v, must be 0 to %v", o.Weight, topology.MaxWeight)
	}
	if !slices.Contains(server.IOs(), o.IO) {
		add("io is %q, must be one of %s", o.IO, strings.Join(server.IOs(), ", "))
	}
	if o.Loops > server.MaxLoops {
		add("loops is %d, must be 0 to %d", o.Loops, server.MaxLoops)
	}
	o.validateServing(add)
	if d := o.Diagnostics.WithDefaults(); !slices.Contains(DebugCommands(), d.DebugCommand) || max(d.SlowKept, d.RequestsKept, d.RepliesKept) > node.MaxKept {
		add("diagnostics: who may use DEBUG is %q, must be one of %s; a log keeps at most %d entries",
			d.DebugCommand, strings.Join(DebugCommands(), ", "), node.MaxKept)
	}
	if err := server.CheckUsers(o.Users, o.ACLFile); err != nil {
		add("%w", err)
	}
	if len(o.Zone) > topology.MaxZone {
		add("the zone has %d bytes, limit %d", len(o.Zone), topology.MaxZone)
	}
	for name, v := range map[string]int64{"MaxMemory": o.MaxMemory, "MaxValue": int64(o.MaxValue), "MaxClients": int64(o.MaxClients), "Loops": int64(o.Loops),
		"OutputLimit": int64(o.OutputLimit), "TrackingKeys": int64(o.TrackingKeys), "BufferLimit": o.BufferLimit, "JoinTimeout": int64(o.JoinTimeout), "ProbeInterval": int64(o.ProbeInterval),
		"MaxClientsPerAddress": int64(o.MaxClientsPerAddress), "WarmRate": int64(o.WarmRate), "WarmBytes": int64(o.WarmBytes),
		"ProbeTimeout": int64(o.ProbeTimeout), "SuspicionMult": int64(o.SuspicionMult), "HoldDown": int64(o.HoldDown)} {
		if v < 0 {
			add("%s is negative", name)
		}
	}
	return errors.Join(faults...)
}

// validateServing adds what is wrong with copies and TLS.
func (o Options) validateServing(add func(format string, a ...any)) {
	if o.Replicas < 0 || o.Replicas > MaxReplicas {
		add("replicas is %d, must be 0 to %d", o.Replicas, MaxReplicas)
	}
	if o.MirrorReads < 0 || o.MirrorReads > 100 {
		add("%d %% of reads mirrored, must be 0 to 100", o.MirrorReads)
	}
	if (o.TLSCert == "") != (o.TLSKey == "") || o.TLSCA != "" && o.TLSCert == "" {
		add("TLS needs both a certificate (TLSCert) and its key (TLSKey)")
	}
	if o.TLSCert != "" && o.IO != server.IOAuto && o.IO != server.IOStd {
		add("io %s does not speak TLS, choose std or auto", o.IO)
	}
}

func (o Options) validateAddr() (faults []error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return []error{fmt.Errorf("%w: address %q is not host:port", ErrConfig, o.Addr)}
	}
	if n, err := strconv.Atoi(port); err == nil && n+gossipOffset > maxPort && o.GossipAddr == "" && !o.Standalone {
		faults = append(faults, fmt.Errorf("%w: gossip of %s would be on port %d + %d = %d, above %d: choose a data port up to %d, or set the gossip address",
			ErrConfig, o.Addr, n, gossipOffset, n+gossipOffset, maxPort, maxPort-gossipOffset))
	}
	if !o.Standalone && o.ClusterSecret == "" && !loopback(host) {
		faults = append(faults, fmt.Errorf("%w: listening on %s, beyond loopback, without a cluster secret would let anybody join: "+
			"set cluster-secret (the same for all members), or standalone for a single node", ErrConfig, o.Addr))
	}
	if o.GossipAddr != "" {
		ghost, _, err := net.SplitHostPort(o.GossipAddr)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: gossip address %q is not ip:port", ErrConfig, o.GossipAddr))
		} else if o.ClusterSecret == "" && !o.Standalone && !loopback(ghost) {
			faults = append(faults, fmt.Errorf("%w: gossip on %s, beyond loopback, needs a cluster secret", ErrConfig, o.GossipAddr))
		}
	}
	return faults
}

// loopback reports whether a host to listen on is reachable from this machine only.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listen opens the data port.
func (o Options) listen() (net.Listener, error) {
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; stop what uses the port (ss -ltnp shows it) or choose another addr", o.Addr, err)
	}
	return ln, nil
}

// advertised gives the host and port that clients and peers are told.
func (o Options) advertised(ln net.Listener) (host string, port uint16, err error) {
	lhost, lport, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return "", 0, fmt.Errorf("%w: listener address: %w", ErrConfig, err)
	}
	host = lhost
	if h, _, err := net.SplitHostPort(o.Addr); err == nil && h != "" && net.ParseIP(h) == nil {
		host = h // a name stays a name
	}
	if o.Advertise != "" {
		host = o.Advertise
		if h, p, err := net.SplitHostPort(o.Advertise); err == nil {
			host, lport = h, p
		}
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() || host == "" {
		host = interfaceAddress()
	}
	n, err := strconv.ParseUint(lport, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%w: advertised port %q", ErrConfig, lport)
	}
	return host, uint16(n), nil
}

// gossipBind gives the address for gossip.
func (o Options) gossipBind(ln net.Listener) string {
	if o.GossipAddr != "" {
		return o.GossipAddr
	}
	host, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return "127.0.0.1:0"
	}
	n, _ := strconv.Atoi(port)
	if _, asked, err := net.SplitHostPort(o.Addr); err == nil && asked == "0" || n+gossipOffset > maxPort { // the latter only without gossip
		return net.JoinHostPort(host, "0")
	}
	return net.JoinHostPort(host, strconv.Itoa(n+gossipOffset))
}

// interfaceAddress gives the first address that other machines may reach, an
// IPv4 one if there is any.
func interfaceAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	best := ""
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok || !ip.IP.IsGlobalUnicast() {
			continue
		}
		if ip.IP.To4() != nil {
			return ip.IP.String()
		}
		if best == "" {
			best = ip.IP.String()
		}
	}
	if best != "" {
		return best
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "127.0.0.1"
}
