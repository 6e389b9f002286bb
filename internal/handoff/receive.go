package handoff

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	// bestFor is how long the quickest Batch of a stream says how fast the way is.
	bestFor = 10 * time.Minute
	// maxStreams bounds the processes that streams come from; the one that was
	// silent longest gives way.
	maxStreams = 4096
)

// Receiver stores the copies that other nodes stream to this one. It is safe for
// concurrent use.
type Receiver struct {
	run *Runner
	eng *engine.Engine

	mu      sync.Mutex
	streams map[topology.NodeID]*inbound
	flushes atomic.Uint64 // of the engine, that copies were dropped for

	stored, refused, gaps atomic.Uint64
}

// inbound is what is known of the stream of one process.
type inbound struct {
	mu     sync.Mutex // held while a Batch is taken
	peer   Peer
	stream uint64
	number uint64
	answer Taken // to the last Batch
	best   int64 // least difference between arrival and Sent
	bestAt int64 // when it was seen
	used   int64 // ms; guarded by Receiver.mu
}

// Taken is what a receiver answers to a Batch.
type Taken struct {
	// Refused are slots of records that were not taken: no copies of them are kept.
	Refused []Range
	// Differs says that Held, the slots that copies are kept of, are not those
	// that Count and Sum mean.
	Differs bool
	Held    []Range
}

// GapError says that a Batch does not follow the one before: the stream has to
// begin anew.
type GapError struct{ Want uint64 }

func (e *GapError) Error() string { return fmt.Sprintf("batch %d is the next", e.Want) }

// NewReceiver makes the receiver of a node. The Slots of run are those of eng.
func NewReceiver(run *Runner, eng *engine.Engine) *Receiver {
	v := &Receiver{run: run, eng: eng, streams: map[topology.NodeID]*inbound{}}
	v.flushes.Store(eng.Flushes())
	return v
}

func (v *Receiver) inbound(p Peer) *inbound {
	v.mu.Lock()
	defer v.mu.Unlock()
	in := v.streams[p.ID]
	if in == nil {
		if len(v.streams) >= maxStreams {
			oldest := p.ID
			for id, o := range v.streams {
				if oldest == p.ID || o.used < v.streams[oldest].used {
					oldest = id
				}
			}
			delete(v.streams, oldest)
		}
		in = new(inbound)
		v.streams[p.ID] = in
	}
	in.used = v.eng.Now()
	return in
}

// Take takes a Batch of a stream in. A Batch that was taken before is answered as
// it was then. Errors: *GapError, or what is wrong with the Batch.
func (v *Receiver) Take(p Peer, b *CopyBatch) (Taken, error) {
	v.dropFlushed()
	in := v.inbound(p)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.peer != p || in.stream != b.Stream {
		if b.Number != 1 || in.peer == p && b.Stream < in.stream || in.peer.Boot > p.Boot && !v.run.Alive(p) {
			v.gaps.Add(1)
			return Taken{}, &GapError{1}
		}
		in.peer, in.stream, in.number, in.bestAt = p, b.Stream, 0, 0
		// What the streams before have left is not kept up to date any more.
		v.run.DropCopies(func(_ uint16, of Peer, _ bool) bool { return of != p })
	}
	switch b.Number {
	case in.number:
		return in.answer, nil
	case in.number + 1:
	default:
		v.gaps.Add(1)
		return Taken{}, &GapError{in.number + 1}
	}
	t, err := v.take(p, b, in.late(v.eng.Now(), b))
	if err == nil {
		in.number, in.answer = b.Number, t
	}
	return t, err
}

// late returns how long a Batch has waited, at the sender and on its way, as far
// as others of the last minutes were quicker there, in ms. So a time to live does
// not grow by that, though the clocks of two nodes have nothing in common but
// their pace.
func (in *inbound) late(now int64, b *CopyBatch) int64 {
	way := now - b.Sent - b.Age
	if in.bestAt == 0 || way < in.best || now-in.bestAt > bestFor.Milliseconds() {
		in.best, in.bestAt = way, now
	}
	return max(b.Age, 0) + way - in.best
}

// take stores what a Batch carries.
func (v *Receiver) take(p Peer, b *CopyBatch, late int64) (t Taken, err error) {
	var refused Set
	var some []record // to be stored in one go
	store := func() {
		if len(some) > 0 {
			v.store(p, some, late, &refused)
			some = some[:0]
		}
	}
	err = b.records(func(r record) {
		switch r.kind {
		case recordReset:
			store()
			why := ""
			if r.ttl == resetMirror {
				why = v.run.AcceptMirror(p, r.slot)
			} else {
				why = v.run.AcceptCopies(p, r.slot, r.ttl > 0)
			}
			if why != "" {
				// What is here of it from before is not kept up to date any more.
				v.run.EndCopies(p, r.slot)
				refused.Add(r.slot)
			}
		case recordEnd:
			store()
			v.run.EndCopies(p, r.slot)
		default:
			some = append(some, r)
		}
	})
	if err != nil {
		return t, err
	}
	store()
	t.Refused = refused.Ranges()
	v.refused.Add(uint64(refused.Len()))
	if b.Len() == 0 {
		held := v.run.Copies().Held(p)
		if t.Differs = held.Len() != b.Count || held.sum() != b.Sum; t.Differs {
			t.Held = held.Ranges()
		}
	}
	return t, nil
}

// store changes the copies of one process.
func (v *Receiver) store(p Peer, some []record, late int64, refused *Set) {
	v.run.Copies().Write(p, func(holds func(slot uint16) bool) {
		for _, r := range some {
			if !holds(r.slot) {
				refused.Add(r.slot)
				continue
			}
			if r.kind == recordClear {
				v.eng.DropSlot(r.slot)
				continue
			}
			v.put(&r, late)
		}
	})
}

// put stores or removes one copy. What has no room is not there: an older value
// must not stay.
func (v *Receiver) put(r *record, late int64) {
	tx := v.eng.LockAny(r.slot)
	defer tx.Unlock()
	deadline := int64(0)
	if r.ttl > 0 {
		deadline = max(tx.Now()+r.ttl-late, 1) // one that has passed removes the key
	}
	if r.kind == recordSet && tx.SetSpare(r.key, r.value, deadline) == nil {
		v.stored.Add(1)
		return
	}
	tx.Invalidate(r.key)
}

// dropFlushed drops all copies once everything in the engine was flushed, copies
// included: the senders hear of it and send them again.
func (v *Receiver) dropFlushed() {
	if n := v.eng.Flushes(); v.flushes.Swap(n) != n {
		v.run.DropCopies(func(uint16, Peer, bool) bool { return false })
	}
}

// ReceiverFigures count since the start.
type ReceiverFigures struct {
	Stored  uint64 // values
	Refused uint64 // slots
	Gaps    uint64 // batches that did not follow
	Streams int    // processes that copies came from
	Slots   int    // with copies, now
}

// Figures returns what the receiver has done.
func (v *Receiver) Figures() ReceiverFigures {
	f := ReceiverFigures{Stored: v.stored.Load(), Refused: v.refused.Load(), Gaps: v.gaps.Load()}
	v.mu.Lock()
	f.Streams = len(v.streams)
	v.mu.Unlock()
	c := v.run.Copies()
	for s := range c.tags {
		if c.tags[s].Load() != 0 {
			f.Slots++
		}
	}
	return f
}
