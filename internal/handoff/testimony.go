package handoff

import (
	"encoding/binary"
	"errors"

	"github.com/ringcache/ringcache/internal/topology"
)

var errTestimony = errors.New("the testimony cannot be read")

// AppendBinary appends a form that ParseTestimony reads: the heirs, each with its ID,
// boot and ranges, then seed, check and the logs. Numbers of items are varints, others
// little-endian.
func (t *Testimony) AppendBinary(b []byte) []byte {
	le := binary.LittleEndian
	b = binary.AppendUvarint(b, uint64(len(t.Heirs)))
	for _, h := range t.Heirs {
		b = le.AppendUint64(append(b, h.Peer.ID[:]...), h.Peer.Boot)
		b = binary.AppendUvarint(b, uint64(len(h.Ranges)))
		for _, r := range h.Ranges {
			b = le.AppendUint16(le.AppendUint16(b, r.First), r.Last)
		}
	}
	b = le.AppendUint64(le.AppendUint64(b, t.Seed), t.Check)
	b = binary.AppendUvarint(b, uint64(len(t.Logs)))
	for _, l := range t.Logs {
		b = binary.AppendUvarint(le.AppendUint16(b, l.Slot), uint64(len(l.Prints)))
		for _, fp := range l.Prints {
			b = le.AppendUint32(b, fp)
		}
	}
	return b
}

// ParseTestimony reads what AppendBinary wrote. Anything else is an error: a key that
// was touched must not be overlooked. What it allocates is bounded by the length of b.
func ParseTestimony(b []byte) (*Testimony, error) {
	r := testimonyReader{b: b}
	t := new(Testimony)
	for range r.count(len(topology.NodeID{}) + 9) {
		var h Heir
		copy(h.Peer.ID[:], r.take(len(h.Peer.ID)))
		h.Peer.Boot = r.number(8)
		for range r.count(4) {
			x := Range{r.slot(), r.slot()}
			if x.First > x.Last {
				r.bad = true
			}
			h.Ranges = append(h.Ranges, x)
		}
		t.Heirs = append(t.Heirs, h)
	}
	t.Seed, t.Check = r.number(8), r.number(8)
	for range r.count(3) {
		l := SlotLog{Slot: r.slot()}
		n := r.count(4)
		l.Prints = make([]uint32, 0, n)
		for range n {
			l.Prints = append(l.Prints, uint32(r.number(4)))
		}
		t.Logs = append(t.Logs, l)
	}
	if r.bad || len(r.b) > 0 {
		return nil, errTestimony
	}
	return t, nil
}

// testimonyReader takes fields; after the first fault every field is 0.
type testimonyReader struct {
	b   []byte
	bad bool
}

func (r *testimonyReader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

func (r *testimonyReader) number(bytes int) (v uint64) {
	for i, c := range r.take(bytes) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

func (r *testimonyReader) slot() uint16 {
	s := r.number(2)
	if s >= MaxSlots {
		r.bad = true
		return 0
	}
	return uint16(s)
}

// count reads how many items of at least so many bytes follow.
func (r *testimonyReader) count(least int) int {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || v > uint64((len(r.b)-n)/least) {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}
