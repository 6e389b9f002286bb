package handoff

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// Kinds of changes.
const (
	Gain = "gain" // this node takes content over
	Give = "cede" // another takes it from this node
)

// Change is content that is moving between this node and another at the moment.
type Change struct {
	ID               uint64 // unique in this process
	Kind             string // Gain or Give
	Peer             topology.NodeID
	Slots, SlotsDone int // slots with content
	Keys, Bytes      uint64
	LeftKeys         uint64 // about
	Started          time.Time
	Rate             float64 // keys per second, unasked
}

// transferFigures count since the start.
type transferFigures struct {
	pulls      atomic.Uint64 // requests that waited for a source
	pulled     atomic.Uint64 // keys that came because a request asked for them
	misses     atomic.Uint64 // keys that a source was asked for and did not have
	timeouts   atomic.Uint64 // requests that went on without their keys
	failures   atomic.Uint64 // calls of a source that failed
	refused    atomic.Uint64 // keys that had no room here
	moved      atomic.Uint64 // keys that came unasked
	movedBytes atomic.Uint64
	given      atomic.Uint64 // keys handed over to others
	givenBytes atomic.Uint64
}

// Figures are totals since the start of the process.
type Figures struct {
	Windows, Ceded int // open now
	// Pulls are requests that waited for a source, Timeouts those that went on
	// without; Pulled and Missed the keys that it had and had not.
	Pulls, Pulled, Missed, Timeouts, Failures uint64
	Moved, MovedBytes                         uint64 // taken unasked
	Given, GivenBytes                         uint64
	Refused                                   uint64 // taken, and no room here
}

// Figures returns the totals.
func (t *Transfer) Figures() Figures {
	f := &t.figures
	out := Figures{Windows: t.WindowsOpen(), Pulls: f.pulls.Load(), Pulled: f.pulled.Load(), Missed: f.misses.Load(),
		Timeouts: f.timeouts.Load(), Failures: f.failures.Load(), Moved: f.moved.Load(), MovedBytes: f.movedBytes.Load(),
		Given: f.given.Load(), GivenBytes: f.givenBytes.Load(), Refused: f.refused.Load()}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.givings {
		out.Ceded += len(g.left)
	}
	return out
}

// Changes lists what is moving, the oldest first.
func (t *Transfer) Changes() (out []Change) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sources {
		if len(s.windows) == 0 {
			continue
		}
		c := Change{ID: s.id, Kind: Gain, Peer: s.peer.ID, Slots: s.slots, SlotsDone: s.over, Keys: s.keys, Bytes: s.bytes,
			Started: s.started, Rate: s.speed.of(now)}
		for _, n := range s.left {
			c.LeftKeys += uint64(n)
		}
		if known := len(s.left); known > 0 { // the others are about like these
			c.LeftKeys += c.LeftKeys / uint64(known) * uint64(len(s.windows)-min(known, len(s.windows)))
		}
		out = append(out, c)
	}
	for p, g := range t.givings {
		c := Change{ID: g.id, Kind: Give, Peer: p.ID, Slots: g.slots, SlotsDone: g.done, Keys: g.keys, Bytes: g.bytes,
			Started: g.started, LeftKeys: g.had - min(g.had, g.keys)}
		if d := now.Sub(g.started).Seconds(); d > 0 {
			c.Rate = float64(g.keys) / d
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// SetRate bounds what is taken unasked, in keys and bytes per second and source;
// 0: the defaults.
func (t *Transfer) SetRate(keys, bytes int) {
	t.rate.Store(int64(cmp.Or(max(keys, 0), DefaultRate)))
	t.bytes.Store(int64(cmp.Or(max(bytes, 0), DefaultBytes)))
	t.wakeAll()
}

// Rates returns what SetRate has set.
func (t *Transfer) Rates() (keys, bytes int) { return int(t.rate.Load()), int(t.bytes.Load()) }

// SetPaused stops or continues what is taken unasked. Requests are served all
// the while.
func (t *Transfer) SetPaused(on bool) {
	t.paused.Store(on)
	t.wakeAll()
}

func (t *Transfer) wakeAll() {
	t.rateChanges.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sources {
		s.signal()
	}
}
