package node

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/latency"
	"github.com/ringcache/ringcache/internal/resp"
)

// The defaults of Diagnostics, which are Redis's and Valkey's.
const (
	DefaultSlowerThan = 10 * time.Millisecond
	DefaultLargerThan = 1 << 20 // bytes
	DefaultKept       = 128
	// MaxKept bounds the entries of one log; each takes up to 5 KB.
	MaxKept = 10_000
)

// Diagnostics say what a node keeps of its own work. The zero value keeps what
// Redis keeps by default.
type Diagnostics struct {
	// SlowerThan is the least time of a command in SLOWLOG; default 10 ms,
	// negative for none. Below 1 ms every command is timed by itself, which
	// costs pipelines about a tenth.
	SlowerThan time.Duration
	// RequestLarger and ReplyLarger are the least bytes of a request and a
	// reply in COMMANDLOG; default 1 MiB, negative for none.
	RequestLarger, ReplyLarger int64
	// SlowKept, RequestsKept and RepliesKept bound what is kept of each;
	// default 128, negative for none, at most MaxKept.
	SlowKept, RequestsKept, RepliesKept int
	// LatencyThreshold is the least time of a command that LATENCY keeps a
	// sample of, in whole milliseconds; default 0, none.
	LatencyThreshold time.Duration
	// DebugCommand says who may use DEBUG: "no" (default) for nobody, "local"
	// for connections from this machine, "yes".
	DebugCommand string
	// SlotStats counts time and bytes of the commands on each slot, for CLUSTER
	// SLOT-STATS. Every command is then timed by itself, as with a SlowerThan below 1
	// ms, and the figures take 384 KiB. CONFIG SET cluster-slot-stats-enabled changes
	// it.
	SlotStats bool
	// ConfigFile is the file that INFO names, and Rewrite puts values into it,
	// by configuration key, for CONFIG REWRITE. nil: there is no file.
	ConfigFile string
	Rewrite    func(values map[string]string) error
}

// WithDefaults returns d with every zero field set.
func (d Diagnostics) WithDefaults() Diagnostics {
	if d.SlowerThan == 0 {
		d.SlowerThan = DefaultSlowerThan
	}
	for _, v := range []*int64{&d.RequestLarger, &d.ReplyLarger} {
		if *v == 0 {
			*v = DefaultLargerThan
		}
	}
	for _, v := range []*int{&d.SlowKept, &d.RequestsKept, &d.RepliesKept} {
		if *v == 0 {
			*v = DefaultKept
		}
	}
	if d.DebugCommand == "" {
		d.DebugCommand = "no"
	}
	return d
}

// The kinds of latency events, as in Redis.
const (
	eventCommand = "command"
	eventFast    = "fast-command" // O(1) or O(log N)
)

// diagnostics is what the node keeps. Its parts have locks of their own.
type diagnostics struct {
	slow, requests, replies latency.Log // µs, bytes, bytes
	events                  latency.Events

	debugCommand string
	configFile   string
	purged       atomic.Int64 // when MEMORY PURGE last did something, ms

	rewriting sync.Mutex // one CONFIG REWRITE at a time
	rewrite   func(values map[string]string) error
}

func (d *diagnostics) open(o Diagnostics) {
	o = o.WithDefaults()
	d.debugCommand, d.configFile, d.rewrite = o.DebugCommand, o.ConfigFile, o.Rewrite
	d.slow.SetThreshold(max(o.SlowerThan.Microseconds(), -1))
	if o.SlowerThan < 0 {
		d.slow.SetThreshold(-1)
	}
	d.requests.SetThreshold(max(o.RequestLarger, -1))
	d.replies.SetThreshold(max(o.ReplyLarger, -1))
	d.slow.SetMax(min(max(o.SlowKept, 0), MaxKept))
	d.requests.SetMax(min(max(o.RequestsKept, 0), MaxKept))
	d.replies.SetMax(min(max(o.RepliesKept, 0), MaxKept))
	d.events.SetThreshold(o.LatencyThreshold.Milliseconds())
}

// tellFront gives the server the limits from which it tells of commands.
func (n *Node) tellFront() {
	if n.front == nil {
		return
	}
	d := &n.diag
	slow := time.Duration(-1)
	if t := d.slow.Threshold(); t >= 0 {
		slow = time.Duration(min(t, int64(math.MaxInt64/time.Microsecond))) * time.Microsecond
	}
	n.front.SetNotable(slow, d.requests.Threshold(), d.replies.Threshold(), n.accounts.kept())
}

// Slow tells the node of a command that took long, together with others before
// it in the same pipeline.
func (n *Node) Slow(s Session, cmd *command.Command, args [][]byte, took time.Duration, others int) {
	n.keep(&n.diag.slow, s, cmd, args, took.Microseconds(), others)
}

// Large tells the node of a command with a large request or reply.
func (n *Node) Large(s Session, cmd *command.Command, args [][]byte, size int64, reply bool) {
	log := &n.diag.requests
	if reply {
		log = &n.diag.replies
	}
	n.keep(log, s, cmd, args, size, 0)
}

// keep adds an entry to a log, unless it is about a command between peers.
func (n *Node) keep(log *latency.Log, s Session, cmd *command.Command, args [][]byte, value int64, others int) {
	if cmd.Flags.Has(command.Internal) || !log.Wants(value) {
		return
	}
	var kept []string
	if len(args) > 0 {
		kept = latency.Trim(args, func(i int) bool { return cmd.Secret(args, i) })
	} else {
		kept = []string{cmd.Name}
	}
	if others > 0 {
		kept = append(kept, "... (timed together with "+strconv.Itoa(others)+" pipelined commands before it)")
	}
	client := ""
	if a := s.RemoteAddr(); a != nil {
		client = a.String()
	}
	log.Add(latency.Entry{At: n.clock.time(), Value: value, Args: kept, Client: client, Name: s.Name()})
}

// told notes a command of a transaction.
func (n *Node) told(s Session, cmd *command.Command, args [][]byte, reply []byte, d time.Duration) {
	n.Took(s, cmd.ID, 1, d)
	if len(reply) > 0 && reply[0] == '-' {
		n.Failed(cmd, true, reply)
	}
	if n.diag.slow.Wants(d.Microseconds()) {
		n.Slow(s, cmd, args, d, 0)
	}
}

// isLocal tells whether a session comes from this machine.
func isLocal(s Session) bool {
	a, ok := s.RemoteAddr().(*net.TCPAddr)
	return !ok || a.IP.IsLoopback()
}

// numberParam is a parameter that is a whole number.
func numberParam(key string, lo, hi int64, get func(n *Node) int64, set func(n *Node, v int64)) variable {
	return variable{
		key: key,
		get: func(n *Node) string { return strconv.FormatInt(get(n), 10) },
		check: func(n *Node, text string) (func() error, error) {
			v, ok := resp.ParseInt([]byte(text))
			switch {
			case !ok:
				return nil, errors.New("argument couldn't be parsed into an integer")
			case v < lo || v > hi:
				return nil, fmt.Errorf("argument must be between %d and %d inclusive", lo, hi)
			}
			return func() error {
				set(n, v)
				n.tellFront()
				return nil
			}, nil
		},
	}
}

// thresholdParam and lengthParam are the parameters of a log.
func thresholdParam(key string, log func(n *Node) *latency.Log) variable {
	return numberParam(key, -1, math.MaxInt64, func(n *Node) int64 { return log(n).Threshold() }, func(n *Node, v int64) { log(n).SetThreshold(v) })
}

func lengthParam(key string, log func(n *Node) *latency.Log) variable {
	return numberParam(key, 0, MaxKept, func(n *Node) int64 { return int64(log(n).Max()) }, func(n *Node, v int64) { log(n).SetMax(int(v)) })
}

func slowLog(n *Node) *latency.Log    { return &n.diag.slow }
func requestLog(n *Node) *latency.Log { return &n.diag.requests }
func replyLog(n *Node) *latency.Log   { return &n.diag.replies }

var latencyThreshold = numberParam("latency-monitor-threshold", 0, math.MaxInt64,
	func(n *Node) int64 { return n.diag.events.Threshold() }, func(n *Node, v int64) { n.diag.events.SetThreshold(v) })

// startParam can be read only, as some are in Redis: it is set at the start.
func startParam(get func(n *Node) string) variable {
	return variable{get: get, check: func(n *Node, v string) (func() error, error) {
		if v != get(n) {
			return nil, errors.New("can't set immutable config")
		}
		return func() error { return nil }, nil
	}}
}

var debugParam = startParam(func(n *Node) string { return n.diag.debugCommand })

// protectedParam tells whether clients from other machines need a password: a cluster
// secret says that the node is meant to be reached.
var protectedParam = startParam(func(n *Node) string {
	if len(n.o.Secret) > 0 {
		return "no"
	}
	return "yes"
})
