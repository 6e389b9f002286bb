package handoff

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

// Bounds of the streams of copies.
const (
	// gatherFor is how long changes gather before they are sent.
	gatherFor = time.Millisecond
	// sendWait is how long a receiver may take for a Batch.
	sendWait = time.Second
	// beatEvery is how often an idle stream asks whether all is well.
	beatEvery = time.Second
	// resendMin and resendMost are the pauses before a Batch is sent again.
	resendMin  = 20 * time.Millisecond
	resendMost = time.Second
	// refusedWait is when a slot is offered again that the receiver refused.
	refusedWait = 250 * time.Millisecond
	// feedLeast and feedMost bound the changes that wait to be read, of all shards
	// together; between, there is one for each feedPer bytes of memory.
	feedLeast = 8 << 10
	feedMost  = 128 << 10
	feedPer   = 2 << 10
	// readMost is how many events of a shard are read at once.
	readMost = 512
)

// StreamOptions configure Streams.
type StreamOptions struct {
	Engine *engine.Engine
	// Send hands a Batch to a receiver and returns its answer; a *GapError says
	// that the stream has to begin anew. addr is that of the last Plan.
	Send func(ctx context.Context, to Peer, addr string, b *CopyBatch) (Taken, error)
	// Rate and Bytes bound, per second and receiver, what is sent because it is
	// there and not because it has changed; 0: DefaultCopyRate, DefaultCopyBytes.
	Rate, Bytes int
	// MirrorPace bounds, per second and receiver, what is sent because it was read;
	// nil: Rate and Bytes. It may change; without keys nothing is sent.
	MirrorPace func() (keys, bytes int64)
	Logger     *slog.Logger
}

// Defaults of StreamOptions.
const (
	DefaultCopyRate  = 20_000   // keys per second
	DefaultCopyBytes = 64 << 20 // bytes per second
)

// Streams keeps copies of the slots that this node serves at other nodes. Each
// receiver has a queue of changed keys, of which the present value is sent, in
// order, one Batch at a time; what was there before is sent between. A queue that
// overflows, and a feed that lost changes, cost the slots concerned their copies,
// and these are sent anew.
//
// Goroutines: one that reads the feeds while there is a receiver, and one for each
// receiver; all end at Close.
type Streams struct {
	o      StreamOptions
	eng    *engine.Engine
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	plan  atomic.Pointer[plan]
	final atomic.Bool   // Flush has begun: the plan stays, and slots that are not served are sent too
	wake  chan struct{} // events, or somebody waits for a pass

	// reading is held from when events are read until they are queued: after it was
	// held, what has changed before is in the queues. It comes after mu.
	reading sync.Mutex

	mu      sync.Mutex
	targets map[Peer]*target
	last    uint64         // stream number
	feeds   []*engine.Feed // nil without receivers
	asked   uint64         // passes over the feeds that somebody waits for
	passed  uint64         // those that were made
	moved   chan struct{}  // closed and replaced at each acknowledgement and pass
	closed  bool

	resyncs, lost, mirrored atomic.Uint64
}

// plan says where the copies of a slot are kept. It is immutable.
type plan struct {
	slots [MaxSlots][copyPlaces]*target
	want  int // copies of each slot
}

const (
	mirrorPlace = 2 // of plan.slots: where keys that are read are copied
	copyPlaces  = mirrorPlace + 1
)

// noPlan has no receivers.
var noPlan plan

// Target is a node that may keep copies.
type Target struct {
	Peer Peer
	Addr string
}

// NewStreams makes Streams without receivers.
func NewStreams(o StreamOptions) *Streams {
	if o.Rate == 0 {
		o.Rate = DefaultCopyRate
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultCopyBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Streams{o: o, eng: o.Engine, wake: make(chan struct{}, 1), targets: map[Peer]*target{}, moved: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.plan.Store(&noPlan)
	return s
}

// Close ends the streams; receivers keep what they have.
func (s *Streams) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	s.endFeeds()
}

// Plan says where copies are kept from now on: to gives, for a slot, indexes into
// targets. Slots without any, or that are not served, end where they were kept.
// want is how many copies there should be of each slot.
func (s *Streams) Plan(targets []Target, want int, to func(slot uint16, room []int) []int) {
	s.PlanMirrors(targets, want, to, func(uint16) int { return -1 })
}

// PlanMirrors is Plan for slots that are about to move, too: mirror gives, for a
// slot, the index into targets of the node that gets copies of the keys that are
// read from now on (see Read), below 0 for none.
func (s *Streams) PlanMirrors(targets []Target, want int, to func(slot uint16, room []int) []int, mirror func(slot uint16) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.final.Load() {
		return
	}
	next := &plan{want: want}
	wanted := map[Peer]*wants{}
	add := func(slot uint16, place, j int) *wants {
		p := targets[j].Peer
		if wanted[p] == nil {
			wanted[p] = new(wants)
		}
		wanted[p].slots.Add(slot)
		next.slots[slot][place] = s.target(targets[j])
		return wanted[p]
	}
	var room [mirrorPlace]int
	for slot := range uint16(MaxSlots) {
		all := to(slot, room[:0])
		for i, j := range all {
			if w := add(slot, i, j); i > 0 {
				w.seconds.Add(slot)
			}
		}
		if j := mirror(slot); j >= 0 && !slices.Contains(all, j) {
			add(slot, mirrorPlace, j).mirrors.Add(slot)
		}
	}
	if len(wanted) > 0 && s.feeds == nil && !s.beginFeeds() {
		return
	}
	// Before any slot is opened: a change that is read later finds its way.
	s.plan.Store(next)
	for p, t := range s.targets {
		if wanted[p] == nil {
			t.end() // its copies there are dropped by the receiver's own View
			delete(s.targets, p)
			continue
		}
		t.want(wanted[p])
	}
	if len(wanted) == 0 {
		s.endFeedsLocked()
	}
	s.stir()
}

// target finds or makes the queue of a receiver. mu is held.
func (s *Streams) target(to Target) *target {
	t := s.targets[to.Peer]
	if t == nil {
		s.last++
		t = &target{s: s, peer: to.Peer, stream: s.last, kick: make(chan struct{}, 1), since: s.eng.Now()}
		t.ctx, t.cancel = context.WithCancel(s.ctx)
		s.targets[to.Peer] = t
		s.wg.Go(t.run) // ends with t.ctx
	}
	t.addr.Store(&to.Addr)
	return t
}

// beginFeeds subscribes to the changes of the engine.
func (s *Streams) beginFeeds() bool {
	shards := s.eng.Shards()
	total := int64(feedMost)
	if limit := s.eng.Stats().MaxBytes; limit > 0 {
		total = min(max(limit/feedPer, feedLeast), feedMost)
	}
	feeds, err := s.eng.SubscribeAll(max(int(total)/shards, 16), s.wake)
	if err != nil {
		s.o.Logger.Warn("no copies are kept", "error", err)
		return false
	}
	s.feeds = feeds
	s.wg.Go(func() { s.read(feeds) }) // ends with the feeds, or at Close
	return true
}

func (s *Streams) endFeeds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endFeedsLocked()
}

func (s *Streams) endFeedsLocked() {
	for _, f := range s.feeds {
		f.Close()
	}
	s.feeds = nil
	s.nudge() // the reader looks whether it is still wanted
}

func (s *Streams) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stir wakes whoever waits for progress. mu is held.
func (s *Streams) stir() {
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *Streams) progress() {
	s.mu.Lock()
	s.stir()
	s.mu.Unlock()
}

// read gives changes to the queues.
func (s *Streams) read(feeds []*engine.Feed) {
	var events []engine.Event
	gather := time.NewTimer(time.Hour)
	defer gather.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		gather.Reset(gatherFor)
		select {
		case <-gather.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		pass, mine := s.asked, len(s.feeds) > 0 && s.feeds[0] == feeds[0]
		s.mu.Unlock()
		if !mine {
			s.nudge() // for the reader of the feeds that took their place
			return
		}
		for shard, f := range feeds {
			if f.Fresh() {
				s.reading.Lock()
				events = s.readFeed(shard, f, events)
				s.reading.Unlock()
			}
		}
		for _, t := range s.all() {
			t.wakeUp()
		}
		s.mu.Lock()
		if s.passed < pass {
			s.passed = pass
			s.stir()
		}
		s.mu.Unlock()
	}
}

// readFeed empties the feed of one shard. reading is held.
func (s *Streams) readFeed(shard int, f *engine.Feed, events []engine.Event) []engine.Event {
	for {
		var lost uint64
		events, lost = f.Read(events[:0], readMost)
		p := s.plan.Load() // after the events: see Plan
		if lost > 0 {
			s.lost.Add(lost)
			s.eachSlot(shard, p, func(slot uint16, t *target) { t.resync(slot) })
		}
		now := s.eng.Now()
		for i := range events {
			ev := &events[i]
			if ev.Kind == engine.EventFlush {
				s.eachSlot(shard, p, func(slot uint16, t *target) { t.push(recordClear, slot, nil, now) })
				continue
			}
			for _, t := range p.slots[ev.Slot] {
				if t != nil {
					t.push(recordSet, ev.Slot, ev.Key, now)
				}
			}
		}
		if len(events) < readMost {
			return events
		}
	}
}

// eachSlot calls fn for the slots of a shard and where their copies are.
func (s *Streams) eachSlot(shard int, p *plan, fn func(slot uint16, t *target)) {
	for slot := shard; slot < MaxSlots; slot += s.eng.Shards() {
		for _, t := range p.slots[slot] {
			if t != nil {
				fn(uint16(slot), t)
			}
		}
	}
}

func (s *Streams) all() []*target {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*target, 0, len(s.targets))
	for _, t := range s.targets {
		all = append(all, t)
	}
	return all
}

// Wait returns how many copies there are of everything that was written to this
// node before the call: as many as each slot that it serves has. It waits until
// there are enough, or ctx is done.
func (s *Streams) Wait(ctx context.Context, enough int) int {
	s.mu.Lock()
	s.asked++
	pass := s.asked
	s.mu.Unlock()
	s.nudge()
	var goals map[*target]uint64
	for {
		s.mu.Lock()
		moved, done, idle := s.moved, s.passed >= pass, len(s.feeds) == 0
		s.mu.Unlock()
		have := 0
		if done && goals == nil {
			goals = map[*target]uint64{}
			for _, t := range s.all() {
				goals[t] = t.position()
			}
		}
		if done && !idle {
			have = s.copies(goals)
		}
		if done && have >= enough {
			return have
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return have
		case <-s.ctx.Done():
			return have
		}
	}
}

// copies returns the number of copies that every served slot has of what was
// queued up to the goals.
func (s *Streams) copies(goals map[*target]uint64) int {
	p := s.plan.Load()
	least := p.want
	reached := map[*target]*[MaxSlots]bool{}
	for t, goal := range goals {
		if full := t.reached(goal); full != nil {
			reached[t] = full
		}
	}
	served := false
	for slot := range uint16(MaxSlots) {
		if !s.eng.Serving(slot) {
			continue
		}
		served = true
		n := 0
		for _, t := range p.slots[slot] {
			if full := reached[t]; t != nil && full != nil && full[slot] {
				n++
			}
		}
		if least = min(least, n); least == 0 {
			return 0
		}
	}
	if !served {
		return 0
	}
	return least
}

// TargetFigures are those of one receiver.
type TargetFigures struct {
	Peer         Peer
	Addr         string
	Slots, Full  int    // that it should have copies of; that it has all copies of
	Mirrors      int    // slots of which it gets what is read, and no others
	LagKeys      uint64 // changes that it has not acknowledged
	LagMs        int64  // age of the oldest of them
	Sent, Filled uint64 // values and deletions; of these, of what was there before
}

// StreamFigures are those of Streams.
type StreamFigures struct {
	Targets  []TargetFigures
	Resyncs  uint64 // slots whose copies had to be sent anew
	Lost     uint64 // changes that nobody read in time
	Mirrored uint64 // values that were sent because they were read
}

// Figures returns how far the receivers are.
func (s *Streams) Figures() StreamFigures {
	f := StreamFigures{Resyncs: s.resyncs.Load(), Lost: s.lost.Load(), Mirrored: s.mirrored.Load()}
	for _, t := range s.all() {
		f.Targets = append(f.Targets, t.figures())
	}
	return f
}

// isGap tells whether the stream has to begin anew.
func isGap(err error) bool {
	var gap *GapError
	return errors.As(err, &gap)
}
