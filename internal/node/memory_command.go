package node

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// purgeEvery is the least time in ms between two purges: each runs the collector.
const purgeEvery = 1000

// memoryCommand answers MEMORY, except for what is about one key.
func (n *Node) memoryCommand(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	switch cmd.ID {
	case command.MemoryStats:
		n.memoryStats(w)
	case command.MemoryDoctor:
		w.Verbatim("txt", n.memoryDoctor())
	case command.MemoryMallocStats:
		var t infoText
		infoMemory(n, &t)
		w.Verbatim("txt", t.String())
	case command.MemoryPurge:
		now := n.clock.millis()
		if last := n.diag.purged.Load(); now-last >= purgeEvery && n.diag.purged.CompareAndSwap(last, now) {
			debug.FreeOSMemory()
		}
		w.Simple("OK")
	default:
		n.onData(s, cmd, args, w)
	}
}

// memoryStats answers MEMORY STATS: the figures of INFO memory under Redis's
// names.
func (n *Node) memoryStats(w *resp.Writer) {
	m := n.memoryFigures()
	n.settings.notePeak(m.used)
	peak := n.settings.peak.Load()
	ratio := func(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }
	frag, beyond := 1.0, int64(0)
	if m.used > 0 {
		frag, beyond = ratio(m.rss, m.used), m.rss-m.used
	}
	perKey := int64(0)
	if m.st.Keys > 0 {
		perKey = m.dataset / m.st.Keys
	}
	figures := []struct {
		name  string
		value any
	}{
		{"peak.allocated", peak}, {"total.allocated", m.used}, {"startup.allocated", int64(0)}, {"replication.backlog", int64(0)},
		{"clients.slaves", int64(0)}, {"clients.normal", m.buffers}, {"cluster.links", int64(0)}, {"aof.buffer", int64(0)},
		{"lua.caches", int64(0)}, {"functions.caches", int64(0)},
		{"overhead.total", m.overhead}, {"keys.count", m.st.Keys}, {"keys.bytes-per-key", perKey}, {"dataset.bytes", m.dataset},
		{"dataset.percentage", 100 * ratio(m.dataset, m.used)}, {"peak.percentage", 100 * ratio(m.used, peak)},
		{"allocator.allocated", m.allocated}, {"allocator.active", m.active}, {"allocator.resident", m.settled},
		{"allocator-fragmentation.ratio", ratio(m.active, m.allocated)}, {"allocator-fragmentation.bytes", m.active - m.allocated},
		{"allocator-rss.ratio", ratio(m.settled, m.active)}, {"allocator-rss.bytes", m.settled - m.active},
		{"rss-overhead.ratio", ratio(m.rss, m.settled)}, {"rss-overhead.bytes", m.rss - m.settled},
		{"fragmentation", frag}, {"fragmentation.bytes", beyond},
	}
	w.Map(len(figures))
	for _, f := range figures {
		w.BulkString(f.name)
		switch v := f.value.(type) {
		case int64:
			w.Int(v)
		case float64:
			w.Double(v)
		}
	}
}

// littleMemory is the memory below which MEMORY DOCTOR finds nothing, as in Redis.
const littleMemory = 5 << 20

// memoryDoctor says what about the memory of the node is remarkable.
func (n *Node) memoryDoctor() string {
	m := n.memoryFigures()
	if m.used < littleMemory {
		return "This node holds little: there is nothing to find yet.\n"
	}
	var b strings.Builder
	note := func(format string, a ...any) { fmt.Fprintf(&b, " * "+format+"\n", a...) }
	if m.st.DeadBytes > m.used/4 {
		note("%s of %s are of entries that are gone; they are used again as new ones come.", human(m.st.DeadBytes), human(m.used))
	}
	if m.buffers > m.used/4 {
		note("Connections hold %s of %s in buffers: clients send long commands or do not read their replies (CLIENT LIST: qbuf, omem).", human(m.buffers), human(m.used))
	}
	if m.st.OutsideBytes > m.st.MaxBytes/8 {
		note("%s of maxmemory are not available to entries: buffers and the Go runtime hold them.", human(m.st.OutsideBytes))
	}
	if m.rss > m.used+m.runtime+64<<20 && m.rss > m.used*3/2 {
		note("The process holds %s of memory for %s in use; MEMORY PURGE gives back what the runtime has free.", human(m.rss), human(m.used))
	}
	if b.Len() == 0 {
		return "Nothing is wrong with the memory of this node.\n"
	}
	return "What is remarkable about the memory of this node:\n\n" + b.String()
}
