package node

import (
	"errors"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/resp"
)

// role answers ROLE: an owner without replicas.
func role(w *resp.Writer) {
	w.Array(3)
	w.BulkString("master")
	w.Int(0)
	w.Array(0)
}

// shutdownCommand executes SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]. Without a
// word it is the stop that SIGTERM is. NOW hands the slots over at once, without
// their content. SAVE is one to come back from at once: the slots are not handed
// over, and the entries stay in their file. NOSAVE leaves none. Success has no reply, as in Redis: the connection ends.
func (n *Node) shutdownCommand(s Session, args [][]byte, w *resp.Writer) {
	seen := map[string]bool{}
	for _, a := range args[1:] {
		word := strings.ToLower(string(a))
		switch word {
		case "nosave", "save", "now", "force", "abort":
			seen[word] = true
		default:
			w.Error("ERR syntax error")
			return
		}
	}
	switch {
	case seen["abort"] && len(seen) > 1, seen["save"] && seen["nosave"]:
		w.Error("ERR syntax error")
	case seen["abort"]:
		w.Error("ERR No shutdown in progress.")
	case n.o.OnShutdown == nil:
		w.Error("ERR this node belongs to another program, which has to end it")
	case seen["save"] && n.o.Engine.File == "":
		w.Error("ERR there is no file to save the entries in: set data-dir or warm-dir")
	default:
		if seen["save"] {
			n.Stay()
		}
		if seen["now"] {
			n.Hurry()
		}
		if seen["nosave"] {
			n.ForgetEntries()
		}
		n.log.Info("shutdown requested by a client")
		s.CloseAfterReply()
		n.shutdown("SHUTDOWN")
	}
}

// redisPolicies are Redis's names of policies that mean the same here, the one
// that CONFIG GET gives first. A policy of Redis that spares keys without a
// deadline as long as any key has one is not among them, but for volatile-ttl:
// ttl takes keys without a deadline last, where Redis refuses the write.
var redisPolicies = []struct{ own, redis string }{
	{"lru", "allkeys-lru"}, {"lfu", "allkeys-lfu"}, {"ttl", "volatile-ttl"},
}

// policyName is the name of an eviction policy as Redis's tools know it; the
// others have no name there and keep their own.
func policyName(name string) string {
	for _, p := range redisPolicies {
		if p.own == name {
			return p.redis
		}
	}
	return name
}

// policyOf finds the policy that is meant, by its own name or Redis's.
func policyOf(v string) (string, error) {
	v = strings.ToLower(v)
	var names []string
	for _, own := range engine.Policies() {
		redis := policyName(own)
		if v == own || v == redis {
			return own, nil
		}
		if names = append(names, own); redis != own {
			names = append(names, redis)
		}
	}
	return "", errors.New("argument(s) must be one of the following: " + strings.Join(names, ", "))
}

// parseMemory reads a size as Redis writes it: a number with an optional unit
// (b, k, kb, m, mb, g, gb; k is 1000, kb is 1024).
func parseMemory(s string) (int64, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	units := map[string]int64{"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000 * 1000, "mb": 1 << 20, "g": 1000 * 1000 * 1000, "gb": 1 << 30}
	unit, ok := units[s[len(digits):]]
	v, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || v < 0 || v > 1<<62/unit {
		return 0, errors.New("argument must be a memory value")
	}
	return v * unit, nil
}
