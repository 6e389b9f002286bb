package topology

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

// Limits of pins. There is one record for each slot at most, so ring.Slots of
// them.
const (
	MaxPinNodes = 16      // nodes of one pin
	MaxPinGroup = 32      // bytes of a group's name
	MaxPinStamp = 1 << 62 // greatest stamp that is taken from others

	pinRecordLeast = 1 + 2 + 8 + 20 + 1 + 1
)

// PinRecord is the latest word about the pin of one slot. Records of one slot
// are ordered by Stamp, then by Writer, then by their bytes, and the greatest
// stands: a map of last writers, which nodes may exchange in any order. A
// record without Nodes says that the slot is not pinned any more; it stays, so
// that an older pin does not come back.
type PinRecord struct {
	Slot uint16 `json:"slot"`
	// Stamp is greater than any that Writer had seen, and at least its clock, in
	// ms since 1970.
	Stamp  uint64 `json:"stamp"`
	Writer NodeID `json:"writer"`
	// Group names pins that belong together; may be empty.
	Group string `json:"group,omitempty"`
	// Nodes own the slot, one of those that are present; see ResolvePins.
	Nodes []NodeID `json:"nodes"`
}

// Validate returns all faults of a record.
func (r *PinRecord) Validate() error {
	var faults []error
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("pin of slot %d: "+format, append([]any{r.Slot}, args...)...))
	}
	if r.Slot >= ring.Slots {
		add("the last slot is %d", ring.Slots-1)
	}
	if r.Stamp > MaxPinStamp {
		add("stamp %d is above %d", r.Stamp, uint64(MaxPinStamp))
	}
	if len(r.Nodes) > MaxPinNodes {
		add("%d nodes, limit %d", len(r.Nodes), MaxPinNodes)
	}
	if len(r.Group) > MaxPinGroup || !printable(r.Group) {
		add("group %.40q is not a name of at most %d bytes without spaces", r.Group, MaxPinGroup)
	}
	return errors.Join(faults...)
}

func comparePins(a, b *PinRecord) int {
	if c := cmp.Or(cmp.Compare(a.Stamp, b.Stamp), a.Writer.Compare(b.Writer)); c != 0 {
		return c
	}
	return bytes.Compare(appendPin(nil, a), appendPin(nil, b))
}

// MergePins returns the latest record of each slot in a or b, sorted by slot. It
// is commutative, associative and idempotent, so that nodes which hear the same
// records in any order end with the same ones. It changes neither argument.
func MergePins(a, b []PinRecord) []PinRecord {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y PinRecord) int {
		return cmp.Or(cmp.Compare(x.Slot, y.Slot), comparePins(&y, &x)) // latest first
	})
	return slices.CompactFunc(all, func(x, y PinRecord) bool { return x.Slot == y.Slot })
}

// ResolvePins gives each pinned slot to the nodes that own it, the first choice last,
// as NewView takes them. Of several nodes of a pin the choice is by the hash of node and
// slot, the greatest first (rendezvous hashing: Thaler and Ravishankar 1998), among
// those that are present: when one of them leaves, only the slots that it had move, and
// they stay among the others. Behind a node that is present in part comes the next
// choice, for the slots that do not see it: so pinned slots change hands in steps like all
// others. The second that is present in full is the last: the slot's successor, where
// the first is its owner. There are maxChoices at most. Without anybody present the pin
// has no effect, see NewView. It is a pure function of records, which are sorted, and
// members.
func ResolvePins(records []PinRecord, members []Member) []ring.Pin {
	if len(records) == 0 {
		return nil
	}
	presence := make(map[NodeID]float64, len(members))
	for i := range members {
		presence[members[i].ID] = members[i].Presence()
	}
	var out []ring.Pin
	var choices []choice
	for i := range records {
		r := &records[i]
		choices = choices[:0]
		best := choice{} // of all, present or not
		for _, id := range r.Nodes {
			c := choice{id, xxh3.HashSeed(id[:], uint64(r.Slot))}
			if best.id.IsZero() || c.before(best) < 0 {
				best = c
			}
			if presence[id] > 0 {
				choices = append(choices, c)
			}
		}
		slices.SortFunc(choices, choice.before)
		choices = slices.Compact(choices)
		if len(choices) == 0 && len(r.Nodes) > 0 {
			choices = append(choices, best)
		}
		count, sure := 0, 0
		for count < min(len(choices), maxChoices) && sure < 2 {
			if presence[choices[count].id] == 1 {
				sure++
			}
			count++
		}
		for k := count - 1; k >= 0; k-- {
			out = append(out, ring.Pin{Slot: r.Slot, Node: choices[k].id.String()})
		}
	}
	return out
}

// choice is a node of a pin.
type choice struct {
	id    NodeID
	score uint64
}

func (c choice) before(o choice) int {
	return cmp.Or(cmp.Compare(o.score, c.score), o.id.Compare(c.id))
}

// PinsDigest identifies sorted records: equal ones have one digest.
func PinsDigest(records []PinRecord) uint64 { return xxh3.Hash(AppendPins(nil, records)) }

// AppendPins appends the encoding of records: their number and, each with its
// length in front, slot(2) stamp(8) writer(20) group nodes(varint) { id(20) }.
// Numbers are written as in a View. A later version may append fields to a record:
// they are skipped.
func AppendPins(dst []byte, records []PinRecord) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	var one []byte
	for i := range records {
		one = appendPin(one[:0], &records[i])
		dst = binary.AppendUvarint(dst, uint64(len(one)))
		dst = append(dst, one...)
	}
	return dst
}

func appendPin(dst []byte, r *PinRecord) []byte {
	dst = binary.BigEndian.AppendUint16(dst, r.Slot)
	dst = binary.BigEndian.AppendUint64(dst, r.Stamp)
	dst = append(dst, r.Writer[:]...)
	dst = appendText(dst, r.Group)
	dst = binary.AppendUvarint(dst, uint64(len(r.Nodes)))
	for _, id := range r.Nodes {
		dst = append(dst, id[:]...)
	}
	return dst
}

// DecodePins reads what AppendPins wrote, checks every record and sorts them.
// Nothing in the result shares memory with b. Its errors wrap errs.ErrProtocol.
func DecodePins(b []byte) ([]PinRecord, error) {
	d := decoder{rest: b}
	records := make([]PinRecord, d.count("pins", ring.Slots, pinRecordLeast))
	for i := 0; i < len(records) && d.err == nil; i++ {
		size := d.number("size of a pin", maxRecord)
		one := decoder{rest: d.take(size)}
		one.pin(&records[i])
		if err := cmp.Or(one.err, records[i].Validate()); err != nil {
			d.fail(fmt.Errorf("pin %d: %w", i, err))
		}
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: encoding of pins: %w", errs.ErrProtocol, d.err)
	}
	return MergePins(records, nil), nil
}

func (d *decoder) pin(r *PinRecord) {
	r.Slot, r.Stamp = d.uint16(), d.uint64()
	r.Writer = NodeID(d.take(20))
	r.Group = d.text("group", MaxPinGroup)
	for range d.count("nodes of a pin", MaxPinNodes, 20) {
		r.Nodes = append(r.Nodes, NodeID(d.take(20)))
	}
}
