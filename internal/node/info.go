package node

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/latency"
	"github.com/ringcache/ringcache/internal/resp"
)

// section is one part of INFO. Those that are not usual appear only when asked
// for by name, "all" or "everything".
type section struct {
	name  string
	usual bool
	write func(n *Node, t *infoText)
}

var infoSections = []section{
	{"Server", true, infoServer},
	{"Clients", true, infoClients},
	{"Memory", true, infoMemory},
	{"Persistence", true, infoPersistence},
	{"Stats", true, infoStats},
	{"Replication", true, infoReplication},
	{"CPU", true, infoCPU},
	{"Modules", true, func(*Node, *infoText) {}},
	{"Commandstats", false, infoCommands},
	{"Errorstats", true, infoErrors},
	{"Latencystats", false, infoLatency},
	{"Cluster", true, infoCluster},
	{"Peers", false, infoPeers},
	{"Keyspace", true, infoKeyspace},
}

type infoText struct{ strings.Builder }

func (t *infoText) add(name string, value any) { fmt.Fprintf(t, "%s:%v\r\n", name, value) }

// info answers INFO [section ...].
func (n *Node) info(args [][]byte, w *resp.Writer) {
	want := map[string]bool{}
	for _, a := range args[1:] {
		want[strings.ToLower(string(a))] = true
	}
	w.Verbatim("txt", n.infoText(want))
}

// Info is the text of INFO with every section.
func (n *Node) Info() string { return n.infoText(map[string]bool{"everything": true}) }

// ClusterInfo is the text of CLUSTER INFO.
func (n *Node) ClusterInfo() string {
	var sent, received uint64
	if m := n.membership(); m != nil {
		sent, received = m.Messages()
	}
	return n.pub.Load().info() + "cluster_stats_messages_sent:" + strconv.FormatUint(sent, 10) +
		"\r\ncluster_stats_messages_received:" + strconv.FormatUint(received, 10) + "\r\n"
}

func (n *Node) infoText(want map[string]bool) string {
	every := want["all"] || want["everything"]
	usual := every || len(want) == 0 || want["default"]
	var t infoText
	for _, s := range infoSections {
		if !want[strings.ToLower(s.name)] && !every && !(usual && s.usual) {
			continue
		}
		if t.Len() > 0 {
			t.WriteString("\r\n")
		}
		t.WriteString("# " + s.name + "\r\n")
		s.write(n, &t)
	}
	return t.String()
}

func infoServer(n *Node, t *infoText) {
	up := (n.clock.millis() - n.started.UnixMilli()) / 1000
	t.add("redis_version", n.o.Version)
	t.add("redis_git_sha1", "00000000")
	t.add("redis_git_dirty", 0)
	t.add("redis_build_id", "ringcache")
	t.add("server_name", "ringcache")
	t.add("redis_mode", "cluster")
	t.add("os", runtime.GOOS+" "+runtime.GOARCH)
	t.add("arch_bits", 64)
	t.add("monotonic_clock", "go")
	t.add("multiplexing_api", "go")
	t.add("gcc_version", runtime.Version())
	t.add("process_id", os.Getpid())
	t.add("process_supervised", "no")
	t.add("run_id", n.id.String())
	t.add("tcp_port", n.o.Port)
	t.add("server_time_usec", n.clock.millis()*1000)
	t.add("uptime_in_seconds", up)
	t.add("uptime_in_days", up/86400)
	t.add("hz", 10)
	t.add("configured_hz", 10)
	t.add("lru_clock", n.clock.millis()/1000&(1<<24-1))
	t.add("executable", "ringcache")
	t.add("config_file", n.diag.configFile)
	t.add("io_threads_active", 0)
}

func (n *Node) frontStats() (s FrontStats) {
	if n.front != nil {
		return n.front.Stats()
	}
	return s
}

func infoClients(n *Node, t *infoText) {
	f := n.frontStats()
	t.add("connected_clients", f.Connected)
	t.add("cluster_connections", f.Peers)
	t.add("maxclients", n.settings.clients())
	t.add("ringcache_buffer_bytes", f.BufferBytes)
	t.add("ringcache_buffer_limit", f.BufferLimit)
	t.add("ringcache_buffer_refusals", f.BufferRefusals)
	t.add("client_recent_max_input_buffer", f.RecentInput)
	t.add("client_recent_max_output_buffer", f.RecentOutput)
	t.add("blocked_clients", f.Waiting+n.waiting.Load())
	clients, _, _, _ := n.track.figures()
	t.add("tracking_clients", clients)
	t.add("watching_clients", n.watchers.Load())
	t.add("pubsub_clients", f.Listening)
	t.add("clients_in_timeout_table", 0)
	t.add("total_watched_keys", n.watchedKeys.Load())
	t.add("total_blocking_keys", 0)
	t.add("total_blocking_keys_on_nokey", 0)
}

// human writes bytes as Redis does: "1.50M".
func human(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "K", "M", "G", "T"} {
		if f < 1024 || unit == "T" {
			if unit == "B" {
				return fmt.Sprintf("%dB", n)
			}
			return fmt.Sprintf("%.2f%s", f, unit)
		}
		f /= 1024
	}
	return ""
}

func infoPersistence(_ *Node, t *infoText) {
	for _, name := range []string{"loading", "async_loading", "rdb_changes_since_last_save", "rdb_bgsave_in_progress", "rdb_last_save_time", "rdb_saves",
		"rdb_last_cow_size", "rdb_last_load_keys_expired", "rdb_last_load_keys_loaded"} {
		t.add(name, 0)
	}
	t.add("rdb_last_bgsave_status", "ok")
	t.add("rdb_last_bgsave_time_sec", -1)
	t.add("rdb_current_bgsave_time_sec", -1)
	for _, name := range []string{"aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled"} {
		t.add(name, 0)
	}
	t.add("aof_last_rewrite_time_sec", -1)
	t.add("aof_current_rewrite_time_sec", -1)
	t.add("aof_last_bgrewrite_status", "ok")
	t.add("aof_last_write_status", "ok")
	t.add("aof_last_cow_size", 0)
	t.add("module_fork_in_progress", 0)
	t.add("module_fork_last_cow_size", 0)
}

func infoStats(n *Node, t *infoText) {
	f, st := n.frontStats(), n.eng.Stats()
	t.add("total_connections_received", f.Total)
	t.add("total_commands_processed", n.totalCommands())
	t.add("instantaneous_ops_per_sec", int64(f.CommandsPerSec))
	t.add("total_net_input_bytes", f.NetIn)
	t.add("total_net_output_bytes", f.NetOut)
	t.add("instantaneous_input_kbps", fmt.Sprintf("%.2f", f.NetInPerSec/1024))
	t.add("instantaneous_output_kbps", fmt.Sprintf("%.2f", f.NetOutPerSec/1024))
	t.add("total_net_repl_input_bytes", 0)
	t.add("total_net_repl_output_bytes", 0)
	t.add("rejected_connections", f.Rejected)
	for _, name := range []string{"sync_full", "sync_partial_ok", "sync_partial_err"} {
		t.add(name, 0)
	}
	t.add("expired_keys", st.Expired)
	t.add("expired_stale_perc", "0.00")
	t.add("evicted_keys", st.Evicted)
	t.add("evicted_clients", 0)
	t.add("total_eviction_exceeded_time", 0)
	t.add("current_eviction_exceeded_time", 0)
	t.add("keyspace_hits", st.Hits)
	t.add("keyspace_misses", st.Misses)
	t.add("pubsub_channels", f.Channels)
	t.add("pubsub_patterns", f.Patterns)
	t.add("pubsubshard_channels", f.ShardChannels)
	t.add("ringcache_pubsub_sent", n.casts.sent.Load())       // to peers, once for each
	t.add("ringcache_pubsub_dropped", n.casts.dropped.Load()) // a peer was too slow, or away
	for _, name := range []string{"latest_fork_usec", "total_forks", "migrate_cached_sockets",
		"slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses"} {
		t.add(name, 0)
	}
	_, keys, items, prefixes := n.track.figures()
	t.add("tracking_total_keys", keys)
	t.add("tracking_total_items", items)
	t.add("tracking_total_prefixes", prefixes)
	t.add("unexpected_error_replies", 0)
	t.add("total_error_replies", n.counts.errors.Load())
	t.add("dump_payload_sanitizations", 0)
	t.add("total_reads_processed", f.Reads)
	t.add("total_writes_processed", f.Writes)
	t.add("io_threaded_reads_processed", 0)
	t.add("io_threaded_writes_processed", 0)
	t.add("client_query_buffer_limit_disconnections", 0) // commands are refused instead
	t.add("client_output_buffer_limit_disconnections", f.OutputLimit)
	t.add("acl_access_denied_auth", f.DeniedAuth)
	t.add("acl_access_denied_cmd", f.DeniedCommand)
	t.add("acl_access_denied_key", f.DeniedKey)
	t.add("acl_access_denied_channel", f.DeniedChannel)
	t.add("reply_buffer_shrinks", 0)
	t.add("reply_buffer_expands", 0)
}

func infoReplication(n *Node, t *infoText) {
	t.add("role", "master")
	t.add("connected_slaves", 0)
	t.add("master_failover_state", "no-failover")
	t.add("master_replid", n.id.String())
	t.add("master_replid2", strings.Repeat("0", 40))
	t.add("master_repl_offset", 0)
	t.add("second_repl_offset", -1)
	t.add("repl_backlog_active", 0)
	t.add("repl_backlog_size", 1<<20)
	t.add("repl_backlog_first_byte_offset", 0)
	t.add("repl_backlog_histlen", 0)
	n.infoCopies(t)
}

func infoCPU(_ *Node, t *infoText) {
	user, system := cpuSeconds()
	t.add("used_cpu_sys", fmt.Sprintf("%.6f", system))
	t.add("used_cpu_user", fmt.Sprintf("%.6f", user))
	t.add("used_cpu_sys_children", "0.000000")
	t.add("used_cpu_user_children", "0.000000")
}

// eachUsed calls fn for every command that was called or refused.
func (n *Node) eachUsed(fn func(c *command.Command, s *latency.Summary)) {
	visit := func(c *command.Command) {
		s := n.counts.of(c.ID)
		if (s.Count > 0 || n.counts.rejected[c.ID].Load() > 0) && !c.Flags.Has(command.Internal) {
			fn(c, &s)
		}
	}
	for _, c := range command.All() {
		visit(c)
		for _, s := range c.Subs {
			visit(s)
		}
	}
}

func infoCommands(n *Node, t *infoText) {
	n.eachUsed(func(c *command.Command, s *latency.Summary) {
		t.add("cmdstat_"+c.FullName(), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			s.Count, s.Sum.Microseconds(), micros(s.Sum)/float64(max(s.Count, 1)), n.counts.rejected[c.ID].Load(), n.counts.failed[c.ID].Load()))
	})
}

func infoLatency(n *Node, t *infoText) {
	n.eachUsed(func(c *command.Command, s *latency.Summary) {
		if s.Count > 0 {
			t.add("latency_percentiles_usec_"+c.FullName(), fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f",
				micros(s.Percentile(50)), micros(s.Percentile(99)), micros(s.Percentile(99.9))))
		}
	})
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func infoErrors(n *Node, t *infoText) {
	codes := n.counts.errorCodes()
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		t.add("errorstat_"+code, fmt.Sprintf("count=%d", codes[code]))
	}
}

func infoCluster(n *Node, t *infoText) {
	t.add("cluster_enabled", 1)
	self := n.selfMember()
	t.add("ringcache_state", self.State)
	t.add("ringcache_presence", self.Presence()) // which part of its slots this node owns, while it joins or leaves
	opening, releasing := n.barrier.Progress()
	t.add("ringcache_slots_opening", opening)     // owned by the View, not yet served here
	t.add("ringcache_slots_releasing", releasing) // still served here for their next owner
	infoHandoff(n, t)
	infoChanges(n, t)
	t.add("ringcache_view_looks", n.gate.looks.Load())   // after a silence, see AwaitFresh
	t.add("ringcache_view_losses", n.gate.denied.Load()) // of them, those that found the slots taken over
	why := "no"
	if w := n.degraded.Load(); w != nil {
		why = *w
	}
	t.add("ringcache_degraded", why)
	degraded := 0
	for _, p := range n.pub.Load().snap.Members {
		if p.ID != n.id && (p.Degraded || p.Failing) {
			degraded++
		}
	}
	t.add("ringcache_degraded_peers", degraded)
}

func infoKeyspace(n *Node, t *infoText) {
	if st := n.eng.Stats(); st.ServedKeys > 0 {
		t.add("db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0,subexpiry=0", st.ServedKeys, min(st.Volatile-st.SpareVolatile, st.ServedKeys)))
	}
}
