package node

import (
	"fmt"

	"github.com/ringcache/ringcache/internal/engine"
)

// memoryFigures are the memory of a node as INFO tells it. used is what counts
// against max-memory: the arena, session buffers, and what the engine keeps
// beside the arena. The Go runtime is the allocator of the rest.
type memoryFigures struct {
	st                         engine.Stats
	used, dataset, overhead    int64
	allocated, active, settled int64 // by both allocators: in use, of blocks that are, of the system
	runtime, rss, buffers      int64
}

func (n *Node) memoryFigures() (m memoryFigures) {
	m.st, m.buffers = n.eng.Stats(), n.frontStats().BufferBytes
	m.runtime, m.rss = runtimeBytes(), residentBytes()
	live := m.st.LiveBytes + m.st.ChainBytes
	m.used = m.st.ArenaBytes + m.buffers + m.st.WindowBytes + m.st.FeedBytes
	m.dataset = min(live, m.used)
	m.overhead = m.used - m.dataset
	m.allocated = live + m.st.IndexBytes + m.st.GhostBytes + m.runtime
	m.active = m.st.ArenaBytes + m.runtime
	m.settled = m.active + m.st.SlackBytes
	return m
}

func infoMemory(n *Node, t *infoText) {
	m := n.memoryFigures()
	st := &m.st
	n.settings.notePeak(m.used)
	peak := n.settings.peak.Load()
	both := func(name string, v int64) {
		t.add(name, v)
		t.add(name+"_human", human(v))
	}
	share := func(a, b int64) string { return fmt.Sprintf("%.2f%%", 100*float64(a)/float64(max(b, 1))) }
	ratio := func(name string, a, b int64) {
		t.add(name+"_ratio", fmt.Sprintf("%.2f", float64(a)/float64(max(b, 1))))
		t.add(name+"_bytes", a-b)
	}
	both("used_memory", m.used)
	both("used_memory_rss", m.rss)
	both("used_memory_peak", peak)
	t.add("used_memory_peak_perc", share(m.used, peak))
	t.add("used_memory_overhead", m.overhead)
	t.add("used_memory_startup", 0)
	t.add("used_memory_dataset", m.dataset)
	t.add("used_memory_dataset_perc", share(m.dataset, m.used))
	t.add("allocator_allocated", m.allocated)
	t.add("allocator_active", m.active)
	t.add("allocator_resident", m.settled)
	both("total_system_memory", systemBytes())
	both("used_memory_lua", 0)
	n.infoScripts(t)
	both("maxmemory", st.MaxBytes)
	t.add("maxmemory_policy", policyName(n.eng.Policy()))
	t.add("ringcache_small_queue_percent", st.SmallShare)
	for i, c := range st.Classes {
		t.add(fmt.Sprintf("ringcache_class%d", i), fmt.Sprintf("prefix=%q,rank=%d,quota=%d,bytes=%d,evicted=%d", c.Prefix, c.Rank, c.Quota, c.Bytes, c.Evicted))
	}
	ratio("allocator_frag", m.active, m.allocated)
	ratio("allocator_rss", m.settled, m.active)
	ratio("rss_overhead", m.rss, m.settled)
	frag, beyond := 1.0, int64(0)
	if m.used > 0 { // an empty node is not fragmented
		frag, beyond = float64(m.rss)/float64(m.used), m.rss-m.used
	}
	t.add("mem_fragmentation_ratio", fmt.Sprintf("%.2f", frag))
	t.add("mem_fragmentation_bytes", beyond)
	t.add("mem_not_counted_for_evict", 0)
	t.add("mem_replication_backlog", 0)
	t.add("mem_total_replication_buffers", 0)
	t.add("mem_clients_slaves", 0)
	t.add("mem_clients_normal", m.buffers)
	t.add("mem_cluster_links", 0)
	t.add("mem_aof_buffer", 0)
	t.add("mem_allocator", "arena")
	t.add("active_defrag_running", 0)
	t.add("lazyfree_pending_objects", 0)
	t.add("lazyfreed_objects", 0)
	t.add("ringcache_arena_bytes", st.ArenaBytes)
	t.add("ringcache_live_bytes", st.LiveBytes+st.ChainBytes)
	t.add("ringcache_dead_bytes", st.DeadBytes)
	t.add("ringcache_unfilled_bytes", st.FreeBytes)
	t.add("ringcache_index_bytes", st.IndexBytes)
	t.add("ringcache_ghost_bytes", st.GhostBytes)
	t.add("ringcache_slack_bytes", st.SlackBytes)
	t.add("ringcache_window_bytes", st.WindowBytes)
	t.add("ringcache_feed_bytes", st.FeedBytes)
	t.add("ringcache_replica_keys", st.SpareKeys) // copies of what others serve; they leave first
	t.add("ringcache_replica_bytes", st.SpareBytes)
	t.add("ringcache_outside_bytes", st.OutsideBytes)
	t.add("ringcache_runtime_bytes", m.runtime)
}

// infoScripts tells what an implementation of Scripts that can tell keeps: how many
// scripts, with how many bytes of source.
func (n *Node) infoScripts(t *infoText) {
	scripts, sources := 0, int64(0)
	if k, ok := n.o.Scripts.(interface{ Kept() (int, int64) }); ok {
		scripts, sources = k.Kept()
	}
	t.add("used_memory_scripts_eval", sources)
	t.add("number_of_cached_scripts", scripts)
	t.add("number_of_functions", 0)
	t.add("number_of_libraries", 0)
	t.add("used_memory_functions", 0)
	t.add("used_memory_scripts", sources)
	t.add("used_memory_scripts_human", human(sources))
}
