package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/errs"
)

const (
	// MaxFeedSize is the most events that a Feed can be made to keep.
	MaxFeedSize = 1 << 20
	// feedKeyBytes is how many bytes of keys a Feed keeps per event of its
	// size, on average; longer keys make the ring shorter.
	feedKeyBytes = 256
	// eventBytes is what an Event takes in the ring.
	eventBytes = 48
)

// EventKind says what happened to a key.
type EventKind uint8

const (
	// EventWrite: the key was set or added; Deadline is the new one.
	EventWrite EventKind = iota + 1
	// EventDelete: the key was deleted.
	EventDelete
	// EventTTL: only the deadline changed, to Deadline.
	EventTTL
	// EventExpire: the key was removed because its Deadline had passed.
	EventExpire
	// EventEvict: the key was removed to make room.
	EventEvict
	// EventInvalidate: the key was removed by Invalidate or DropSlot.
	EventInvalidate
	// EventFlush: everything in the shard was removed; Slot is AllSlots.
	EventFlush
)

var eventNames = [...]string{"", "write", "delete", "ttl", "expire", "evict", "invalidate", "flush"}

func (k EventKind) String() string { return eventNames[k] }

// Event is one change. It does not carry the value: read the key again, and
// what is found is at least as new as the event.
type Event struct {
	Number   uint64 // counts the events of this feed from 1 without holes; a jump means lost events
	Kind     EventKind
	Slot     uint16
	Deadline int64
	Key      []byte
}

// Feed is the ordered record of the changes of one shard since Subscribe. It
// keeps the latest events; older ones that nobody read are lost, which the
// reader sees. Writers never wait for it. One goroutine may read at a time.
type Feed struct {
	s     *shard
	slots []uint64 // bit per slot of the shard; nil = all
	wake  chan struct{}
	fresh atomic.Bool // events came since the last Fresh

	// Guarded by the shard lock:
	ring  []Event
	first uint64 // number of the oldest event kept
	next  uint64 // number of the next event
	bytes int    // of the keys kept
	lost  uint64 // dropped since the last Read
}

// Subscribe returns a feed of the changes from now on in the given shard, or,
// if slots is not nil, in those of its slots (slots of other shards are
// ignored). size is the most events that it keeps; 0 = Options.FeedSize. Memory
// beside the limit: up to size times (48 + 256) bytes. The caller must Close it.
func (e *Engine) Subscribe(shard int, slots []uint16, size int) (*Feed, error) {
	return e.subscribe(shard, slots, size, make(chan struct{}, 1))
}

func (e *Engine) subscribe(shard int, slots []uint16, size int, wake chan struct{}) (*Feed, error) {
	if size == 0 {
		size = e.feedSize
	}
	if shard < 0 || shard >= len(e.shards) {
		return nil, fmt.Errorf("engine: shard is %d, must be below %d: %w", shard, len(e.shards), errs.ErrConfig)
	}
	if size < 0 || size > MaxFeedSize {
		return nil, fmt.Errorf("engine: feed size is %d, must be 1 to %d: %w", size, MaxFeedSize, errs.ErrConfig)
	}
	s := &e.shards[shard]
	f := &Feed{s: s, wake: wake, ring: make([]Event, size), first: 1, next: 1}
	if slots != nil {
		f.slots = make([]uint64, (len(s.slots)+63)/64)
		for _, slot := range slots {
			if slot < Slots && e.ShardOf(slot) == shard {
				i := slot >> e.bits
				f.slots[i/64] |= 1 << (i % 64)
			}
		}
	}
	s.mu.Lock()
	defer s.unlock()
	if e.closed.Load() {
		return nil, errs.ErrClosed
	}
	s.feeds = append(append([]*Feed(nil), s.feeds...), f)
	return f, nil
}

// holds returns the bytes of the ring and of the keys in it; the shard lock is
// held.
func (f *Feed) holds() int64 { return int64(len(f.ring))*eventBytes + int64(f.bytes) }

// Close ends the feed. Events that were not read are dropped.
func (f *Feed) Close() {
	s := f.s
	s.mu.Lock()
	defer s.unlock()
	var rest []*Feed
	for _, g := range s.feeds {
		if g != f {
			rest = append(rest, g)
		}
	}
	s.feeds = rest
	f.ring, f.bytes = nil, 0
}

// Wake returns a channel that receives after events came; it holds one signal,
// so read until Read returns nothing. It is never closed: the reader needs a
// stop signal of its own.
func (f *Feed) Wake() <-chan struct{} { return f.wake }

// signal never blocks: one signal waiting is enough.
func (f *Feed) signal() {
	if !f.fresh.Load() {
		f.fresh.Store(true)
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Read appends the oldest unread events to dst, max at most, and returns it.
// lost is how many events were dropped before the first of them since the last
// Read: if it is not 0, the reader must start over from the slots' content. The
// keys are the reader's own; key buffers in dst's spare capacity are reused.
func (f *Feed) Read(dst []Event, max int) (events []Event, lost uint64) {
	f.s.mu.Lock()
	defer f.s.unlock()
	lost, f.lost = f.lost, 0
	if f.ring == nil {
		return dst, lost
	}
	for ; max > 0 && f.first < f.next; max-- {
		var key []byte
		if len(dst) < cap(dst) {
			key = dst[:len(dst)+1][len(dst)].Key[:0]
		}
		ev := *f.cell(f.first)
		ev.Key = append(key, ev.Key...)
		dst = append(dst, ev)
		f.drop()
	}
	return dst, lost
}

func (f *Feed) cell(number uint64) *Event { return &f.ring[number%uint64(len(f.ring))] }

// drop forgets the oldest event. A long key's buffer is not kept for reuse.
func (f *Feed) drop() {
	c := f.cell(f.first)
	f.bytes -= len(c.Key)
	if cap(c.Key) > feedKeyBytes {
		c.Key = nil
	}
	f.first++
}

func (f *Feed) push(kind EventKind, slot uint16, key []byte, deadline int64) {
	limit := max(len(f.ring)*feedKeyBytes, len(key))
	for f.first < f.next && (f.next-f.first == uint64(len(f.ring)) || f.bytes+len(key) > limit) {
		f.drop()
		f.lost++
	}
	c := f.cell(f.next)
	c.Number, c.Kind, c.Slot, c.Deadline = f.next, kind, slot, deadline
	c.Key = append(c.Key[:0], key...)
	f.bytes += len(key)
	f.next++
}

// wants says whether the feed covers slot of its shard.
func (f *Feed) wants(slot uint16) bool {
	if f.slots == nil || slot == AllSlots {
		return true
	}
	i := slot >> f.s.e.bits
	return f.slots[i/64]&(1<<(i%64)) != 0
}

// emit records a change in every feed that covers it and tells the watches of
// the key; the shard lock is held.
func (s *shard) emit(kind EventKind, slot uint16, key []byte, deadline int64) {
	if s.watched != nil {
		s.noteChange(kind, slot, key)
	}
	if o := s.e.observer.Load(); o != nil {
		s.tell(o, kind, slot, key)
	}
	for _, f := range s.feeds {
		if f.wants(slot) {
			f.push(kind, slot, key, deadline)
			s.pending = true
		}
	}
}
