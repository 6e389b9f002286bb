package node

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/resp"
)

// maxClients is the greatest value of maxclients.
const maxClients = 1_000_000

// settings are the parameters that CONFIG SET may change and the node keeps.
type settings struct {
	mu         sync.Mutex
	password   string
	maxClients int
	changed    map[string]bool // parameters that were set since the start

	peak atomic.Int64 // greatest number of bytes seen, for INFO
}

func (s *settings) clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxClients
}

// notePeak keeps the greatest number of bytes.
func (s *settings) notePeak(v int64) {
	for old := s.peak.Load(); v > old && !s.peak.CompareAndSwap(old, v); old = s.peak.Load() {
	}
}

// fixedParams are parameters that clients and tools ask for and that do not
// change here, with the values of a Redis that behaves the same.
var fixedParams = map[string]string{
	"acllog-max-len": "128", "acl-pubsub-default": "resetchannels",
	"activedefrag": "no", "appendfsync": "everysec", "appendonly": "no", "client-output-buffer-limit": "normal 0 0 0 slave 0 0 0 pubsub 0 0 0",
	"cluster-allow-reads-when-down": "yes", "cluster-enabled": "yes", "cluster-node-timeout": "15000",
	"cluster-preferred-endpoint-type": "ip", "cluster-require-full-coverage": "no", "databases": "1", "dbfilename": "", "dir": "",
	"hz": "10", "io-threads": "1", "latency-tracking": "yes", "latency-tracking-info-percentiles": "50 99 99.9", "lazyfree-lazy-eviction": "no", "lazyfree-lazy-expire": "no",
	"loglevel": "notice", "maxmemory-samples": "5", "notify-keyspace-events": "", "proto-max-bulk-len": "536870912",
	"replica-read-only": "yes", "save": "", "tcp-backlog": "511",
	"tcp-keepalive": "300", "timeout": "0",
}

// variable is a parameter that CONFIG SET changes.
type variable struct {
	get func(n *Node) string
	// check parses a value; the function that it returns applies it.
	check func(n *Node, value string) (apply func() error, err error)
	// key is the configuration key that CONFIG REWRITE writes, with the value of
	// text or, without one, of get; "" if there is none.
	key  string
	text func(n *Node) string
}

var variableParams = map[string]variable{
	"slowlog-log-slower-than":           thresholdParam("slowlog-log-slower-than", slowLog),
	"slowlog-max-len":                   lengthParam("slowlog-max-len", slowLog),
	"commandlog-execution-slower-than":  thresholdParam("slowlog-log-slower-than", slowLog),
	"commandlog-slow-execution-max-len": lengthParam("slowlog-max-len", slowLog),
	"commandlog-request-larger-than":    thresholdParam("commandlog-request-larger-than", requestLog),
	"commandlog-large-request-max-len":  lengthParam("commandlog-large-request-max-len", requestLog),
	"commandlog-reply-larger-than":      thresholdParam("commandlog-reply-larger-than", replyLog),
	"commandlog-large-reply-max-len":    lengthParam("commandlog-large-reply-max-len", replyLog),
	"latency-monitor-threshold":         latencyThreshold,
	"enable-debug-command":              debugParam,
	"cluster-slot-stats-enabled":        slotStatsParam,
	"protected-mode":                    protectedParam,
	"port":                              startParam(func(n *Node) string { return strconv.Itoa(int(n.o.Port)) }),
	"maxmemory": {
		key: "max-memory",
		get: func(n *Node) string { return strconv.FormatInt(n.eng.Stats().MaxBytes, 10) },
		check: func(n *Node, v string) (func() error, error) {
			bytes, err := parseMemory(v)
			if err == nil && bytes == 0 {
				err = errors.New("argument must be above 0: a cache without a limit would fill the machine")
			}
			return func() error { return n.eng.SetMaxBytes(bytes) }, err
		},
	},
	"maxmemory-policy": {
		key: "policy", text: func(n *Node) string { return n.eng.Policy() },
		get: func(n *Node) string { return policyName(n.eng.Policy()) },
		check: func(n *Node, v string) (func() error, error) {
			name, err := policyOf(v)
			return func() error { return n.eng.SetPolicy(name) }, err
		},
	},
	"requirepass": {
		key: "password",
		get: func(n *Node) string {
			n.settings.mu.Lock()
			defer n.settings.mu.Unlock()
			return n.settings.password
		},
		check: func(n *Node, v string) (func() error, error) {
			return func() error { n.setPassword(v); return nil }, nil
		},
	},
	"maxclients": {
		key: "max-clients",
		get: func(n *Node) string { return strconv.Itoa(n.settings.clients()) },
		check: func(n *Node, v string) (func() error, error) {
			count, err := strconv.Atoi(v)
			switch {
			case err != nil:
				return nil, errors.New("argument couldn't be parsed into an integer")
			case count < 1 || count > maxClients:
				return nil, fmt.Errorf("argument must be between 1 and %d inclusive", maxClients)
			}
			return func() error { n.setMaxClients(count); return nil }, nil
		},
	},
	"warm-rate":    warmRateParam,
	"warm-bytes":   warmBytesParam,
	"mirror-reads": mirrorReadsParam,
	"tracking-table-max-keys": {
		get: func(n *Node) string { return strconv.FormatInt(n.track.maxKeys.Load(), 10) },
		check: func(n *Node, v string) (func() error, error) {
			count, err := strconv.ParseInt(v, 10, 64)
			switch {
			case err != nil:
				return nil, errors.New("argument couldn't be parsed into an integer")
			case count < 0:
				return nil, errors.New("argument must be between 0 and 9223372036854775807 inclusive")
			}
			return func() error { n.track.maxKeys.Store(count); n.track.trim(); return nil }, nil
		},
	},
}

func (n *Node) setPassword(v string) {
	n.settings.mu.Lock()
	n.settings.password = v
	n.settings.mu.Unlock()
	if n.front != nil {
		n.front.SetPassword(v)
	}
}

func (n *Node) setMaxClients(count int) {
	n.settings.mu.Lock()
	n.settings.maxClients = count
	n.settings.mu.Unlock()
	if n.front != nil {
		n.front.SetMaxClients(count)
	}
}

var configHelp = []string{
	"CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
	"SET <directive> <value>", "    Set the configuration <directive> to <value>.",
	"RESETSTAT", "    Reset statistics reported by the INFO command.",
	"REWRITE", "    Rewrite the configuration file.",
	"HELP", "    Print this help.",
}

// config answers CONFIG.
func (n *Node) config(cmd *command.Command, args [][]byte, w *resp.Writer) {
	sub := subcommand(cmd, args, w)
	if sub == nil {
		return
	}
	switch sub.ID {
	case command.ConfigGet:
		n.configGet(args[2:], w)
	case command.ConfigSet:
		n.configSet(args[2:], w)
	case command.ConfigResetStat:
		n.eng.ResetStats()
		n.counts.reset()
		n.accounts.resetAll()
		if n.front != nil {
			n.front.ResetStats()
		}
		w.Simple("OK")
	case command.ConfigRewrite:
		n.configRewrite(w)
	case command.ConfigHelp:
		help(w, configHelp)
	default:
		exec.UnknownSubcommand(w, sub.Parent, args[1])
	}
}

// configGet answers every parameter that matches one of the patterns, each once.
func (n *Node) configGet(patterns [][]byte, w *resp.Writer) {
	found := map[string]string{}
	for _, raw := range patterns {
		if len(found) == len(fixedParams)+len(variableParams) {
			break
		}
		pattern := strings.ToLower(string(raw))
		match := func(name string) bool {
			ok, err := path.Match(pattern, name)
			return ok && err == nil
		}
		for name, value := range fixedParams {
			if match(name) {
				found[name] = value
			}
		}
		for name, v := range variableParams {
			if match(name) {
				found[name] = v.get(n)
			}
		}
	}
	w.Map(len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		w.BulkString(name)
		w.BulkString(found[name])
	}
}

// configSet sets all the given parameters or, if one is wrong, none.
func (n *Node) configSet(args [][]byte, w *resp.Writer) {
	if len(args)%2 != 0 {
		w.Error("ERR syntax error")
		return
	}
	var apply []func() error
	seen, changed := map[string]bool{}, map[string]bool{}
	for i := 0; i < len(args); i += 2 {
		name, value := strings.ToLower(string(args[i])), string(args[i+1])
		if seen[name] {
			w.Error(setFailed(name, "duplicate parameter"))
			return
		}
		seen[name] = true
		if fixed, ok := fixedParams[name]; ok {
			if value != fixed {
				w.Error(setFailed(name, "can't set immutable config"))
				return
			}
			continue
		}
		v, ok := variableParams[name]
		if !ok {
			w.Error(fmt.Sprintf("ERR Unknown option or number of arguments for CONFIG SET - '%.128s'", args[i]))
			return
		}
		fn, err := v.check(n, value)
		if err != nil {
			w.Error(setFailed(name, err.Error()))
			return
		}
		apply = append(apply, fn)
		changed[name] = true
	}
	for _, fn := range apply {
		if err := fn(); err != nil {
			w.Error("ERR CONFIG SET failed - " + err.Error())
			return
		}
	}
	n.settings.note(changed)
	w.Simple("OK")
}

// note remembers which parameters were set.
func (s *settings) note(changed map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = map[string]bool{}
	}
	maps.Copy(s.changed, changed)
}

// configRewrite writes the parameters that were set since the start into the
// configuration file; everything else stays as it is there.
func (n *Node) configRewrite(w *resp.Writer) {
	d := &n.diag
	if d.rewrite == nil {
		w.Error("ERR The server is running without a config file")
		return
	}
	d.rewriting.Lock()
	defer d.rewriting.Unlock()
	n.settings.mu.Lock()
	names := slices.Collect(maps.Keys(n.settings.changed))
	n.settings.mu.Unlock()
	values := map[string]string{}
	for _, name := range names {
		v := variableParams[name]
		switch {
		case v.key == "":
		case v.text != nil:
			values[v.key] = v.text(n)
		default:
			values[v.key] = v.get(n)
		}
	}
	if err := d.rewrite(values); err != nil {
		w.Error("ERR Rewriting config file: " + err.Error())
		return
	}
	n.log.Info("configuration file rewritten by a client", "values", len(values))
	w.Simple("OK")
}

func setFailed(name, why string) string {
	return "ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + why
}
