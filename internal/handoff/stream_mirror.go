package handoff

import (
	"hash/maphash"
	"time"
)

// Bounds of what a receiver gets because it is read.
const (
	// mirrorMost is how many keys are kept up to date at a receiver; each takes about
	// 20 bytes. Further ones are not sent.
	mirrorMost = 1 << 18
	// readsMost is how many keys that were read wait to be sent; further ones are
	// left out, and noticed again when they are read again.
	readsMost = 4096
	// paceWait and pausedWait are when the pace is looked at again.
	paceWait   = 5 * time.Millisecond
	pausedWait = 100 * time.Millisecond
	// lateMost bounds changes of slots that are not served any more.
	lateMost = 4096
)

// reads are the keys that are copied because they were read. Their changes are sent
// from before their value is looked up, until the slot ends or begins anew.
type reads struct {
	seed  maphash.Seed
	slots map[uint16]map[uint64]struct{} // hashes of keys: a key too many does no harm
	keys  int                            // in all slots
	next  []SlotKey                      // to be sent
}

func (r *reads) has(slot uint16, key []byte) bool {
	of := r.slots[slot]
	if of == nil {
		return false
	}
	_, ok := of[maphash.Bytes(r.seed, key)]
	return ok
}

// add notes a key and tells whether it is new. The key is borrowed.
func (r *reads) add(slot uint16, key []byte) bool {
	if r.slots == nil {
		r.seed, r.slots = maphash.MakeSeed(), map[uint16]map[uint64]struct{}{}
	}
	h, of := maphash.Bytes(r.seed, key), r.slots[slot]
	if _, known := of[h]; known || r.keys >= mirrorMost || len(r.next) >= readsMost {
		return false
	}
	if of == nil {
		of = map[uint64]struct{}{}
		r.slots[slot] = of
	}
	of[h] = struct{}{}
	r.keys++
	r.next = append(r.next, SlotKey{slot, append([]byte(nil), key...)})
	return true
}

func (r *reads) forget(slot uint16) {
	if of, ok := r.slots[slot]; ok {
		r.keys -= len(of)
		delete(r.slots, slot)
	}
}

// bucket is a token bucket for keys and bytes.
type bucket struct {
	keys, bytes float64
	at          int64 // ms; 0: it was never filled
}

// fill adds what has accrued; a tenth of a second's worth is kept at most, but no
// less than a Batch.
func (k *bucket) fill(now, keys, bytes int64) {
	if k.at == 0 {
		k.keys, k.bytes = copyKeys, copyBytes
	} else {
		passed := float64(max(now-k.at, 0)) / 1000
		k.keys = min(k.keys+passed*float64(keys), max(copyKeys, float64(keys)/10))
		k.bytes = min(k.bytes+passed*float64(bytes), max(copyBytes, float64(bytes)/10))
	}
	k.at = now
}

// Read notes that a key, which is borrowed, was read where it is served. If its slot
// has a mirror, the key's value is sent there, and its changes from then on.
func (s *Streams) Read(slot uint16, key []byte) {
	if t := s.plan.Load().slots[slot%MaxSlots][mirrorPlace]; t != nil {
		t.read(slot%MaxSlots, key)
	}
}

// read gives way where somebody else is busy with the queue: a sample is enough.
func (t *target) read(slot uint16, key []byte) {
	if !t.mu.TryLock() {
		return
	}
	fresh := t.slots[slot] == copyFills && t.mirrors.Has(slot) && t.reads.add(slot, key)
	t.mu.Unlock()
	if fresh {
		t.wakeUp()
	}
}

// mirror adds what was read, as far as the pace allows, and returns how long that
// has to wait if it was the pace that ended it.
func (t *target) mirror(w *writer) time.Duration {
	rate, bytes := int64(t.s.o.Rate), int64(t.s.o.Bytes)
	if t.s.o.MirrorPace != nil {
		rate, bytes = t.s.o.MirrorPace()
	}
	t.pace.fill(t.s.eng.Now(), rate, bytes)
	for w.room() {
		k, live, more := t.nextRead()
		switch {
		case !more:
			return beatEvery
		case rate <= 0:
			return pausedWait
		case t.pace.keys < 1 || t.pace.bytes < 1:
			return paceWait
		}
		t.takeRead()
		before, n := w.bytes, w.n
		if live && w.key(k.Slot, k.Key) && w.n > n {
			t.pace.keys--
			t.pace.bytes -= float64(w.bytes - before)
			t.s.mirrored.Add(1)
		}
	}
	return beatEvery
}

// nextRead returns the next key that was read, and whether its slot has not ended or
// begun anew since.
func (t *target) nextRead() (k SlotKey, live, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.reads
	if len(r.next) == 0 {
		r.next = nil // its memory goes with it
		return k, false, false
	}
	k = r.next[0]
	return k, t.slots[k.Slot] == copyFills && t.mirrors.Has(k.Slot) && r.has(k.Slot, k.Key), true
}

// takeRead removes it. Nobody else does.
func (t *target) takeRead() {
	t.mu.Lock()
	t.reads.next = t.reads.next[1:]
	t.mu.Unlock()
}

// missed notes a change that could not be sent because its slot is not served any
// more: whoever takes the slot over has to know.
func (t *target) missed(c change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.slots[c.slot] < copyOpening:
	case len(t.late) >= lateMost:
		t.anew(c.slot)
	default:
		t.late = append(t.late, c)
	}
}

// Seal implements Sealer: it puts all changes into the queue, of which those that
// were not acknowledged tell what is behind.
func (s *Streams) Seal(p Peer, slots *Set) (exact Set, behind []SlotKey) {
	// While mu is held the plan stays, so every change up to now finds its queue.
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.targets[p]
	if t == nil || s.closed || len(s.feeds) == 0 {
		return exact, nil
	}
	shards := map[int]struct{}{}
	slots.Each(func(slot uint16) { shards[s.eng.ShardOf(slot)] = struct{}{} })
	s.reading.Lock()
	for shard := range shards {
		s.readFeed(shard, s.feeds[shard], nil)
	}
	s.reading.Unlock()
	t.wakeUp()
	return t.seal(slots)
}

// seal ends the copies of slots without a word to the receiver, which decides what
// becomes of them.
func (t *target) seal(slots *Set) (exact Set, behind []SlotKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots.Each(func(slot uint16) {
		if t.slots[slot] >= copyFills {
			exact.Add(slot)
		}
	})
	bytes := 0
	for _, changes := range [][]change{t.flight, t.late, t.queue} {
		for _, c := range changes {
			switch {
			case !exact.Has(c.slot):
			case c.kind != recordSet, len(behind) >= sealKeys, bytes+len(c.key) > sealBytes:
				exact.Remove(c.slot)
			default:
				behind = append(behind, SlotKey{c.slot, c.key})
				bytes += len(c.key)
			}
		}
	}
	exact.Each(func(slot uint16) { t.set(slot, copySealed) })
	return exact, behind
}

// Mirrors tells whether a process is to have what is read of a slot, by the last Plan.
func (s *Streams) Mirrors(slot uint16, p Peer) bool {
	t := s.plan.Load().slots[slot%MaxSlots][mirrorPlace]
	return t != nil && t.peer == p
}

// Keeps tells whether a process is to have all copies of a slot, by the last Plan.
func (s *Streams) Keeps(slot uint16, p Peer) bool {
	places := &s.plan.Load().slots[slot%MaxSlots]
	for _, t := range places[:mirrorPlace] {
		if t != nil && t.peer == p {
			return true
		}
	}
	return false
}
