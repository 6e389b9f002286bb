package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

// The canonical encoding, version 1. Numbers are big-endian or unsigned
// varints, text is a varint length and bytes, floats are their IEEE 754 bits.
//
//	view    = version(1) placement tokens(varint) bound(8)
//	          members(varint) { length(varint) member } pins(varint) { pin }
//	member  = id(20) boot(8) sequence(8) state(1) weight(8) progress(8)
//	          port(2) zone host gossip [oldWeight(8)]
//	pin     = slot(2) id(20)
//
// Members are sorted by ID and pins by slot, those of one slot from the last choice
// to the first. oldWeight is there if the member is Weighing; an active member on
// its way without it has the weight that it says, as members before that field
// had. A later minor version may append fields to a member, behind oldWeight, or to
// the view: they are skipped. Skipped fields are lost when the view is encoded
// again, so that its hash is another one then.
const (
	encodingVersion = 1
	maxPlacement    = 32   // bytes of a placement's name
	maxRecord       = 4096 // bytes of one member, later fields included
	memberFixed     = 20 + 8 + 8 + 1 + 8 + 8 + 2
	minMember       = 1 + memberFixed + 3
	pinSize         = 2 + 20
)

var errTruncated = errors.New("truncated")

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendMember(dst []byte, m *Member) []byte {
	dst = append(dst, m.ID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, m.Boot)
	dst = binary.BigEndian.AppendUint64(dst, m.Sequence)
	dst = append(dst, byte(m.State))
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.Weight))
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.Progress))
	dst = binary.BigEndian.AppendUint16(dst, m.Port)
	dst = appendText(dst, m.Zone)
	dst = appendText(dst, m.Host)
	dst = appendText(dst, m.Gossip)
	if m.Weighing() {
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.OldWeight))
	}
	return dst
}

func appendView(dst []byte, p Params, members []Member, pins []ring.Pin) []byte {
	dst = append(dst, encodingVersion)
	dst = appendText(dst, p.Placement)
	dst = binary.AppendUvarint(dst, uint64(p.Tokens))
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(p.Bound))
	dst = binary.AppendUvarint(dst, uint64(len(members)))
	var record []byte
	for i := range members {
		record = appendMember(record[:0], &members[i])
		dst = binary.AppendUvarint(dst, uint64(len(record)))
		dst = append(dst, record...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(pins)))
	for _, pin := range pins {
		// NewView has checked that the node is 40 hex digits.
		id, _ := ParseNodeID(pin.Node)
		dst = binary.BigEndian.AppendUint16(dst, pin.Slot)
		dst = append(dst, id[:]...)
	}
	return dst
}

// DecodeView reads what AppendBinary wrote, here or in another node. It checks
// form and limits only; NewView checks the values. Nothing in the result
// shares memory with b. Its errors wrap errs.ErrProtocol.
func DecodeView(b []byte) (Params, []Member, []ring.Pin, error) {
	d := decoder{rest: b}
	p, members, pins := d.view()
	if d.err != nil {
		return Params{}, nil, nil, fmt.Errorf("%w: view encoding: %w", errs.ErrProtocol, d.err)
	}
	return p, members, pins, nil
}

// decoder reads from rest; after the first error every read gives zero.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

// take returns the next n bytes, or n zero bytes of a failed decoder.
func (d *decoder) take(n int) []byte {
	if d.err != nil || len(d.rest) < n {
		d.fail(errTruncated)
		return make([]byte, n)
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

// number reads a varint of at most limit, what names it in the error.
func (d *decoder) number(what string, limit int) int {
	if d.err != nil {
		return 0
	}
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.fail(errTruncated)
		return 0
	}
	if n > uint64(limit) {
		d.fail(fmt.Errorf("%s is %d, limit %d", what, n, limit))
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

func (d *decoder) text(what string, limit int) string {
	return string(d.take(d.number("length of "+what, limit)))
}

func (d *decoder) uint64() uint64   { return binary.BigEndian.Uint64(d.take(8)) }
func (d *decoder) uint16() uint16   { return binary.BigEndian.Uint16(d.take(2)) }
func (d *decoder) float64() float64 { return math.Float64frombits(d.uint64()) }

// count reads a number of records and checks that their least size is there,
// so that memory is never set aside for a header alone.
func (d *decoder) count(what string, limit, least int) int {
	n := d.number(what, limit)
	if n*least > len(d.rest) {
		d.fail(errTruncated)
		return 0
	}
	return n
}

func (d *decoder) view() (p Params, members []Member, pins []ring.Pin) {
	if v := d.take(1)[0]; d.err == nil && v != encodingVersion {
		d.fail(fmt.Errorf("version %d, this node speaks %d", v, encodingVersion))
	}
	p.Placement = d.text("placement", maxPlacement)
	p.Tokens = d.number("tokens", ring.MaxTokens)
	p.Bound = d.float64()
	members = make([]Member, d.count("members", MaxMembers, minMember))
	for i := 0; i < len(members) && d.err == nil; i++ {
		size := d.number("size of a member", maxRecord)
		record := decoder{rest: d.take(size)}
		record.member(&members[i])
		if record.err != nil {
			d.fail(fmt.Errorf("member %d: %w", i, record.err))
		}
	}
	pins = make([]ring.Pin, d.count("pins", maxViewPins, pinSize))
	for i := 0; i < len(pins) && d.err == nil; i++ {
		pins[i].Slot = d.uint16()
		pins[i].Node = NodeID(d.take(20)).String()
	}
	return p, members, pins
}

func (d *decoder) member(m *Member) {
	m.ID = NodeID(d.take(20))
	m.Boot, m.Sequence = d.uint64(), d.uint64()
	m.State = State(d.take(1)[0])
	m.Weight, m.Progress = d.float64(), d.float64()
	m.Port = d.uint16()
	m.Zone = d.text("zone", MaxZone)
	m.Host = d.text("host", MaxHost)
	m.Gossip = d.text("gossip address", MaxGossip)
	switch {
	case !m.inSteps():
	case len(d.rest) >= 8:
		m.OldWeight = d.float64()
	default:
		m.OldWeight = m.Weight
	}
}
