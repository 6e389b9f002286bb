package ringcache_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/lua"
)

// until sends a command and PING with a token, and returns all that comes before
// its answer.
func until(t *testing.T, c *rawConn, token string, args ...string) []string {
	t.Helper()
	cmds := [][]string{{"PING", token}}
	switch {
	case len(args) > 1 && args[0] == "MULTI":
		cmds = [][]string{args[:1], args[1:], {"EXEC"}, cmds[0]}
	case len(args) > 0:
		cmds = [][]string{args, cmds[0]}
	}
	if err := c.send(cmds); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	var out []string
	for {
		v, err := c.receive()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		text := show(v)
		if strings.Contains(text, token) {
			return append(out, strings.ReplaceAll(text, token, "TOKEN"))
		}
		out = append(out, text)
	}
}

// listening is a command of a connection that listens.
func (h *history) listening() []string {
	channels := []string{"news", "news.a", "news.b", "", "ne[w]s", "x\r\ny", "{s}1", "{s}2"}
	patterns := []string{"*", "news*", "n?ws", "ne[v-x]s.[ab]", "ne\\[w\\]s", "", "[^n]*", "**", "news.*", "{s}*"}
	pick := func(from []string) []string {
		out := make([]string, h.IntN(3))
		for i := range out {
			out[i] = from[h.IntN(len(from))]
		}
		return out
	}
	switch h.IntN(16) {
	case 0, 1, 2:
		return cat("SUBSCRIBE", pick(channels))
	case 3, 4:
		return cat("PSUBSCRIBE", pick(patterns))
	case 5, 6:
		return cat("SSUBSCRIBE", pick([]string{"{s}1", "{s}2", "{s}3", "news"}))
	case 7:
		return cat("UNSUBSCRIBE", pick(channels))
	case 8:
		return cat("PUNSUBSCRIBE", pick(patterns))
	case 9:
		return cat("SUNSUBSCRIBE", pick([]string{"{s}1", "{s}2"}))
	case 10:
		if h.chance(30) {
			return cat(h.pick("UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"))
		}
		return []string{"PING"}
	case 11:
		return cat(h.pick("GET", "CLIENT", "DISCARD", "PUBSUB", "PUBLISH"), h.pick("k", "ID", "x"))
	case 12:
		if h.chance(50) {
			return cat("MULTI", h.pick("SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "PING", "GET"), h.pick(channels[:3]...))
		}
		return []string{h.pick("EXEC", "PING")}
	case 13:
		if h.chance(10) {
			return []string{"RESET"}
		}
		return cat("HELLO", h.pick("2", "3", "9"))[:h.IntN(2)+1]
	}
	return cat("PING", pick(channels))
}

func (h *history) publishing() []string {
	switch h.IntN(12) {
	case 0:
		return cat("SPUBLISH", h.pick("{s}1", "{s}2", "news"), h.value())
	case 1:
		return cat("PUBSUB", h.pick("NUMSUB", "SHARDNUMSUB"), h.pick("news", "{s}1"), h.pick("news.a", "{s}2"))
	case 2:
		return cat("PUBSUB", h.pick("NUMPAT", "CHANNELS", "SHARDCHANNELS", "FOO", "NUMSUB"))
	case 3:
		return cat("PUBSUB", h.pick("CHANNELS", "SHARDCHANNELS", "NUMPAT", "HELP"), h.pick("n*", "*", "x"), h.pick("", "y"))[:h.IntN(2)+3]
	case 4:
		return cat(h.pick("PUBLISH", "SPUBLISH"), "only")
	}
	return cat("PUBLISH", h.pick("news", "news.a", "news.b", "", "ne[w]s", "x\r\ny", "{s}1"), h.value())
}

// TestPubSubAgainstRedis drives two listeners and a publisher of each server
// through the same history; all that the listeners get must be equal, but for the
// order of what one message brings by several patterns.
func TestPubSubAgainstRedis(t *testing.T) {
	steps := 4000
	if s := os.Getenv("RINGCACHE_DIFF_COMMANDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("RINGCACHE_DIFF_COMMANDS: %v", err)
		}
		steps = n
	}
	seed := diffSeed(t)
	t.Logf("seed %d", seed)
	redisAddr := startRedis(t)
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	var conns [2][3]*rawConn
	for i, addr := range []string{redisAddr, node.Addr()} {
		for k := range conns[i] {
			if conns[i][k], err = dialRaw(addr); err != nil {
				t.Fatal(err)
			}
			defer conns[i][k].Close()
		}
	}
	h := &history{Rand: rand.New(rand.NewPCG(seed, 3))}
	var past []string
	for step := range steps {
		token := "token-" + strconv.Itoa(step)
		who := h.IntN(3)
		args := h.listening()
		if who == 2 {
			args = h.publishing()
		}
		past = append(past, strconv.Itoa(who)+": "+strings.Join(args, " "))
		var got [2][]string
		for i := range conns {
			got[i] = until(t, conns[i][who], token, args...)
			for k := range 2 {
				if who == 2 {
					got[i] = append(got[i], sortedPatterns(until(t, conns[i][k], token))...)
				}
			}
			if args[0] == "PUBSUB" || len(args) == 1 && strings.HasSuffix(args[0], "UNSUBSCRIBE") {
				got[i] = anyOrder(got[i])
			}
			for j, l := range got[i] { // versions and IDs differ
				if args[0] == "HELLO" || args[0] == "CLIENT" {
					got[i][j] = numbers.ReplaceAllString(l, "0")
				}
			}
		}
		if !slices.Equal(got[0], got[1]) {
			t.Fatalf("%q\n redis:      %q\n ring-cache: %q\nbefore:\n%s", args, got[0], got[1], strings.Join(past[max(0, len(past)-25):], "\n"))
		}
	}
}

// sortedPatterns sorts runs of what came by patterns.
func sortedPatterns(lines []string) []string {
	isPattern := func(s string) bool { return strings.Contains(s, `bulk string "pmessage"`) }
	for i := 0; i < len(lines); i++ {
		j := i
		for j < len(lines) && isPattern(lines[j]) {
			j++
		}
		slices.Sort(lines[i:j])
		i = j
	}
	return lines
}

// anyOrder makes names comparable that a server lists in no order: of channels,
// and of subscriptions that end together.
func anyOrder(lines []string) []string {
	words := strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(strings.Join(lines, " ")))
	slices.Sort(words)
	return words
}

var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)*`)

// member opens a node that joins those at seeds, until the test ends.
func member(t *testing.T, seeds ...string) *ringcache.Node {
	t.Helper()
	n, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 32 << 20, ClusterName: t.Name(), Seeds: seeds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func connect(t *testing.T, n *ringcache.Node) *rawConn {
	t.Helper()
	c, err := dialRaw(n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// next is the next reply or message of a connection.
func (c *rawConn) next(t *testing.T) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	v, err := c.receive()
	if err != nil {
		t.Fatal(err)
	}
	return show(v)
}

func (c *rawConn) ask(t *testing.T, line, want string) {
	t.Helper()
	got, err := c.do(strings.Fields(line))
	if err != nil || got != want {
		t.Fatalf("%s: %s, %v; want %s", line, got, err, want)
	}
}

// Messages reach listeners at other nodes in order, and shard channels live with
// their slot: at another node they are MOVED, and when the slot leaves, those who
// listen are told.
func TestPubSubInACluster(t *testing.T) {
	a := member(t)
	b := member(t, a.Addr())
	ca, cb := connect(t, a), connect(t, b)
	ca.hello(t)
	ca.ask(t, "SUBSCRIBE news", `push[bulk string "subscribe" bulk string "news" :1]`)
	ca.ask(t, "PSUBSCRIBE n*", `push[bulk string "psubscribe" bulk string "n*" :2]`)
	for round := 0; !manyMessages(t, b, cb, ca, round); round++ {
		if round == 3 {
			t.Fatal("messages were dropped each time")
		}
	}

	// One shard channel for each of some slots, at whichever node has it: so many that a
	// third of those at one node is never none.
	c, here := connect(t, a), connect(t, a)
	other := connect(t, b)
	const channels = 150
	kept := 0
	for i := range channels {
		channel := "shard" + strconv.Itoa(i)
		got, err := c.do([]string{"SSUBSCRIBE", channel})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(got, "-MOVED ") {
			if !strings.HasSuffix(got, " "+b.Addr()) {
				t.Fatalf("%s: %s", channel, got)
			}
			other.ask(t, "SPUBLISH "+channel+" x", ":0")
			continue
		}
		kept++
		if want := `array[bulk string "ssubscribe" bulk string "` + channel + `" :` + strconv.Itoa(kept) + `]`; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if got, err := other.do([]string{"SPUBLISH", channel, "x"}); err != nil || !strings.HasPrefix(got, "-MOVED ") {
			t.Fatalf("SPUBLISH at the other node: %s, %v", got, err)
		}
		here.ask(t, "SPUBLISH "+channel+" hello", ":1")
		if got, want := c.next(t), `array[bulk string "smessage" bulk string "`+channel+`" bulk string "hello"]`; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	if kept < channels/10 {
		t.Fatalf("node a has %d of %d slots", kept, channels)
	}
	c.ask(t, "SSUBSCRIBE shard1 shard2", "-CROSSSLOT Keys in request don't hash to the same slot")
	member(t, a.Addr())
	got := c.next(t)
	if !strings.HasPrefix(got, `array[bulk string "sunsubscribe" bulk string "shard`) || !strings.HasSuffix(got, ":"+strconv.Itoa(kept-1)+"]") {
		t.Fatalf("a slot has left, and the listener gets %s", got)
	}
}

// manyMessages publishes at a node and reads at a listener of another one. A peer has a
// second to take what is sent at once, else it is dropped, and counted: it reports
// false where that was so.
func manyMessages(t *testing.T, at *ringcache.Node, from, listener *rawConn, round int) bool {
	t.Helper()
	const messages = 2000
	count := func(field string) int {
		_, rest, _ := strings.Cut(at.Info(), "\r\nringcache_pubsub_"+field+":")
		text, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(field, err)
		}
		return n
	}
	sent, dropped := count("sent"), count("dropped")
	var batch [][]string
	for i := range messages {
		batch = append(batch, []string{"PUBLISH", "news", fmt.Sprintf("%d:%d", round, i)})
	}
	if err := from.send(batch); err != nil {
		t.Fatal(err)
	}
	for range batch {
		if got := from.next(t); got != ":0" { // only those at this node count
			t.Fatal(got)
		}
	}
	poll(t, "all are sent or dropped", func() bool { return count("sent")+count("dropped") >= sent+dropped+messages })
	if n := count("dropped") - dropped; n > 0 {
		t.Logf("round %d: %d messages were dropped", round, n)
		return false
	}
	for i := range messages {
		text := fmt.Sprintf("%d:%d", round, i)
		for _, want := range []string{`push[bulk string "message" bulk string "news" bulk string "` + text + `"]`,
			`push[bulk string "pmessage" bulk string "n*" bulk string "news" bulk string "` + text + `"]`} {
			got := listener.next(t)
			for before := range round { // of a round that was not whole
				for strings.Contains(got, fmt.Sprintf(` "%d:`, before)) {
					got = listener.next(t)
				}
			}
			if got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	}
	return true
}

// hello lets the connection speak RESP3.
func (c *rawConn) hello(t *testing.T) {
	t.Helper()
	if got, err := c.do([]string{"HELLO", "3"}); err != nil || !strings.HasPrefix(got, "map") {
		t.Fatalf("HELLO 3: %s, %v", got, err)
	}
}

// Scripts publish as in Redis.
func TestScriptsPublish(t *testing.T) {
	b := newBoth(t, ringcache.Options{Scripts: lua.New(nil)})
	for _, c := range b.conns {
		c.hello(t)
		c.ask(t, "SUBSCRIBE c", `push[bulk string "subscribe" bulk string "c" :1]`)
	}
	same := func(args ...string) {
		t.Helper()
		var got [2]string
		for i, c := range b.conns {
			// Where the connection gets its own message, before the reply or
			// behind it, is each server's choice.
			lines := until(t, c, "token", args...)
			slices.Sort(lines)
			got[i] = strings.Join(lines, "\n")
		}
		if got[0] != got[1] {
			t.Errorf("%q\n redis:      %s\n ring-cache: %s", args, got[0], got[1])
		}
	}
	same("EVAL", "return redis.call('publish', 'c', ARGV[1])", "0", "hello")
	same("EVAL", "redis.call('set', KEYS[1], 'v') return redis.call('publish', 'c', 'set')", "1", "k")
	same("EVAL", "return redis.call('spublish', 'k', 'm')", "1", "k")
	same("EVAL_RO", "return redis.call('publish', 'c', 'm')", "0")
	same("EVAL", "return redis.call('publish', 'c')", "0")
	same("EVAL", "return redis.call('subscribe', 'c')", "0")
}
