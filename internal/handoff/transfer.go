package handoff

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

// Bounds of taking content over.
const (
	// pullWait is how long a request waits for its keys.
	pullWait = 10 * time.Millisecond
	// flightMost is how long an answer may come late and still be of use.
	flightMost = time.Second
	// maxFlights bounds the keys of one slot that are under way; beyond it a key
	// counts as absent.
	maxFlights = 4096
	// MaxTake is the most keys of one call.
	MaxTake = 256
	// windowMost is how long a window is open at most.
	windowMost = cededFor
	// A source that has let requests wait in vain for muteAfter, and answered
	// nothing, is left alone for muteFor.
	muteAfter = 200 * time.Millisecond
	muteFor   = 100 * time.Millisecond
)

// Entry is one key on its way to its next owner.
type Entry struct {
	Key, Value []byte
	// TTL is what remained of its time to live, in ms, when the giver answered;
	// 0: it has none.
	TTL int64
	// Found is false if the giver has no such key, Later if it was left out of
	// the answer because of its size.
	Found, Later bool
}

// Caller carries calls to the process that gives. ErrNotCeded says that it does
// not, or not any more.
type Caller interface {
	// Take asks for keys of a slot; the answer has one Entry for each, without Key.
	Take(ctx context.Context, from Peer, slot uint16, ask uint64, keys [][]byte) ([]Entry, error)
	// TakeMany asks for what the giver has of some slots.
	TakeMany(ctx context.Context, from Peer, q Many) ([]Batch, error)
	// Have tells the giver of keys of a slot that the taker has: it need not keep them.
	Have(ctx context.Context, from Peer, slot uint16, ask uint64, keys [][]byte) error
	// Taken tells the giver that slots need not be kept any more.
	Taken(ctx context.Context, from Peer, ranges []Range) error
}

// ErrNotCeded says that a slot is not kept for who asks.
var ErrNotCeded = errors.New("the slot is not kept for this node")

// TransferOptions configure a Transfer.
type TransferOptions struct {
	Engine *engine.Engine
	Caller Caller // nil: nothing is ever taken
	// Rate and Bytes bound, per second and source, what is taken unasked; 0: the
	// defaults.
	Rate, Bytes int
	Logger      *slog.Logger
}

// Transfer moves the content of slots that change their owner. At the previous
// owner it holds the cessions and gives what the taker asks for. At the new one it
// holds the windows: a request that needs an absent key, which was not touched
// here since the slot was opened, waits for it (Pull), and the rest is fetched in
// the background. It is the Slots of the Barrier, which alone opens windows and
// cedes.
//
// Safe for concurrent use. Lock order: Runner, mu, Window.mu, engine shard. Its
// goroutines (one for each source, one for each pull) end at Close.
type Transfer struct {
	o       TransferOptions
	eng     *engine.Engine
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	windows atomic.Int64 // how many are open
	tables  atomic.Pointer[transferTables]
	figures transferFigures
	rate    atomic.Int64 // keys per second and source
	bytes   atomic.Int64
	paused  atomic.Bool

	rateChanges atomic.Uint64

	mu      sync.Mutex
	closed  bool
	sources map[Peer]*source
	givings map[Peer]*giving
	changes uint64 // the last ID of a Change
}

// transferTables have a place per slot. They are made when the first slot moves.
type transferTables struct {
	windows [MaxSlots]atomic.Pointer[Window]
	ceded   [MaxSlots]atomic.Pointer[Cession]
}

// NewTransfer makes a Transfer.
func NewTransfer(o TransferOptions) *Transfer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Transfer{o: o, eng: o.Engine, sources: map[Peer]*source{}, givings: map[Peer]*giving{}}
	t.SetRate(o.Rate, o.Bytes)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Close ends what is under way and waits for it. Windows stay as they are.
func (t *Transfer) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.wg.Wait()
}

// spawn runs fn on a goroutine, unless the Transfer is closed.
func (t *Transfer) spawn(fn func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(fn)
	return true
}

// Background runs fn, unless the Transfer is closed. fn must end soon after its
// context, which Close ends; Close waits for it.
func (t *Transfer) Background(fn func(ctx context.Context)) { t.spawn(func() { fn(t.ctx) }) }

func (t *Transfer) table() *transferTables {
	if tab := t.tables.Load(); tab != nil {
		return tab
	}
	t.tables.CompareAndSwap(nil, new(transferTables))
	return t.tables.Load()
}

// Serving implements Slots.
func (t *Transfer) Serving(slot uint16) bool { return t.eng.Serving(slot) }

// SetServing implements Slots.
func (t *Transfer) SetServing(slot uint16, on bool) { t.eng.SetServing(slot, on) }

// Keys implements Slots.
func (t *Transfer) Keys(slot uint16) int64 { return t.eng.SlotStats(slot).Keys }

// DropSlot implements Slots.
func (t *Transfer) DropSlot(slot uint16) int {
	if tab := t.tables.Load(); tab != nil {
		// First: whoever gives looks at the cession under the hold of the slot.
		if c := tab.ceded[slot].Swap(nil); c != nil {
			t.gave(c.Peer, slot)
		}
		t.CloseWindow(slot)
	}
	return t.eng.DropSlot(slot)
}

// Cede implements Slots.
func (t *Transfer) Cede(slot uint16, c Cession) {
	t.giving(slot, c.Peer)
	t.table().ceded[slot].Store(&c)
}

// OpenWindow implements Slots.
func (t *Transfer) OpenWindow(slot uint16, c Cession) { t.openWindow(slot, c, t.Keys(slot) > 0) }

// OpenWindowBeside is OpenWindow for a slot with entries of which the source has none.
func (t *Transfer) OpenWindowBeside(slot uint16, c Cession) { t.openWindow(slot, c, false) }

// openWindow opens a window; kept: the source is told of the keys that are here.
func (t *Transfer) openWindow(slot uint16, c Cession, kept bool) {
	if t.o.Caller == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	gen := t.eng.OpenWindow(slot, engine.MaxWindowKeys) // all filters together are bounded
	if gen == 0 {
		return
	}
	w := &Window{t: t, slot: slot, gen: gen, from: c, opened: time.Now(), kept: kept}
	t.windows.Add(1)
	t.sourceOf(c.Peer).add(w)
	t.table().windows[slot].Store(w)
}

// CloseWindow implements Slots.
func (t *Transfer) CloseWindow(slot uint16) {
	if w := t.Window(slot); w != nil {
		t.end(w, true)
	}
}

// Taking implements Slots.
func (t *Transfer) Taking(slot uint16) Peer {
	if w := t.Window(slot); w != nil {
		return w.from.Peer
	}
	return Peer{}
}

// Decline implements Slots.
func (t *Transfer) Decline(slot uint16, c Cession) {
	if t.o.Caller == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.Window(slot); w != nil && w.from == c {
		return // it is being taken
	}
	if !t.closed {
		s := t.sourceOf(c.Peer)
		s.done.Add(slot)
		s.signal()
	}
}

// Open reports whether any window is open: one atomic load.
func (t *Transfer) Open() bool { return t.windows.Load() != 0 }

// WindowsOpen is the number of open windows.
func (t *Transfer) WindowsOpen() int { return int(t.windows.Load()) }

// Window returns the open window of a slot, nil without one.
func (t *Transfer) Window(slot uint16) *Window {
	tab := t.tables.Load()
	if tab == nil {
		return nil
	}
	return tab.windows[slot].Load()
}

// end closes a window; tell: the source need not keep the slot any more.
func (t *Transfer) end(w *Window, tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.table().windows[w.slot].CompareAndSwap(w, nil) {
		return
	}
	t.windows.Add(-1)
	w.src.remove(w, tell)
	// The same lock is held where windows are opened: this one is the latest.
	t.eng.CloseWindow(w.slot)
}

// CloseAll closes all windows.
func (t *Transfer) CloseAll() {
	for _, w := range t.openOf(func(Peer) bool { return true }) {
		t.end(w, true)
	}
}

// Adopted closes the windows whose source is gone.
func (t *Transfer) Adopted(targets *Targets) {
	if !t.Open() {
		return
	}
	for _, w := range t.openOf(func(p Peer) bool {
		now, ok := targets.peer(p.ID)
		return !ok || now != p
	}) {
		t.end(w, false)
	}
}

func (t *Transfer) openOf(match func(Peer) bool) (out []*Window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, s := range t.sources {
		if match(p) {
			for _, w := range s.windows {
				out = append(out, w)
			}
		}
	}
	return out
}

// OpenLog, TakeLog, NoTouches and RemoveLogged are those of the engine.
func (t *Transfer) OpenLog(slot uint16)                         { t.eng.OpenLog(slot) }
func (t *Transfer) TakeLog(slot uint16) (engine.TouchLog, bool) { return t.eng.TakeLog(slot) }
func (t *Transfer) NoTouches() engine.TouchLog                  { return t.eng.NoTouches() }
func (t *Transfer) RemoveLogged(slot uint16, l engine.TouchLog) bool {
	return t.eng.RemoveLogged(slot, l)
}
