package node

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// TestCommands runs narrated commands against one node: "args => reply", where
// the reply is text, "~" and a part of it, or an array's texts.
func TestCommands(t *testing.T) {
	n := alone(t, nil)
	for _, tc := range []struct{ cmd, want string }{
		{"SET k v", "OK"},
		{"GET k", "v"},
		{"MGET {t}a {t}b", "[ ]"},
		{"MGET a b", errCrossSlot},
		{"MSET {t}a 1 {t}b 2", "OK"},
		{"MGET {t}a {t}b", "[1 2]"},
		{"DEL {t}a other", errCrossSlot},
		{"OBJECT ENCODING k", "~str"},
		{"DBSIZE", "3"},
		{"ROLE", "[master 0 ]"},
		{"CLUSTER MYID", n.ID().String()},
		{"CLUSTER MYSHARDID", n.ID().String()},
		{"CLUSTER KEYSLOT 123456789", "12739"},
		{"CLUSTER KEYSLOT {123456789}x", "12739"},
		{"CLUSTER COUNTKEYSINSLOT " + slotText("{t}"), "2"},
		{"CLUSTER COUNTKEYSINSLOT 16384", "ERR Invalid slot"},
		{"CLUSTER COUNTKEYSINSLOT -1", "ERR Invalid slot"},
		{"CLUSTER COUNTKEYSINSLOT k", errNotInteger},
		{"CLUSTER GETKEYSINSLOT 0 x", errNotInteger},
		{"CLUSTER GETKEYSINSLOT " + slotText("k") + " 10", "[k]"},
		{"CLUSTER GETKEYSINSLOT 0 -1", "ERR Invalid slot or number of keys"},
		{"CLUSTER REPLICAS " + n.ID().String(), "[]"},
		{"CLUSTER REPLICAS 0000000000000000000000000000000000000000", "~ERR Unknown node"},
		{"CLUSTER LINKS", "[]"},
		{"CLUSTER MEET 127.0.0.1 7002", "~stands alone"},
		{"CLUSTER MEET 127.0.0.1 0", "~ERR Invalid node address"},
		{"CLUSTER ADDSLOTS 1 2", "~ERR slots are placed by the ring"},
		{"CLUSTER SETSLOT 1 NODE x", "~ERR slots are placed by the ring"},
		{"CLUSTER FAILOVER", "~ERR nobody is promoted by command"},
		{"CLUSTER FORGET x", "~drain the node"},
		{"CLUSTER NOPE", "ERR unknown subcommand 'NOPE'. Try CLUSTER HELP."},
		{"CLUSTER INFO", "~cluster_slots_assigned:16384"},
		{"CLUSTER INFO", "~cluster_state:ok"},
		{"CONFIG GET nothing*", "[]"},
		{"CONFIG GET save", "[save ]"},
		{"CONFIG GET APPENDONLY", "[appendonly no]"},
		{"CONFIG GET maxmemory", "[maxmemory 67108864]"},
		{"CONFIG GET cluster-enabled save", "[cluster-enabled yes save ]"},
		{"CONFIG SET maxmemory 100mb", "OK"},
		{"CONFIG GET maxmemory", "[maxmemory 104857600]"},
		{"CONFIG SET maxmemory lots", "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value"},
		{"CONFIG SET maxmemory-policy noeviction", "OK"},
		{"CONFIG GET maxmemory-policy", "[maxmemory-policy noeviction]"},
		{"CONFIG SET maxmemory-policy allkeys-lru", "OK"},
		{"CONFIG GET maxmemory-policy", "[maxmemory-policy allkeys-lru]"},
		{"CONFIG SET maxmemory-policy volatile-ttl", "OK"},
		{"CONFIG SET maxmemory-policy TTL", "OK"},
		{"CONFIG GET maxmemory-policy", "[maxmemory-policy volatile-ttl]"},
		{"CONFIG SET maxmemory-policy priority", "OK"},
		{"CONFIG GET maxmemory-policy", "[maxmemory-policy priority]"},
		{"CONFIG SET maxmemory-policy volatile-lru", "~s3fifo, lru, allkeys-lru, lfu, allkeys-lfu, ttl, volatile-ttl, priority, noeviction"},
		{"CONFIG SET maxmemory-policy allkeys-lru", "OK"},
		{"CONFIG SET maxmemory-policy none", "~argument(s) must be one of the following"},
		{"CONFIG SET maxclients 0", "~argument must be between 1 and 1000000 inclusive"},
		{"CONFIG SET maxclients 99999999999", "~argument must be between 1 and 1000000 inclusive"},
		{"CONFIG SET maxclients abc", "~argument couldn't be parsed into an integer"},
		{"CONFIG SET maxmemory 0", "~a cache without a limit would fill the machine"},
		{"CONFIG SET maxmemory 100mb MAXMEMORY 200mb", "~duplicate parameter"},
		{"CONFIG SET maxmemory 100mb bogus", "ERR syntax error"},
		{"CONFIG SET maxclients 5 maxmemory x", "~maxmemory"},
		{"CONFIG GET maxclients", "[maxclients 10000]"},
		{"CONFIG SET appendonly yes", "~can't set immutable config"},
		{"CONFIG SET appendonly no", "OK"},
		{"CONFIG SET no-such-thing 1", "ERR Unknown option or number of arguments for CONFIG SET - 'no-such-thing'"},
		{"CONFIG SET maxmemory", "ERR syntax error"},
		{"CONFIG NOPE", "ERR unknown subcommand 'NOPE'. Try CONFIG HELP."},
		{"CONFIG RESETSTAT", "OK"},
		{"SHUTDOWN", "~belongs to another program"},
		{"SHUTDOWN ABORT", "ERR No shutdown in progress."},
		{"SHUTDOWN SOON", "ERR syntax error"},
		{"RC.PING", "ERR unknown command 'rc.ping'"},
		{"RC.RELEASE x 0", "ERR unknown command 'rc.release'"},
		{"RC.AUTH 00", "~RCAUTH"},
	} {
		t.Run(tc.cmd, func(t *testing.T) {
			got := flat(run(t, n, 2, strings.Fields(tc.cmd)...))
			if part, ok := strings.CutPrefix(tc.want, "~"); ok && !strings.Contains(got, part) || !ok && got != tc.want {
				t.Errorf("reply %q, want %q", got, tc.want)
			}
		})
	}
}

func slotText(key string) string {
	return resp.Value{Kind: resp.Integer, Int: int64(ring.SlotString(key))}.Text()
}

// flat writes arrays as "[a b]".
func flat(v resp.Value) string {
	if v.Kind != resp.Array {
		return v.Text()
	}
	var parts []string
	for _, e := range v.Elems {
		if e.Kind == resp.Array {
			parts = append(parts, "")
			continue
		}
		parts = append(parts, e.Text())
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// TestInfo holds the fields that exporters and clients read.
func TestInfo(t *testing.T) {
	n := alone(t, nil)
	run(t, n, 2, "SET", "k", "v")
	run(t, n, 2, "GET", "k")
	run(t, n, 2, "GET", "absent")
	run(t, n, 2, "MGET", "a", "b")
	all := run(t, n, 2, "INFO", "everything").Text()
	for _, want := range []string{
		"# Server\r\n", "redis_version:7.4.0\r\n", "redis_mode:cluster\r\n", "arch_bits:64\r\n", "tcp_port:7001\r\n", "uptime_in_seconds:",
		"connected_clients:", "maxclients:10000\r\n", "used_memory:", "used_memory_human:", "used_memory_rss:", "used_memory_peak:", "used_memory_dataset:", "allocator_frag_ratio:", "ringcache_arena_bytes:", "ringcache_live_bytes:", "ringcache_index_bytes:", "maxmemory:67108864\r\n",
		"maxmemory_human:64.00M\r\n", "maxmemory_policy:s3fifo\r\n", "mem_fragmentation_ratio:", "loading:0\r\n", "rdb_last_bgsave_status:ok\r\n", "aof_enabled:0\r\n",
		"total_connections_received:", "total_commands_processed:", "instantaneous_ops_per_sec:", "keyspace_hits:1\r\n", "keyspace_misses:1\r\n",
		"expired_keys:0\r\n", "evicted_keys:0\r\n", "role:master\r\n", "connected_slaves:0\r\n", "master_repl_offset:0\r\n", "used_cpu_sys:",
		"# Modules\r\n", "cmdstat_get:calls=2,", "errorstat_CROSSSLOT:count=1\r\n", "total_error_replies:1\r\n", "cluster_enabled:1\r\n", "db0:keys=1,expires=0,avg_ttl=0",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("INFO lacks %q", want)
		}
	}
	if usual := run(t, n, 2, "INFO").Text(); strings.Contains(usual, "cmdstat_") || !strings.Contains(usual, "# Keyspace") {
		t.Error("INFO without a section: commandstats are not usual, keyspace is")
	}
	if some := run(t, n, 3, "INFO", "replication", "CLUSTER"); some.Kind != resp.Verbatim ||
		!strings.HasPrefix(some.Text(), "# Replication\r\n") || !strings.Contains(some.Text(), "cluster_enabled:1\r\nringcache_state:active\r\nringcache_presence:1\r\nringcache_slots_opening:0\r\nringcache_slots_releasing:0\r\nringcache_handoff_windows:0\r\n") ||
		!strings.Contains(some.Text(), "ringcache_handoff_given_bytes:0\r\n") ||
		!strings.Contains(some.Text(), "ringcache_view_looks:0\r\nringcache_view_losses:0\r\nringcache_degraded:no\r\nringcache_degraded_peers:0\r\n") {
		t.Errorf("INFO replication cluster: %v %q", some.Kind, some.Text())
	}
}

func TestShutdown(t *testing.T) {
	asked := make(chan string, 2)
	n := alone(t, func(o *Options) { o.OnShutdown = func(why string) { asked <- why } })
	for _, args := range [][]string{{"SAVE", "NOSAVE"}, {"ABORT", "NOW"}, {"LATER"}} {
		if v := run(t, n, 2, append([]string{"SHUTDOWN"}, args...)...); v.Text() != "ERR syntax error" {
			t.Errorf("%q: %q", args, v.Text())
		}
	}
	for range 2 {
		s, w := &fakeSession{}, resp.Writer{Proto: 2}
		n.Exec(s, command.Lookup([]byte("shutdown")), [][]byte{[]byte("SHUTDOWN"), []byte("NOSAVE")}, &w)
		// redis-py takes any reply for a failure.
		if len(w.Buf) != 0 || !s.closed {
			t.Fatalf("reply %q, session closed %v; want none and closed", w.Buf, s.closed)
		}
	}
	if why := <-asked; why != "SHUTDOWN" {
		t.Errorf("reason %q", why)
	}
	select {
	case <-asked:
		t.Error("asked twice")
	default:
	}
}

// CLUSTER GETKEYSINSLOT copied every key of a slot, whatever their size.
func TestKeysInSlotIsBoundedByTheOutputLimit(t *testing.T) {
	n := alone(t, nil)
	for i := range 50 {
		run(t, n, 2, "SET", "{t}"+strings.Repeat("k", 1000)+strconv.Itoa(i), "v")
	}
	slot := run(t, n, 2, "CLUSTER", "KEYSLOT", "{t}").Text()
	ask := func(count string, limit int) string {
		w := resp.Writer{Proto: 2, Limit: limit}
		cmd := command.Lookup([]byte("cluster")).Sub([]byte("getkeysinslot"))
		n.Exec(&fakeSession{}, cmd, [][]byte{[]byte("CLUSTER"), []byte("GETKEYSINSLOT"), []byte(slot), []byte(count)}, &w)
		return string(w.Buf)
	}
	if got := ask("50", 10_000); !strings.HasPrefix(got, "-RCTOOLARGE the reply is above 10000 bytes") {
		t.Errorf("%.80q", got)
	}
	if got := ask("3", 10_000); !strings.HasPrefix(got, "*3\r\n$10") {
		t.Errorf("%.80q", got)
	}
}

// TestExecAllocates holds the budget of the hot path: a served GET and SET
// allocate nothing, a MOVED its text.
func TestExecAllocates(t *testing.T) {
	n := alone(t, nil)
	run(t, n, 2, "SET", "k", "v")
	for _, tc := range []struct {
		args string
		most float64
	}{{"GET k", 0}, {"SET k value", 0}, {"MGET {k}1 {k}2 {k}3", 0}, {"INCR n", 0}} {
		t.Run(tc.args, func(t *testing.T) {
			var args [][]byte
			for _, a := range strings.Fields(tc.args) {
				args = append(args, []byte(a))
			}
			cmd := lookup(t, args[0])
			w := resp.Writer{Proto: 2, Buf: make([]byte, 0, 1<<10)}
			s := &fakeSession{}
			if got := testing.AllocsPerRun(200, func() {
				w.Buf = w.Buf[:0]
				n.Exec(s, cmd, args, &w)
			}); got > tc.most {
				t.Errorf("%v allocations, budget %v", got, tc.most)
			}
		})
	}
}
