package node

import (
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
)

// tell lets a session's command have taken a time, as a server does.
func tell(n *Node, took time.Duration, args ...string) {
	var raw [][]byte
	for _, a := range args {
		raw = append(raw, []byte(a))
	}
	cmd := command.Lookup(raw[0])
	if len(raw) > 1 && cmd.Sub(raw[1]) != nil {
		cmd = cmd.Sub(raw[1])
	}
	s := &fakeSession{}
	n.Took(s, cmd.ID, 1, took)
	n.Slow(s, cmd, raw, took, 0)
}

func TestSlowLogHidesSecrets(t *testing.T) {
	n := alone(t, func(o *Options) { o.Diagnostics.SlowerThan = time.Microsecond })
	for _, line := range []string{"AUTH user pass", "HELLO 3 AUTH user pass SETNAME me", "CONFIG SET maxclients 5 requirepass pw", "SET auth x", "RC.AUTH proof"} {
		tell(n, 2*time.Millisecond, strings.Fields(line)...)
	}
	tell(n, 0, "GET", "fast")
	entries := run(t, n, 2, "SLOWLOG", "GET", "-1").Elems
	var got []string
	for _, e := range entries {
		got = append(got, flat(e.Elems[3]))
	}
	want := "[SET auth x] [CONFIG SET maxclients 5 requirepass (redacted)] [HELLO 3 AUTH (redacted) (redacted) SETNAME me] [AUTH (redacted) (redacted)]"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if us := entries[0].Elems[2].Int; us != 2000 {
		t.Errorf("%d µs", us)
	}
	for _, tc := range []struct{ line, want string }{
		{"SLOWLOG LEN", "4"}, {"COMMANDLOG LEN slow", "4"}, {"COMMANDLOG LEN large-reply", "0"}, {"COMMANDLOG GET 1 nothing", "ERR type should be one of the following: slow, large-request, large-reply"},
		{"COMMANDLOG GET -2 slow", "ERR count should be greater than or equal to -1"}, {"CONFIG SET slowlog-max-len 2", "OK"}, {"SLOWLOG LEN", "2"},
		{"CONFIG SET commandlog-slow-execution-max-len 100000", "ERR CONFIG SET failed (possibly related to argument 'commandlog-slow-execution-max-len') - argument must be between 0 and 10000 inclusive"},
		{"SLOWLOG RESET", "OK"}, {"SLOWLOG LEN", "0"},
		{"CONFIG SET enable-debug-command yes", "ERR CONFIG SET failed (possibly related to argument 'enable-debug-command') - can't set immutable config"},
		{"DEBUG SLEEP 0", errNoDebug},
		{"HOTKEYS GET", ""}, {"HOTKEYS START METRICS 1 CPU", "ERR hot keys are off: this node does not track them"},
		{"CONFIG REWRITE", "ERR The server is running without a config file"},
	} {
		if got := run(t, n, 2, strings.Fields(tc.line)...).Text(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, got, tc.want)
		}
	}
}

func TestLatencyOfCommands(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	n := alone(t, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Diagnostics.LatencyThreshold = 5 * time.Millisecond
	})
	tell(n, 4*time.Millisecond, "KEYS", "*")
	tell(n, 50*time.Millisecond, "KEYS", "*")
	tell(n, 20*time.Millisecond, "GET", "k")
	for _, tc := range []struct{ line, want string }{
		{"LATENCY LATEST", "[ ]"}, {"LATENCY HISTORY nothing", "[]"}, {"LATENCY GRAPH nothing", "ERR No samples available for event 'nothing'"}, {"LATENCY HISTOGRAM nothing", "[]"},
	} {
		if got := flat(run(t, n, 2, strings.Fields(tc.line)...)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, got, tc.want)
		}
	}
	latest := run(t, n, 2, "LATENCY", "LATEST").Elems
	if flat(latest[0]) != "[command 1700000000 50 50]" || flat(latest[1]) != "[fast-command 1700000000 20 20]" {
		t.Errorf("%s %s", flat(latest[0]), flat(latest[1]))
	}
	h := run(t, n, 2, "LATENCY", "HISTOGRAM", "keys", "latency")
	if len(h.Elems) != 2+2*4 || h.Elems[0].Text() != "keys" || flat(h.Elems[1].Elems[3]) != "[4194 1 67108 2]" {
		t.Errorf("%v", h)
	}
	doctor := run(t, n, 2, "LATENCY", "DOCTOR").Text()
	if !strings.Contains(doctor, "1. command: 1 latency spikes (average 50ms") || !strings.Contains(doctor, "slowlog-log-slower-than 5000") {
		t.Errorf("%s", doctor)
	}
	if got := run(t, n, 2, "LATENCY", "RESET", "command", "none").Int; got != 1 {
		t.Errorf("RESET forgot %d", got)
	}
	info := run(t, n, 2, "INFO", "commandstats", "latencystats").Text()
	for _, want := range []string{"cmdstat_keys:calls=2,usec=54000,usec_per_call=27000.00,rejected_calls=0,failed_calls=0", "latency_percentiles_usec_get:p50=20971.519,p99=20971.519,p99.9=20971.519"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO lacks %q:\n%s", want, info)
		}
	}
	run(t, n, 2, "CONFIG", "RESETSTAT")
	if info := run(t, n, 2, "INFO", "commandstats").Text(); strings.Contains(info, "cmdstat_keys") {
		t.Errorf("after RESETSTAT: %s", info)
	}
}

func TestMemoryCommands(t *testing.T) {
	n := alone(t, nil)
	run(t, n, 2, "SET", "k", strings.Repeat("x", 1000))
	stats := run(t, n, 3, "MEMORY", "STATS")
	for name, ok := range map[string]func(v string) bool{
		"keys.count": func(v string) bool { return v == "1" }, "dataset.bytes": func(v string) bool { return len(v) == 4 },
		"peak.percentage": func(v string) bool { return v == "100" },
	} {
		v, found := stats.Find(name)
		if !found || !ok(v.Text()) {
			t.Errorf("%s is %q", name, v.Text())
		}
	}
	for _, tc := range []struct{ line, want string }{
		{"MEMORY PURGE", "OK"}, {"MEMORY DOCTOR", "This node holds little: there is nothing to find yet.\n"},
		{"MEMORY USAGE nothing", ""}, {"OBJECT FREQ nothing", ""}, {"CONFIG SET maxmemory-policy allkeys-lfu", "OK"}, {"OBJECT FREQ k", "0"}, {"GET k", strings.Repeat("x", 1000)}, {"OBJECT FREQ k", "1"},
	} {
		if got := run(t, n, 2, strings.Fields(tc.line)...).Text(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, got, tc.want)
		}
	}
	if text := run(t, n, 2, "MEMORY", "MALLOC-STATS").Text(); !strings.Contains(text, "ringcache_arena_bytes:") {
		t.Error(text)
	}
}

func TestSlotStats(t *testing.T) {
	n := alone(t, nil)
	for _, k := range []string{"{b}1", "{b}2", "{a}1"} {
		run(t, n, 2, "SET", k, "v")
	}
	show := func(line string) string {
		v := run(t, n, 2, strings.Fields(line)...)
		if v.Kind.String() == "error" {
			return v.Text()
		}
		var out []string
		for _, e := range v.Elems {
			out = append(out, e.Elems[0].Text()+":"+e.Elems[1].Elems[1].Text())
		}
		return strings.Join(out, " ")
	}
	for _, tc := range []struct{ line, want string }{
		{"CLUSTER SLOT-STATS SLOTSRANGE 3299 3301", "3299:0 3300:2 3301:0"},
		{"CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 3", "3300:2 15495:1 0:0"},
		{"CLUSTER SLOT-STATS ORDERBY memory-bytes ASC LIMIT 1", "0:0"},
		{"CLUSTER SLOT-STATS ORDERBY CPU-USEC", "ERR Unrecognized sort metric for ORDERBY."},
		{"CLUSTER SLOT-STATS SLOTSRANGE 5 4", "ERR Start slot number 5 is greater than end slot number 4"},
		{"CLUSTER SLOT-STATS SLOTSRANGE 0 16384", errBadSlot},
		{"CLUSTER SLOT-STATS SLOTSRANGE 0", "ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP."},
		{"CLUSTER slot-stats FOO 0", "ERR unknown subcommand or wrong number of arguments for 'slot-stats'. Try CLUSTER HELP."},
		{"CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 0", "ERR Limit has to lie in between 1 and 16384 (maximum number of slots)."},
		{"CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT", errSyntax},
		{"CLUSTER SLOT-STATS ORDERBY KEY-COUNT DESC ASC", "ERR Multiple filters of the same type are disallowed."},
		{"CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 1 LIMIT 1", "ERR Multiple filters of the same type are disallowed."},
		{"CONFIG SET cluster-slot-stats-enabled maybe", "ERR CONFIG SET failed (possibly related to argument 'cluster-slot-stats-enabled') - argument must be 'yes' or 'no'"},
		{"CLUSTER SLOT-STATS ORDERBY network-bytes-in", "ERR Unrecognized sort metric for ORDERBY."},
	} {
		if got := show(tc.line); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, got, tc.want)
		}
	}
}
