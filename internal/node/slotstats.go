package node

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

const (
	errSyntax  = "ERR syntax error"
	errBadSlot = "ERR Invalid or out of range slot"
)

// slotFigures are the figures of one slot; the last three only where they are
// counted.
type slotFigures struct {
	slot uint16
	engine.SlotStats
	micros, in, out int64
}

// slotMetric is one of the figures that SLOT-STATS shows and sorts by.
type slotMetric struct {
	name    string
	counted bool // only while cluster-slot-stats-enabled is on
	of      func(f *slotFigures) int64
}

// slotMetrics are those of Redis and Valkey, which count keys and bytes always.
var slotMetrics = []slotMetric{
	{"key-count", false, func(f *slotFigures) int64 { return f.Keys }},
	{"memory-bytes", false, func(f *slotFigures) int64 { return f.Bytes }},
	{"cpu-usec", true, func(f *slotFigures) int64 { return f.micros }},
	{"network-bytes-in", true, func(f *slotFigures) int64 { return f.in }},
	{"network-bytes-out", true, func(f *slotFigures) int64 { return f.out }},
}

// slotStats answers CLUSTER SLOT-STATS SLOTSRANGE start end | ORDERBY metric
// [LIMIT n] [ASC | DESC].
func (n *Node) slotStats(args [][]byte, w *resp.Writer) {
	switch {
	case isWord(args[2], "slotsrange") && len(args) == 5:
		first, ok1 := resp.ParseInt(args[3])
		last, ok2 := resp.ParseInt(args[4])
		switch {
		case !ok1 || !ok2 || !validSlot(first) || !validSlot(last):
			w.Error(errBadSlot)
		case first > last:
			w.Error("ERR Start slot number " + string(args[3]) + " is greater than end slot number " + string(args[4]))
		default:
			n.writeSlots(w, n.ownSlots(uint16(first), uint16(last)))
		}
	case isWord(args[2], "orderby"):
		n.slotsInOrder(args[3:], w)
	default:
		w.Error("ERR unknown subcommand or wrong number of arguments for '" + string(args[1]) + "'. Try CLUSTER HELP.")
	}
}

// slotsInOrder answers ORDERBY.
func (n *Node) slotsInOrder(args [][]byte, w *resp.Writer) {
	counted := n.accounts.kept()
	by := slices.IndexFunc(slotMetrics, func(m slotMetric) bool { return isWord(args[0], m.name) && (counted || !m.counted) })
	if by < 0 {
		w.Error("ERR Unrecognized sort metric for ORDERBY.")
		return
	}
	limit, up := int64(ring.Slots), false
	limits, orders := 0, 0
	for i := 1; i < len(args); i++ {
		switch {
		case isWord(args[i], "limit") && i+1 < len(args):
			i++
			limits++
			var ok bool
			if limit, ok = resp.ParseInt(args[i]); !ok || limit < 1 || limit > ring.Slots {
				w.Error("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).")
				return
			}
		case isWord(args[i], "asc"), isWord(args[i], "desc"):
			up = isWord(args[i], "asc")
			orders++
		default:
			w.Error(errSyntax)
			return
		}
		if limits > 1 || orders > 1 {
			w.Error("ERR Multiple filters of the same type are disallowed.")
			return
		}
	}
	all := n.ownSlots(0, ring.Slots-1)
	of := slotMetrics[by].of
	slices.SortFunc(all, func(a, b slotFigures) int {
		c := cmp.Compare(of(&a), of(&b))
		if !up {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.slot, b.slot))
	})
	n.writeSlots(w, all[:min(int(limit), len(all))])
}

// ownSlots gives the figures of the slots between two, both included, that this
// node serves.
func (n *Node) ownSlots(first, last uint16) (out []slotFigures) {
	for slot := int(first); slot <= int(last); slot++ {
		if !n.eng.Serving(uint16(slot)) {
			continue
		}
		f := slotFigures{slot: uint16(slot), SlotStats: n.eng.SlotStats(uint16(slot))}
		f.micros, f.in, f.out = n.accounts.show(f.slot)
		out = append(out, f)
	}
	return out
}

func (n *Node) writeSlots(w *resp.Writer, all []slotFigures) {
	counted := n.accounts.kept()
	shown := slices.DeleteFunc(slices.Clone(slotMetrics), func(m slotMetric) bool { return m.counted && !counted })
	w.Array(len(all))
	for i := range all {
		w.Array(2)
		w.Int(int64(all[i].slot))
		w.Map(len(shown))
		for _, m := range shown {
			w.BulkString(m.name)
			w.Int(m.of(&all[i]))
		}
	}
}

func isWord(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}
