package ringcache_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ringcache/ringcache"
)

// transactional returns a command of one of two connections that share keys of
// one slot; inside tells whether the first has a transaction open.
func (h *history) transactional(inside bool) []string {
	switch h.IntN(20) {
	case 0, 1:
		return []string{"MULTI"}
	case 2, 3, 4:
		return []string{"EXEC"}
	case 5:
		return []string{"DISCARD"}
	case 6, 7:
		return cat("WATCH", h.tagged(1+h.IntN(3)))
	case 8:
		if h.chance(30) {
			return []string{"UNWATCH"}
		}
	case 9:
		if h.chance(30) {
			return []string{h.pick("PING", "FOO", "GET", "EXEC", "RESET"), h.pick("", "x")}[:1]
		}
		if h.chance(30) {
			return cat(h.pick("PUBLISH", "SPUBLISH"), h.key(), h.value())
		}
		if h.chance(20) {
			return []string{h.pick("EXEC", "MULTI", "DISCARD", "UNWATCH"), "x"}
		}
	case 10:
		return cat(h.pick("DEL", "EXISTS", "UNLINK"), h.tagged(1+h.IntN(2)))
	case 11:
		return cat(h.pick("RENAME", "COPY"), h.tagged(2))
	case 12:
		// A reply in a reply is compared byte by byte, so no times in there.
		if args := h.ttlCommand(); !inside || !hasTime(args[0]) {
			return args
		}
	case 13:
		return cat("SETBIT", h.key(), strconv.Itoa(h.IntN(30)), h.pick("0", "1"))
	case 14:
		if !inside && h.chance(20) {
			return []string{"FLUSHALL"}
		}
		return cat("PEXPIRE", h.key(), h.pick("0", "100000000"))
	}
	return h.stringCommand()
}

// TestTransactionsAgainstRedis drives two connections of each server through
// the same interleaved history of transactions and watches; every reply must be
// equal.
func TestTransactionsAgainstRedis(t *testing.T) {
	commands := 20_000
	if s := os.Getenv("RINGCACHE_DIFF_COMMANDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("RINGCACHE_DIFF_COMMANDS: %v", err)
		}
		commands = n
	}
	seed := diffSeed(t)
	redisAddr := startRedis(t)
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	t.Logf("seed %d", seed)
	var conns [2][2]*rawConn // of Redis, of ring-cache
	for i, addr := range []string{redisAddr, node.Addr()} {
		for j := range conns[i] {
			c, err := dialRaw(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.do([]string{"HELLO", strconv.Itoa(2 + j)}); err != nil {
				t.Fatal(err)
			}
			conns[i][j] = c
		}
	}
	h := history{Rand: rand.New(rand.NewPCG(seed, 2)), one: true}
	var past []string
	var inside [2]bool
	executed, aborted, null := 0, 0, 0
	for range commands {
		who := h.IntN(2)
		args := h.transactional(inside[who])
		past = append(past, strconv.Itoa(who)+" "+strings.Join(args, " "))
		var replies [2]string
		for i := range conns {
			c := conns[i][who]
			if err := c.send([][]string{args}); err != nil {
				t.Fatal(err)
			}
			v, err := c.receive()
			if err != nil {
				t.Fatalf("%q: %v", args, err)
			}
			replies[i] = show(v)
		}
		want := replies[0]
		switch {
		case args[0] == "MULTI" && want == "+OK":
			inside[who] = true
		case args[0] == "EXEC" || args[0] == "RESET" || args[0] == "DISCARD" && len(args) == 1:
			inside[who] = false
			switch {
			case strings.HasPrefix(want, "-EXECABORT"):
				aborted++
			case want == "(nil)":
				null++
			case args[0] == "EXEC" && want[0] != '-':
				executed++
			}
		}
		if want != replies[1] && !hasTime(args[0]) {
			t.Fatalf("%q\n redis:      %s\n ring-cache: %s\n before:\n  %s", args, want, replies[1],
				strings.Join(past[max(0, len(past)-40):], "\n  "))
		}
	}
	t.Logf("%d transactions executed, %d aborted, %d with a changed key", executed, aborted, null)
	if executed < 50 || aborted < 10 || null < 10 {
		t.Error("the history tests too little")
	}
}

// hasTime tells whether a reply is a time, which differs by what passed between
// the two servers.
func hasTime(name string) bool {
	return strings.HasSuffix(name, "TTL") || strings.HasSuffix(name, "EXPIRETIME")
}

// TestTransactionSlots compares what concerns slots and is not left to chance.
func TestTransactionSlots(t *testing.T) {
	redisAddr := startRedis(t)
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	var conns [2]*rawConn
	for i, addr := range []string{redisAddr, node.Addr()} {
		if conns[i], err = dialRaw(addr); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	for _, line := range []string{
		"MULTI", "SET {a}1 x", "SET {b}1 x", "EXEC", "EXEC", "EXISTS {a}1",
		"MULTI", "MSET {a}1 x {b}1 y", "GET {a}1", "EXEC", "GET {a}1",
		"WATCH {a}1 {b}1", "MULTI", "GET {a}1", "EXEC",
		"MULTI", "FOO", "SET {a}1 x", "SET {b}1 x", "EXEC",
		"MULTI", "EXEC", "MULTI", "TIME", "DISCARD", "MULTI", "PING", "ECHO x", "EXEC",
		"MULTI", "SHUTDOWN", "EXEC", "CLIENT NO-EVICT", "MULTI", "DBSIZE", "KEYS *", "EXEC",
		"WATCH {a}1", "SET {a}1 1", "MULTI", "DBSIZE", "EXEC",
		"WATCH {a}1", "SET {a}1 1", "UNWATCH", "MULTI", "GET {a}1", "EXEC",
		"WATCH {a}1", "SET {a}1 1", "MULTI", "DISCARD", "MULTI", "GET {a}1", "EXEC",
		"WATCH {a}none", "FLUSHALL", "MULTI", "SET {a}1 1", "EXEC",
		"WATCH {a}1", "FLUSHALL", "MULTI", "SET {a}1 1", "EXEC",
		"WATCH", "MULTI x", "EXEC x", "DISCARD", "COMMAND GETKEYS WATCH a b",
	} {
		var replies [2]string
		for i, c := range conns {
			if replies[i], err = c.do(strings.Fields(line)); err != nil {
				t.Fatal(err)
			}
		}
		if replies[0] != replies[1] {
			t.Errorf("%s\n redis:      %s\n ring-cache: %s", line, replies[0], replies[1])
		}
	}
}
