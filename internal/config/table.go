package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// Limits of single values. What two values allow together stands in rules.
const (
	minMemory  = 16 << 10
	maxValue   = 512 << 20 // Redis's limit of a string
	maxClients = 1_000_000
	maxText    = 1024 // bytes of a free text
	maxPort    = 65535

	gossipOffset = 10000 // gossip port of a node: data port + 10000

	maxClassPrefix = 256 // bytes
	maxKept        = 10_000
)

// keys is the table. Its order is the order of the documentation.
var keys = []Key{
	address(Key{Name: "addr", Group: "Addresses", Default: "127.0.0.1:7001", Example: "10.0.0.1:7001",
		Usage: "address that clients and peers connect to; without a host it listens on every interface"},
		true, func(c *Config) *string { return &c.Options.Addr }),
	text(Key{Name: "advertise", Group: "Addresses", Example: "cache-1.internal:7001",
		Usage: "address that clients and peers are told to use, where it differs from addr (NAT, containers)"},
		maxText, func(c *Config) *string { return &c.Options.Advertise }),
	address(Key{Name: "gossip-addr", Group: "Addresses", Example: "10.0.0.1:17001",
		Usage: "address for failure detection between nodes, TCP and UDP; by default the host of addr with its port + 10000"},
		true, func(c *Config) *string { return &c.Options.GossipAddr }),
	ip(Key{Name: "source-addr", Group: "Addresses", Example: "10.0.0.1",
		Usage: "address of this machine that connections to other nodes leave from, as bind-source-addr of Redis; by default the system chooses; gossip over UDP leaves from gossip-addr"},
		func(c *Config) *string { return &c.Options.SourceAddr }),

	list(Key{Name: "seeds", Group: "Cluster", Example: "10.0.0.1:7001,10.0.0.2:7001",
		Usage: "data addresses of nodes to join through, one of which must answer; none starts a new cluster"},
		func(c *Config) *[]string { return &c.Options.Seeds }),
	text(Key{Name: "discovery", Group: "Cluster", Default: "static", Example: "dns:ringcache.default.svc.cluster.local:7001",
		Usage: "where further seeds are found: static (seeds only), file:PATH, dns:NAME[:PORT], srv:_service._tcp.NAME, etcd:URL/PREFIX or consul:URL/SERVICE; the last two list this node too; see docs/discovery.md"},
		maxText, func(c *Config) *string { return &c.discovery }),
	text(Key{Name: "discovery-token", Group: "Cluster", Secret: true, Example: "user:password",
		Usage: "what proves this node to the registry of discovery: an ACL token for Consul, user:password for etcd"},
		maxText, func(c *Config) *string { return &c.registry.Token }),
	text(Key{Name: "discovery-ca", Group: "Cluster", Example: "registry-ca.pem",
		Usage: "PEM file with the authorities of the registry's certificate; by default the system's"},
		maxText, func(c *Config) *string { return &c.registry.CA }),
	text(Key{Name: "discovery-cert", Group: "Cluster", Example: "node-etcd.pem",
		Usage: "PEM file with this node's certificate for the registry"},
		maxText, func(c *Config) *string { return &c.registry.Cert }),
	text(Key{Name: "discovery-key", Group: "Cluster", Example: "node-etcd-key.pem",
		Usage: "PEM file with the private key of discovery-cert"},
		maxText, func(c *Config) *string { return &c.registry.Key }),
	text(Key{Name: "cluster-name", Group: "Cluster", Default: "ringcache", Example: "sessions",
		Usage: "name of the cluster; nodes of another name are refused"},
		ringcache.MaxClusterName, func(c *Config) *string { return &c.Options.ClusterName }),
	secret(Key{Name: "cluster-secret", Group: "Cluster", Secret: true, Example: "a long random string",
		Usage: "secret that nodes prove to each other and that encrypts gossip; required where addr is not a loopback address"},
		ringcache.MinClusterSecret, maxText, func(c *Config) *string { return &c.Options.ClusterSecret }),
	text(Key{Name: "data-dir", Group: "Cluster", Example: "./ringcache-data",
		Usage: "directory that keeps the node ID over restarts with another address, and the entries unless warm-dir says otherwise; without it the ID follows from cluster name and address"},
		maxText, func(c *Config) *string { return &c.Options.DataDir }),
	duration(Key{Name: "join-timeout", Group: "Cluster", Default: "10s", Example: "30s",
		Usage: "how long to look for a seed at the start"},
		100*time.Millisecond, 10*time.Minute, func(c *Config) *time.Duration { return &c.Options.JoinTimeout }),

	count(Key{Name: "join-steps", Group: "Cluster", Default: "8", Example: "16",
		Usage: "steps in which a node takes its slots over when it joins a cluster with content, and gives them up when it leaves; 1 is all at once; one node changes at a time"},
		1, ringcache.MaxJoinSteps, func(c *Config) *int { return &c.Options.JoinSteps }),
	number(Key{Name: "miss-budget", Group: "Cluster", Default: "5", Example: "2",
		Usage: "per cent of a joining node's requests that may have to fetch their key from the owner before; above it the next step waits"},
		1, 100, func(c *Config, n int) { c.Options.MissBudget = float64(n) / 100 }),
	duration(Key{Name: "join-time", Group: "Cluster", Default: "10m", Example: "2m",
		Usage: "longest time from the first step of a join to the last; also how long a member whose own join stands still is waited for"},
		time.Second, 24*time.Hour, func(c *Config) *time.Duration { return &c.Options.JoinTime }),
	duration(Key{Name: "drain-timeout", Group: "Cluster", Default: "1m", Example: "5m",
		Usage: "longest time that a node which leaves (SIGTERM, SHUTDOWN) hands slots and content over; a supervisor must not kill it earlier"},
		100*time.Millisecond, time.Hour, func(c *Config) *time.Duration { return &c.Options.DrainTimeout }),

	maxMemory(Key{Name: "max-memory", Group: "Memory", Default: "60%", Example: "512mb",
		Usage: "memory for entries, their index and the buffers of connections, as a size or as a share of the machine or its cgroup; the process stays within 48mb of it"}),
	size(Key{Name: "max-value", Group: "Memory", Default: "256kb", Example: "1mb",
		Usage: "greatest value that is stored; larger ones are refused with an error"},
		1<<10, maxValue, func(c *Config) *int { return &c.Options.MaxValue }),
	text(Key{Name: "warm-dir", Group: "Memory", Example: "/dev/shm",
		Usage: "directory that keeps the entries over a restart in good order, up to max-memory bytes; best in shared memory, where the file is the cache's memory itself and is taken at the start; data-dir by default, off keeps none"},
		maxText, func(c *Config) *string { return &c.Options.WarmDir }),
	oneOf(Key{Name: "policy", Group: "Memory", Default: "s3fifo", Example: "lru", Values: ringcache.Policies(),
		Usage: "what leaves when memory is full: s3fifo tells keys read once from those read again, lru the least recently used, lfu the least often used, ttl the soonest to expire, priority classes by rank and quota; noeviction refuses writes"},
		func(c *Config) *string { return &c.Options.Policy }),
	classList(Key{Name: "classes", Group: "Memory", Example: "session:=high,512mb;cache:=low",
		Usage: "classes of keys by prefix for the policy priority, where the longest prefix wins; when memory is needed, classes above their quota give it first, then lower ranks; keys of no class are normal, or what the empty prefix says"}),

	count(Key{Name: "warm-rate", Group: "Cluster", Default: "5000", Example: "20000",
		Usage: "keys per second that a node takes over unasked from each previous owner of the slots that it gains; less where that owner answers slowly, and what requests need comes at once"},
		1, 10_000_000, func(c *Config) *int { return &c.Options.WarmRate }),
	size(Key{Name: "warm-bytes", Group: "Cluster", Default: "64mb", Example: "16mb",
		Usage: "the same in bytes per second"},
		64<<10, 1<<40, func(c *Config) *int { return &c.Options.WarmBytes }),

	count(Key{Name: "mirror-reads", Group: "Cluster", Default: "0", Example: "100",
		Usage: "per cent of the reads of slots that a joining node takes over with its next steps whose keys are sent to it before that, with their changes, at most warm-rate keys and warm-bytes; 0 sends nothing; a joining node with more than 0 waits 2s before each step; should be equal in the whole cluster"},
		0, 100, func(c *Config) *int { return &c.Options.MirrorReads }),

	oneOf(Key{Name: "placement", Group: "Placement", Default: "ring", Example: "ring", Values: ring.Names(),
		Usage: "how slots are placed on nodes; must be equal in the whole cluster"},
		func(c *Config) *string { return &c.Options.Placement }),
	count(Key{Name: "tokens", Group: "Placement", Default: "160", Example: "160",
		Usage: "virtual nodes of a node with weight 1; must be equal in the whole cluster"},
		1, ring.MaxTokens, func(c *Config) *int { return &c.Options.Tokens }),
	weight(Key{Name: "weight", Group: "Placement", Default: "1", Example: "2",
		Usage: "share of the slots relative to other nodes; 0 owns nothing; one that is set at run time takes its place, over restarts if there is a data directory, until this one is changed"}),
	text(Key{Name: "zone", Group: "Placement", Example: "eu-1a",
		Usage: "where the node runs, told to clients"},
		topology.MaxZone, func(c *Config) *string { return &c.Options.Zone }),
	count(Key{Name: "replicas", Group: "Placement", Default: "0", Example: "1",
		Usage: "other nodes that keep copies of what this one serves, for when it dies; copies follow within milliseconds, count against max-memory where they are kept and leave first; should be equal in the whole cluster"},
		0, ringcache.MaxReplicas, func(c *Config) *int { return &c.Options.Replicas }),

	text(Key{Name: "password", Group: "Clients", Secret: true, Example: "another long random string",
		Usage: "password that clients give with AUTH or HELLO; without it everybody who reaches addr is let in"},
		maxText, func(c *Config) *string { return &c.Options.Password }),
	userList(Key{Name: "users", Group: "Clients", Secret: true, Example: "alice on >secret ~app:* +@read; bob on >other ~* &* +@all -@dangerous",
		Usage: "further users with what they may do, in Redis's words for ACL SETUSER, separated by semicolons; every node of a cluster needs the same"}),
	text(Key{Name: "aclfile", Group: "Clients", Example: "users.acl",
		Usage: "file with a line of ACL rules for each user, instead of users; ACL LOAD and ACL SAVE read and write it; a user default there replaces password"},
		maxText, func(c *Config) *string { return &c.Options.ACLFile }),
	count(Key{Name: "max-clients", Group: "Clients", Default: "10000", Example: "2000",
		Usage: "connections at the same time; further ones are refused"},
		1, maxClients, func(c *Config) *int { return &c.Options.MaxClients }),
	count(Key{Name: "max-clients-per-address", Group: "Clients", Default: "0", Example: "100",
		Usage: "connections of clients from one address at the same time, the loopback interface excepted; further ones are refused; 0 is no limit"},
		0, maxClients, func(c *Config) *int { return &c.Options.MaxClientsPerAddress }),
	size(Key{Name: "output-limit", Group: "Clients", Default: "64mb", Example: "16mb",
		Usage: "replies that may wait for one slow reader before it is disconnected"},
		64<<10, 1<<40, func(c *Config) *int { return &c.Options.OutputLimit }),
	orAuto(size(Key{Name: "buffer-limit", Group: "Clients", Default: auto, Example: "128mb",
		Usage: "what all connections may hold together in unfinished commands and unsent replies; auto is a quarter of max-memory, but at least 64mb and twice max-value"},
		1<<20, 1<<40, func(c *Config) *int64 { return &c.Options.BufferLimit })),
	count(Key{Name: "tracking-table-max-keys", Group: "Clients", Default: "1000000", Example: "100000",
		Usage: "keys that are remembered for clients with CLIENT TRACKING; beyond it, or 128mb, a client is told to forget some key that it has read"},
		1, 1<<30, func(c *Config) *int { return &c.Options.TrackingKeys }),
	text(Key{Name: "redis-version", Group: "Clients", Default: "7.4.0", Example: "8.0.0",
		Usage: "version of Redis that HELLO and INFO tell; clients choose commands by it"},
		maxText, func(c *Config) *string { return &c.Options.Version }),
	oneOf(Key{Name: "io", Group: "Clients", Default: "auto", Example: "std", Values: ringcache.IOs(),
		Usage: "how connections are served: epoll by loops over epoll (Linux), uring by the same with transfers in batches by io_uring (Linux 5.19 or later), std by a goroutine for each connection; auto takes uring, epoll or std, the first that is possible, and std for TLS"},
		func(c *Config) *string { return &c.Options.IO }),
	count(Key{Name: "loops", Group: "Clients", Default: "0", Example: "2",
		Usage: "loops that serve the connections with epoll and uring; 0 is one for each processor that the process may use"},
		0, ringcache.MaxLoops, func(c *Config) *int { return &c.Options.Loops }),

	number(Key{Name: "slowlog-log-slower-than", Group: "Diagnostics", Default: "10000", Example: "1000",
		Usage: "microseconds from which SLOWLOG keeps a command; 0 keeps all, -1 none; below 1000 pipelines cost more, since each command is timed by itself"},
		-1, math.MaxInt32, func(c *Config, n int) {
			c.Options.Diagnostics.SlowerThan = time.Duration(least(n, int64(time.Microsecond)))
		}),
	number(Key{Name: "slowlog-max-len", Group: "Diagnostics", Default: "128", Example: "1000",
		Usage: "slow commands that are kept"},
		0, maxKept, func(c *Config, n int) { c.Options.Diagnostics.SlowKept = kept(n) }),
	number(Key{Name: "commandlog-request-larger-than", Group: "Diagnostics", Default: "1048576", Example: "100000",
		Usage: "bytes from which COMMANDLOG keeps a request; -1 keeps none"},
		-1, math.MaxInt32, func(c *Config, n int) { c.Options.Diagnostics.RequestLarger = least(n, 1) }),
	number(Key{Name: "commandlog-large-request-max-len", Group: "Diagnostics", Default: "128", Example: "1000",
		Usage: "large requests that are kept"},
		0, maxKept, func(c *Config, n int) { c.Options.Diagnostics.RequestsKept = kept(n) }),
	number(Key{Name: "commandlog-reply-larger-than", Group: "Diagnostics", Default: "1048576", Example: "100000",
		Usage: "bytes from which COMMANDLOG keeps a command with its reply's size; -1 keeps none"},
		-1, math.MaxInt32, func(c *Config, n int) { c.Options.Diagnostics.ReplyLarger = least(n, 1) }),
	number(Key{Name: "commandlog-large-reply-max-len", Group: "Diagnostics", Default: "128", Example: "1000",
		Usage: "commands with large replies that are kept"},
		0, maxKept, func(c *Config, n int) { c.Options.Diagnostics.RepliesKept = kept(n) }),
	number(Key{Name: "latency-monitor-threshold", Group: "Diagnostics", Default: "0", Example: "100",
		Usage: "milliseconds from which LATENCY keeps a sample of a command; 0 keeps none"},
		0, math.MaxInt32, func(c *Config, n int) { c.Options.Diagnostics.LatencyThreshold = time.Duration(n) * time.Millisecond }),
	yesNo(Key{Name: "cluster-slot-stats-enabled", Group: "Diagnostics", Default: "no", Example: "yes",
		Usage: "whether CLUSTER SLOT-STATS counts time and bytes of the commands on each slot; with yes each command is timed by itself, as with slowlog-log-slower-than below 1000"},
		func(c *Config) *bool { return &c.Options.Diagnostics.SlotStats }),
	oneOf(Key{Name: "enable-debug-command", Group: "Diagnostics", Default: "no", Example: "local", Values: ringcache.DebugCommands(),
		Usage: "who may use DEBUG: nobody, connections from this machine, or everybody"},
		func(c *Config) *string { return &c.Options.Diagnostics.DebugCommand }),

	text(Key{Name: "tls-cert", Group: "TLS", Example: "node.pem",
		Usage: "PEM file with the node's certificate: clients and nodes then speak TLS on addr, every node of the cluster alike; read again when it changes, at once by SIGHUP"},
		maxText, func(c *Config) *string { return &c.Options.TLSCert }),
	text(Key{Name: "tls-key", Group: "TLS", Example: "node-key.pem",
		Usage: "PEM file with the private key of tls-cert"},
		maxText, func(c *Config) *string { return &c.Options.TLSKey }),
	text(Key{Name: "tls-ca", Group: "TLS", Example: "ca.pem",
		Usage: "PEM file with authorities: clients and nodes must show a certificate from one of them; without it clients need none, and nodes trust each other by the system's authorities"},
		maxText, func(c *Config) *string { return &c.Options.TLSCA }),

	address(Key{Name: "admin", Group: "Operation", Example: "127.0.0.1:8500",
		Usage: "address of the HTTP listener for operators: /metrics for Prometheus, /healthz, /readyz; read-only and without authentication, so without a host it is the loopback interface; none by default"},
		true, func(c *Config) *string { return &c.Admin }),
	toggle(Key{Name: "admin-pprof", Group: "Operation", Default: "off", Example: "on",
		Usage: "profiles of the process at /debug/pprof of the admin listener"},
		func(c *Config) *bool { return &c.AdminPprof }),

	toggle(Key{Name: "gossip-tcp", Group: "Failure detection", Default: "off", Example: "on",
		Usage: "gossip over TCP connections alone, for networks without UDP; must be equal in the whole cluster"},
		func(c *Config) *bool { return &c.Options.GossipTCP }),
	duration(Key{Name: "probe-interval", Group: "Failure detection", Default: "1s", Example: "500ms",
		Usage: "time between two probes of a peer"},
		50*time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.Options.ProbeInterval }),
	duration(Key{Name: "probe-timeout", Group: "Failure detection", Default: "500ms", Example: "250ms",
		Usage: "time that a probed peer has to answer"},
		10*time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.Options.ProbeTimeout }),
	count(Key{Name: "suspicion-mult", Group: "Failure detection", Default: "4", Example: "4",
		Usage: "how long a silent peer stays suspect, in probe intervals times log10 of the cluster size"},
		1, 20, func(c *Config) *int { return &c.Options.SuspicionMult }),
	duration(Key{Name: "hold-down", Group: "Failure detection", Default: "3s", Example: "5s",
		Usage: "how long a silent peer is held before its slots move, so that a pause moves nothing; one whose port refuses connections is not held"},
		2*time.Second, time.Minute, func(c *Config) *time.Duration { return &c.Options.HoldDown }),

	logLevel(Key{Name: "log-level", Group: "Logging", Default: "info", Example: "debug", Values: []string{"debug", "info", "warn", "error"},
		Usage: "least severe message that is logged"}),
	oneOf(Key{Name: "log-format", Group: "Logging", Default: "text", Example: "json", Values: []string{"text", "json"},
		Usage: "how messages are written to stderr"},
		func(c *Config) *string { return &c.LogFormat }),
}

// rules are what values must keep together. A rule is checked only when each
// of its keys is valid by itself; the fault points to the first.
var rules = []struct {
	keys  []string
	check func(*Config) (what, do string)
}{
	{[]string{"discovery", "discovery-token", "discovery-ca", "discovery-cert", "discovery-key"}, (*Config).findSeeds},
	{[]string{"probe-timeout", "probe-interval"}, func(c *Config) (string, string) {
		if c.Options.ProbeTimeout > c.Options.ProbeInterval {
			return fmt.Sprintf("%s is above probe-interval %s", c.Options.ProbeTimeout, c.Options.ProbeInterval), "lower it, or raise probe-interval"
		}
		return "", ""
	}},
	{[]string{"max-value", "max-memory"}, func(c *Config) (string, string) {
		if int64(c.Options.MaxValue) > c.Options.MaxMemory/4 {
			return fmt.Sprintf("%s is above a quarter of max-memory %s", FormatSize(int64(c.Options.MaxValue)), FormatSize(c.Options.MaxMemory)),
				"lower it, or raise max-memory"
		}
		return "", ""
	}},
	{[]string{"tls-cert", "tls-key", "tls-ca"}, func(c *Config) (string, string) {
		o := &c.Options
		switch {
		case o.TLSCert == "" && (o.TLSKey != "" || o.TLSCA != ""):
			return "is missing, but other keys of TLS are set", "give tls-cert and tls-key, or neither of the three"
		case o.TLSCert != "" && o.TLSKey == "":
			return "has no key", "give tls-key as well"
		}
		return "", ""
	}},
	{[]string{"io", "tls-cert"}, func(c *Config) (string, string) {
		if c.Options.TLSCert != "" && c.Options.IO != "auto" && c.Options.IO != "std" {
			return c.Options.IO + " does not speak TLS", "choose auto or std, or leave tls-cert out"
		}
		return "", ""
	}},
	{[]string{"aclfile", "users"}, func(c *Config) (string, string) {
		if c.Options.ACLFile != "" && len(c.Options.Users) > 0 {
			return "is given, and users beside it", "choose one of the two"
		}
		return "", ""
	}},
	{[]string{"addr", "gossip-addr"}, func(c *Config) (string, string) {
		_, port, _ := net.SplitHostPort(c.Options.Addr)
		if n, err := strconv.Atoi(port); err == nil && c.Options.GossipAddr == "" && n+gossipOffset > maxPort {
			return fmt.Sprintf("port %d has no port for gossip: %d + %d is above %d", n, n, gossipOffset, maxPort),
				fmt.Sprintf("choose a port up to %d, or give gossip-addr", maxPort-gossipOffset)
		}
		return "", ""
	}},
	{[]string{"admin-pprof", "admin"}, func(c *Config) (string, string) {
		if c.AdminPprof && c.Admin == "" {
			return "is on, but there is no admin listener", "give admin an address, for example 127.0.0.1:8500"
		}
		return "", ""
	}},
	{[]string{"cluster-secret", "addr", "gossip-addr"}, func(c *Config) (string, string) {
		for _, addr := range []string{c.Options.Addr, c.Options.GossipAddr} {
			if addr != "" && c.Options.ClusterSecret == "" && !loopback(addr) {
				return "is missing, but " + addr + " can be reached from other machines: anybody could join",
					"set the same secret on every node, best by RINGCACHE_CLUSTER_SECRET or in the file"
			}
		}
		return "", ""
	}},
}

// loopback tells whether an address of addr's form stays on this machine.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func address(k Key, emptyHost bool, at func(*Config) *string) Key {
	k.Kind = "address"
	k.set = func(c *Config, s string) (string, error) {
		if s == "" && k.Default == "" {
			return "", nil
		}
		v, err := parseHostPort(s, emptyHost)
		*at(c) = v
		return v, err
	}
	return k
}

// ip is an IP address without a port.
func ip(k Key, at func(*Config) *string) Key {
	k.Kind = "IP address"
	k.set = func(c *Config, s string) (string, error) {
		if s == "" {
			return "", nil
		}
		v, err := netip.ParseAddr(s)
		if err != nil || v.Zone() != "" || v.IsUnspecified() || v.IsMulticast() {
			return "", bad("give an IP address of this machine without a port", "%q is none", s)
		}
		*at(c) = v.Unmap().String()
		return *at(c), nil
	}
	return k
}

func text(k Key, limit int, at func(*Config) *string) Key {
	k.Kind, k.Limit = "text", fmt.Sprintf("up to %d bytes, one line", limit)
	k.set = func(c *Config, s string) (string, error) {
		s = strings.TrimSpace(s)
		switch {
		case strings.ContainsFunc(s, unicode.IsControl):
			return "", bad("remove it", "contains a control character")
		case len(s) > limit:
			return "", bad("shorten it", "has %d bytes, limit %d", len(s), limit)
		case s == "" && k.Default != "":
			return "", bad("give one or leave the key out", "has no value")
		}
		*at(c) = s
		return s, nil
	}
	return k
}

// secret is a text with a least length, of which a fault tells the length only.
func secret(k Key, least, limit int, at func(*Config) *string) Key {
	k = text(k, limit, at)
	set := k.set
	k.Limit = fmt.Sprintf("%d to %d bytes, one line", least, limit)
	k.set = func(c *Config, s string) (string, error) {
		shown, err := set(c, s)
		if err == nil && shown != "" && len(shown) < least {
			return "", bad("take a random one, such as `openssl rand -hex 32` prints", "has %d bytes, at least %d are needed: a shorter one can be guessed", len(shown), least)
		}
		return shown, err
	}
	return k
}

func list(k Key, at func(*Config) *[]string) Key {
	k.Kind, k.list = "list", true
	k.Limit = "host:port each"
	k.set = func(c *Config, s string) (string, error) {
		var items []string
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			v, err := parseHostPort(item, false)
			if err != nil {
				return "", err
			}
			items = append(items, v)
		}
		*at(c) = items
		return strings.Join(items, ","), nil
	}
	return k
}

func size[T int | int64](k Key, lo, hi int64, at func(*Config) *T) Key {
	k.Kind, k.Limit = "size", FormatSize(lo)+" to "+FormatSize(hi)
	k.set = func(c *Config, s string) (string, error) {
		n, err := ParseSize(s)
		if err != nil {
			return "", err
		}
		if n < lo || n > hi {
			return "", bad("choose "+k.Limit, "%s is out of range", FormatSize(n))
		}
		*at(c) = T(n)
		return FormatSize(n), nil
	}
	return k
}

// auto leaves a value to the defaults of Options.
const auto = "auto"

func orAuto(k Key) Key {
	set := k.set
	k.Kind, k.Limit = k.Kind+" or auto", k.Limit+", or auto"
	k.set = func(c *Config, s string) (string, error) {
		if strings.TrimSpace(s) == auto {
			return auto, nil
		}
		return set(c, s)
	}
	return k
}

func maxMemory(k Key) Key {
	k.Kind, k.Limit = "size or per cent", "16kb to 1tb, or 1% to 90%"
	k.set = func(c *Config, s string) (string, error) {
		percent, ok, err := parsePercent(s)
		if err != nil {
			return "", err
		}
		var shown string
		if ok {
			m, err := c.memory()
			if err != nil {
				return "", bad("give max-memory as a size, for example 1gb", "%s of what? %s", s, err)
			}
			c.Options.MaxMemory = min(int64(float64(m.Bytes)*percent/100), ringcache.MaxMemoryLimit)
			shown = fmt.Sprintf("%s (%s of %s, %s)", FormatSize(c.Options.MaxMemory), s, FormatSize(m.Bytes), m.Of)
		} else {
			if c.Options.MaxMemory, err = ParseSize(s); err != nil {
				return "", err
			}
			shown = FormatSize(c.Options.MaxMemory)
		}
		if c.Options.MaxMemory < minMemory {
			return "", bad("give at least "+FormatSize(minMemory), "%s is too little", shown)
		}
		if c.Options.MaxMemory > ringcache.MaxMemoryLimit {
			return "", bad("give at most "+FormatSize(ringcache.MaxMemoryLimit)+", and run several nodes", "%s is too much for one node", shown)
		}
		return shown, nil
	}
	return k
}

func duration(k Key, lo, hi time.Duration, at func(*Config) *time.Duration) Key {
	k.Kind, k.Limit = "duration", fmt.Sprintf("%s to %s", lo, hi)
	k.set = func(c *Config, s string) (string, error) {
		d, err := parseDuration(s, lo, hi)
		*at(c) = d
		return d.String(), err
	}
	return k
}

func count(k Key, lo, hi int, at func(*Config) *int) Key {
	k.Kind, k.Limit = "count", fmt.Sprintf("%d to %d", lo, hi)
	k.set = func(c *Config, s string) (string, error) {
		n, err := parseInt(s, lo, hi)
		*at(c) = n
		return strconv.Itoa(n), err
	}
	return k
}

// number is a whole number that set turns into what Options call it.
func number(k Key, lo, hi int, set func(*Config, int)) Key {
	k.Kind, k.Limit = "count", fmt.Sprintf("%d to %d", lo, hi)
	k.set = func(c *Config, s string) (string, error) {
		n, err := parseInt(s, lo, hi)
		if err == nil {
			set(c, n)
		}
		return strconv.Itoa(n), err
	}
	return k
}

// least maps a limit to what Diagnostics call it: their zero is the default, so 0
// becomes the least limit there is.
func least(n int, unit int64) int64 {
	switch {
	case n < 0:
		return -1
	case n == 0:
		return 1
	}
	return int64(n) * unit
}

// kept maps a length: their zero is the default, and what is negative none.
func kept(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// weight maps 0 to what Options call it: their zero is the default.
func weight(k Key) Key {
	k.Kind, k.Limit = "number", fmt.Sprintf("0 to %g", float64(topology.MaxWeight))
	k.set = func(c *Config, s string) (string, error) {
		f, err := parseFloat(s, 0, topology.MaxWeight)
		if c.Options.Weight = f; f == 0 {
			c.Options.Weight = -1
		}
		return strconv.FormatFloat(f, 'g', -1, 64), err
	}
	return k
}

func oneOf(k Key, at func(*Config) *string) Key {
	k.Kind = "one of"
	k.set = func(c *Config, s string) (string, error) {
		v, err := parseOneOf(strings.TrimSpace(s), k.Values)
		*at(c) = v
		return v, err
	}
	return k
}

// yesNo is a switch of Redis's, which CONFIG SET and CONFIG REWRITE call the same.
func yesNo(k Key, at func(*Config) *bool) Key {
	k.Kind, k.Values = "one of", []string{"no", "yes"}
	k.set = func(c *Config, s string) (string, error) {
		v, err := parseOneOf(strings.TrimSpace(s), k.Values)
		*at(c) = v == "yes"
		return v, err
	}
	return k
}

// toggle is on or off. As a flag it may stand without a value: on.
func toggle(k Key, at func(*Config) *bool) Key {
	k.Kind, k.Values = "switch", []string{"on", "off"}
	k.set = func(c *Config, s string) (string, error) {
		v, err := parseOneOf(strings.TrimSpace(s), k.Values)
		*at(c) = v == "on"
		return v, err
	}
	return k
}

func logLevel(k Key) Key {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	k.Kind = "one of"
	k.set = func(c *Config, s string) (string, error) {
		v, err := parseOneOf(strings.TrimSpace(s), k.Values)
		c.LogLevel = levels[v]
		return v, err
	}
	return k
}
