package handoff

import (
	"encoding/binary"
	"errors"
)

// The records of a CopyBatch of copies.
const (
	recordReset  = 'R' // a slot: from here on copies of it follow, from nothing
	recordEnd    = 'E' // a slot: no more copies of it
	recordClear  = 'C' // a slot: its copies are empty
	recordSet    = 'S' // a key with its value
	recordDelete = 'D' // a key that is not there
)

// headBytes is what a record has in Heads: kind, slot, and the remaining time to
// live in ms, 0 for none. Of a reset, it is the kind of the copies.
const headBytes = 1 + 2 + 8

const (
	resetFirst  = 0
	resetSecond = 1 // somebody else has the first copies
	resetMirror = 2 // only of keys that are read
)

// MaxRecords is the most records of a CopyBatch.
const MaxRecords = 1024

// CopyBatch is a part of a stream of copies. A value is what the key had when the
// Batch was made, so that Batches in their order never lead back.
type CopyBatch struct {
	Stream uint64 // of one sender to one receiver; a later one is greater
	Number uint64 // counts the Batches of the Stream from 1
	Sent   int64  // ms by the sender's clock, before the first value was read
	Age    int64  // ms that it has waited at the sender since
	// Count and Sum are of the slots that the receiver should have copies of; the
	// receiver compares them where there are no records.
	Count int
	Sum   uint64
	Heads []byte
	Data  [][]byte // key of S and D, value of S
}

var errCopyBatch = errors.New("malformed batch of copies")

func (b *CopyBatch) add(kind byte, slot uint16, ttl int64, data ...[]byte) {
	b.Heads = append(b.Heads, kind)
	b.Heads = binary.BigEndian.AppendUint16(b.Heads, slot)
	b.Heads = binary.BigEndian.AppendUint64(b.Heads, uint64(ttl))
	b.Data = append(b.Data, data...)
}

// Len is the number of records.
func (b *CopyBatch) Len() int { return len(b.Heads) / headBytes }

// record is one record as the receiver reads it.
type record struct {
	kind       byte
	slot       uint16
	ttl        int64
	key, value []byte
}

// records checks the Batch and calls fn for each record.
func (b *CopyBatch) records(fn func(r record)) error {
	if len(b.Heads)%headBytes != 0 || b.Len() > MaxRecords {
		return errCopyBatch
	}
	for check := true; ; check = false { // nothing is done by half
		data := b.Data
		for h := b.Heads; len(h) > 0; h = h[headBytes:] {
			r := record{kind: h[0], slot: binary.BigEndian.Uint16(h[1:]), ttl: int64(binary.BigEndian.Uint64(h[3:]))}
			n := 0
			switch r.kind {
			case recordSet:
				n = 2
			case recordDelete:
				n = 1
			case recordReset, recordEnd, recordClear:
			default:
				return errCopyBatch
			}
			if r.slot >= MaxSlots || r.ttl < 0 || len(data) < n {
				return errCopyBatch
			}
			if n > 0 {
				r.key = data[0]
			}
			if n > 1 {
				r.value = data[1]
			}
			data = data[n:]
			if !check {
				fn(r)
			}
		}
		if len(data) > 0 {
			return errCopyBatch
		}
		if !check {
			return nil
		}
	}
}

// sum is what CopyBatch.Sum has of a set of slots.
func (s *Set) sum() (sum uint64) {
	s.Each(func(slot uint16) { sum = sum*0x9e3779b97f4a7c15 + uint64(slot) + 1 })
	return sum
}
