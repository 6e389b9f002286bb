package ringcache_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/resp"
)

// both sends commands to redis-server and to a node, and gives their replies.
type both struct {
	t     *testing.T
	conns [2]*rawConn
}

func newBoth(t *testing.T, o ringcache.Options) *both {
	t.Helper()
	redisAddr := startRedis(t)
	o.Addr, o.MaxMemory = "127.0.0.1:0", 64<<20
	node, err := ringcache.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	b := &both{t: t}
	for i, addr := range []string{redisAddr, node.Addr()} {
		if b.conns[i], err = dialRaw(addr); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.conns[i].Close() })
	}
	return b
}

func (b *both) do(args ...string) (redis, ours resp.Value) {
	b.t.Helper()
	var v [2]resp.Value
	for i, c := range b.conns {
		err := c.send([][]string{args})
		if err == nil {
			v[i], err = c.receive()
		}
		if err != nil {
			b.t.Fatalf("%q: %v", args, err)
		}
	}
	return v[0], v[1]
}

// same compares the replies to one line.
func (b *both) same(line string) {
	b.t.Helper()
	redis, ours := b.do(strings.Fields(line)...)
	if show(redis) != show(ours) {
		b.t.Errorf("%s\n redis:      %s\n ring-cache: %s", line, show(redis), show(ours))
	}
}

func TestDiagnosticsAsRedis(t *testing.T) {
	b := newBoth(t, ringcache.Options{})
	for _, line := range []string{
		"CONFIG SET slowlog-log-slower-than 60000000", // or a command that waited for a processor is in one log
		"SLOWLOG RESET", "SLOWLOG GET -2", "SLOWLOG GET x", "SLOWLOG GET 1 2", "SLOWLOG FOO", "SLOWLOG", "SLOWLOG RESET x", "SLOWLOG LEN", "SLOWLOG GET 5",
		"LATENCY HISTORY foo", "LATENCY GRAPH foo", "LATENCY LATEST", "LATENCY RESET", "LATENCY RESET foo", "LATENCY FOO", "LATENCY", "LATENCY HISTOGRAM nosuch", "LATENCY GRAPH",
		"MEMORY PURGE", "MEMORY FOO", "MEMORY USAGE", "MEMORY USAGE k SAMPLES", "MEMORY USAGE k SAMPLES -1", "MEMORY DOCTOR x", "MEMORY MALLOC-STATS x",
		"DEBUG", "DEBUG SLEEP 0", "DEBUG FOO", "CONFIG REWRITE", "CONFIG REWRITE x",
		"CONFIG GET slowlog-max-len", "CONFIG GET latency-tracking*s", "CONFIG GET enable-debug-command",
		"CONFIG SET latency-monitor-threshold -1", "CONFIG SET latency-monitor-threshold x", "CONFIG SET slowlog-log-slower-than -2", "CONFIG SET slowlog-log-slower-than x",
		"CONFIG SET slowlog-max-len -", "CONFIG SET enable-debug-command yes", "CONFIG SET latency-monitor-threshold 100", "CONFIG GET latency-monitor-threshold",
		"OBJECT FREQ nosuch", "OBJECT FREQ",
	} {
		b.same(line)
	}
}

// Every command is in the log when the limit is 0, with trimmed and hidden
// arguments as in Redis; times and addresses differ.
func TestSlowLogAsRedis(t *testing.T) {
	b := newBoth(t, ringcache.Options{})
	long := strings.Repeat("x", 200)
	var many []string
	for i := range 40 {
		many = append(many, "{m}"+strconv.Itoa(i))
	}
	b.same("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 20")
	for _, line := range []string{"CLIENT SETNAME me", "SET k " + long, "GET k", "DEL " + strings.Join(many, " "), "AUTH a b", "HELLO 2 AUTH a b SETNAME me",
		"CONFIG SET requirepass p", "GET", "FOO bar", "MULTI", "SET k v", "INCR n", "EXEC", "CONFIG SET requirepass -", "PING"} {
		b.do(strings.Fields(line)...)
	}
	text := func(v resp.Value) string {
		var out []string
		for _, e := range v.Elems {
			if len(e.Elems) != 6 || e.Elems[1].Int < 1e9 || e.Elems[2].Int < 0 || !strings.HasPrefix(e.Elems[4].Text(), "127.0.0.1:") {
				t.Errorf("entry %s", show(e))
				continue
			}
			out = append(out, fmt.Sprintf("%s %s %s", e.Elems[0].Text(), show(e.Elems[3]), e.Elems[5].Text()))
		}
		return strings.Join(out, "\n")
	}
	redis, ours := b.do("SLOWLOG", "GET", "-1")
	if text(redis) != text(ours) {
		t.Errorf("redis:\n%s\nring-cache:\n%s", text(redis), text(ours))
	}
	if len(ours.Elems) < 10 {
		t.Errorf("only %d entries", len(ours.Elems))
	}
	b.same("SLOWLOG LEN")
	b.same("CONFIG SET slowlog-max-len 3")
	b.same("SLOWLOG RESET")
	b.same("CONFIG SET slowlog-log-slower-than -1")
	b.same("SLOWLOG RESET")
	b.same("SLOWLOG LEN")
}

// Pipelined commands are counted and timed, those of the connection too, and
// refused ones are told apart from those that failed.
func TestCommandStatistics(t *testing.T) {
	b := newBoth(t, ringcache.Options{})
	b.do("CONFIG", "RESETSTAT")
	var batch [][]string
	for i := range 200 {
		batch = append(batch, []string{"SET", "k", strconv.Itoa(i)}, []string{"GET", "k"}, []string{"PING"}, []string{"MGET", "{k}1", "{k}2"})
	}
	batch = append(batch, []string{"GET"}, []string{"SET", "k", "v", "FOO"}, []string{"MGET", "a", "b"}, []string{"FOO"}, []string{"CLIENT", "KILL", "1:1"}, []string{"CLIENT", "KILL"})
	for _, c := range b.conns {
		if err := c.send(batch); err != nil {
			t.Fatal(err)
		}
		for range batch {
			if _, err := c.receive(); err != nil {
				t.Fatal(err)
			}
		}
	}
	redis, ours := b.do("INFO", "commandstats", "errorstats", "latencystats")
	pick := func(v resp.Value) string {
		var out []string
		for line := range strings.Lines(v.Text()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if strings.HasPrefix(name, "latency_percentiles") {
				value = "some"
			}
			usec := 0
			if i := strings.Index(value, ",usec="); i >= 0 {
				if _, err := fmt.Sscanf(value[i:], ",usec=%d", &usec); err != nil {
					t.Fatal(err)
				}
				calls, _, _ := strings.Cut(value, ",")
				if n, _ := strconv.Atoi(strings.TrimPrefix(calls, "calls=")); n > 100 && usec == 0 {
					t.Errorf("%s took no time", line)
				}
				value = calls + value[strings.Index(value, ",rejected"):]
			}
			if strings.Contains(name, "config") { // Redis was asked before its statistics were reset
				continue
			}
			out = append(out, name+" "+value)
		}
		return sortedLines(out)
	}
	if pick(redis) != pick(ours) {
		t.Errorf("redis:\n%s\nring-cache:\n%s", pick(redis), pick(ours))
	}
}

func sortedLines(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestCommandLogOfLargeCommands(t *testing.T) {
	b := newBoth(t, ringcache.Options{Diagnostics: ringcache.Diagnostics{RequestLarger: 1000, ReplyLarger: 1000, DebugCommand: "local"}})
	c := b.conns[1]
	for _, args := range [][]string{{"SET", "k", strings.Repeat("v", 2000)}, {"GET", "k"}, {"SET", "l", "short"}, {"GET", "l"}, {"DEBUG", "SLEEP", "0.02"}} {
		if _, err := c.do(args); err != nil {
			t.Fatal(err)
		}
	}
	for kind, want := range map[string]string{"large-request": "SET 2029", "large-reply": "GET 2009", "slow": "DEBUG"} {
		if err := c.send([][]string{{"COMMANDLOG", "GET", "5", kind}}); err != nil {
			t.Fatal(err)
		}
		v, err := c.receive()
		// Slow may be any command that waited for a processor; the latest was so in any case.
		if err != nil || len(v.Elems) != 1 && (kind != "slow" || len(v.Elems) == 0) {
			t.Fatalf("%s: %s, %v", kind, show(v), err)
		}
		got := v.Elems[0].Elems[3].Elems[0].Text()
		if kind != "slow" {
			got += " " + v.Elems[0].Elems[2].Text()
		} else if us := v.Elems[0].Elems[2].Int; us < 20_000 || us > time.Minute.Microseconds() {
			t.Errorf("the sleep took %d µs", us)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
