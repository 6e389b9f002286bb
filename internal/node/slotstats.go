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

// slotFigures are the figures of one slot.
type slotFigures struct {
	slot uint16
	engine.SlotStats
}

// slotStats answers CLUSTER SLOT-STATS SLOTSRANGE start end | ORDERBY metric
// [LIMIT n] [ASC | DESC]. Processor time and network bytes are not counted for
// each slot, so they are neither shown nor sorted by.
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
			writeSlots(w, n.ownSlots(uint16(first), uint16(last)))
		}
	case isWord(args[2], "orderby"):
		n.slotsInOrder(args[3:], w)
	default:
		w.Error(errSyntax)
	}
}

// slotsInOrder answers ORDERBY.
func (n *Node) slotsInOrder(args [][]byte, w *resp.Writer) {
	var of func(f *slotFigures) int64
	switch {
	case isWord(args[0], "key-count"):
		of = func(f *slotFigures) int64 { return f.Keys }
	case isWord(args[0], "memory-bytes"):
		of = func(f *slotFigures) int64 { return f.Bytes }
	default:
		w.Error("ERR Unrecognized sort metric for ORDERBY.")
		return
	}
	limit, up := int64(ring.Slots), false
	for i := 1; i < len(args); i++ {
		switch {
		case isWord(args[i], "limit") && i+1 < len(args):
			var ok bool
			if limit, ok = resp.ParseInt(args[i+1]); !ok || limit < 1 || limit > ring.Slots {
				w.Error("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).")
				return
			}
			i++
		case isWord(args[i], "asc"):
			up = true
		case isWord(args[i], "desc"):
			up = false
		default:
			w.Error(errSyntax)
			return
		}
	}
	all := n.ownSlots(0, ring.Slots-1)
	slices.SortFunc(all, func(a, b slotFigures) int {
		c := cmp.Compare(of(&a), of(&b))
		if !up {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.slot, b.slot))
	})
	writeSlots(w, all[:min(int(limit), len(all))])
}

// ownSlots gives the figures of the slots between two, both included, that this
// node serves.
func (n *Node) ownSlots(first, last uint16) (out []slotFigures) {
	for slot := int(first); slot <= int(last); slot++ {
		if n.eng.Serving(uint16(slot)) {
			out = append(out, slotFigures{uint16(slot), n.eng.SlotStats(uint16(slot))})
		}
	}
	return out
}

func writeSlots(w *resp.Writer, all []slotFigures) {
	w.Array(len(all))
	for _, f := range all {
		w.Array(2)
		w.Int(int64(f.slot))
		w.Map(2)
		w.BulkString("key-count")
		w.Int(f.Keys)
		w.BulkString("memory-bytes")
		w.Int(f.Bytes)
	}
}

func isWord(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}
