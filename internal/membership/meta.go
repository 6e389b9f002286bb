package membership

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// What a node gossips about itself. The name of a node in memberlist is its ID
// and its incarnation, so a restarted node is another one there: no death or
// leave of the old incarnation can touch the new one.
//
//	name = 40 hex digits "-" 16 hex digits of Boot
//	meta = version<<4|state(1) flags(1) [weight(8)] [progress(8)]
//	       sequence(varint) port(2) [hostLen(1) host] zoneLen(1) zone
//	       [oldWeight(4)]
//
// Numbers are big-endian, floats exact (IEEE 754), so that every node computes
// the same View. The most common values are flags. The gossip address comes
// from memberlist; a host that is the gossip IP is not repeated. The old weight, of
// a node that changes its weight in steps, is in millionths, as placements have it.
// Later versions may append fields: they are skipped. A version that does not know
// the old weight skips it too, and takes the new weight at once.
const (
	metaVersion = 1

	flagWeightOne    = 1 << 0
	flagProgressZero = 1 << 1
	flagProgressOne  = 1 << 2
	flagHost         = 1 << 3
	flagDegraded     = 1 << 4 // not a part of the member: no View depends on it
	flagOldWeight    = 1 << 5

	weightParts = 1_000_000 // of the old weight

	// reservedSequence leaves room for sequences up to 2^42, so that an entry
	// which fits at Start still fits after any number of changes.
	reservedSequence = 6
	reservedProgress = 8
	nameLength       = 40 + 1 + 16
)

// nodeName returns the name of an incarnation in memberlist.
func nodeName(id topology.NodeID, boot uint64) string {
	return fmt.Sprintf("%s-%016x", id, boot)
}

// parseName is the inverse of nodeName.
func parseName(name string) (id topology.NodeID, boot uint64, err error) {
	if len(name) != nameLength || name[40] != '-' {
		return id, 0, fmt.Errorf("%w: gossip name %q is not an ID and an incarnation", errs.ErrProtocol, name)
	}
	if id, err = topology.ParseNodeID(name[:40]); err != nil {
		return id, 0, err
	}
	if boot, err = strconv.ParseUint(name[41:], 16, 64); err != nil {
		return id, 0, fmt.Errorf("%w: gossip name %q: %w", errs.ErrProtocol, name, err)
	}
	return id, boot, nil
}

// appendMeta appends the metadata of m, whose gossip address has the IP
// gossipIP. It does not check sizes; checkMeta does.
func appendMeta(dst []byte, m *topology.Member, gossipIP string) []byte {
	flags := byte(0)
	if m.Weight == 1 {
		flags |= flagWeightOne
	}
	switch m.Progress {
	case 0:
		flags |= flagProgressZero
	case 1:
		flags |= flagProgressOne
	}
	if m.Host != gossipIP {
		flags |= flagHost
	}
	if m.Weighing() {
		flags |= flagOldWeight
	}
	dst = append(dst, metaVersion<<4|byte(m.State)&0x0F, flags)
	if flags&flagWeightOne == 0 {
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.Weight))
	}
	if flags&(flagProgressZero|flagProgressOne) == 0 {
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.Progress))
	}
	dst = binary.AppendUvarint(dst, m.Sequence)
	dst = binary.BigEndian.AppendUint16(dst, m.Port)
	if flags&flagHost != 0 {
		dst = append(append(dst, byte(len(m.Host))), m.Host...)
	}
	dst = append(append(dst, byte(len(m.Zone))), m.Zone...)
	if flags&flagOldWeight != 0 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(math.Round(m.OldWeight*weightParts)))
	}
	return dst
}

// metaDegraded tells whether a node says in its metadata that it is degraded.
func metaDegraded(b []byte) bool { return len(b) > 1 && b[1]&flagDegraded != 0 }

// checkMeta reports why m cannot be gossiped, if so. It reserves room for
// every later progress and sequence, so Update cannot fail for what Start took.
func checkMeta(m *topology.Member, gossipIP string) error {
	fixed := 2 + reservedProgress + reservedSequence + 2 + 1
	if m.Weight != 1 {
		fixed += 8
	}
	if m.Weighing() {
		fixed += 4
	}
	host := len(m.Host)
	if m.Host == gossipIP {
		host = 0
	} else {
		fixed++
	}
	switch {
	case fixed+host+len(m.Zone) > MaxMeta:
		return fmt.Errorf("%w: host %q has %d bytes and zone %q has %d: together they may have %d; "+
			"advertise an IP or a shorter name, or shorten the zone",
			errs.ErrConfig, m.Host, len(m.Host), m.Zone, len(m.Zone), MaxMeta-fixed)
	case len(m.Zone) > topology.MaxZone:
		return fmt.Errorf("%w: zone %q has %d bytes, limit %d", errs.ErrConfig, m.Zone, len(m.Zone), topology.MaxZone)
	case m.Weighing() && m.OldWeight != ring.RoundWeight(m.OldWeight):
		return fmt.Errorf("%w: the old weight %v is no multiple of a millionth", errs.ErrConfig, m.OldWeight)
	case m.Sequence>>(7*reservedSequence) != 0:
		return fmt.Errorf("%w: sequence %d is out of range", errs.ErrConfig, m.Sequence)
	}
	return checkMember(m)
}

// checkMember holds an entry to what every View accepts: one bad entry in a
// snapshot would spoil the View of every node.
func checkMember(m *topology.Member) error {
	switch {
	case m.ID.IsZero():
		return fmt.Errorf("%w: the node ID is zero", errs.ErrConfig)
	case m.State > topology.Left:
		return fmt.Errorf("%w: unknown state %d", errs.ErrConfig, m.State)
	case !(m.Weight >= 0 && m.Weight <= topology.MaxWeight):
		return fmt.Errorf("%w: weight is %v, must be 0 to %d", errs.ErrConfig, m.Weight, topology.MaxWeight)
	case !(m.OldWeight >= 0 && m.OldWeight <= topology.MaxWeight):
		return fmt.Errorf("%w: old weight is %v, must be 0 to %d", errs.ErrConfig, m.OldWeight, topology.MaxWeight)
	case !(m.Progress >= 0 && m.Progress <= 1):
		return fmt.Errorf("%w: progress is %v, must be 0 to 1", errs.ErrConfig, m.Progress)
	case m.Host == "" || m.Port == 0:
		return fmt.Errorf("%w: the data address %q is incomplete", errs.ErrConfig, m.Addr())
	case !plain(m.Host) || !plain(m.Zone):
		return fmt.Errorf("%w: host %q or zone %q contains spaces or control characters", errs.ErrConfig, m.Host, m.Zone)
	}
	return nil
}

func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}) < 0
}

// decodeMeta reads the entry of the node that memberlist calls name at the
// gossip address gossip (ip:port). Nothing in the result shares memory with b.
func decodeMeta(name, gossip string, b []byte) (topology.Member, error) {
	m := topology.Member{Gossip: gossip, Weight: 1}
	var err error
	if m.ID, m.Boot, err = parseName(name); err != nil {
		return m, err
	}
	bad := fmt.Errorf("%w: metadata of %s is malformed or of another version", errs.ErrProtocol, name)
	if len(b) < 2 || b[0]>>4 != metaVersion {
		return m, bad
	}
	flags := b[1]
	m.State, b = topology.State(b[0]&0x0F), b[2:]
	for _, f := range []struct {
		present bool
		to      *float64
	}{{flags&flagWeightOne == 0, &m.Weight}, {flags&(flagProgressZero|flagProgressOne) == 0, &m.Progress}} {
		if !f.present {
			continue
		}
		if len(b) < 8 {
			return m, bad
		}
		*f.to, b = math.Float64frombits(binary.BigEndian.Uint64(b)), b[8:]
	}
	if flags&flagProgressOne != 0 {
		m.Progress = 1
	}
	seq, n := binary.Uvarint(b)
	if n <= 0 || len(b) < n+2 {
		return m, bad
	}
	m.Sequence, m.Port, b = seq, binary.BigEndian.Uint16(b[n:]), b[n+2:]
	ok := true
	if flags&flagHost != 0 {
		m.Host, b, ok = takeText(b)
	} else if m.Host, _, err = net.SplitHostPort(gossip); err != nil {
		return m, bad
	}
	if !ok {
		return m, bad
	}
	if m.Zone, b, ok = takeText(b); !ok || len(m.Zone) > topology.MaxZone {
		return m, bad
	}
	m.OldWeight = m.Weight // unless it says otherwise
	if flags&flagOldWeight != 0 {
		if len(b) < 4 {
			return m, bad
		}
		m.OldWeight = float64(binary.BigEndian.Uint32(b)) / weightParts
	}
	m = m.Canonical()
	return m, checkMember(&m)
}

func takeText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) == 0 || len(b)-1 < int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}

// A hint tells peers that the sender's dial of a node failed. It makes them
// dial that node themselves and proves nothing by itself.
//
//	hint = kind(1) reporter(20) about(57: its name)
const (
	kindHint   = 1
	hintLength = 1 + 20 + nameLength
)

func appendHint(dst []byte, from topology.NodeID, about string) []byte {
	return append(append(append(dst, kindHint), from[:]...), about...)
}

func decodeHint(b []byte) (from topology.NodeID, about string, ok bool) {
	if len(b) < hintLength || b[0] != kindHint {
		return from, "", false
	}
	copy(from[:], b[1:21])
	about = string(b[21:hintLength])
	_, _, err := parseName(about)
	return from, about, err == nil
}
