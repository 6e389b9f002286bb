package link

import (
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
)

const (
	whySubscribe = "changes how replies arrive; the links are shared by all callers"
	whyState     = "changes the state of a connection; the links are shared by all callers"
	whyBlocks    = "blocks a connection; the links are shared by all callers"
)

// unshareable are commands that one caller cannot run on a link that all share.
var unshareable = map[string]string{
	"subscribe": whySubscribe, "unsubscribe": whySubscribe, "psubscribe": whySubscribe, "punsubscribe": whySubscribe,
	"ssubscribe": whySubscribe, "sunsubscribe": whySubscribe, "monitor": whySubscribe,
	"sync": whySubscribe, "psync": whySubscribe, "replconf": whySubscribe,
	"multi": whyState, "exec": whyState, "discard": whyState, "watch": whyState, "unwatch": whyState,
	"auth": whyState, "hello": whyState, "select": whyState, "reset": whyState, "quit": whyState,
	"asking": whyState, "readonly": whyState, "readwrite": whyState,
	"blpop": whyBlocks, "brpop": whyBlocks, "brpoplpush": whyBlocks, "blmove": whyBlocks, "blmpop": whyBlocks,
	"bzpopmin": whyBlocks, "bzpopmax": whyBlocks, "bzmpop": whyBlocks, "wait": whyBlocks, "waitaof": whyBlocks,
}

// unshareableClient are the subcommands of CLIENT among them.
var unshareableClient = map[string]string{
	"reply": whySubscribe, "tracking": whyState, "caching": whyState, "setname": whyState, "setinfo": whyState,
	"no-evict": whyState, "no-touch": whyState, "capa": whyState,
}

// shared says why a command cannot run on a shared link; "" if it can.
func shared(args [][]byte) string {
	const longest = 16
	if len(args[0]) > longest {
		return ""
	}
	name := strings.ToLower(string(args[0]))
	switch name {
	case "get", "set", "del", "mget", "incrby":
		return ""
	case "client":
		if len(args) > 1 && len(args[1]) <= longest {
			return unshareableClient[strings.ToLower(string(args[1]))]
		}
		return ""
	case "xread", "xreadgroup":
		for _, a := range args[1:] {
			if strings.EqualFold(string(a), "block") {
				return whyBlocks
			}
		}
		return ""
	}
	return unshareable[name]
}

// reads tells whether a command may be executed twice, or late, without harm.
func reads(cmd *command.Command, args [][]byte) bool {
	if cmd == nil {
		return false
	}
	if len(args) > 1 && len(cmd.Subs) > 0 {
		if sub := cmd.Sub(args[1]); sub != nil {
			cmd = sub
		}
	}
	return cmd.Flags.Has(command.ReadOnly)
}

// firstKey gives the key that decides where a command goes, nil if it has none.
func firstKey(cmd *command.Command, args [][]byte, s *scratch) []byte {
	if cmd != nil {
		s.keys = cmd.AppendKeys(s.keys[:0], args)
		if len(s.keys) > 0 {
			return args[s.keys[0]]
		}
		if !cmd.Flags.Has(command.MovableKeys) {
			return nil
		}
	}
	switch name := strings.ToLower(string(args[0][:min(len(args[0]), 16)])); name {
	case "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro":
		if len(args) > 3 {
			if n, err := strconv.Atoi(string(args[2])); err == nil && n > 0 {
				return args[3]
			}
		}
		return nil
	case "info", "ping", "cluster", "config", "command", "client", "memory", "slowlog", "latency", "function", "script",
		"acl", "dbsize", "flushall", "flushdb", "keys", "scan", "time", "lastsave", "echo", "publish", "randomkey", "save", "bgsave":
		return nil
	case "xread", "xreadgroup":
		for i, a := range args {
			if strings.EqualFold(string(a), "streams") && i+1 < len(args) {
				return args[i+1]
			}
		}
		return nil
	}
	if len(args) > 1 {
		return args[1]
	}
	return nil
}
